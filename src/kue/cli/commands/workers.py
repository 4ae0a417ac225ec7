"""``kue workers``: list, pause and stop workers."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.live import Live

from kue.cli.commands.queue import pause_end, pause_now, pause_options
from kue.cli.context import changes, json_option, reads, url_option
from kue.cli.output.console import DONE, EXIT_CODES, REFUSED, output, print_message
from kue.cli.output.listing import Column, Listing, ago, show_json, show_one
from kue.cli.output.text import since, visible, words
from kue.cli.params import Parsed, names_from_store
from kue.cli.unknown_names import UnknownName, near

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import UnionType

    from kue.client.admin import WorkerOrder
    from kue.client.queue import Kue
    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.store.values import WorkerStatus

#: Seconds between two reads of the list, and of the stacks of a worker.
LOOK_SECONDS, STACKS_SECONDS = 1.0, 0.2
#: Several heartbeats of a worker with the default lease.
PATIENCE_SECONDS = 20.0
MEGABYTE = 1 << 20


def _alive(worker: WorkerStatus, now: int) -> str:
    if not worker.alive:
        how = "stopped" if worker.stopped else "lost"
        return f"no, {how} {since(worker.deadline, now)}"
    if worker.trouble:
        return "fails"
    return "paused" if worker.paused else "yes"


def _info(
    name: str,
    show: Callable[[Any], Any] = lambda value: value,
    kind: type | UnionType = object,
) -> Callable[[WorkerStatus], Any]:
    """Return a column's value: what a worker reports, or nothing if not of *kind*."""

    def value(worker: WorkerStatus) -> Any:
        reported = worker.info.get(name)
        return show(reported) if isinstance(reported, kind) else None

    return value


def _running(worker: WorkerStatus) -> str:
    slots = worker.info.get("slots")
    total = f" of {sum(slots.values())}" if isinstance(slots, dict) else ""
    return f"{worker.active}{total}"


def _types(slots: dict[str, int]) -> str:
    return ", ".join(f"{type} {number}" for type, number in sorted(slots.items()))


def _memory(size: float) -> str:
    return f"{size / MEGABYTE:,.0f} MB"


def _lag(milliseconds: float) -> str:
    return words(round(milliseconds))


def _processes(count: dict[str, int]) -> str:
    return "{} of {}:{}".format(*(count.get(name) for name in ("now", "least", "most")))


def _blocked(worker: WorkerStatus) -> str:
    times, where = worker.info.get("blocked"), worker.info.get("blocked_at")
    return f"{times}: {where}" if times and where else str(times or "")


COLUMNS: tuple[Column[WorkerStatus], ...] = (
    Column("name", lambda worker: worker.name, wraps=True),
    Column("host", _info("host"), rank=9),
    Column("pid", _info("pid"), is_number=True),
    Column("alive", lambda worker: partial(_alive, worker), wraps=True),
    Column("since", _info("started_at", ago, int), rank=6),
    Column("running", _running),
    Column("done", _info("done"), is_number=True, rank=5),
    Column("types", _info("slots", _types, dict), is_long=True, rank=4),
    Column("memory", _info("memory", _memory, int | float), is_number=True, rank=8),
    Column("lag", _info("lag_ms", _lag, int | float), is_number=True, rank=7),
    Column("blocked", _blocked, is_long=True, rank=3),
    Column("processes", _info("processes", _processes, dict), rank=10),
)


@reads
async def show(q: Kue, watch: bool, as_json: bool) -> None:
    """Show the workers once, or every second."""

    def to_json(worker: WorkerStatus) -> JSON:
        return msgspec.structs.asdict(worker) | {"lost": worker.lost}

    listing = Listing(COLUMNS, to_json, as_json=as_json)
    if not watch:
        found = await q.workers()
        listing.show(found, now=await q.now())
        for worker in found:
            if worker.alive and worker.trouble:
                print_message(f"{worker.name} fails: {visible(worker.trouble)}")
        if not found:
            print_message("no workers for this queue")
    elif output().is_terminal and not as_json:
        await _watch(q, listing)
    else:
        while True:
            listing.show(await q.workers(), now=await q.now())
            await asyncio.sleep(LOOK_SECONDS)


