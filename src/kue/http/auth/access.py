"""Who asks, and what they may do."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, runtime_checkable

from starlette.concurrency import run_in_threadpool

from kue.http.auth.roles import Role, Scope
from kue.http.framework.problem import Refused

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

__all__ = [
    "Anyone",
    "CallbackGuard",
    "Guard",
    "Question",
    "Role",
    "Scope",
    "User",
    "admit",
    "check_scope",
    "guard_of",
    "identify",
]


@dataclass(frozen=True)
class User:
    """Who asks: someone with a role, or a program with scopes of its own."""

    name: str
    role: Role | None = None
    #: Those of the role, if left out.
    scopes: frozenset[Scope] = frozenset()
    #: Whether the start-up token of a server without users let them in.
    is_open: bool = False

    def __post_init__(self) -> None:
        if not self.scopes and self.role is not None:
            object.__setattr__(self, "scopes", self.role.scopes)

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


@runtime_checkable
class Guard(Protocol):
    """Tells who asks."""

    async def who(self, connection: HTTPConnection) -> User | None:
        """Return whose request it is; None when nobody said."""


#: A host application's own answer to who asks; it may be a plain or an async function.
Question: TypeAlias = Callable[["HTTPConnection"], User | Awaitable[User | None] | None]


class Anyone:
    """A guard that lets everyone in: for those whom something else has let through."""

    def __init__(self, role: Role = Role.ADMIN) -> None:
        self._user = User("local", role)

    async def who(self, connection: HTTPConnection) -> User | None:
        return self._user


class CallbackGuard:
    """A guard that asks a function of the host application."""

    def __init__(self, question: Question) -> None:
        self._question = question

    async def who(self, connection: HTTPConnection) -> User | None:
        if inspect.iscoroutinefunction(self._question):
            return cast("User | None", await self._question(connection))
        # In a thread: it may ask a database, or be of a framework that insists on one.
        answer = await run_in_threadpool(self._question, connection)
        if inspect.isawaitable(answer):
            return await answer
        return answer


def guard_of(given: Guard | Question) -> Guard:
    """Return the guard that was given, as what or by what function it may be."""
    return given if isinstance(given, Guard) else CallbackGuard(given)


async def identify(guard: Guard, connection: HTTPConnection) -> User:
    """
    Return who asks.

    Raises:
        Refused: Nobody said.
    """
    user = await guard.who(connection)
    if user is None:
        raise Refused(
            HTTPStatus.UNAUTHORIZED,
            "say who you are: a session or a token",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return user


def check_scope(user: User, needed: Scope | None) -> None:
    """
    Let a user through who may; None is what everyone may who is known.

    Raises:
        Refused: They may not.
    """
    if needed is None or user.may(needed):
        return
    if user.role is None:
        raise Refused(HTTPStatus.FORBIDDEN, f"this takes the scope {needed}")
    raise Refused(HTTPStatus.FORBIDDEN, f"this takes the role {needed.role.label}")


async def admit(guard: Guard, connection: HTTPConnection, needed: Scope | None) -> User:
    """
    Return who asks, if they may.

    Raises:
        Refused: Nobody said who it is, or they may not.
    """
    user = await identify(guard, connection)
    check_scope(user, needed)
    return user
