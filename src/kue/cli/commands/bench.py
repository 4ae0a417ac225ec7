"""``kue bench``: how fast a queue is on one's own server, in under a minute."""

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
from kue.cli.commands.bench_store import NAME, BenchStore, ground_for, queue_at
from kue.cli.output.terminal import EXIT_CODES, notices, output, say
from kue.model import settings
from kue.model.errors import KueError
from kue.store import store_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RATE, MS, BYTES = "jobs/s", "ms", "bytes"
#: How each figure is shown: name, unit, what it means.
SHOWN = (
    ("add_bulk", RATE, "added in bulk, 500 a call"),
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
    """What ``--json`` writes."""

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
    load on the server at URL.  It works beside what is there, under a prefix or in a
    file of its own, and removes all of it at the end, also after Ctrl-C.
    """
    known = settings.load(url=url)
    try:
        result = run(_bench(store_for(known).name, ground_for(known), jobs))
    except asyncio.CancelledError:
        raise click.Abort from None
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        _show(result.figures)


async def _bench(store: str, ground: BenchStore, jobs: int) -> BenchResult:
    q = queue_at(ground.settings)
    try:
        # Nothing is written before this, so that nothing is left when it fails.
        durability = await q.open()
    except BaseException:
        await q.close()
        raise
    say(f"{store}: {durability}")
    say(f"this puts load on it for up to a minute; {ground.notice}")
    with _cancelled_by_signals():
        try:
            figures = await _measure(BenchSteps(q, jobs), ground)
        finally:
            # A worker that is still there would write again.
            await q.close()
            await _clear(ground)
    return BenchResult(store, durability, jobs, figures)


async def _measure(steps: BenchSteps, ground: BenchStore) -> BenchFigures:
    with _progress() as tell:
        tell("bytes a job")
        weight = await ground.weigh()
        tell("adding in bulk")
        bulk = await steps.add_bulk()
        tell("adding 100 at once")
        together = await steps.add_together()
        tell("adding one by one")
        one = await steps.add_one()
        tell("running jobs")
        drain = await steps.drain()
        tell("running jobs of 5 ms")
        nap = await steps.nap()
        tell("latency")
        middle, high = percentiles(await steps.ping())
    return BenchFigures(bulk, together, one, drain, nap, middle, high, weight)


async def _clear(ground: BenchStore) -> None:
    """Remove what was made; what cannot be removed is told, with its name."""
    try:
        await ground.clear()
    except (KueError, OSError) as exc:
        say(f"not all was removed ({exc}); look for {NAME}: {ground.notice}")


@contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """Let Ctrl-C end the work, not the cleaning up."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "called by a coroutine"
    cancel_once = _Once(task.cancel)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, cancel_once)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _Once:
    """Does something the first time it is called."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._is_done = False

    def __call__(self) -> None:
        if not self._is_done:
            self._is_done = True
            say("stopping; what was added is being removed")
            self._action()


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being measured, on a terminal; yields what is told of each step."""
    console = notices()
    # Nothing is drawn while something is measured: the bar has no thread of its own.
    with Progress(
        console=console,
        transient=True,
        auto_refresh=False,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=STEPS + 1)

        def tell(what: str) -> None:
            progress.update(task, description=what, advance=1, refresh=True)

        yield tell


def _show(figures: BenchFigures) -> None:
    console = output()
    values = [(*row, getattr(figures, row[0])) for row in SHOWN]
    if not console.is_terminal:
        for name, unit, _, value in values:
            number = "" if value is None else f"{value:.2f}"
            click.echo(f"{name}\t{number}\t{unit}")
        return
    table = Table("figure", Column("found", justify="right"), "what it is")
    table.box = box.SIMPLE_HEAD
    for name, unit, what, value in values:
        shown = "not known" if value is None else f"{_number(value)} {unit}"
        table.add_row(name, shown, what)
    console.print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