async def _watch(q: Kue, listing: Listing[WorkerStatus]) -> None:
    console = output()
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            found, now = await q.workers(), await q.now()
            table, _ = listing.table(found, width=console.width, now=now)
            live.update(table, refresh=True)
            await asyncio.sleep(LOOK_SECONDS)


async def _names(store: Store) -> list[str]:
    return [worker.name for worker in await store.workers()]


WORKER = Parsed("worker", str, lambda context: names_from_store(context, _names))
name_argument = click.argument("name", type=WORKER)


@changes
@name_argument
@pause_options
@json_option(help="Write one JSON object: worker, paused, until.")
async def pause(q: Kue, /, name: str, as_json: bool, **options: Any) -> None:
    """
    Pause the worker NAME: it claims no more jobs; running ones continue.

    It is notified within a few seconds.  Other workers take the jobs instead.

    \b
      kue workers pause web-1 --reason "new kernel" --until 30m
    """
    # The pause of an unknown worker would stay forever.
    names = [worker.name for worker in await q.workers()]
    if name not in names:
        raise _unknown("no worker", name, names)
    until = await pause_now(q, worker=name, **options)
    item = {"worker": name, "paused": True, "until": until}
    show_one(item, name, "paused", pause_end(until), as_json=as_json)


@changes
@name_argument
@json_option(help="Write one JSON object: worker, paused.")
async def resume(q: Kue, name: str, as_json: bool) -> int:
    """
    Let the worker NAME claim jobs again.

    Exits with 1 when it was not paused.

    \b
      kue workers resume web-1
    """
    was_paused = await q.resume(worker=name)
    if was_paused or as_json:
        item = {"worker": name, "paused": False}
        show_one(item, name, "resumed", as_json=as_json)
    if not was_paused:
        paused = [pause.worker for pause in await q.paused() if pause.worker]
        print_message(
            f"worker {name!r} was not paused" + near(name, paused, what="paused ones")
        )
    return DONE if was_paused else REFUSED


@changes
@name_argument
@json_option(help="Write one JSON object: worker, order.")
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


@changes
@name_argument
@json_option(help="Write one JSON object: worker, at, text.")
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
                await asyncio.sleep(STACKS_SECONDS)
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
        raise _unknown("no live worker", name, names)


def _unknown(which: str, name: str, names: list[str]) -> UnknownName:
    return UnknownName(f"{which} is named {name!r}" + near(name, names, what="workers"))


@click.group(
    epilog=EXIT_CODES,
    invoke_without_command=True,
    commands=[pause, resume, stop, stacks],
)
@click.option("--watch", is_flag=True, help="Refresh every second, until Ctrl-C.")
@json_option(help="Write one JSON object per line, one for each worker.")
@url_option
@click.pass_context
def workers(context: click.Context, watch: bool, as_json: bool) -> None:
    """
    List the workers that the queue knows.

    A dead worker has not renewed its lease: its jobs are reclaimed, and after a while
    it is removed from the list.  "lag" is how late its event loop is, "blocked" how
    often a handler blocked the loop, and where it did last, "processes" how many its
    supervisor has, of the least and the most.  Columns in a pipe: name, host, pid,
    alive (yes, paused, no), since, running, done, types, memory, lag, blocked,
    processes.

    \b
      kue workers
      kue workers --watch
      kue workers pause web-1
      kue workers stop web-1
      kue workers stacks web-1
    """
    if context.invoked_subcommand is not None:
        return
    try:
        context.invoke(show, watch=watch, as_json=as_json)
    except KeyboardInterrupt:
        # The normal way to stop --watch.
        if not watch:
            raise
