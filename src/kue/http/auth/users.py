"""People who log in."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec

from kue.http.auth.account_records import (
    AccountRecords,
    NameTaken,
    NoSuchAccount,
    name_of,
)
from kue.http.auth.passwords import PasswordHasher, PasswordVerifier, check_password
from kue.http.auth.roles import Role

if TYPE_CHECKING:
    from kue.store.contract import Store

ROOM = "user"


class UserAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A user as it is kept."""

    name: str
    role: Role
    #: Hashed, see `kue.http.auth.passwords`.
    password: str
    #: Changes with the password: sessions that began before it are over.
    stamp: str
    #: Unix ms.
    created_at: int


class UserAccounts:
    """Who may log in, with which role."""

    def __init__(self, store: Store, hasher: PasswordHasher | None = None) -> None:
        self._store = store
        self._room = AccountRecords(store, ROOM, UserAccount)
        self._verifier = PasswordVerifier(hasher or PasswordHasher())

    async def add(self, name: str, password: str, role: Role) -> UserAccount:
        """
        Add a user.

        Raises:
            ValueError: Name or password cannot be one.
            NameTaken: There is such a user.
        """
        known = name_of(name)
        check_password(password)
        account = UserAccount(
            name=known,
            role=role,
            password=await self._verifier.hash(password),
            stamp=secrets.token_hex(8),
            created_at=await self._store.now(),
        )
        if not await self._room.add(known, account):
            raise NameTaken(f"there is a user {known!r} already")
        return account

    async def find(self, name: str) -> UserAccount | None:
        """Return a user; None when nobody is called that."""
        try:
            return await self._room.get(name_of(name))
        except ValueError:
            return None

    async def get(self, name: str) -> UserAccount:
        """
        Return a user.

        Raises:
            NoSuchAccount: Nobody is called that.
        """
        account = await self.find(name)
        if account is None:
            raise _nobody(name)
        return account

    async def all(self) -> list[UserAccount]:
        """Return all users, by name."""
        return list((await self._room.all()).values())

    async def set_role(self, name: str, role: Role) -> UserAccount:
        """Give a user another role; sessions go on with it."""
        return await self._change(name, role=role)

    async def set_password(self, name: str, password: str) -> UserAccount:
        """
        Give a user another password, and end all sessions.

        Raises:
            ValueError: It cannot be one.
            NoSuchAccount: Nobody is called that.
        """
        await self.get(name)
        hashed = await self._verifier.hash(password)
        return await self._change(name, password=hashed, stamp=secrets.token_hex(8))

    async def remove(self, name: str) -> None:
        """
        Remove a user, and end all sessions.

        Raises:
            NoSuchAccount: Nobody is called that.
        """
        account = await self.get(name)
        await self._room.remove(account.name)

    async def verify(self, name: str, password: str) -> UserAccount | None:
        """Return whose password it is; takes as long when there is no such user."""
        account = await self.find(name)
        kept = None if account is None else account.password
        return account if await self._verifier.verify(password, kept) else None

    async def _change(self, name: str, **changes: object) -> UserAccount:
        account = await self._room.change(
            (await self.get(name)).name,
            lambda one: msgspec.structs.replace(one, **changes),
        )
        if account is None:
            raise _nobody(name)
        return account


def _nobody(name: str) -> NoSuchAccount:
    return NoSuchAccount(f"there is no user {name[:70]!r}")
