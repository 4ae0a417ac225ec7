"""Roles and scopes: what a user or an API token may do."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Literal, TypeAlias, cast

RoleName: TypeAlias = Literal["viewer", "operator", "admin"]


class Scope(StrEnum):
    """A permission that operations need."""

    #: Read.
    READ = "read"
    #: Add jobs.
    ENQUEUE = "enqueue"
    #: Retry, cancel, edit, pause.
    MANAGE = "manage"
    #: Remove permanently, and manage users and tokens.
    ADMIN = "admin"

    @property
    def role(self) -> Role:
        """The lowest role that has it."""
        return min(role for role in Role if self in role.scopes)


class Role(IntEnum):
    """The scopes of a person; each role has all scopes of those before it."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def scopes(self) -> frozenset[Scope]:
        return _SCOPES[self]

    @property
    def label(self) -> RoleName:
        """Its name as people and programs write it."""
        return cast("RoleName", self.name.lower())

    @classmethod
    def of(cls, label: str) -> Role:
        """Return the role called *label*; raise `ValueError` if there is none."""
        roles = {role.label: role for role in cls}
        if label not in roles:
            raise ValueError(f"role {label!r} is unknown; there are {', '.join(roles)}")
        return roles[label]


_SCOPES = {
    Role.VIEWER: frozenset({Scope.READ}),
    Role.OPERATOR: frozenset({Scope.READ, Scope.ENQUEUE, Scope.MANAGE}),
    Role.ADMIN: frozenset(Scope),
}
