"""``kue job retry``, ``cancel``, ``remove``, ``move`` and ``edit``: change jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kue.cli.context import as_usage_error, changes, json_option
from kue.cli.input import STDIN, read_argument
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import show_json, show_one
from kue.cli.params import (
    ATTEMPTS,
    DURATION,
    JOB_IDS,
    PRIORITY,
    TIME,
    batches,
    moment_of,
)
from kue.client.bulk_actions import BulkResult
from kue.model.errors import InvalidTransition, JobError, JobNotFound
from kue.model.job import State
from kue.store.values import Result

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime, timedelta

    from kue.client.queue import Kue

#: Changes a batch of jobs.
Act = Callable[[list[int]], Awaitable[list[BulkResult]]]

ids_argument = click.argument(
    "ids", metavar="ID...", type=JOB_IDS, nargs=-1, required=True
)
delay_option = click.option(
    "--delay", type=DURATION, help="Wait this long before the run: 10m."
)
#: One JSON object per line: {"id": 7, "now": "waiting", "error": null}.
results_json = json_option(help="Write one JSON object per line: id, now, error.")


@changes
@ids_argument
@delay_option
@results_json
async def retry(
    q: Kue, ids: tuple[int | str, ...], delay: timedelta | None, as_json: bool
) -> int:
    """
    Requeue ended jobs; their attempts count from zero.

    Exits with 1 when at least one could not be retried; the others are.

    \b
      kue job retry 7 8 9
      kue job retry 7 --delay 10m
      kue job list --state cancelled --tag mail | kue job retry -
    """
    act = partial(q.retry_many, delay=delay or 0)
    now = State.DELAYED if delay else State.WAITING
    return await each(ids, act, now=now, as_json=as_json)


@changes
@ids_argument
@click.option("--reason", default="", help="Why; kept with the job.")
@results_json
async def cancel(q: Kue, ids: tuple[int | str, ...], reason: str, as_json: bool) -> int:
    """
    Cancel jobs that have not ended.

    A running job is asked to end, which its worker does within a few seconds; its line
    reads "asked".  Exits with 1 when at least one had ended.

    \b
      kue job cancel 7 --reason "order was withdrawn"
    """
    act = partial(q.cancel_many, reason=reason)
    return await each(ids, act, now=State.CANCELLED, as_json=as_json)


@changes
@ids_argument
@click.option("--force", is_flag=True, help="Remove it even while it runs.")
@results_json
async def remove(q: Kue, ids: tuple[int | str, ...], force: bool, as_json: bool) -> int:
    """
    Delete jobs with their logs permanently.

    A running job is refused: cancel it, or use --force.

    \b
      kue job remove 7 8
    """
    act = partial(q.remove_many, force=force)
    hint = "; cancel it, or use --force"
    return await each(ids, act, now="removed", as_json=as_json, hint=hint)


@changes
@ids_argument
@click.option(
    "--to",
    type=click.Choice([State.WAITING.value, State.DELAYED.value]),
    required=True,
    help="The new state: run now, or later.",
)
@click.option("--at", type=TIME, help="When it is due: 2026-11-15T09:30:00Z.")
@click.option("--delay", type=DURATION, help="How long until it is due: 10m.")
@results_json
async def move(
    q: Kue,
    ids: tuple[int | str, ...],
    to: str,
    at: datetime | timedelta | None,
    delay: timedelta | None,
    as_json: bool,
) -> int:
    """
    Run jobs now, or later.

    Jobs that have ended are requeued; jobs that wait for others no longer do.  A
    running job is not moved.

    \b
      kue job move 7 --to waiting
      kue job move 7 --to delayed --delay 2h
    """
    given = [when for when in (at, delay) if when is not None]
    if to == State.DELAYED and len(given) != 1:
        raise click.UsageError("--to delayed needs one of --at and --delay")
    if to == State.WAITING and given:
        raise click.UsageError("--at and --delay go with --to delayed")
    due = await moment_of(q, given[0] if given else None, ahead=True)
    act = partial(q.move_many, to=State(to), at=due)
    return await each(ids, act, now=to, as_json=as_json)


async def each(
    ids: Collection[int | str], act: Act, *, now: str, as_json: bool, hint: str = ""
) -> int:
    """Do *act* to all of *ids*, write a line for each, and return the exit code."""
    code = DONE
    for batch in batches(ids):
        for result in await act(batch):
            _show(result, now=now, as_json=as_json, hint=hint)
            if result.error is not None:
                code = REFUSED
    return code


def _show(result: BulkResult, *, now: str, as_json: bool, hint: str) -> None:
    error = result.error
    if error is None:
        word = "asked" if result.word is Result.ASKED else now
        item = {"id": result.job_id, "now": word, "error": None}
        show_one(item, str(result.job_id), word, as_json=as_json)
        return
    message = f"{error}{hint if isinstance(error, InvalidTransition) else ''}"
    print_message(message)
    if as_json:
        show_json({"id": result.job_id, "now": None, "error": message})


@changes
@ids_argument
@click.option("--priority", type=PRIORITY, help="critical, high, normal, low or -10.")
@click.option("--data", help="New data, as JSON; - reads it from standard input.")
@click.option("--tag", "tags", multiple=True, help="New tags instead of the old ones.")
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
@click.option("--attempts", type=ATTEMPTS, help="The most attempts, or unlimited.")
@results_json
async def edit(
    q: Kue,
    ids: tuple[int | str, ...],
    data: str | None,
    tags: tuple[str, ...],
    no_tags: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """
    Change priority, data, tags or attempts of jobs, in any state.

    A run in progress keeps the data it started with.

    \b
      kue job edit 7 8 --priority high
      kue job edit 7 --data '{"to": "bob"}' --tag mail
    """
    changes = {name: value for name, value in given.items() if value is not None}
    if tags or no_tags:
        changes["tags"] = () if no_tags else tags
    if data is not None:
        if data == STDIN and STDIN in ids:
            raise click.UsageError("ids and data cannot both come from standard input")
        changes["data"] = read_argument(data, what="data")
    if not changes:
        raise click.UsageError("give something to change, such as --priority high")

    async def act(batch: list[int]) -> list[BulkResult]:
        return [await _edit(q, job_id, changes) for job_id in batch]

    return await each(ids, act, now="changed", as_json=as_json)


async def _edit(q: Kue, job_id: int, changes: dict[str, Any]) -> BulkResult:
    try:
        handle = await q.get(job_id)
        with as_usage_error():
            await handle.update(**changes)
    except JobError as exc:
        word = Result.GONE if isinstance(exc, JobNotFound) else Result.REFUSED
        return BulkResult(job_id, word, exc)
    return BulkResult(job_id, Result.DONE)
