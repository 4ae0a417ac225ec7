"""
Login sessions: a secret in the user's browser, its hash in the store.

A session ends after 12 hours without use, 7 days after it began, and at once when the
user logs out, is removed or gets another password.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from kue.http.auth.account_records import AccountRecords, digest
from kue.http.security.csrf import ROOT

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from kue.http.auth.users import UserAccount, UserAccounts
    from kue.store.contract import Store

ROOM = "session"
IDLE_MS = 12 * 3_600_000
MAX_MS = 7 * 24 * 3_600_000
#: Bytes of a session's secret: 256 bits.
_BYTES = 32


def cookie_for(connection: HTTPConnection, name: str, secret: str, seconds: int) -> str:
    """Return the Set-Cookie header that makes a browser keep *secret* for *seconds*."""
    # Where the application is mounted: others on the same host do not get it.
    path = quote(connection.scope.get(ROOT) or "/", safe="/-._~!$&'()*+,=:@%")
    is_secure = connection.scope.get("scheme") in ("https", "wss")
    return (
        f"{name}={secret}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        + ("; Secure" if is_secure else "")
    )


class LoginSession(msgspec.Struct, frozen=True):
    """A session as stored, under the hash of its secret."""

    user: str
    #: The stamp of the user's password when it began.
    stamp: str
    #: Unix ms.
    began: int
    used: int

    @property
    def until(self) -> int:
        return min(self.used + IDLE_MS, self.began + MAX_MS)


class LoginSessions:
    """The sessions of logged-in users."""

    def __init__(self, store: Store, users: UserAccounts) -> None:
        self._store = store
        self._users = users
        self._records = AccountRecords(store, ROOM, LoginSession)

    async def begin(self, account: UserAccount, *, now: int | None = None) -> str:
        """Begin a session; return its secret, which is stored nowhere else."""
        moment = await self._store.now() if now is None else now
        session = LoginSession(account.name, account.stamp, moment, moment)
        secret = secrets.token_urlsafe(_BYTES)
        await self._records.add(digest(secret), session, now=now)
        return secret

    async def find(self, secret: str, *, now: int | None = None) -> UserAccount | None:
        """Return the user of a session, and store its use; None if it has ended."""
        key = digest(secret)
        session = await self._records.get(key, now=now)
        if session is None:
            return None
        account = await self._users.find(session.user)
        if account is None or not secrets.compare_digest(account.stamp, session.stamp):
            return None
        await self._records.touch(key, session, "used", now=now)
        return account

    async def end(self, secret: str) -> bool:
        """End a session; return whether there was one."""
        return await self._records.remove(digest(secret))
