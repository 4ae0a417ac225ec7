"""S-1: without users the start-up token lets in, and being on this machine does not."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from kue import Kue
from kue.http import create_app
from kue.http.auth import ApiTokens, Role, Scope, UserAccounts
from kue.http.auth.account_guard import LocalAccountGuard
from kue.http.auth.startup_token import (
    VARIABLE,
    LocalhostGuard,
    StartupToken,
    without_token,
)
from kue.http.framework.problem import Refused
from kue.http.security.loopback import is_loopback
from kue.model.errors import ConfigError
from tests.http.accounts import CHEAP
from tests.http.conftest import serving
from tests.support.patience import PATIENCE_SECONDS

on_any_store = pytest.mark.parametrize("url", ["memory://"])

HERE = ("127.0.0.1", 5000)
SECRET = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {SECRET}"}


def asking(client: tuple[str, int] | None, host: str, **headers: str) -> HTTPConnection:
    given = {"host": host, **headers}
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    return HTTPConnection({"type": "http", "client": client, "headers": raw})


@asynccontextmanager
async def site_of(q: Kue, guard: Any = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a server in open mode."""
    app = create_app(q, guard=guard or LocalhostGuard(StartupToken(SECRET)))
    async with (
        serving(app) as address,
        httpx.AsyncClient(
            base_url=address, timeout=PATIENCE_SECONDS, verify=False
        ) as client,
    ):
        yield client


# -- who is let in -------------------------------------------------------------


@pytest.mark.parametrize("client", [HERE, ("::1", 1), ("::ffff:127.0.0.1", 1)])
@pytest.mark.parametrize("host", ["localhost:3000", "127.0.0.1", "[::1]:3000"])
async def test_this_machine_with_the_token_may_do_everything(
    client: tuple[str, int], host: str
) -> None:
    guard = LocalhostGuard(StartupToken(SECRET))
    asked = asking(client, host, authorization=f"Bearer {SECRET}")

    user = await guard.who(asked)

    assert user is not None
    assert (user.name, user.role and user.role.label) == ("local", "admin")
    assert user.is_open


