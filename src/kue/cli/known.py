"""Names that must be known: a mistyped type is told, with those that are near."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from kue.cli.terminal import say
from kue.errors import KueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.queue import Kue


class UnknownName(KueError):
    """Nothing in the store has this name."""


async def check_type(q: Kue, type: str | None) -> None:
    """
    Do nothing if *type* is None or has had a job.

    Raises:
        UnknownName: No job of that type was ever added; it names near ones.
    """
    if type is not None and type not in (types := await q.types()):
        raise UnknownName(_no_such_type(type, types))


async def warn_of_new_type(q: Kue, type: str) -> None:
    """Tell that no job of *type* was ever added, for what may come before the first."""
    if type not in (types := await q.types()):
        say(f"note: {_no_such_type(type, types)}")


def near(name: str, known: Sequence[str], *, what: str) -> str:
    """Return the end of a message that says which names *name* may be meant to be."""
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return f"; did you mean {' or '.join(repr(found) for found in close)}?"
    if not known:
        return f"; there are no {what} yet"
    return f"; {what}: {', '.join(known[:10])}{' …' if len(known) > 10 else ''}"


def _no_such_type(type: str, types: Sequence[str]) -> str:
    return f"no job of type {type!r} was ever added" + near(type, types, what="types")
