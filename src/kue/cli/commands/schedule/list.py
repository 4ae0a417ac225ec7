"""``kue schedule list``: all schedules, with their next run and last outcomes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kue.cli.commands.schedule.wording import (
    clock,
    is_late,
    overdue,
    run_time,
    standing,
    zone_for,
)
from kue.cli.context import json_option, reads
from kue.cli.output.console import output, print_message
from kue.cli.output.listing import Cell, Column, Listing, ago
from kue.cli.output.text import iso, since
from kue.model.schedule_json import schedule_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.client.queue import Kue
    from kue.model.schedule import Schedule, Tick

#: From this width on there is room for the clock time of the next run.
WIDE = 100
_NO_JOB, _UNKNOWN = Cell("–", "-"), Cell("?", "?")
#: One character for each tick, on a terminal and in a pipe.
MARKS = {
    "complete": Cell("✓", "+"),
    "failed": Cell("✗", "x"),
    "cancelled": Cell("c", "c"),
    "removed": _UNKNOWN,
    "unfinished": Cell("○", "o"),
    "missed": _NO_JOB,
    "overlap": _NO_JOB,
    "duplicate": _NO_JOB,
    "full": _NO_JOB,
}


def _next(schedule: Schedule, now: int, *, is_wide: bool) -> Cell:
    at = schedule.next_at
    if at is None:
        word = standing(schedule)
        return Cell(word, word)
    shown = since(at, now) if at > now else overdue(at, now)
    if at > now and is_wide:
        shown += f", {clock(at, now, zone_for(schedule))}"
    return Cell(shown, iso(at))


def _last(schedule: Schedule) -> Tick | None:
    return schedule.ticks[-1] if schedule.ticks else None


def _age(schedule: Schedule) -> Callable[[int], Cell] | None:
    last = _last(schedule)
    return ago(last.fired_at) if last else None


def _outcome(schedule: Schedule) -> str | None:
    last = _last(schedule)
    return last.status if last else None


def _duration(schedule: Schedule) -> Cell | None:
    last = _last(schedule)
    return run_time(last) if last else None


def _marks(schedule: Schedule) -> Cell:
    marks = [MARKS.get(tick.status, _UNKNOWN) for tick in schedule.ticks]
    return Cell(
        "".join(one.shown for one in marks), "".join(one.plain for one in marks)
    )


def _columns() -> tuple[Column[Schedule], ...]:
    is_wide = output().width >= WIDE
    return (
        Column("name", lambda schedule: schedule.name, wraps=True),
        Column("when", lambda schedule: schedule.words, is_long=True, wraps=True),
        Column("next", lambda one: partial(_next, one, is_wide=is_wide)),
        Column("last", _age, rank=1),
        Column("outcome", _outcome),
        Column("took", _duration, is_number=True, rank=3),
        Column("ticks", _marks, rank=2),
    )


@reads
@json_option(help="Write one JSON object per line; times are Unix ms.")
async def list_(q: Kue, as_json: bool) -> None:
    """
    List schedules with their next run and their last outcomes.

    "ticks" are the outcomes of the last ten, the newest at the right: ✓ complete,
    ✗ failed, c cancelled, ○ unfinished, ? not known, since the job was removed, – no
    job was added (missed, overlap, a full queue, or its unique key was held).  Columns
    in a pipe: name, when, the next run ("paused" or "ended" if there is none), the last
    run, its outcome, how many ms it took, ticks (+ x c o ? -).

    \b
      kue schedule list
      kue schedule list --json | jq 'select(.paused) | .name'
    """
    found, now = await q.schedules(), await q.now()
    listing = Listing(_columns(), partial(schedule_view, now=now), as_json=as_json)
    listing.show(found, now=now)
    if not found:
        print_message("there are no schedules yet; kue schedule add adds one")
    _warn_of_late(found, now)


def _warn_of_late(schedules: list[Schedule], now: int) -> None:
    late = [one.name for one in schedules if is_late(one, now)]
    if late:
        more = f" and {len(late) - 1:,} more" if len(late) > 1 else ""
        print_message(
            f"note: {late[0]}{more} should have run; schedules fire only while a "
            "worker runs (kue workers lists them)"
        )
