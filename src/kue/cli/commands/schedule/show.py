"""``kue schedule show`` and ``next``: one schedule, and the times it is due."""

from __future__ import annotations

import shlex
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from kue.cli.commands.job.show import option_facts, priority_text
from kue.cli.commands.schedule.wording import (
    is_late,
    next_run,
    run_time,
    standing,
    weekday,
    zone_for,
)
from kue.cli.context import as_usage_error, command, json_option, reads
from kue.cli.output.console import output, print_message
from kue.cli.output.listing import (
    Cell,
    Column,
    Listing,
    show_facts,
    show_json,
    show_line,
    took,
)
from kue.cli.output.text import both, iso, json_text, since, words
from kue.cli.params import SCHEDULE
from kue.cli.unknown_names import find_schedule
from kue.model.draft import UNLIMITED
from kue.model.job import Draft, Spec
from kue.model.schedule import tag_of
from kue.model.schedule_json import schedule_detail, schedule_view
from kue.model.schedule_options import schedule_of

if TYPE_CHECKING:
    from datetime import tzinfo

    from kue.client.queue import Kue
    from kue.model.schedule import Schedule, Tick

MISSED = {
    "once": "one job for all times that were missed (once)",
    "skip": "no job for times that were missed (skip)",
    "all": "one job for each time that was missed (all)",
}
OVERLAP = {
    "allow": "adds a job even if an earlier one is unfinished (allow)",
    "skip": "adds no job while an earlier one is unfinished (skip)",
    "queue-one": "adds no job while another one has yet to start (queue-one)",
}

MAX_COUNT = 1_000
#: The job of an expression that is only tried.
_NOTHING = Draft(type="-", spec=Spec())


def _due(tick: Tick, zone: tzinfo | None) -> Cell:
    due = iso(tick.at, zone)
    return Cell(due[:19], due)


def _delay(tick: Tick) -> str | Cell:
    return "by hand" if tick.is_manual else took(tick.fired_at - tick.at)


def _ticks(zone: tzinfo | None) -> Listing[Tick]:
    columns: tuple[Column[Tick], ...] = (
        Column("due", partial(_due, zone=zone)),
        Column("delay", _delay, is_number=True),
        Column("job", lambda tick: tick.job_id, is_number=True),
        Column("outcome", lambda tick: tick.status),
        Column("took", run_time, is_number=True),
    )
    return Listing(columns, lambda tick: tick)


@reads
@click.argument("name", type=SCHEDULE)
@json_option(help="Write one JSON object; times are Unix ms.")
async def show(q: Kue, name: str, as_json: bool) -> None:
    """
    Show a schedule: when it runs, its job and its last ticks.

    In a pipe each property is a line: name, tab, value; "next" comes up to five times,
    and "tick" has when it was due, by how many ms it was late or "by hand", job,
    outcome, how many ms the run took.

    \b
      kue schedule show nightly
      kue schedule show nightly --json | jq .upcoming
    """
    schedule, now = await find_schedule(q, name), await q.now()
    if as_json:
        show_json(schedule_detail(schedule, now=now))
        return
    show_facts(_facts(schedule, now))
    _show_ticks(schedule)


def _show_ticks(schedule: Schedule) -> None:
    listing = _ticks(zone_for(schedule))
    if output().is_terminal:
        listing.show(schedule.ticks)
        return
    for tick in schedule.ticks:
        show_line("tick", *listing.plain(tick))


def _facts(schedule: Schedule, now: int) -> list[tuple[str, str]]:
    """Return the properties of *schedule* by name, without those that are not set."""
    zone = zone_for(schedule)
    times = [
        ("next", f"{weekday(at, zone)} {both(at, now, zone)}")
        for at in schedule_view(schedule, now=now).upcoming
    ]
    facts = [
        *_timing(schedule, now).items(),
        *times,
        *_bounds(schedule, now).items(),
        *_job(schedule).items(),
    ]
    return [(name, value) for name, value in facts if value]


