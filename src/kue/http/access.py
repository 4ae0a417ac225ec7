"""Who asks, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

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
