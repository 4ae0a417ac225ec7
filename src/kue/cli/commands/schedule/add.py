"""``kue schedule add``: add or change a schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast, get_args

import click
from msgspec.structs import replace

from kue.cli.audit import unchanged
from kue.cli.commands.job.add import draft_options, job_options
from kue.cli.commands.schedule.wording import next_run
from kue.cli.context import adds, as_usage_error, json_option
from kue.cli.input import read_argument
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import show_json
from kue.cli.params import DURATION, SCHEDULE, TIME, TYPE, moment_of, options
from kue.cli.unknown_names import warn_of_unhandled_type
from kue.model.errors import ScheduleDeclared, ScheduleNotFound
from kue.model.schedule import Missed, Overlap
from kue.model.schedule_json import schedule_detail
from kue.model.schedule_options import ScheduleOptions

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.schedule import Schedule

#: Options that are times.
TIMES = ("at", "start", "end")

schedule_options = options(
    click.option("--every", type=DURATION, help="Run it at this interval: 10m."),
    click.option(
        "--cron",
        metavar="EXPRESSION",
        help='Run it when this matches: "0 9 * * mon-fri".',
    ),
    click.option(
        "--at", type=TIME, help="Run it once, at this time: 2026-12-24T18:00+01:00."
    ),
    click.option("--tz", help="The time zone of --cron: Europe/Berlin; else UTC."),
    click.option("--start", type=TIME, help="Not before this time."),
    click.option("--end", type=TIME, help="Not after this time."),
    click.option(
        "--jitter", type=DURATION, help="Run up to this much later, spread evenly."
    ),
    click.option(
        "--missed",
        type=click.Choice(get_args(Missed)),
        help="Jobs for times when no worker ran: one for all (once, the default), "
        "none (skip), or one each (all).",
    ),
    click.option(
        "--overlap",
        type=click.Choice(get_args(Overlap)),
        help="While an earlier job is unfinished: add another one (allow, the "
        "default), none (skip), or one if no other has yet to start (queue-one).",
    ),
)


@adds
@click.argument("name", type=SCHEDULE)
@click.argument("type", type=TYPE)
@click.argument("data", required=False)
@schedule_options
@draft_options
@json_option(help="Write one JSON object: the schedule; times are Unix ms.")
async def add(
    q: Kue, /, name: str, type: str, data: str | None, as_json: bool, **given: Any
) -> int:
    """
    Add a job of TYPE again and again, or change the schedule NAME.

    Give one of --every, --cron and --at.  DATA is JSON; - reads it from standard input.
    A schedule that exists gets the options given and no others; it keeps its pause.
    One that is declared in code is refused: change it there.

    \b
      kue schedule add nightly report --cron "0 3 * * *" --tz Europe/Berlin
      kue schedule add sweep clean '{"days": 7}' --every 10m --overlap skip
      kue schedule add launch announce --at 2026-12-24T18:00+01:00
    """
    timing = await _timing(q, given)
    value = None if data is None else read_argument(data, what="data")
    known = await _known(q, name)
    with as_usage_error():
        draft = q.draft(type, value, **job_options(given))
        try:
            schedule = await q.schedule(name, draft, **timing)
        except ScheduleDeclared as exc:
            print_message(str(exc))
            return REFUSED
    await _report(q, schedule, known, as_json=as_json)
    return DONE


async def _timing(q: Kue, given: dict[str, Any]) -> ScheduleOptions:
    """Take the options of a schedule out of those *given*."""
    names = ScheduleOptions.__optional_keys__ & given.keys()
    found = {name: given.pop(name) for name in names}
    for name in TIMES:
        found[name] = await _time(q, found[name])
    chosen = {name: value for name, value in found.items() if value is not None}
    return cast("ScheduleOptions", chosen)


async def _time(q: Kue, when: datetime | timedelta | None) -> datetime | None:
    """Return a time; a duration counts from now."""
    moment = await moment_of(q, when, ahead=True)
    return None if moment is None else datetime.fromtimestamp(moment / 1000, UTC)


async def _known(q: Kue, name: str) -> Schedule | None:
    try:
        return await q.get_schedule(name)
    except ScheduleNotFound:
        return None


async def _report(
    q: Kue, schedule: Schedule, known: Schedule | None, *, as_json: bool
) -> None:
    """Write what was done to *schedule*, which was *known* before, or was not."""
    did, now = "added" if known is None else "changed", await q.now()
    if known is not None and replace(known, ticks=schedule.ticks) == schedule:
        did = "nothing to change in"
        unchanged()
    if as_json:
        show_json(schedule_detail(schedule, now=now))
    news = f"{schedule.words}; {next_run(schedule, now)}"
    print_message(f"{did} {schedule.name}: {news}")
    await warn_of_unhandled_type(q, schedule.draft.type)
