"""Users, sessions and tokens in a store, by a clock that the test owns."""

from __future__ import annotations

import time

import msgspec
import pytest

from kue.http.auth import (
    ApiTokens,
    LoginSessions,
    NameTaken,
    NoSuchAccount,
    PasswordHasher,
    Role,
    Scope,
    UserAccount,
    UserAccounts,
)
from kue.http.auth.account_records import TOUCH_MS, name_of
from kue.http.auth.passwords import matches
from kue.http.auth.sessions import IDLE_MS, MAX_MS
from kue.store.contract import Store
from kue.store.values import KeepRequest
from tests.support.jobs import T0

CHEAP = PasswordHasher(n=16, p=1)
PASSWORD = "correct horse"


@pytest.fixture
def users(store: Store) -> UserAccounts:
    return UserAccounts(store, CHEAP)


@pytest.fixture
async def ann(users: UserAccounts) -> UserAccount:
    return await users.add("ann", PASSWORD, Role.ADMIN)


@pytest.fixture
def sessions(store: Store, users: UserAccounts) -> LoginSessions:
    return LoginSessions(store, users)


# -- passwords -----------------------------------------------------------------


def test_a_hash_says_what_it_was_made_with_and_is_new_each_time() -> None:
    first, second = CHEAP.hash(PASSWORD), CHEAP.hash(PASSWORD)

    assert first.startswith("scrypt:16:8:1:")
    assert first != second
    assert PASSWORD not in first
    assert matches(PASSWORD, first)
    assert matches(PASSWORD, second)
    assert not matches(PASSWORD + " ", first)


@pytest.mark.parametrize(
    "kept", ["", "scrypt", "scrypt:1:1:1:zz:00", "scrypt:0:0:0::", "md5:16:8:1:00:00"]
)
def test_a_hash_that_is_damaged_lets_nobody_in(kept: str) -> None:
    assert not matches(PASSWORD, kept)


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025])
def test_a_password_too_short_or_too_long_is_refused(password: str) -> None:
    with pytest.raises(ValueError, match="a password has 8 to 1,024 characters"):
        CHEAP.hash(password)


def test_the_usual_cost_takes_a_noticeable_time() -> None:
    began = time.process_time()

    assert matches(PASSWORD, PasswordHasher().hash(PASSWORD))

    assert time.process_time() - began > 0.02


# -- users ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Ann", "a.b@c-d+e_"[:9], "0", "x" * 64])
def test_a_name_has_small_letters(name: str) -> None:
    assert name_of(name) == name.lower()


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", ".a", "a/b", "é", "x" * 65, "a\n", "<script>"]
)
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a name has"):
        name_of(name)


async def test_a_user_is_known_by_name_and_password(
    users: UserAccounts, ann: UserAccount
) -> None:
    assert await users.verify("ANN", PASSWORD) == ann
    assert await users.verify("ann", "wrong") is None
    assert await users.verify("bob", PASSWORD) is None
    assert await users.verify("a b", PASSWORD) is None


async def test_a_name_is_given_once(users: UserAccounts, ann: UserAccount) -> None:
    with pytest.raises(NameTaken, match="'ann'"):
        await users.add("Ann", PASSWORD, Role.VIEWER)

    assert await users.all() == [ann]


async def test_whoever_is_not_there_cannot_be_changed(users: UserAccounts) -> None:
    for change in (
        users.get("bob"),
        users.set_role("bob", Role.ADMIN),
        users.set_password("bob", PASSWORD),
        users.remove("bob"),
    ):
        with pytest.raises(NoSuchAccount, match="'bob'"):
            await change


async def test_a_damaged_user_is_nobody(store: Store, users: UserAccounts) -> None:
    await store.keep(KeepRequest("user", "ann", '{"name": "ann"}'))
    await store.keep(KeepRequest("user", "bob", "{"))

    assert await users.all() == []
    assert await users.find("ann") is None


