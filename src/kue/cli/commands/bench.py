"""``kue bench``: a benchmark of a queue on your own server, in under a minute."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec
from rich import box
from rich.progress import Progress
from rich.table import Column, Table

from kue.aio.event_loop import run
from kue.cli.commands.bench_steps import BenchFigures, BenchSteps, percentiles
from kue.cli.commands.bench_store import NAME, BenchStore, bench_store_for, queue_at
from kue.cli.output.console import EXIT_CODES, notices, output, print_message
from kue.model import settings
from kue.model.errors import KueError
from kue.store import store_for
from kue.supervisor.signals import on_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RATE, MS, BYTES = "jobs/s", "ms", "bytes"
#: How each figure is shown: name, unit, what it means.
SHOWN = (
    ("add_bulk", RATE, "added in bulk, 500 per call"),
    ("add_gather", RATE, "added by 100 callers at once"),
    ("add_one", RATE, "added one after the other"),
    ("drain", RATE, "run by one worker, 200 at once, doing nothing"),
    ("io", RATE, "run by one worker, 100 at once, 5 ms each"),
    ("p50_ms", MS, "from add to start while idle, half of the jobs"),
    ("p99_ms", MS, "the same, all but one in a hundred"),
    ("bytes", BYTES, "a waiting job"),
)
STEPS = len(("weigh", "bulk", "together", "one", "drain", "nap", "ping"))


class BenchResult(msgspec.Struct):
    """The output of ``--json``."""

    store: str
    durability: str
    jobs: int
    figures: BenchFigures


@click.command(epilog=EXIT_CODES)
@click.argument("url", required=False)
@click.option(
    "--jobs",
    type=click.IntRange(20, 1_000_000),
    default=20_000,
    show_default=True,
    help="How many jobs to add in bulk; other steps follow from it.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def bench(url: str | None, jobs: int, as_json: bool) -> None:
    """
    Measure how fast a queue is on your own Redis or disk, in under a minute.

    Adds jobs and runs them with a worker in this process, as fast as it can: this puts
    load on the server at URL.  It does not touch existing jobs: its own are under a
    separate prefix or in a separate file.  They are removed at the end, also after
    Ctrl-C.
    """
    config = settings.load(url=url)
    try:
        result = run(_bench(store_for(config).name, bench_store_for(config), jobs))
    except asyncio.CancelledError:
        raise click.Abort from None
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        _show(result.figures)


async def _bench(store: str, bench_store: BenchStore, jobs: int) -> BenchResult:
    q = queue_at(bench_store.settings)
    try:
        # Nothing is written before this, so nothing is left behind if it fails.
        durability = await q.open()
    except BaseException:
        await q.close()
        raise
    print_message(f"{store}: {durability}")
    print_message(f"this puts load on it for up to a minute; {bench_store.notice}")
    with _cancelled_by_signals():
        try:
            figures = await _measure(BenchSteps(q, jobs), bench_store)
        finally:
            # A worker that still runs would write again.
            await q.close()
            try:
                await bench_store.clear()
            except (KueError, OSError) as exc:
                where = f"look for {NAME}: {bench_store.notice}"
                print_message(f"not everything was removed ({exc}); {where}")
    return BenchResult(store, durability, jobs, figures)


async def _measure(steps: BenchSteps, bench_store: BenchStore) -> BenchFigures:
    with _progress() as show_step:
        show_step("bytes per job")
        weight = await bench_store.weigh()
        show_step("adding in bulk")
        bulk = await steps.add_bulk()
        show_step("adding 100 at once")
        together = await steps.add_together()
        show_step("adding one by one")
        one = await steps.add_one()
        show_step("running jobs")
        drain = await steps.drain()
        show_step("running jobs of 5 ms")
        nap = await steps.nap()
        show_step("latency")
        middle, high = percentiles(await steps.ping())
    return BenchFigures(bulk, together, one, drain, nap, middle, high, weight)


@contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """Let Ctrl-C end the measurement, but not the cleanup."""
    task = asyncio.current_task()
    assert task is not None, "called by a coroutine"

    def cancel_once() -> None:
        if not task.cancelling():
            print_message("stopping; what was added is being removed")
            task.cancel()

    with on_signals({signal.SIGINT: cancel_once, signal.SIGTERM: cancel_once}):
        yield


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show progress on a terminal; yields a function that starts the next step."""
    console = notices()
    # auto_refresh is off, so that no thread draws during a measurement.
    with Progress(
        console=console,
        transient=True,
        auto_refresh=False,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=STEPS + 1)

        def show_step(what: str) -> None:
            progress.update(task, description=what, advance=1, refresh=True)

        yield show_step


def _show(figures: BenchFigures) -> None:
    console = output()
    values = [(*row, getattr(figures, row[0])) for row in SHOWN]
    if not console.is_terminal:
        for name, unit, _, value in values:
            number = "" if value is None else f"{value:.2f}"
            click.echo(f"{name}\t{number}\t{unit}")
        return
    table = Table("figure", Column("value", justify="right"), "meaning")
    table.box = box.SIMPLE_HEAD
    for name, unit, what, value in values:
        shown = "unknown" if value is None else f"{_number(value)} {unit}"
        table.add_row(name, shown, what)
    console.print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
