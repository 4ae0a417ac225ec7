"""Authentication and scopes: guards, and what the user of a request may do."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, runtime_checkable

from starlette.concurrency import run_in_threadpool

from kue.aio.callbacks import awaited
from kue.http.auth.roles import Role, Scope
from kue.http.framework.problem import forbidden, unauthorized

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


@dataclass(frozen=True)
class User:
    """The user of a request: a person with a role, or a program with its own scopes."""

    name: str
    role: Role | None = None
    #: Those of the role, if omitted.
    scopes: frozenset[Scope] = frozenset()
    #: Whether they used the start-up token of a server without users.
    is_open: bool = False

    def __post_init__(self) -> None:
        if not self.scopes and self.role is not None:
            object.__setattr__(self, "scopes", self.role.scopes)

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


@runtime_checkable
class Guard(Protocol):
    """Identifies the user of a request."""

    async def who(self, connection: HTTPConnection) -> User | None:
        """Return the user of a request; None if it is not authenticated."""


#: A plain or async function of the host application, in place of a guard.
GuardCallback: TypeAlias = Callable[
    ["HTTPConnection"], User | Awaitable[User | None] | None
]


class Anyone:
    """A guard that accepts every request: for those that were checked before."""

    def __init__(self, role: Role = Role.ADMIN) -> None:
        self._user = User("local", role)

    async def who(self, connection: HTTPConnection) -> User | None:
        return self._user


class CallbackGuard:
    """A guard that calls a function of the host application."""

    def __init__(self, callback: GuardCallback) -> None:
        self._callback = callback

    async def who(self, connection: HTTPConnection) -> User | None:
        if inspect.iscoroutinefunction(self._callback):
            return cast("User | None", await self._callback(connection))
        # In a thread: it may query a database, or belong to a framework that needs one.
        answer = await run_in_threadpool(self._callback, connection)
        return await awaited(answer)


def guard_of(given: Guard | GuardCallback) -> Guard:
    """Return *given*, or the guard that calls it if it is a function."""
    return given if isinstance(given, Guard) else CallbackGuard(given)


def bearer_token(connection: HTTPConnection) -> str | None:
    """Return the token of a request, empty if it is not one; None without a header."""
    header = connection.headers.get("authorization")
    if header is None:
        return None
    kind, _, token = header.partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


async def identify(guard: Guard, connection: HTTPConnection) -> User:
    """Return the user of a request; raise `Refused` if it is not authenticated."""
    user = await guard.who(connection)
    if user is None:
        raise unauthorized("authentication is required: log in, or send an API token")
    return user


def check_scope(user: User, needed: Scope | None) -> None:
    """Raise `Refused` without the scope *needed*; None allows every known user."""
    if needed is None or user.may(needed):
        return
    if user.role is None:
        raise forbidden(f"this needs the scope {needed}")
    raise forbidden(f"this needs the role {needed.role.label}")


async def admit(guard: Guard, connection: HTTPConnection, needed: Scope | None) -> User:
    """Return the user of a request; raise `Refused` without the scope *needed*."""
    user = await identify(guard, connection)
    check_scope(user, needed)
    return user
