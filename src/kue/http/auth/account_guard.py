"""Account guard: login of users with session cookies, API tokens of programs."""

from __future__ import annotations

import math
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from kue.http.auth.access import User, bearer_token
from kue.http.auth.account_records import valid_name
from kue.http.auth.login_throttle import LoginThrottle
from kue.http.auth.sessions import MAX_MS, LoginSessions, cookie_for
from kue.http.auth.startup_token import StartupToken
from kue.http.auth.tokens import ApiTokens
from kue.http.auth.users import UserAccounts
from kue.http.framework.problem import Refused, forbidden

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from kue.client.queue import Kue
    from kue.http.auth.passwords import PasswordHasher
    from kue.http.auth.users import UserAccount

COOKIE = "kue_session"
#: Failed logins before throttling: for one name, and from one address.
FREE_BY_NAME, FREE_BY_ADDRESS = 5, 20
#: How long no login is needed after the first user was added.
RECHECK_SECONDS = 2.0


class AccountGuard:
    """
    A guard for the users, sessions and tokens in the store of *q*.

    Args:
        hasher: The cost of hashing a new password.
        by_name: Throttles guesses of one user's password.
        by_address: Throttles guesses from one address.
    """

    def __init__(
        self,
        q: Kue,
        *,
        hasher: PasswordHasher | None = None,
        by_name: LoginThrottle | None = None,
        by_address: LoginThrottle | None = None,
    ) -> None:
        self.users = UserAccounts(q.store, hasher)
        self.tokens = ApiTokens(q.store)
        self._sessions = LoginSessions(q.store, self.users)
        self._by_name = by_name or LoginThrottle(FREE_BY_NAME)
        self._by_address = by_address or LoginThrottle(FREE_BY_ADDRESS)

    async def who(self, connection: HTTPConnection) -> User | None:
        """Return the user of the token or else the session; None if it is not valid."""
        given = bearer_token(connection)
        if given is not None:
            token = await self.tokens.find(given)
            if token is None:
                return None
            return User(f"token:{token.name}", scopes=frozenset(token.scopes))
        secret = connection.cookies.get(COOKIE)
        account = await self._sessions.find(secret) if secret else None
        return None if account is None else User(account.name, account.role)

    def is_session(self, connection: HTTPConnection) -> bool:
        """Return whether the user came with a session, which can be ended."""
        return "authorization" not in connection.headers

    async def log_in(
        self, connection: HTTPConnection, name: str, password: str
    ) -> tuple[User, str]:
        """Begin a session and end the previous one; return the user and the cookie."""
        wrong = Refused(HTTPStatus.UNAUTHORIZED, "name or password is wrong")
        # No user has an invalid name; all such names share one counter.
        account = await self._verify(connection, valid_name(name), password, wrong)
        await self.end(connection)
        return User(account.name, account.role), await self._begin(connection, account)

    async def _verify(
        self, connection: HTTPConnection, name: str, password: str, wrong: Refused
    ) -> UserAccount:
        """Return the user if the password is right; raise *wrong* if it is not."""
        address = connection.client.host if connection.client else ""
        wait = max(self._by_name.wait(name), self._by_address.wait(address))
        if wait:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"too many attempts; wait {wait} s",
                headers={"Retry-After": str(wait)},
            )
        self._by_name.count(name)
        self._by_address.count(address)
        account = await self.users.verify(name, password)
        if account is None:
            raise wrong
        self._by_name.clear(name)
        self._by_address.uncount(address)
        return account

    async def _begin(self, connection: HTTPConnection, account: UserAccount) -> str:
        secret = await self._sessions.begin(account)
        return cookie_for(connection, COOKIE, secret, MAX_MS // 1000)

    async def change_password(
        self, connection: HTTPConnection, name: str, current: str, new: str
    ) -> str:
        """Change a user's password, which ends all sessions; return a new cookie."""
        wrong = forbidden("the current password is wrong", "body.current")
        await self._verify(connection, name, current, wrong)
        return await self._begin(connection, await self.users.set_password(name, new))

    async def log_out(self, connection: HTTPConnection) -> str:
        """End the session; return the cookie that replaces its own."""
        await self.end(connection)
        return cookie_for(connection, COOKIE, "", 0)

    async def end(self, connection: HTTPConnection) -> None:
        """End the session of a request, if it has one."""
        secret = connection.cookies.get(COOKIE)
        if secret:
            await self._sessions.end(secret)


class LocalAccountGuard(AccountGuard):
    """
    A guard for the accounts of a server that only this machine can reach.

    Until there is a user it is in open mode: the start-up token gives access, as API
    tokens do.  From then on the start-up token is not valid.
    """

    def __init__(
        self, q: Kue, startup: StartupToken | None = None, **settings: Any
    ) -> None:
        super().__init__(q, **settings)
        self.startup = startup or StartupToken()
        self._has_users = False
        self._checked_at = -math.inf

    async def who(self, connection: HTTPConnection) -> User | None:
        user = await super().who(connection)
        if user is not None or await self.has_users():
            return user
        return self.startup.admit(connection)

    def is_session(self, connection: HTTPConnection) -> bool:
        return self._has_users and super().is_session(connection)

    async def has_users(self) -> bool:
        """Return whether there was a user a few seconds ago, or ever before."""
        now = time.monotonic()
        if not self._has_users and now - self._checked_at > RECHECK_SECONDS:
            self._has_users = bool(await self.users.all())
            self._checked_at = now
        return self._has_users
