"""``kue workers``: a list of workers with their health and load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from rich.live import Live

from kue.cli.context import reads
from kue.cli.output.listing import Column, Listing, Row, ago
from kue.cli.output.terminal import output, print_message
from kue.cli.output.text import since, visible, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.client.queue import Kue
    from kue.store.values import WorkerStatus

LOOK_SECONDS = 1.0
MEGABYTE = 1 << 20
COLUMNS = (
    Column("name", wraps=True),
    Column("host", rank=9),
    Column("pid", is_number=True),
    Column("alive", wraps=True),
    Column("since", rank=6),
    Column("running"),
    Column("done", is_number=True, rank=5),
    Column("types", is_long=True, rank=4),
    Column("memory", is_number=True, rank=8),
    Column("lag", is_number=True, rank=7),
    Column("blocked", is_long=True, rank=3),
)


@reads
async def show(q: Kue, watch: bool, as_json: bool) -> None:
    """Show the workers once, or every second."""
    listing = Listing(*COLUMNS, as_json=as_json)
    if not watch:
        found = await q.workers()
        listing.show(await _rows(q, found))
        for worker in found:
            if worker.alive and worker.trouble:
                print_message(f"{worker.name} fails: {visible(worker.trouble)}")
        if not found:
            print_message("no workers for this queue")
    elif output().is_terminal and not as_json:
        await _watch(q, listing)
    else:
        while True:
            listing.show(await _rows(q, await q.workers()))
            await asyncio.sleep(LOOK_SECONDS)


async def _watch(q: Kue, listing: Listing) -> None:
    console = output()
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            rows = await _rows(q, await q.workers())
            table, _ = listing.table(rows, width=console.width)
            live.update(table, refresh=True)
            await asyncio.sleep(LOOK_SECONDS)


async def _rows(q: Kue, found: Sequence[WorkerStatus]) -> list[Row]:
    now = await q.now()
    return [_row(worker, now) for worker in found]


def _row(worker: WorkerStatus, now: int) -> Row:
    info = worker.info
    slots = info.get("slots")
    started = info.get("started_at")
    lost = {"lost": worker.lost}
    return Row(
        [
            worker.name,
            _text(info, "host"),
            _text(info, "pid"),
            _alive(worker, now),
            ago(started, now) if isinstance(started, int) else "",
            _running(worker, slots),
            _text(info, "done"),
            _types(slots),
            _memory(info.get("memory")),
            _lag(info.get("lag_ms")),
            _blocked(info),
        ],
        item=lambda: msgspec.structs.asdict(worker) | lost,
    )


def _text(info: dict[str, Any], key: str) -> str:
    value = info.get(key)
    return "" if value is None else str(value)


def _alive(worker: WorkerStatus, now: int) -> str:
    if not worker.alive:
        how = "stopped" if worker.stopped else "lost"
        return f"no, {how} {since(worker.deadline, now)}"
    if worker.trouble:
        return "fails"
    return "paused" if worker.paused else "yes"


def _running(worker: WorkerStatus, slots: object) -> str:
    if not isinstance(slots, dict):
        return str(worker.active)
    return f"{worker.active} of {sum(slots.values())}"


def _types(slots: object) -> str:
    if not isinstance(slots, dict):
        return ""
    return ", ".join(f"{type} {number}" for type, number in sorted(slots.items()))


def _memory(size: object) -> str:
    return f"{size / MEGABYTE:,.0f} MB" if isinstance(size, int | float) else ""


def _lag(lag: object) -> str:
    return words(round(lag)) if isinstance(lag, int | float) else ""


def _blocked(info: dict[str, Any]) -> str:
    times = info.get("blocked")
    where = info.get("blocked_at")
    return f"{times}: {where}" if times and where else str(times or "")
