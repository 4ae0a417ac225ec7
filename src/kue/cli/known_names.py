"""Names that must be known: a mistyped type is told, with those that are near."""

from __future__ import annotations

import contextlib
import difflib
from typing import TYPE_CHECKING

from kue.cli.output.terminal import say
from kue.model.errors import KueError, StoreError
from kue.worker.unhandled_types import did_you_mean, ever_handled, unhandled
from kue.worker.unhandled_types import near as nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kue.client.queue import Kue
    from kue.model.job import State
    from kue.store.values import WorkerStatus


#: Types that are named one by one.
MAX_NOTES = 5


class UnknownName(KueError):
    """Nothing in the store has this name."""


async def check_type(q: Kue, type: str | None) -> None:
    """
    Do nothing if *type* is None or has had a job.

    Raises:
        UnknownName: No job of that type is known; it names near ones.
    """
    if type is not None and type not in (types := await q.types()):
        raise UnknownName(_no_such_type(type, types))


async def warn_of_new_type(q: Kue, type: str) -> None:
    """Say that no job of *type* is known, for what may come before the first."""
    if type not in (types := await q.types()):
        say(f"note: {_no_such_type(type, types)}")


async def warn_of_unhandled(q: Kue) -> None:
    """Report types whose jobs wait though live workers handle other types only."""
    # What was asked for is done: no hint may fail the command.
    with contextlib.suppress(StoreError):
        say_unhandled(await q.counts_by_type(), await q.workers())


def say_unhandled(
    counts: Mapping[str, Mapping[State, int]], workers: Sequence[WorkerStatus]
) -> None:
    if not any(worker.alive for worker in workers):
        return
    found = unhandled(counts, workers)
    for one in found[:MAX_NOTES]:
        say(f"note: {one}")
    if len(found) > MAX_NOTES:
        say(f"note: the same goes for {len(found) - MAX_NOTES:,} more types")


async def warn_of_unhandled_type(q: Kue, type: str) -> None:
    """Report that no worker has ever handled *type*, if any handled another."""
    known: set[str] = set()
    # The job was added: no hint may fail the command.
    with contextlib.suppress(StoreError):
        known = ever_handled(await q.counts_by_type(), await q.workers())
    if known and type not in known:
        meant = did_you_mean(nearest(type, known))
        say(f"note: no worker has ever handled jobs of type {type!r}{meant}")


def near(name: str, known: Sequence[str], *, what: str) -> str:
    """Return the end of a message that says which names *name* may be meant to be."""
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return f"; did you mean {' or '.join(repr(found) for found in close)}?"
    if not known:
        return f"; there are no {what} yet"
    return f"; {what}: {', '.join(known[:10])}{' …' if len(known) > 10 else ''}"


def _no_such_type(type: str, types: Sequence[str]) -> str:
    return f"no job of type {type!r} is known" + near(type, types, what="types")
