"""User accounts: the names, roles and passwords of people who log in."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec

from kue.http.auth.account_records import (
    AccountRecords,
    NameTaken,
    NoSuchAccount,
    name_of,
    valid_name,
)
from kue.http.auth.passwords import PasswordHasher, PasswordVerifier, check_password
from kue.http.auth.roles import Role

if TYPE_CHECKING:
    from kue.store.contract import Store

ROOM = "user"


class UserAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A user as stored."""

    name: str
    role: Role
    #: Hashed, see `kue.http.auth.passwords`.
    password: str
    #: Changes with the password, which ends earlier sessions.
    stamp: str
    #: Unix ms.
    created_at: int


class UserAccounts:
    """The users of a queue."""

    def __init__(self, store: Store, hasher: PasswordHasher | None = None) -> None:
        self._store = store
        self._records = AccountRecords(store, ROOM, UserAccount)
        self._verifier = PasswordVerifier(hasher or PasswordHasher())

    async def add(self, name: str, password: str, role: Role) -> UserAccount:
        """Add a user; raise `ValueError` if something is invalid, or `NameTaken`."""
        normalized = name_of(name)
        check_password(password)
        account = UserAccount(
            name=normalized,
            role=role,
            password=await self._verifier.hash(password),
            stamp=secrets.token_hex(8),
            created_at=await self._store.now(),
        )
        if not await self._records.add(normalized, account):
            raise NameTaken(f"there is a user {normalized!r} already")
        return account

    async def find(self, name: str) -> UserAccount | None:
        """Return a user; None if there is no such user."""
        valid = valid_name(name)
        return await self._records.get(valid) if valid else None

    async def get(self, name: str) -> UserAccount:
        """Return a user; raise `NoSuchAccount` if there is no such user."""
        account = await self.find(name)
        if account is None:
            raise _no_such_user(name)
        return account

    async def all(self) -> list[UserAccount]:
        """Return all users, by name."""
        return list((await self._records.all()).values())

    async def set_role(self, name: str, role: Role) -> UserAccount:
        """Change a user's role; sessions continue with the new one."""
        return await self._change(name, role=role)

    async def set_password(self, name: str, password: str) -> UserAccount:
        """Change a user's password, and end all sessions."""
        await self.get(name)
        hashed = await self._verifier.hash(password)
        return await self._change(name, password=hashed, stamp=secrets.token_hex(8))

    async def remove(self, name: str) -> None:
        """Remove a user, and end all sessions."""
        account = await self.get(name)
        await self._records.remove(account.name)

    async def verify(self, name: str, password: str) -> UserAccount | None:
        """Return the user if the password is right; takes as long for unknown users."""
        account = await self.find(name)
        hashed = None if account is None else account.password
        return account if await self._verifier.verify(password, hashed) else None

    async def _change(self, name: str, **changes: object) -> UserAccount:
        account = await self._records.change(
            (await self.get(name)).name,
            lambda one: msgspec.structs.replace(one, **changes),
        )
        if account is None:
            raise _no_such_user(name)
        return account


def _no_such_user(name: str) -> NoSuchAccount:
    return NoSuchAccount(f"there is no user {name[:70]!r}")