@pytest.mark.parametrize(
    ("client", "host"),
    [
        (("192.0.2.7", 1), "localhost"),
        (("192.0.2.7", 1), "ops.example.com"),
        (HERE, "ops.example.com"),
        (HERE, ""),
        (None, "localhost"),
        (("testclient", 1), "localhost"),
    ],
)
async def test_other_machines_are_refused_even_with_the_token(
    client: tuple[str, int] | None, host: str
) -> None:
    asked = asking(client, host, authorization=f"Bearer {SECRET}")

    with pytest.raises(Refused, match="guard="):
        await LocalhostGuard(StartupToken(SECRET)).who(asked)


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer wrong-wrong-wrong", f"Basic {SECRET}", SECRET, "Bearer é"],
)
async def test_this_machine_without_the_token_is_401(header: str) -> None:
    headers = {"authorization": header} if header else {}

    with pytest.raises(Refused, match=r"\?token=.*KUE_DASHBOARD_TOKEN") as told:
        await LocalhostGuard(StartupToken(SECRET)).who(
            asking(HERE, "localhost", **headers)
        )

    assert told.value.status is HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize(
    "name",
    ["X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "X-Real-IP", "Via"],
)
@on_any_store
async def test_what_a_proxy_forwards_is_refused_and_told_why(q: Kue, name: str) -> None:
    for guard in (
        LocalhostGuard(StartupToken(SECRET)),
        LocalAccountGuard(q, StartupToken(SECRET)),
    ):
        async with site_of(q, guard) as client:
            headers = {name: "203.0.113.9", **BEARER}
            answer = await client.get("/api/v1/stats", headers=headers)

        assert answer.status_code == HTTPStatus.FORBIDDEN
        assert "--proxy" in answer.json()["detail"]
        assert "guard=" in answer.json()["detail"]


@on_any_store
async def test_health_is_open_and_nothing_else(q: Kue) -> None:
    paths = {
        "/api/v1/health": 200,
        "/api/v1/stats": 401,
        "/api/v1/metrics": 401,
        "/metrics": 401,
        "/kue/stats": 401,
        "/vertx-kue/stats": 401,
    }
    async with site_of(q) as client:
        bare = {path: (await client.get(path)).status_code for path in paths}
        known = [(await client.get(path, headers=BEARER)).status_code for path in paths]

    assert bare == paths
    assert set(known) == {200}


@pytest.mark.parametrize("path", ["/api/v1/stats", "/kue/stats", "/vertx-kue/stats"])
async def test_a_mounted_application_is_closed_to_other_names(
    q: Kue, path: str
) -> None:
    inner = create_app(q, guard=LocalhostGuard(StartupToken(SECRET)))
    app = Starlette(routes=[Mount("/jobs", inner)])
    async with (
        serving(app) as address,
        httpx.AsyncClient(headers=BEARER, verify=False) as client,
    ):
        url = f"{address}/jobs{path}"
        here = await client.get(url)
        elsewhere = await client.get(url, headers={"Host": "ops.example.com"})

    assert here.status_code == HTTPStatus.OK
    assert elsewhere.status_code == HTTPStatus.FORBIDDEN


# -- the address with the token ------------------------------------------------


@on_any_store
async def test_the_token_in_the_address_becomes_a_cookie(q: Kue) -> None:
    async with site_of(q) as client:
        first = await client.get(f"/jobs?state=failed&token={SECRET}")
        shown = await client.get(first.headers["location"])
        known = await client.get("/api/v1/me")

    cookie = first.headers["set-cookie"]
    assert first.status_code == HTTPStatus.SEE_OTHER
    assert first.headers["location"] == "/jobs?state=failed"
    assert first.headers["cache-control"] == "no-store"
    assert cookie.startswith("kue_open_")
    assert cookie.endswith("; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict")
    assert SECRET not in cookie
    assert shown.status_code == HTTPStatus.OK
    assert known.json()["open_mode"] is True


@on_any_store
async def test_below_a_prefix_cookie_and_redirect_are_below_it_too(q: Kue) -> None:
    inner = create_app(q, guard=LocalhostGuard(StartupToken(SECRET)))
    app = Starlette(routes=[Mount("/ops/jobs", inner)])
    async with (
        serving(app) as address,
        httpx.AsyncClient(base_url=address, verify=False) as client,
    ):
        right = await client.get(f"/ops/jobs/?token={SECRET}")
        wrong = await client.get("/ops/jobs/?token=wrong")

    assert right.headers["location"] == "/ops/jobs/"
    assert "; Path=/ops/jobs;" in right.headers["set-cookie"]
    assert wrong.headers["location"] == "/ops/jobs/login?token=refused"


@on_any_store
async def test_a_wrong_token_leads_to_a_page_that_says_so(q: Kue) -> None:
    async with site_of(q) as client:
        first = await client.get("/?token=of-another-day")
        page = await client.get(first.headers["location"])
        known = await client.get("/api/v1/me")

    assert "set-cookie" not in first.headers
    assert first.headers["location"] == "/login?token=refused"
    assert (page.status_code, known.status_code) == (200, 401)


@on_any_store
@pytest.mark.parametrize("path", ["//evil.example/", "/%2Fevil.example/", "/\\evil/"])
async def test_no_address_redirects_to_another_host(q: Kue, path: str) -> None:
    async with site_of(q) as client:
        answer = await client.get(f"{client.base_url}{path}?token={SECRET}")

    place = answer.headers.get("location", "/")
    assert place.startswith("/")
    assert not place.startswith(("//", "/\\"))


@on_any_store
@pytest.mark.parametrize("path", ["/queues/a%3Fb", "/queues/a%23b", "/queues/%C3%A4"])
async def test_the_token_is_exchanged_on_any_page(q: Kue, path: str) -> None:
    async with site_of(q) as client:
        answer = await client.get(f"{path}?token={SECRET}")

    assert answer.headers["location"] == path


@on_any_store
async def test_the_login_page_takes_the_token_and_goes_on(q: Kue) -> None:
    async with site_of(q) as client:
        right = await client.get(f"/login?next=%2Fjobs&token={SECRET}")
        wrong = await client.get("/login?token=of-another-day")

    assert (right.status_code, right.headers["location"]) == (303, "/")
    assert "set-cookie" in right.headers
    assert wrong.headers["location"] == "/login?token=refused"


@on_any_store
async def test_the_token_in_the_address_is_for_pages_alone(q: Kue) -> None:
    async with site_of(q) as client:
        answer = await client.get(f"/api/v1/stats?token={SECRET}")

    assert answer.status_code == HTTPStatus.UNAUTHORIZED


def test_an_access_log_does_not_have_the_token() -> None:
    shown = without_token(f"/jobs?token={SECRET}&state=failed")

    assert shown == "/jobs?token=...&state=failed"


# -- which token ---------------------------------------------------------------


def test_every_start_has_another_token() -> None:
    one, other = StartupToken(), StartupToken()

    assert one.secret != other.secret
    assert len(one.secret) == 32


def test_a_variable_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)

    assert StartupToken().secret == SECRET


