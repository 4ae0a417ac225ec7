"""``kue job edit``: change priority, data, tags or attempts of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kue.cli.commands.job.change import each, ids_argument, results_json
from kue.cli.context import as_usage_error, changes
from kue.cli.json_input import read_json
from kue.cli.output.terminal import Command
from kue.cli.params import PRIORITY
from kue.cli.stdin import STDIN, read_all
from kue.client.bulk_actions import BulkResult
from kue.model.errors import JobError, JobNotFound
from kue.store.values import Result

if TYPE_CHECKING:
    from kue.client.queue import Kue


@click.command(cls=Command)
@ids_argument
@click.option("--priority", type=PRIORITY, help="critical, high, normal, low or -10.")
@click.option("--data", help="New data, as JSON; - reads it from standard input.")
@click.option("--tag", "tags", multiple=True, help="New tags instead of the old ones.")
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
@click.option("--attempts", type=int, help="The maximum number of attempts.")
@results_json
@changes
async def edit(
    q: Kue,
    ids: tuple[int | str, ...],
    priority: int | None,
    data: str | None,
    tags: tuple[str, ...],
    no_tags: bool,
    attempts: int | None,
    as_json: bool,
) -> int:
    """
    Change priority, data, tags or attempts of jobs, in any state.

    A run in progress keeps the data it started with.

    \b
      kue job edit 7 8 --priority high
      kue job edit 7 --data '{"to": "bob"}' --tag mail
    """
    given: dict[str, Any] = {"priority": priority, "attempts": attempts}
    changes = {name: value for name, value in given.items() if value is not None}
    if tags or no_tags:
        changes["tags"] = () if no_tags else tags
    if data is not None:
        changes["data"] = _read_data(data, ids)
    if not changes:
        raise click.UsageError("give something to change, such as --priority high")

    async def act(batch: list[int]) -> list[BulkResult]:
        return [await _edit(q, job_id, changes) for job_id in batch]

    return await each(ids, act, now="changed", as_json=as_json)


def _read_data(text: str, ids: tuple[int | str, ...]) -> Any:
    if text != STDIN:
        return read_json(text, what="data")
    if STDIN in ids:
        raise click.UsageError("ids and data cannot both come from standard input")
    return read_json(read_all(), what="data")


async def _edit(q: Kue, job_id: int, changes: dict[str, Any]) -> BulkResult:
    try:
        handle = await q.get(job_id)
        with as_usage_error():
            await handle.update(**changes)
    except JobError as exc:
        word = Result.GONE if isinstance(exc, JobNotFound) else Result.REFUSED
        return BulkResult(job_id, word, exc)
    return BulkResult(job_id, Result.DONE)
