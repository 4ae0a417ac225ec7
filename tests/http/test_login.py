"""Sessions, tokens, users, and a guard of the host application's own."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from kue import Kue
from kue.http import AccountGuard, User, create_app
from kue.http.auth import Role, Scope
from kue.http.auth.access import Anyone
from kue.http.auth.account_guard import LocalAccountGuard
from kue.http.auth.login_throttle import LoginThrottle
from kue.http.auth.startup_token import LocalhostGuard, StartupToken
from tests.http.accounts import CHEAP, PASSWORD, site_of
from tests.http.conftest import serving

on_any_store = pytest.mark.parametrize("url", ["memory://"])


async def test_who_logs_in_is_known_until_they_log_out(q: Kue) -> None:
    async with site_of(q, badge="Production") as site, site.client() as client:
        await site.add("ann", Role.OPERATOR)

        before = await client.get("/me")
        login = await site.login(client, "ANN")
        known = await client.get("/me")
        logout = await client.post("/logout")
        after = await client.get("/me")

    assert (before.status_code, after.status_code) == (401, 401)
    assert login.status_code == 200
    assert login.json() == {
        "name": "ann",
        "role": "operator",
        "scopes": ["read", "enqueue", "manage"],
        "read_only": False,
        "badge": {"text": "Production", "tone": "red"},
        "can_log_out": True,
        "open_mode": False,
    }
    assert known.json() == login.json()
    assert logout.status_code == 204


async def test_a_session_that_was_ended_is_worth_nothing(q: Kue) -> None:
    async with site_of(q) as site:
        cookie = await site.headers("admin")
        async with site.client(headers=cookie) as client:
            await client.post("/logout")
            answer = await client.get("/me")

    assert answer.status_code == 401


@on_any_store
async def test_the_cookie_is_for_the_browser_alone(q: Kue) -> None:
    async with site_of(q) as site, site.client() as client:
        await site.add("ann")

        answer = await site.login(client, "ann")
        secure = await client.post(
            "/login",
            json={"name": "ann", "password": PASSWORD},
            headers={"X-Forwarded-Proto": "https"},
        )
    async with site_of(q) as site, site.client() as client:
        await site.login(client, "ann")
        out = await client.post("/logout")

    cookie = answer.headers["set-cookie"]
    name, _, secret = cookie.partition(";")[0].partition("=")
    assert name == "kue_session"
    assert len(secret) >= 43
    assert cookie.endswith("; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict")
    # Told by a proxy that the server trusts: one on this machine.
    assert secure.headers["set-cookie"].endswith("; SameSite=Strict; Secure")
    assert out.headers["set-cookie"].startswith("kue_session=; ")
    assert "Max-Age=0" in out.headers["set-cookie"]


def _cookie(answer: httpx.Response) -> dict[str, str]:
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


@on_any_store
async def test_every_login_has_a_session_of_its_own_and_ends_the_one_before(
    q: Kue,
) -> None:
    async with site_of(q) as site:
        await site.add("ann")
        async with site.client() as client:
            first = await site.login(client, "ann")
            second = await site.login(client, "ann")
        async with site.client() as other:
            old = await other.get("/me", headers=_cookie(first))
        async with site.client() as other:
            new = await other.get("/me", headers=_cookie(second))

    assert _cookie(first) != _cookie(second)
    assert (old.status_code, new.status_code) == (401, 200)


@on_any_store
async def test_the_store_keeps_no_secret(q: Kue) -> None:
    async with site_of(q) as site:
        cookie = (await site.headers("admin"))["Cookie"].partition("=")[2]
        token = (await site.headers("read"))["Authorization"].partition(" ")[2]
        rooms = [await q.store.all_kept(room) for room in ("user", "session", "token")]

    text = repr(rooms)
    assert all(rooms)
    # What is random of a token may have underscores of its own.
    for secret in (cookie, token, token.split("_", 2)[2], PASSWORD):
        assert secret not in text


@on_any_store
async def test_a_new_password_or_removal_ends_all_sessions(q: Kue) -> None:
    async with site_of(q) as site:
        for name in ("ann", "bob", "cid"):
            await site.add(name)
        headers = {}
        for name in ("ann", "bob", "cid"):
            async with site.client() as client:
                headers[name] = _cookie(await site.login(client, name))
        async with site.client(headers=headers["cid"]) as client:
            changed = await client.put("/users/ann", json={"password": "battery 123"})
            removed = await client.delete("/users/bob")
        found = {}
        for name in headers:
            async with site.client(headers=headers[name]) as client:
                found[name] = (await client.get("/me")).status_code

    assert (changed.status_code, removed.status_code) == (200, 204)
    assert found == {"ann": 401, "bob": 401, "cid": 200}


@on_any_store
async def test_another_role_holds_for_sessions_that_go_on(q: Kue) -> None:
    async with site_of(q) as site:
        headers = await site.headers("viewer")
        await site.accounts.users.set_role("a-viewer", Role.OPERATOR)
        async with site.client(headers=headers) as client:
            answer = await client.post("/jobs", json={"type": "email"})

    assert answer.status_code == 201


@on_any_store
@pytest.mark.parametrize("name", ["ann", "nobody", "not a name", ""])
async def test_a_wrong_name_is_told_like_a_wrong_password(q: Kue, name: str) -> None:
    async with site_of(q) as site, site.client() as client:
        await site.add("ann")

        answer = await site.login(client, name, "wrong")

    assert answer.status_code == 401
    assert answer.json()["detail"] == "name or password is wrong"
    assert "set-cookie" not in answer.headers


@on_any_store
async def test_after_five_failures_a_name_has_to_wait_longer_each_time(q: Kue) -> None:
    now = [0.0]
    accounts = AccountGuard(
        q, hasher=CHEAP, by_name=LoginThrottle(5, clock=lambda: now[0])
    )
    async with site_of(q, accounts=accounts) as site, site.client() as client:
        await site.add("ann")
        await site.add("bob")
        for _ in range(5):
            assert (await site.login(client, "ann", "wrong")).status_code == 401

        first = await site.login(client, "ann")
        other = await site.login(client, "bob")
        now[0] = 1.0
        wrong = await site.login(client, "ann", "wrong")
        second = await site.login(client, "ann")
        now[0] = 3.0
        right = await site.login(client, "ann")

    assert (first.status_code, first.headers["retry-after"]) == (429, "1")
    assert other.status_code == 200
    assert wrong.status_code == 401
    assert (second.status_code, second.headers["retry-after"]) == (429, "2")
    assert right.status_code == 200


@on_any_store
async def test_one_address_cannot_try_many_names(q: Kue) -> None:
    accounts = AccountGuard(
        q, hasher=CHEAP, by_address=LoginThrottle(3, clock=lambda: 0.0)
    )
    async with site_of(q, accounts=accounts) as site, site.client() as client:
        statuses = [
            (await site.login(client, f"user{number}", "wrong")).status_code
            for number in range(5)
        ]

    assert statuses == [401, 401, 401, 429, 429]


def test_a_throttle_forgets_the_oldest_and_what_is_long_ago() -> None:
    now = [0.0]
    throttle = LoginThrottle(1, size=2, forget=900, clock=lambda: now[0])
    for key in ("a", "b", "c"):
        throttle.count(key)

    assert [throttle.wait(key) for key in ("a", "b", "c")] == [0, 1, 1]
    for _ in range(100):
        throttle.count("b")
    assert throttle.wait("b") == 300
    now[0] = 901.0
    assert throttle.wait("b") == 0


@on_any_store
@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer kue_",
        "Bearer kue_0123456789ab_" + "a" * 43,
        "Basic YTpi",
        "kue",
    ],
)
async def test_a_token_that_is_none_is_401_whatever_cookie_comes_with_it(
    q: Kue, header: str
) -> None:
    async with site_of(q) as site:
        cookie = await site.headers("admin")
        async with site.client(headers={**cookie, "Authorization": header}) as client:
            answer = await client.get("/me")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_is_made_told_once_used_and_revoked(q: Kue) -> None:
    async with site_of(q) as site:
        admin = await site.headers("admin")
        async with site.client(headers=admin) as client:
            made = await client.post(
                "/tokens", json={"name": "shop", "scopes": ["enqueue"], "expires": "1d"}
            )
            token = made.json()
            bearer = {"Authorization": f"Bearer {token['secret']}"}
            async with site.client(headers=bearer) as program:
                me = await program.get("/me")
                added = await program.post("/jobs", json={"type": "email"})
                refused = await program.get("/jobs")
            listed = await client.get("/tokens")
            gone = await client.delete(f"/tokens/{token['id']}")
            again = await client.delete(f"/tokens/{token['id']}")
            async with site.client(headers=bearer) as program:
                after = await program.get("/me")

    assert made.status_code == 201
    assert token["secret"].startswith("kue_")
    # The clock is asked twice.
    assert token["until"] - token["created_at"] == pytest.approx(86_400_000, abs=1000)
    assert token["by"] == "a-admin"
    assert me.json() == {
        "name": "token:shop",
        "role": None,
        "scopes": ["enqueue"],
        "read_only": False,
        "badge": None,
        "can_log_out": False,
        "open_mode": False,
    }
    assert (added.status_code, refused.status_code) == (201, 403)
    assert refused.json()["detail"] == "this needs the scope read"
    [shown] = listed.json()["tokens"]
    assert "secret" not in shown
    assert shown["used_at"] >= token["created_at"]
    assert (gone.status_code, again.status_code) == (204, 404)
    assert after.status_code == 401


@on_any_store
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "a b", "scopes": ["read"]}, "body.name"),
        ({"name": "shop", "scopes": []}, "body.scopes"),
        ({"name": "shop", "scopes": ["all"]}, "body.scopes[0]"),
        ({"name": "shop", "scopes": ["read"], "expires": "soon"}, "body.expires"),
    ],
)
async def test_a_token_that_cannot_be_is_400(
    q: Kue, body: dict[str, Any], field: str
) -> None:
    async with (
        site_of(q) as site,
        site.client(headers=await site.headers("admin")) as client,
    ):
        answer = await client.post("/tokens", json=body)

    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_users_are_added_listed_changed_and_removed(q: Kue) -> None:
    async with (
        site_of(q) as site,
        site.client(headers=await site.headers("admin")) as client,
    ):
        added = await client.post(
            "/users", json={"name": "Bob", "password": "12345678", "role": "viewer"}
        )
        taken = await client.post(
            "/users", json={"name": "bob", "password": "12345678"}
        )
        changed = await client.put("/users/bob", json={"role": "operator"})
        listed = await client.get("/users")
        gone = await client.delete("/users/bob")
        again = await client.delete("/users/bob")

    assert added.status_code == 201
    assert set(added.json()) == {"name", "role", "created_at"}
    assert taken.status_code == 409
    assert changed.json()["role"] == "operator"
    assert [one["name"] for one in listed.json()["users"]] == ["a-admin", "bob"]
    assert (gone.status_code, again.status_code) == (204, 404)


async def test_s_8_people_change_their_own_password(q: Kue) -> None:
    async with site_of(q) as site:
        await site.add("ann", Role.VIEWER)
        async with site.client() as here, site.client() as there:
            await site.login(here, "ann")
            await site.login(there, "ann")
            new = {"current": PASSWORD, "password": "battery 123"}
            wrong = await here.put("/me/password", json={**new, "current": "wrong"})
            short = await here.put("/me/password", json={**new, "password": "short"})
            right = await here.put("/me/password", json=new)
            found = [(await one.get("/me")).status_code for one in (here, there)]
        async with site.client() as client:
            old = await site.login(client, "ann")
            login = await site.login(client, "ann", "battery 123")

    assert (wrong.status_code, wrong.json()["field"]) == (403, "body.current")
    assert (short.status_code, right.status_code) == (400, 204)
    # The others end; this one goes on.
    assert found == [200, 401]
    assert (old.status_code, login.status_code) == (401, 200)
    acts = (await q.store.acts()).acts
    noted = [(act.who, act.status) for act in acts if act.what == "password"]
    assert noted == [("ann", 204), ("ann", 403)]


@on_any_store
async def test_s_8_guessing_the_current_password_is_slowed_down(q: Kue) -> None:
    accounts = AccountGuard(
        q, hasher=CHEAP, by_name=LoginThrottle(2, clock=lambda: 0.0)
    )
    async with site_of(q, accounts=accounts) as site, site.client() as client:
        await site.add("ann")
        await site.login(client, "ann")
        body = {"current": "wrong", "password": "battery 123"}
        answers = [await client.put("/me/password", json=body) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [403, 403, 429]


@on_any_store
@pytest.mark.parametrize("who", ["admin", "nobody"])
async def test_s_8_only_people_who_logged_in_have_a_password(q: Kue, who: str) -> None:
    async with site_of(q) as site:
        headers = await site.headers("nobody")
        if who == "admin":
            _, secret = await site.accounts.tokens.add("shop", [Scope.ADMIN], by="ann")
            headers = {"Authorization": f"Bearer {secret}"}
        async with site.client(headers=headers) as client:
            body = {"current": PASSWORD, "password": "battery 123"}
            answer = await client.put("/me/password", json=body)

    assert answer.status_code == (403 if who == "admin" else 401)


@on_any_store
async def test_the_last_admin_stays(q: Kue) -> None:
    async with (
        site_of(q) as site,
        site.client(headers=await site.headers("admin")) as client,
    ):
        removed = await client.delete("/users/a-admin")
        demoted = await client.put("/users/a-admin", json={"role": "viewer"})

    assert (removed.status_code, demoted.status_code) == (409, 409)


@on_any_store
async def test_where_nobody_logs_in_login_is_404_and_me_is_local(q: Kue) -> None:
    startup = StartupToken()
    headers = {"Authorization": f"Bearer {startup.secret}"}
    async with (
        serving(create_app(q, guard=LocalhostGuard(startup))) as address,
        httpx.AsyncClient(
            base_url=f"{address}/api/v1", verify=False, headers=headers
        ) as client,
    ):
        login = await client.post("/login", json={"name": "ann", "password": "x"})
        me = (await client.get("/me")).json()

    assert login.status_code == 404
    assert (me["name"], me["can_log_out"], me["open_mode"]) == ("local", False, True)


@on_any_store
@pytest.mark.parametrize("kind", ["password", "token", "elsewhere"])
async def test_everyone_is_told_how_to_log_in(q: Kue, kind: str) -> None:
    guards: dict[str, Any] = {
        "password": AccountGuard(q),
        "token": LocalAccountGuard(q),
        "elsewhere": plain,
    }
    async with (
        serving(create_app(q, guard=guards[kind])) as address,
        httpx.AsyncClient(verify=False) as client,
    ):
        answer = await client.get(f"{address}/api/v1/login")

    assert answer.json() == {"kind": kind}


# -- the host application's own ------------------------------------------------


def plain(request: HTTPConnection) -> User | None:
    name = request.headers.get("x-user")
    return User(name, Role.VIEWER) if name else None


async def awaited(request: HTTPConnection) -> User | None:
    return plain(request)


class Callable:
    async def __call__(self, request: HTTPConnection) -> User | None:
        return plain(request)


@on_any_store
@pytest.mark.parametrize("guard", [plain, awaited, Callable()])
async def test_a_function_of_the_host_application_tells_who_asks(
    q: Kue, guard: Any
) -> None:
    async with (
        serving(create_app(q, guard=guard)) as address,
        httpx.AsyncClient(base_url=f"{address}/api/v1", verify=False) as client,
    ):
        nobody = await client.get("/me")
        someone = await client.get("/me", headers={"X-User": "ann"})
        refused = await client.post(
            "/jobs", json={"type": "email"}, headers={"X-User": "ann"}
        )

    assert nobody.status_code == 401
    assert (someone.json()["name"], someone.json()["role"]) == ("ann", "viewer")
    assert refused.status_code == 403


def test_a_user_has_the_scopes_of_the_role_or_their_own() -> None:
    assert User("ann", Role.VIEWER).scopes == {Scope.READ}
    assert User("shop", scopes=frozenset({Scope.ENQUEUE})).scopes == {Scope.ENQUEUE}
    assert User("nobody").scopes == frozenset()


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("Production", "red"),
        ("eu-prod-1", "red"),
        ("LIVE", "red"),
        ("staging", "amber"),
        ("product tests", "neutral"),
        ("my laptop", "neutral"),
    ],
)
@on_any_store
async def test_a_badge_says_which_environment_it_is(
    q: Kue, text: str, tone: str
) -> None:
    async with (
        serving(create_app(q, badge=text, guard=Anyone())) as address,
        httpx.AsyncClient(verify=False) as client,
    ):
        me = (await client.get(f"{address}/api/v1/me")).json()

    assert me["badge"] == {"text": text, "tone": tone}
