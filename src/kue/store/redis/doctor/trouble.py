"""Something that must not be, and what would mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.store.redis.doctor.shard import Command, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable


class Guard(NamedTuple):
    """What must still be so, and where, when a repair is carried out."""

    shard: int
    subject: Subject
    digest: bytes


class Trouble(msgspec.Struct, frozen=True):
    """What one look at a subject found."""

    code: str
    message: str
    job_id: int | None = None
    #: What mends it, in words; empty when a person must decide.
    repair: str = ""
    commands: tuple[Command, ...] = ()
    #: Where the commands go; None when it is what was looked at.
    guard: Guard | None = None


def listed(things: Iterable[str], between: str = "and") -> str:
    """Return "a", "a and b", "a, b and c"."""
    *rest, last = things
    return f"{', '.join(rest)} {between} {last}" if rest else last
