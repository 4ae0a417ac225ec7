"""``kue workers stop`` and ``stacks``: stop a worker, or dump its stacks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from kue.cli.commands.workers.pause import name_argument
from kue.cli.context import changes, json_option
from kue.cli.known_names import UnknownName, near
from kue.cli.output.listing import show_json, show_one
from kue.cli.output.terminal import DONE, REFUSED, Command, print_message

if TYPE_CHECKING:
    from kue.client.admin import WorkerOrder
    from kue.client.queue import Kue

LOOK_SECONDS = 0.2
#: Several heartbeats of a worker with the default lease.
PATIENCE_SECONDS = 20.0


@click.command(cls=Command)
@name_argument
@json_option(help="Write one JSON object: worker, order.")
@changes
async def stop(q: Kue, name: str, as_json: bool) -> None:
    """
    Stop the worker NAME once its running jobs have ended.

    It receives the order within a few seconds, and does as with SIGTERM.  "kue worker"
    does not replace it, and exits after its last worker.

    \b
      kue workers stop web-1
    """
    await _order(q, name, "stop")
    show_one({"worker": name, "order": "stop"}, name, "stops", as_json=as_json)


@click.command(cls=Command)
@name_argument
@json_option(help="Write one JSON object: worker, at, text.")
@changes
async def stacks(q: Kue, name: str, as_json: bool) -> int:
    """
    Show the stacks of the jobs, tasks and threads of the worker NAME.

    Exits with 1 when it does not answer.

    \b
      kue workers stacks web-1
    """
    before = await q.stacks(name)
    await _order(q, name, "stacks")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # Stores publish no event for this.
            while (found := await q.stacks(name)) is None or found == before:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        print_message(f"worker {name!r} did not answer; is its event loop blocked?")
        return REFUSED
    if as_json:
        show_json({"worker": name, "at": found.at, "text": found.text})
    else:
        click.echo(found.text)
    return DONE


async def _order(q: Kue, name: str, order: WorkerOrder) -> None:
    if not await q.order(name, order):
        names = [worker.name for worker in await q.workers() if worker.alive]
        message = f"no live worker is named {name!r}"
        raise UnknownName(message + near(name, names, what="workers"))