# -- sessions ------------------------------------------------------------------


async def test_a_session_without_use_is_over_after_12_hours(
    sessions: LoginSessions, ann: UserAccount
) -> None:
    secret = await sessions.begin(ann, now=T0)

    assert await sessions.find(secret, now=T0 + TOUCH_MS - 1) == ann
    assert await sessions.find(secret, now=T0 + IDLE_MS) is None


async def test_use_prolongs_a_session_but_not_beyond_7_days(
    sessions: LoginSessions, ann: UserAccount
) -> None:
    secret = await sessions.begin(ann, now=T0)
    now = T0
    while now + IDLE_MS // 2 < T0 + MAX_MS:
        now += IDLE_MS // 2
        assert await sessions.find(secret, now=now) == ann

    assert await sessions.find(secret, now=T0 + MAX_MS) is None


async def test_use_is_written_down_once_a_minute(
    store: Store, sessions: LoginSessions, ann: UserAccount
) -> None:
    secret = await sessions.begin(ann, now=T0)
    used = []
    for now in (T0 + 1, T0 + TOUCH_MS, T0 + TOUCH_MS + 1, T0 + 2 * TOUCH_MS):
        await sessions.find(secret, now=now)
        [text] = (await store.all_kept("session", now=now)).values()
        used.append(msgspec.json.decode(text)["used"] - T0)

    assert used == [0, TOUCH_MS, TOUCH_MS, 2 * TOUCH_MS]


async def test_a_session_ends_by_logout_password_or_removal(
    users: UserAccounts, sessions: LoginSessions, ann: UserAccount
) -> None:
    first, second = [await sessions.begin(ann) for _ in range(2)]

    assert await sessions.end(first)
    assert await sessions.find(first) is None
    assert await sessions.find(second) == ann
    changed = await users.set_password("ann", "battery staple")
    assert await sessions.find(second) is None
    third = await sessions.begin(changed)
    await users.remove("ann")
    await users.add("ann", PASSWORD, Role.ADMIN)
    assert await sessions.find(third) is None


async def test_a_secret_that_is_none_is_nobodys(
    sessions: LoginSessions, ann: UserAccount
) -> None:
    secret = await sessions.begin(ann)

    for wrong in ("", secret[:-1], secret + "x", "\udc80"):
        assert await sessions.find(wrong) is None


# -- tokens --------------------------------------------------------------------


async def test_a_token_is_over_at_its_time(store: Store) -> None:
    tokens = ApiTokens(store)
    token, secret = await tokens.add(
        "shop", [Scope.READ], by="ann", until=T0 + 1000, now=T0
    )

    found = await tokens.find(secret, now=T0 + 999)
    assert found is not None
    assert found.id == token.id
    assert await tokens.find(secret, now=T0 + 1000) is None


async def test_use_of_a_token_is_noted_and_does_not_bring_it_back(store: Store) -> None:
    tokens = ApiTokens(store)
    token, secret = await tokens.add("shop", [Scope.READ], by="ann")

    assert token.used_at is None
    await tokens.find(secret)
    [used] = await tokens.all()
    assert used.used_at is not None
    await tokens.remove(token.id)
    assert await tokens.find(secret) is None
    assert await tokens.all() == []


@pytest.mark.parametrize("token_id", ["", "x", "0" * 12, "a\n", "../user"])
async def test_a_token_that_is_not_there_cannot_be_revoked(
    store: Store, token_id: str
) -> None:
    with pytest.raises(NoSuchAccount, match="there is no token"):
        await ApiTokens(store).remove(token_id)


def test_scopes_and_roles_belong_together() -> None:
    assert [scope.role for scope in Scope] == [
        Role.VIEWER,
        Role.OPERATOR,
        Role.OPERATOR,
        Role.ADMIN,
    ]
    with pytest.raises(ValueError, match="viewer, operator, admin"):
        Role.of("boss")
