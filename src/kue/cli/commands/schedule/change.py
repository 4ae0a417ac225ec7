"""``kue schedule pause``, ``resume``, ``run`` and ``remove``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.commands.job.add import show_added
from kue.cli.commands.schedule.wording import next_run
from kue.cli.context import changes, json_option
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import show_json, show_one
from kue.cli.params import SCHEDULE
from kue.cli.unknown_names import UnknownName, find_schedule, warn_of_unhandled_type
from kue.model.errors import KueError, ScheduleNotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kue.client.queue import Kue
    from kue.model.schedule import Schedule

names_argument = click.argument(
    "names", metavar="NAME...", type=SCHEDULE, nargs=-1, required=True
)
#: One JSON object per line: {"name": "nightly", "now": "paused", "error": null}.
results_json = json_option(help="Write one JSON object per line: name, now, error.")


class NotPaused(KueError):
    """There is no pause to end."""


@changes
@names_argument
@results_json
async def pause(q: Kue, names: tuple[str, ...], as_json: bool) -> int:
    """
    Let schedules fire no more until they are resumed.

    Jobs that they have added run all the same.  Exits with 1 when at least one does not
    exist; the others are paused.

    \b
      kue schedule pause nightly
      kue schedule pause nightly sweep
    """

    async def act(schedule: Schedule) -> str:
        await q.pause_schedule(schedule.name)
        return ""

    return await _each(q, names, act, now="paused", as_json=as_json)


@changes
@names_argument
@results_json
async def resume(q: Kue, names: tuple[str, ...], as_json: bool) -> int:
    """
    End the pause of schedules.

    Times that passed in the meantime are not made up for.  Exits with 1 when at least
    one was not paused or does not exist; the others are resumed.

    \b
      kue schedule resume nightly
    """

    async def act(schedule: Schedule) -> str:
        if not schedule.paused:
            raise NotPaused(f"{schedule.name} was not paused")
        return next_run(await q.resume_schedule(schedule.name), await q.now())

    return await _each(q, names, act, now="resumed", as_json=as_json)


@changes
@names_argument
@results_json
async def remove(q: Kue, names: tuple[str, ...], as_json: bool) -> int:
    """
    Delete schedules; jobs that they have added stay.

    One that is declared in code comes back when a worker starts: pause it instead, or
    delete it in the code.  Exits with 1 when at least one does not exist; the others
    are removed.

    \b
      kue schedule remove nightly
    """

    async def act(schedule: Schedule) -> str:
        if not await q.unschedule(schedule.name):
            raise ScheduleNotFound(schedule.name)
        _warn_of_declared(schedule)
        return ""

    return await _each(q, names, act, now="removed", as_json=as_json)


def _warn_of_declared(schedule: Schedule) -> None:
    if schedule.declared_by:
        print_message(
            f"note: {schedule.declared_by} declares {schedule.name} in code: it comes "
            "back when a worker starts; to stop it, delete it there, or pause it"
        )


async def _each(
    q: Kue,
    names: tuple[str, ...],
    act: Callable[[Schedule], Awaitable[str]],
    *,
    now: str,
    as_json: bool,
) -> int:
    """Do *act* to all, write a line for each, and return the exit code."""
    code = DONE
    for name in names:
        try:
            more = await act(await find_schedule(q, name))
        except (UnknownName, ScheduleNotFound, NotPaused) as exc:
            code = REFUSED
            print_message(str(exc))
            if as_json:
                show_json({"name": name, "now": None, "error": str(exc)})
        else:
            cells = (name, now, more) if more else (name, now)
            show_one({"name": name, "now": now, "error": None}, *cells, as_json=as_json)
    return code


@changes
@click.argument("name", type=SCHEDULE)
@json_option(help="Write one JSON object: id, type, new.")
async def run(q: Kue, name: str, as_json: bool) -> None:
    """
    Add the job of a schedule now, and print its id.

    The schedule runs at its own times all the same.  This works while it is paused,
    too.

    \b
      kue schedule run nightly
      kue job wait $(kue schedule run nightly)
    """
    schedule = await find_schedule(q, name)
    show_added(await q.run_schedule(name), as_json=as_json)
    await warn_of_unhandled_type(q, schedule.draft.type)
