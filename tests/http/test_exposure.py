"""Where a server listens: who else could reach it, and what a browser calls it."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from kue.http.server.address import ListenAddress
from kue.http.server.serve import listen
from kue.model.errors import ConfigError


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.2", "localhost", "::1", "[::1]", "::ffff:127.0.0.1"],
)
def test_only_this_machine_reaches_its_loopback(host: str) -> None:
    assert ListenAddress.of(host, 3000).is_local


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "10.1.2.3", "192.168.0.9", "2001:db8::1", "::ffff:10.0.0.1"],
)
def test_others_reach_every_other_address(host: str) -> None:
    assert not ListenAddress.of(host, 3000).is_local


def test_a_name_is_as_local_as_the_address_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.9.8.7", 3000))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_given: found)

    assert not ListenAddress.of("localhost", 3000).is_local


def test_a_socket_in_the_file_system_is_local_and_private(tmp_path: Path) -> None:
    path = tmp_path / "kue.sock"

    with listen(ListenAddress.of(f"unix:{path}", 0)) as listener:
        assert ListenAddress.bound(listener, "").is_local
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_socket_of_a_server_that_is_gone_is_replaced(tmp_path: Path) -> None:
    address = ListenAddress.of(f"unix:{tmp_path / 'kue.sock'}", 0)
    listen(address).close()

    with listen(address), pytest.raises(ConfigError, match="give another --host"):
        listen(address)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")

    with pytest.raises(ConfigError, match="cannot listen on"):
        listen(ListenAddress.of(f"unix:{path}", 0))
    assert path.read_text() == "mine"


def test_a_host_that_does_not_exist_is_told() -> None:
    with pytest.raises(ConfigError, match=r"there is no host 'nobody\.invalid'"):
        ListenAddress.of("nobody.invalid", 3000)


def test_a_port_that_is_taken_is_told_with_the_option_for_another() -> None:
    with listen(ListenAddress.of("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(ConfigError, match=f"port {port} is taken; .* --port"):
            listen(ListenAddress.of("127.0.0.1", port))


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1:3000/"),
        ("localhost", "http://localhost:3000/"),
        ("0.0.0.0", "http://127.0.0.1:3000/"),
        ("::1", "http://[::1]:3000/"),
        ("[::1]", "http://[::1]:3000/"),
        ("::", "http://[::1]:3000/"),
    ],
)
def test_the_address_shown_can_be_typed_into_a_browser(host: str, shown: str) -> None:
    assert ListenAddress.of(host, 3000).url() == shown


def test_the_address_shown_has_the_port_that_was_free() -> None:
    with listen(ListenAddress.of("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        shown = ListenAddress.bound(listener, "127.0.0.1").url()

    assert shown == f"http://127.0.0.1:{port}/"


def test_the_address_shown_has_scheme_and_prefix() -> None:
    address = ListenAddress.of("127.0.0.1", 3000)

    shown = address.url(scheme="https", prefix="/jobs")

    assert shown == "https://127.0.0.1:3000/jobs/"
