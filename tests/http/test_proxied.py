"""Prefixes and proxies: what the application sees of a request."""

from __future__ import annotations

from typing import Any

import pytest

from kue.http.framework.path_prefix import PathPrefix, checked
from kue.http.server.proxy_headers import ProxyHeaders
from kue.model.errors import ConfigError


class Ear:
    """An application that remembers how it was called."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = dict(scope)

    @property
    def place(self) -> tuple[str, str]:
        return self.scope["root_path"], self.scope["path"]

    @property
    def host(self) -> bytes:
        [host] = [value for name, value in self.scope["headers"] if name == b"host"]
        return host  # type: ignore[no-any-return]


def request(path: str = "/api", root: str = "", **headers: str) -> dict[str, Any]:
    """Return the scope of a request from 10.0.0.7; _ in names stands for -."""
    named = [
        (name.replace("_", "-").encode(), value.encode())
        for name, value in ({"host": "inside:3000"} | headers).items()
    ]
    return {
        "type": "http",
        "scheme": "http",
        "client": ("10.0.0.7", 5555),
        "path": path,
        "raw_path": path.encode(),
        "root_path": root,
        "headers": named,
    }


async def nothing(*_: Any) -> Any:
    raise AssertionError("nobody asks")


@pytest.mark.parametrize(
    ("path", "root", "seen"),
    [
        ("/jobs/api", "", ("/jobs", "/jobs/api")),
        ("/api", "", ("/jobs", "/jobs/api")),
        ("/jobs", "", ("/jobs", "/jobs")),
        ("/", "", ("/jobs", "/jobs/")),
        ("/jobs2/x", "", ("/jobs", "/jobs/jobs2/x")),
        ("/ops/jobs/api", "/ops", ("/ops/jobs", "/ops/jobs/api")),
        ("/ops/api", "/ops", ("/ops/jobs", "/ops/jobs/api")),
    ],
)
async def test_below_a_prefix_it_does_not_matter_whether_it_was_stripped(
    path: str, root: str, seen: tuple[str, str]
) -> None:
    ear = Ear()

    await PathPrefix("/jobs", ear)(request(path, root), nothing, nothing)

    assert ear.place == seen


async def test_a_path_that_a_router_changed_is_found_again() -> None:
    """Litestar hands on what follows a mount, always with a slash at its end."""
    ear = Ear()
    scope = request("/jobs/api/a%20b") | {"path": "/api/a b/"}

    await PathPrefix("/jobs", ear)(scope, nothing, nothing)

    assert ear.place == ("/jobs", "/jobs/api/a b")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", ""),
        ("/", ""),
        ("jobs", "/jobs"),
        ("/ops/jobs/", "/ops/jobs"),
        ("//a", "/a"),
    ],
)
def test_a_prefix_is_written_in_one_way(given: str, meant: str) -> None:
    assert checked(given) == meant


@pytest.mark.parametrize(
    "prefix",
    ["/a b", "/a//b", "/../x", "/a?b", "/<b>", "/" + "x" * 300],
)
def test_a_prefix_that_is_no_plain_path_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="is not a plain path"):
        checked(prefix)


async def test_a_proxy_that_was_named_is_believed() -> None:
    ear = Ear()
    scope = request(
        x_forwarded_for="203.0.113.5, 10.0.0.9",
        x_forwarded_proto="https",
        x_forwarded_host="ops.example.com",
        x_forwarded_prefix="/jobs/",
    )

    await ProxyHeaders(ear, ["10.0.0.0/8"])(scope, nothing, nothing)

    assert ear.scope["client"] == ("203.0.113.5", 0)
    assert ear.scope["scheme"] == "https"
    assert ear.host == b"ops.example.com"
    assert ear.place == ("/jobs", "/jobs/api")


async def test_nobody_else_is_believed() -> None:
    ear = Ear()
    scope = request(
        x_forwarded_for="127.0.0.1",
        x_forwarded_proto="https",
        x_forwarded_host="evil.example",
        x_forwarded_prefix="/evil",
    )

    await ProxyHeaders(ear, ["10.0.0.8"])(scope, nothing, nothing)

    assert ear.scope == scope


async def test_a_client_cannot_hide_behind_what_it_writes_itself() -> None:
    ear = Ear()
    scope = request(x_forwarded_for="127.0.0.1, 203.0.113.5")

    await ProxyHeaders(ear, ["10.0.0.7"])(scope, nothing, nothing)

    assert ear.scope["client"][0] == "203.0.113.5"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x_forwarded_for", "<script>"),
        ("x_forwarded_proto", "javascript"),
        ("x_forwarded_host", "evil.example/path"),
        ("x_forwarded_prefix", "//evil.example"),
        ("x_forwarded_prefix", '/a"><b>'),
        ("x_forwarded_prefix", "/../up"),
    ],
)
async def test_nonsense_from_a_proxy_changes_nothing(header: str, value: str) -> None:
    ear = Ear()
    scope = request(**{header: value})

    await ProxyHeaders(ear, ["10.0.0.7"])(scope, nothing, nothing)

    assert ear.scope == scope


async def test_a_websocket_behind_https_is_wss() -> None:
    ear = Ear()
    scope = request(x_forwarded_proto="https") | {"type": "websocket", "scheme": "ws"}

    await ProxyHeaders(ear, ["10.0.0.7"])(scope, nothing, nothing)

    assert ear.scope["scheme"] == "wss"


@pytest.mark.parametrize(("is_unix", "scheme"), [(True, "https"), (False, "http")])
async def test_who_has_no_address_is_believed_on_a_socket_in_the_file_system(
    is_unix: bool, scheme: str
) -> None:
    ear = Ear()
    scope = request(x_forwarded_proto="https") | {"client": None}

    await ProxyHeaders(ear, [], is_unix=is_unix)(scope, nothing, nothing)

    assert ear.scope["scheme"] == scheme


def test_a_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="the proxy 'nginx' is not an address"):
        ProxyHeaders(Ear(), ["nginx"])
