"""Account records in the store: names, errors, and changes that do not collide."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from kue.model.errors import KueError, StoreError, StoreUnavailable
from kue.store.values import KeepRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.contract import Store

T = TypeVar("T", bound=msgspec.Struct)

#: No colon: programs are named `token:…`.
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
#: The last use of a record is stored no more often than this.
TOUCH_MS = 60_000
#: Attempts to change a record that others change at the same time.
_TRIES = 10


class AccountError(KueError):
    """Something is wrong with a user or a token."""


class NoSuchAccount(AccountError):
    """There is no such user or token."""


class NameTaken(AccountError):
    """There is a user of this name already."""


def name_of(text: str) -> str:
    """Return *text* as the name of a user or token; raise `ValueError` for another."""
    name = text.lower()
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a name has 1 to 64 letters, digits and ._@+-, and begins with a letter or "
            f"digit; not {text[:70]!r}"
        )
    return name


def valid_name(text: str) -> str:
    """Return *text* as `name_of` does; nothing if it is not a valid name."""
    try:
        return name_of(text)
    except ValueError:
        return ""


def digest(secret: str) -> str:
    """Return the hash to store of a secret that nobody can guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class AccountRecords(Generic[T]):
    """Records of one kind, as structs; one with an ``until`` (Unix ms) expires then."""

    def __init__(self, store: Store, room: str, kind: type[T]) -> None:
        self._store = store
        self._room = room
        self._decode = msgspec.json.Decoder(kind).decode

    async def get(self, name: str, *, now: int | None = None) -> T | None:
        return self._read(await self._store.kept(self._room, name, now=now))

    async def all(self) -> dict[str, T]:
        texts = await self._store.all_kept(self._room)
        found = {name: self._read(text) for name, text in texts.items()}
        return {name: one for name, one in found.items() if one is not None}

    async def add(self, name: str, value: T, *, now: int | None = None) -> bool:
        """Write a new record; return False if there is one of that name."""
        return await self._write(name, value, was=None, now=now)

    async def change(self, name: str, edit: Callable[[T], T]) -> T | None:
        """Edit a record despite concurrent edits; return it, or None without one."""
        for _ in range(_TRIES):
            text = await self._store.kept(self._room, name)
            value = self._read(text)
            if value is None:
                return None
            edited = edit(value)
            if await self._write(name, edited, was=text):
                return edited
        raise StoreUnavailable(f"too many clients are changing {name!r}; try again")

    async def touch(self, name: str, was: T, field: str, *, now: int | None) -> None:
        """
        Store in *field* that a record is used now.

        Only if it still is *was*: removed ones do not come back.
        """
        moment = await self._store.now() if now is None else now
        last = getattr(was, field)
        if last is None or moment - last >= TOUCH_MS:
            used = msgspec.structs.replace(was, **{field: moment})
            # A full store must not lock anybody out.
            with suppress(StoreError):
                await self._write(name, used, was=_text(was), now=now)

    async def remove(self, name: str) -> bool:
        return await self._store.forget(self._room, name)

    async def _write(
        self, name: str, value: T, *, was: str | None, now: int | None = None
    ) -> bool:
        until = getattr(value, "until", None)
        request = KeepRequest(self._room, name, _text(value), was=was, until=until)
        return await self._store.keep(request, now=now)

    def _read(self, text: str | None) -> T | None:
        try:
            return None if text is None else self._decode(text)
        except (msgspec.ValidationError, msgspec.DecodeError):
            # Damaged, or of another version: it gives nobody access.
            return None


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
