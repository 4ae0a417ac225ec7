"""Without a guard only this machine is let in, wherever the application is mounted."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from kue.http import create_app
from kue.http.access import ThisMachine
from kue.http.hosts import is_loopback
from kue.http.problem import Refused
from tests.http.conftest import serving

if TYPE_CHECKING:
    from kue import Kue

HERE = ("127.0.0.1", 5000)


def asking(client: tuple[str, int] | None, host: str) -> HTTPConnection:
    headers = [(b"host", host.encode())]
    return HTTPConnection({"type": "http", "client": client, "headers": headers})


@pytest.mark.parametrize("client", [HERE, ("::1", 1), ("::ffff:127.0.0.1", 1)])
@pytest.mark.parametrize("host", ["localhost:3000", "127.0.0.1", "[::1]:3000"])
async def test_this_machine_may_do_everything(
    client: tuple[str, int], host: str
) -> None:
    user = await ThisMachine().who(asking(client, host))

    assert user is not None
    assert (user.name, user.role and user.role.label) == ("local", "admin")


@pytest.mark.parametrize(
    ("client", "host"),
    [
        (("192.0.2.7", 1), "localhost"),
        (("192.0.2.7", 1), "ops.example.com"),
        # A proxy on this machine that tells nothing of whom it asks for.
        (HERE, "ops.example.com"),
        (HERE, ""),
        (None, "localhost"),
        (("testclient", 1), "localhost"),
    ],
)
async def test_nobody_else_is_let_in(client: tuple[str, int] | None, host: str) -> None:
    with pytest.raises(Refused, match="guard="):
        await ThisMachine().who(asking(client, host))


@pytest.mark.parametrize("path", ["/api/v1/stats", "/kue/stats", "/vertx-kue/stats"])
async def test_a_mounted_application_is_closed_to_other_names(
    q: Kue, path: str
) -> None:
    app = Starlette(routes=[Mount("/jobs", create_app(q))])
    async with serving(app) as address, httpx.AsyncClient() as client:
        url = f"{address}/jobs{path}"
        here = await client.get(url)
        elsewhere = await client.get(url, headers={"Host": "ops.example.com"})

    assert here.status_code == HTTPStatus.OK
    assert elsewhere.status_code == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    ("name", "is_it"),
    [
        ("localhost", True),
        ("kue.localhost", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("fe80::1%lo", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_a_name_means_this_machine_or_not(name: str, is_it: bool) -> None:
    assert is_loopback(name) is is_it
