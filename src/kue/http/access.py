"""Who asks, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from kue.http.problem import Refused

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


class Role(IntEnum):
    """What someone may do; each may all that those before it may."""

    #: Look.
    VIEWER = 1
    #: Add, retry, cancel, pause.
    OPERATOR = 2
    #: Remove for good, and say who may do what.
    ADMIN = 3


@dataclass(frozen=True)
class User:
    """Who asks."""

    name: str
    role: Role


class Guard(Protocol):
    """Tells who asks."""

    async def who(self, connection: HTTPConnection) -> User | None:
        """Return whose request it is; None when nobody said."""


class Anyone:
    """A guard for those who can reach the server anyway: on this machine alone."""

    def __init__(self, role: Role = Role.ADMIN) -> None:
        self._user = User("local", role)

    async def who(self, connection: HTTPConnection) -> User | None:
        return self._user


async def admit(guard: Guard, connection: HTTPConnection, needed: Role) -> User:
    """
    Return who asks, if they may.

    Raises:
        Refused: Nobody said who it is, or the role is too low.
    """
    user = await guard.who(connection)
    if user is None:
        raise Refused(
            HTTPStatus.UNAUTHORIZED,
            "say who you are: a session or a token",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if user.role < needed:
        role = needed.name.lower()
        raise Refused(HTTPStatus.FORBIDDEN, f"this takes the role {role}")
    return user
