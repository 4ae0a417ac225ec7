"""Unknown and mistyped names: messages that suggest similar ones."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kue.cli.output.console import print_message
from kue.model.errors import KueError, ScheduleNotFound, StoreError
from kue.worker.unhandled_types import did_you_mean, ever_handled, unhandled
from kue.worker.unhandled_types import near as nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kue.client.queue import Kue
    from kue.model.job import State
    from kue.model.named_limits import StoredLimit
    from kue.model.schedule import Schedule
    from kue.store.values import WorkerStatus


#: Types that are listed individually.
MAX_NOTES = 5


class UnknownName(KueError):
    """Nothing in the store has this name."""


async def check_type(q: Kue, type: str | None) -> None:
    """Raise `UnknownName`, with similar names, unless *type* is None or had a job."""
    if type is not None and type not in (types := await q.types()):
        raise UnknownName(_no_such_type(type, types))


async def find_schedule(q: Kue, name: str) -> Schedule:
    """Return a schedule; raise `UnknownName`, with similar names, if there is none."""
    try:
        return await q.get_schedule(name)
    except ScheduleNotFound:
        names = [schedule.name for schedule in await q.schedules()]
        raise UnknownName(
            f"no schedule is named {name!r}" + near(name, names, what="schedules")
        ) from None


async def find_limit(q: Kue, name: str) -> StoredLimit:
    """Return a named limit; raise `UnknownName`, with similar names, if none has it."""
    limits = await q.named_limits()
    if name not in limits:
        raise UnknownName(
            f"no limit is named {name!r}" + near(name, [*limits], what="limits")
        )
    return limits[name]


async def warn_of_new_type(q: Kue, type: str) -> None:
    """Warn that no job of *type* is known, where that is allowed."""
    if type not in (types := await q.types()):
        print_message(f"note: {_no_such_type(type, types)}")


async def warn_of_unhandled(q: Kue) -> None:
    """Warn of types whose jobs wait while live workers handle only other types."""
    # The command has succeeded: a hint must not fail it.
    with contextlib.suppress(StoreError):
        print_unhandled_types(await q.counts_by_type(), await q.workers())


def print_unhandled_types(
    counts: Mapping[str, Mapping[State, int]], workers: Sequence[WorkerStatus]
) -> None:
    if not any(worker.alive for worker in workers):
        return
    found = unhandled(counts, workers)
    for one in found[:MAX_NOTES]:
        print_message(f"note: {one}")
    if len(found) > MAX_NOTES:
        print_message(
            f"note: the same applies to {len(found) - MAX_NOTES:,} more types"
        )


async def warn_of_unhandled_type(q: Kue, type: str) -> None:
    """Warn that no worker has ever handled *type*, if any handled another."""
    known: set[str] = set()
    # The job was added: a hint must not fail the command.
    with contextlib.suppress(StoreError):
        known = ever_handled(await q.counts_by_type(), await q.workers())
    if known and type not in known:
        meant = did_you_mean(nearest(type, known))
        print_message(f"note: no worker has ever handled jobs of type {type!r}{meant}")


def near(name: str, known: Sequence[str], *, what: str) -> str:
    """Return the end of a message: which of the *known* names may be meant."""
    if meant := did_you_mean(nearest(name, known)):
        return meant
    if not known:
        return f"; there are no {what} yet"
    return f"; {what}: {', '.join(known[:10])}{' …' if len(known) > 10 else ''}"


def _no_such_type(type: str, types: Sequence[str]) -> str:
    return f"no job of type {type!r} is known" + near(type, types, what="types")
