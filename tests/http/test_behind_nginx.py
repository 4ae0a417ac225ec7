"""S-1: a proxy on this machine lets no stranger in, whatever headers it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import httpx
import pytest

import kue
from kue.http import create_app
from kue.http.auth import PasswordHasher, Role, UserAccounts
from kue.http.auth.startup_token import LocalhostGuard, StartupToken
from tests.http.conftest import serving
from tests.support.nginx import nginx
from tests.support.patience import PATIENCE_SECONDS
from tests.support.site import command

SECRET = "correct-horse-battery-staple"
PASSWORD = "correct horse"
DOCUMENTED = """
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Forwarded-Host $host;
"""
#: What nginx was told, what a stranger asks for, and whether the token lets in.
WAYS = {
    "bare": ("", {}, 200),
    "host": ("proxy_set_header Host $host;", {"Host": "localhost"}, 200),
    "forgotten": (DOCUMENTED, {"Host": "localhost"}, 403),
}


Serve: TypeAlias = Callable[["Path", str], "AbstractAsyncContextManager[Behind]"]


class Behind(NamedTuple):
    """A server behind nginx."""

    url: str
    token: str


@asynccontextmanager
async def of_command(folder: Path, directives: str) -> AsyncIterator[Behind]:
    """Put nginx before ``kue dashboard``."""
    options = ("sqlite:///kue.db", "--port", "0")
    async with command("dashboard", *options, folder=folder) as site:
        address = await site.address()
        base, _, token = address.partition("/?token=")
        base = base.rstrip("/")
        async with nginx(base, directives, folder) as url:
            yield Behind(url, token)


@asynccontextmanager
async def of_application(folder: Path, directives: str) -> AsyncIterator[Behind]:
    """Put nginx before an application without a guard, mounted or not."""
    async with kue.Kue(f"sqlite:///{folder}/kue.db") as q:
        app = create_app(q, guard=LocalhostGuard(StartupToken(SECRET)))
        async with serving(app) as base, nginx(base, directives, folder) as url:
            yield Behind(url, SECRET)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    async with kue.Kue(f"sqlite:///{tmp_path}/kue.db") as q:
        await q.enqueue("email", {"to": "ann"})
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("serve", [of_command, of_application])
async def test_no_stranger_gets_in_through_a_proxy(
    way: str, serve: Serve, folder: Path
) -> None:
    directives, headers, status = WAYS[way]
    user = {"name": "eve", "password": PASSWORD, "role": "admin"}
    async with (
        serve(folder, directives) as site,
        httpx.AsyncClient(
            base_url=site.url, headers=headers, timeout=PATIENCE_SECONDS
        ) as client,
    ):
        bare = [
            await client.get("/api/v1/jobs"),
            await client.get("/metrics"),
            await client.get("/kue/stats"),
            await client.get("/vertx-kue/stats"),
            await client.post("/api/v1/users", json=user),
            await client.post("/api/v1/jobs", json={"type": "email"}),
        ]
        bearer = {"Authorization": f"Bearer {site.token}"}
        known = await client.get("/api/v1/jobs", headers=bearer)
        lasting = await client.post("/api/v1/users", json=user, headers=bearer)

    refused = {401} if status == 200 else {403}
    assert {answer.status_code for answer in bare} == refused
    assert (known.status_code, lasting.status_code) == (status, 403)
    if status == 403:
        assert "--proxy" in known.json()["detail"]
        assert "guard=" in known.json()["detail"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_user_logs_in_through_a_proxy(way: str, folder: Path) -> None:
    directives, headers, _ = WAYS[way]
    async with kue.Kue(f"sqlite:///{folder}/kue.db") as q:
        await UserAccounts(q.store, PasswordHasher(n=16, p=1)).add(
            "ann", PASSWORD, Role.ADMIN
        )
    async with (
        of_command(folder, directives) as site,
        httpx.AsyncClient(
            base_url=site.url, headers=headers, timeout=PATIENCE_SECONDS
        ) as client,
    ):
        before = await client.get("/api/v1/jobs")
        login = await client.post(
            "/api/v1/login", json={"name": "ann", "password": PASSWORD}
        )
        cookie = {"Cookie": login.headers["set-cookie"].partition(";")[0]}
        after = await client.get("/api/v1/jobs", headers=cookie)

    assert (before.status_code, login.status_code) == (401, 200)
    assert after.status_code == 200