def _timing(schedule: Schedule, now: int) -> dict[str, str]:
    state = standing(schedule)
    if state == "paused":
        state += f"; kue schedule resume {shlex.quote(schedule.name)} ends that"
    elif is_late(schedule, now):
        state = f"{next_run(schedule, now)}; it fires when a worker runs"
    note = "" if zone_for(schedule) else " (not known here)"
    return {
        "name": schedule.name,
        "when": schedule.words,
        "cron": schedule.cron,
        "time zone": f"{schedule.tz}{note}" if schedule.cron else "",
        "state": state,
    }


def _bounds(schedule: Schedule, now: int) -> dict[str, str]:
    zone = zone_for(schedule)
    first = None if schedule.is_one_off else schedule.starts_at
    moments = {"starts": first, "ends": schedule.ends_at}
    module = schedule.declared_by
    return {
        **{name: both(at, now, zone) for name, at in moments.items() if at is not None},
        "jitter": f"up to {words(schedule.jitter)} later" if schedule.jitter else "",
        "missed": MISSED[schedule.missed],
        "overlap": OVERLAP[schedule.overlap],
        "declared": f"in code, by {module}; change it there" if module else "",
    }


def _job(schedule: Schedule) -> dict[str, str]:
    draft = schedule.draft
    tag = shlex.quote(tag_of(schedule.name))
    return {
        "type": draft.name,
        "queue": draft.queue if draft.queue != draft.name else "",
        "data": json_text(draft.spec.data),
        "priority": priority_text(draft.priority),
        "attempts": str(draft.spec.max_attempts or UNLIMITED),
        **option_facts(draft),
        "retried for": words(draft.spec.retry_for) if draft.spec.retry_for else "",
        "expires": f"after {words(draft.expires)}" if draft.expires else "",
        "jobs": f"kue job list --tag {tag}",
    }


def _upcoming(now: int, zone: tzinfo | None, *, as_json: bool) -> Listing[int]:
    def time_of(at: int) -> Cell:
        return Cell(f"{weekday(at, zone)} {iso(at, zone)}", iso(at, zone))

    columns = (Column("time", time_of), Column("from now", partial(since, now=now)))
    return Listing(columns, lambda at: {"at": at}, as_json=as_json)


@command
@click.argument("name", type=SCHEDULE, required=False)
@click.option("--cron", metavar="EXPRESSION", help='An expression: "0 9 * * mon-fri".')
@click.option("--tz", help="The time zone of --cron; else UTC.")
@click.option(
    "--count",
    type=click.IntRange(1, MAX_COUNT),
    default=10,
    show_default=True,
    help="How many times.",
)
@json_option(help="Write one JSON object per line: at, Unix ms.")
@click.pass_context
def next_(
    context: click.Context,
    name: str | None,
    cron: str | None,
    tz: str | None,
    count: int,
    as_json: bool,
) -> None:
    """
    Show the coming times of a schedule or of a cron expression.

    An expression needs no queue, so it can be tried before it is used.  Times are
    those without jitter, in the time zone of the schedule.  Columns in a pipe: time,
    how far away it is.

    \b
      kue schedule next nightly
      kue schedule next --cron "0 9 * * mon-fri" --tz Europe/Berlin --count 3
    """
    if (name is None) is (cron is None):
        raise click.UsageError("give the name of a schedule, or --cron")
    if cron is None and tz is not None:
        raise click.UsageError("--tz goes with --cron; a schedule has its own")
    if name is not None:
        context.invoke(next_of, name=name, count=count, as_json=as_json)
        return
    now = time.time_ns() // 1_000_000
    with as_usage_error():
        tried = schedule_of("-", _NOTHING, now=now, cron=cron, tz=tz or "UTC")
    show_next(tried, now, count, as_json=as_json)


@reads
async def next_of(q: Kue, name: str, count: int, as_json: bool) -> None:
    """Show the coming times of a schedule in the queue."""
    schedule, now = await find_schedule(q, name), await q.now()
    with as_usage_error():
        show_next(schedule, now, count, as_json=as_json)
    state = standing(schedule)
    if state == "paused":
        print_message(f"note: {name} is paused: it runs only after it is resumed")
    elif state == "ended":
        print_message(f"{name} has ended: no run is left")


def show_next(schedule: Schedule, now: int, count: int, *, as_json: bool) -> None:
    """Write when *schedule* is due."""
    listing = _upcoming(now, zone_for(schedule), as_json=as_json)
    listing.show(schedule.upcoming(count, since=now))
