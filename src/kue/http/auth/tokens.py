"""API tokens of programs, each with its own scopes."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

import msgspec

from kue.http.auth.account_records import (
    AccountRecords,
    NoSuchAccount,
    digest,
    name_of,
)
from kue.http.auth.roles import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.store.contract import Store

ROOM = "token"
_FORM = re.compile(r"kue_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token as stored: without its secret."""

    #: The part that is not secret.
    id: str
    #: What it is for.
    name: str
    scopes: tuple[Scope, ...]
    #: SHA-256 of the whole token, which nobody can guess.
    secret: str
    #: The user who created it.
    by: str
    #: Unix ms.
    created_at: int
    #: When it expires; None if never.
    until: int | None = None
    #: When it was last used; None if never.
    used_at: int | None = None


class ApiTokens:
    """The API tokens of a queue."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = AccountRecords(store, ROOM, ApiToken)

    async def add(
        self,
        name: str,
        scopes: Iterable[Scope],
        *,
        by: str,
        until: int | None = None,
        now: int | None = None,
    ) -> tuple[ApiToken, str]:
        """Create a token; return it and its secret, which is stored nowhere."""
        wanted = set(scopes)
        if not wanted:
            raise ValueError("a token needs at least one scope")
        moment = await self._store.now() if now is None else now
        if until is not None and until <= moment:
            raise ValueError("the token would have expired already")
        number = secrets.token_hex(6)
        secret = f"kue_{number}_{secrets.token_urlsafe(32)}"
        token = ApiToken(
            id=number,
            name=name_of(name),
            scopes=tuple(scope for scope in Scope if scope in wanted),
            secret=digest(secret),
            by=by,
            created_at=moment,
            until=until,
        )
        await self._records.add(number, token, now=now)
        return token, secret

    async def find(self, secret: str, *, now: int | None = None) -> ApiToken | None:
        """Return the token with this secret, and store its use; None without one."""
        match = _FORM.fullmatch(secret)
        if match is None:
            return None
        token = await self._records.get(match[1], now=now)
        if token is None or not secrets.compare_digest(token.secret, digest(secret)):
            return None
        await self._records.touch(token.id, token, "used_at", now=now)
        return token

    async def all(self) -> list[ApiToken]:
        """Return all tokens, the oldest first."""
        tokens = (await self._records.all()).values()
        return sorted(tokens, key=lambda token: (token.created_at, token.id))

    async def remove(self, token_id: str) -> ApiToken:
        """Revoke a token and return it; raise `NoSuchAccount` if there is none."""
        match = re.fullmatch(r"[0-9a-f]{12}", token_id)
        token = await self._records.get(token_id) if match else None
        if token is None:
            raise NoSuchAccount(f"there is no token {token_id[:70]!r}")
        await self._records.remove(token_id)
        return token
