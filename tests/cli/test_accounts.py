"""``kue user`` and ``kue token``: who may log in, and what programs may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kue.http.auth import (
    ApiToken,
    ApiTokens,
    PasswordHasher,
    Scope,
    UserAccount,
    UserAccounts,
    users,
)
from kue.store.contract import Store
from tests.support.command_line import CommandLine

PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def hashes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "PasswordHasher", lambda: PasswordHasher(n=16, p=1))


@pytest.fixture(autouse=True)
def store_is_there(kue: CommandLine) -> None:
    async def open_it(store: Store) -> None:
        await store.open()

    kue.arrange(open_it)


def login(kue: CommandLine, name: str, password: str) -> UserAccount | None:
    async def verify(store: Store) -> UserAccount | None:
        return await UserAccounts(store).verify(name, password)

    return kue.arrange(verify)


def test_a_user_is_added_with_the_password_of_standard_input(
    kue: CommandLine,
) -> None:
    said = kue("user", "add", "Ann", "--role", "operator", stdin=f"{PASSWORD}\nmore")

    assert (said.code, said.rows) == (0, [["ann", "operator", "added"]])
    assert PASSWORD not in said.out + said.err
    assert login(kue, "ann", PASSWORD) is not None
    assert login(kue, "ann", PASSWORD + "\n") is None


@pytest.mark.parametrize(
    "words", [("user", "add", "ann"), ("token", "add", "ci", "--scope", "read")]
)
def test_the_first_of_all_makes_the_store(
    kue: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    monkeypatch.delenv("KUE_PREFIX")
    place = tmp_path / "new" / "kue.db"
    place.parent.mkdir()

    said = kue(*words, "--url", f"sqlite:///{place}", stdin=PASSWORD)

    assert (said.code, place.exists()) == (0, True)


def test_users_are_listed_by_name(kue: CommandLine) -> None:
    kue("user", "add", "bob", stdin=PASSWORD)
    kue("user", "add", "ann", "--role", "admin", stdin=PASSWORD)

    rows = kue("user", "list").rows
    items = kue("user", "list", "--json").items

    assert [row[:2] for row in rows] == [["ann", "admin"], ["bob", "viewer"]]
    assert [set(item) for item in items] == [{"name", "role", "created_at"}] * 2


def test_where_nobody_may_log_in_the_list_says_how_to_change_that(
    kue: CommandLine,
) -> None:
    said = kue("user", "list")

    assert (said.code, said.out) == (0, "")
    assert "kue user add" in said.err


def test_a_name_that_is_taken_is_refused_with_1(kue: CommandLine) -> None:
    kue("user", "add", "ann", stdin=PASSWORD)

    said = kue("user", "add", "ann", stdin="another one")

    assert said.code == 1
    assert "there is a user 'ann' already" in said.err
    assert login(kue, "ann", PASSWORD) is not None


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "short"), ("ann", ""), ("a b", PASSWORD)]
)
def test_a_name_or_password_that_cannot_be_is_wrong_use(
    kue: CommandLine, name: str, password: str
) -> None:
    said = kue("user", "add", name, stdin=password)

    assert said.code == 2
    assert kue("user", "list").out == ""


def test_role_and_password_of_a_user_are_changed(kue: CommandLine) -> None:
    kue("user", "add", "ann", stdin=PASSWORD)

    assert kue("user", "role", "ann", "admin").rows == [["ann", "admin", "changed"]]
    assert kue("user", "password", "ann", stdin="battery staple").code == 0

    account = login(kue, "ann", "battery staple")
    assert account is not None
    assert account.role.label == "admin"
    assert login(kue, "ann", PASSWORD) is None


def test_a_user_is_removed(kue: CommandLine) -> None:
    kue("user", "add", "ann", stdin=PASSWORD)

    said = kue("user", "remove", "ann", "--json")

    assert said.items == [{"name": "ann", "removed": True}]
    assert kue("user", "list").out == ""


@pytest.mark.parametrize(
    "words",
    [("role", "bob", "admin"), ("password", "bob"), ("remove", "bob")],
    ids=" ".join,
)
def test_a_user_that_is_not_there_is_refused_with_1(
    kue: CommandLine, words: tuple[str, ...]
) -> None:
    said = kue("user", *words, stdin=PASSWORD)

    assert said.code == 1
    assert "there is no user 'bob'" in said.err


def test_a_token_is_told_once_and_works(kue: CommandLine) -> None:
    said = kue("token", "add", "shop", "--scope", "enqueue", "--scope", "read")
    [[number, name, secret]] = said.rows

    async def find(store: Store) -> ApiToken | None:
        return await ApiTokens(store).find(secret)

    token = kue.arrange(find)
    assert token is not None
    assert (token.id, token.name, name) == (number, "shop", "shop")
    assert token.scopes == (Scope.READ, Scope.ENQUEUE)
    assert secret.startswith("kue_")
    listed = kue("token", "list")
    assert listed.rows[0][:3] == [number, "shop", "read, enqueue"]
    assert secret not in listed.out
    assert "secret" not in kue("token", "list", "--json").items[0]


def test_a_token_may_end_by_itself(kue: CommandLine) -> None:
    [made] = kue(
        "token", "add", "shop", "--scope", "read", "--expires", "90d", "--json"
    ).items

    assert made["until"] - made["created_at"] == pytest.approx(
        90 * 24 * 3_600_000, abs=60_000
    )


def test_a_token_is_revoked(kue: CommandLine) -> None:
    [made] = kue("token", "add", "shop", "--scope", "read", "--json").items

    said = kue("token", "revoke", made["id"])

    assert said.rows == [[made["id"], "shop", "revoked"]]
    assert kue("token", "list").out == ""
    again = kue("token", "revoke", made["id"])
    assert again.code == 1
    assert "there is no token" in again.err


@pytest.mark.parametrize(
    "words",
    [
        ("shop",),
        ("shop", "--scope", "everything"),
        ("a b", "--scope", "read"),
        ("shop", "--scope", "read", "--expires", "2020-01-01T00:00:00Z"),
    ],
    ids=" ".join,
)
def test_a_token_that_cannot_be_is_wrong_use(
    kue: CommandLine, words: tuple[str, ...]
) -> None:
    assert kue("token", "add", *words).code == 2
    assert kue("token", "list").out == ""