@pytest.mark.parametrize("secret", ["short", "with blanks in it, many", "é" * 20])
def test_a_token_that_is_no_secret_is_refused(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, secret)

    with pytest.raises(ConfigError, match="at least 16 characters"):
        StartupToken()


@on_any_store
async def test_an_application_without_a_guard_logs_how_to_get_in(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="kue.http.app"):
        app = create_app(q)
    async with serving(app) as address, httpx.AsyncClient(verify=False) as client:
        path = app.state.open_path
        answer = await client.get(f"{address}{path}", follow_redirects=True)
        known = await client.get(f"{address}/api/v1/stats")

    assert path.removeprefix("/") in caplog.text
    assert (answer.status_code, known.status_code) == (200, 200)


@on_any_store
async def test_a_token_that_was_chosen_is_not_logged(
    q: Kue, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    with caplog.at_level(logging.WARNING, logger="kue.http.app"):
        create_app(q)

    assert "?token=$KUE_DASHBOARD_TOKEN" in caplog.text
    assert SECRET not in caplog.text


# -- users and tokens ----------------------------------------------------------


@on_any_store
async def test_nobody_makes_a_way_in_that_lasts_over_http(q: Kue) -> None:
    await UserAccounts(q.store, CHEAP).add("ann", "correct horse", Role.ADMIN)
    token, _ = await ApiTokens(q.store).add("shop", [Scope.READ], by="ann")
    user = {"name": "eve", "password": "correct horse", "role": "admin"}
    async with site_of(q) as client:
        client.headers.update(BEARER)
        answers = [
            await client.post("/api/v1/users", json=user),
            await client.put("/api/v1/users/ann", json={"password": "another one"}),
            await client.delete("/api/v1/users/ann"),
            await client.post(
                "/api/v1/tokens", json={"name": "eve", "scopes": ["admin"]}
            ),
            await client.delete(f"/api/v1/tokens/{token.id}"),
        ]

    assert [answer.status_code for answer in answers] == [403] * 5
    assert "kue user add" in answers[0].json()["detail"]
    assert [one.name for one in await UserAccounts(q.store).all()] == ["ann"]
    assert [one.name for one in await ApiTokens(q.store).all()] == ["shop"]


@on_any_store
async def test_an_api_token_gets_in_where_there_are_no_users(q: Kue) -> None:
    _, secret = await ApiTokens(q.store).add("shop", [Scope.READ], by="ann")
    guard = LocalAccountGuard(q, StartupToken(SECRET))
    async with site_of(q, guard) as client:
        headers = {"Authorization": f"Bearer {secret}"}
        known = await client.get("/api/v1/me", headers=headers)

    assert known.json()["name"] == "token:shop"


@on_any_store
async def test_once_there_is_a_user_the_start_up_token_is_worth_nothing(q: Kue) -> None:
    await UserAccounts(q.store, CHEAP).add("ann", "correct horse", Role.ADMIN)
    guard = LocalAccountGuard(q, StartupToken(SECRET), hasher=CHEAP)
    async with site_of(q, guard) as client:
        bearer = await client.get("/api/v1/me", headers=BEARER)
        await client.get(f"/?token={SECRET}")
        cookie = await client.get("/api/v1/me")
        form = await client.get("/api/v1/login")
        login = await client.post(
            "/api/v1/login", json={"name": "ann", "password": "correct horse"}
        )

    assert (bearer.status_code, cookie.status_code) == (401, 401)
    assert form.json() == {"kind": "password"}
    assert login.status_code == HTTPStatus.OK


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
