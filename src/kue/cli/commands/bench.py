"""``kue bench``: a benchmark of a queue on your own server, in under a minute."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich import box
from rich.table import Column, Table

from kue.aio.event_loop import on_signals, run
from kue.cli.commands.bench_store import NAME, BenchStore, bench_store_for, queue_at
from kue.cli.output.console import EXIT_CODES, output, print_message
from kue.cli.output.listing import progress
from kue.model import settings
from kue.model.errors import KueError
from kue.store import store_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    from kue.client.queue import Kue
    from kue.worker.active_job import ActiveJob

#: Time limits of the steps; at the limit, the rate so far counts.
ADD_SECONDS = 5.0
DRAIN_SECONDS = 12.0
PING_SECONDS = 5.0
#: Jobs per bulk call, and adds awaited at once.
BULK = 500
TOGETHER = 100
#: Concurrency for jobs that do nothing, and for jobs that sleep.
SLOTS, NAP_SLOTS = 200, 100
NAP_SECONDS = 0.005
PINGS = 200
#: How long a worker is idle before the next job.
IDLE_SECONDS = 0.005

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


#: By the names above; None if unknown.
Figures = dict[str, float | None]


class BenchResult(msgspec.Struct):
    """The output of ``--json``."""

    store: str
    durability: str
    jobs: int
    figures: Figures


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


async def _measure(steps: BenchSteps, bench_store: BenchStore) -> Figures:
    measurements: dict[str, Callable[[], Awaitable[Any]]] = {
        "bytes per job": bench_store.weigh,
        "adding in bulk": steps.add_bulk,
        "adding 100 at once": steps.add_together,
        "adding one by one": steps.add_one,
        "running jobs": steps.drain,
        "running jobs of 5 ms": steps.nap,
        "latency": steps.ping,
    }
    found = []
    # auto_refresh is off, so that no thread draws during a measurement.
    with progress(auto_refresh=False) as bars:
        task = bars.add_task("", total=len(measurements) + 1)
        for what, measure in measurements.items():
            bars.update(task, description=what, advance=1, refresh=True)
            found.append(await measure())
    weight, bulk, together, one, drain, nap, waits = found
    figures = (bulk, together, one, drain, nap, *_percentiles(waits), weight)
    return {name: value for (name, *_), value in zip(SHOWN, figures, strict=True)}


def _cancelled_by_signals() -> AbstractContextManager[None]:
    """Let Ctrl-C end the measurement, but not the cleanup."""
    task = asyncio.current_task()
    assert task is not None, "called by a coroutine"

    def cancel_once() -> None:
        if not task.cancelling():
            print_message("stopping; what was added is being removed")
            task.cancel()

    return on_signals({signal.SIGINT: cancel_once, signal.SIGTERM: cancel_once})


def _show(figures: Figures) -> None:
    console = output()
    values = [(*row, figures[row[0]]) for row in SHOWN]
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


class Undelivered(KueError):
    """A job was lost or ran twice; the figures would mean nothing."""


class BenchSteps:
    """Measures one queue; the order matters, as a drain runs what was added."""

    def __init__(self, q: Kue, jobs: int) -> None:
        self._q = q
        self._jobs = jobs
        self._added = 0

    async def add_bulk(self) -> float:
        async def add(numbers: range) -> None:
            await self._q.enqueue_many("noop", ({"i": i} for i in numbers))

        return await self._add(add, self._jobs, BULK)

    async def add_together(self) -> float:
        async def add(numbers: range) -> None:
            await asyncio.gather(*(self._q.enqueue("noop", {"i": i}) for i in numbers))

        return await self._add(add, self._jobs, TOGETHER)

    async def add_one(self) -> float:
        async def add(numbers: range) -> None:
            for i in numbers:
                await self._q.enqueue("noop", {"i": i})

        return await self._add(add, max(1, self._jobs // 20), 1)

    async def drain(self) -> float:
        """Run everything added so far with a worker; return jobs per second."""
        return await self._drain("noop", self._added, SLOTS, nap=None)

    async def nap(self) -> float:
        """Run jobs that sleep for 5 ms, a hundred at once; return jobs per second."""
        jobs = max(20, self._jobs // 5)
        await self._q.enqueue_many("nap", ({"i": i} for i in range(jobs)))
        return await self._drain("nap", jobs, NAP_SLOTS, nap=NAP_SECONDS)

    async def ping(self) -> list[float]:
        """Add jobs one at a time while a worker idles; return ms until each started."""
        began: asyncio.Queue[float] = asyncio.Queue()

        async def handle(_: ActiveJob) -> None:
            began.put_nowait(time.perf_counter())

        self._q.process("ping", 1, handle)
        async with self._q.work(types=["ping"]):
            # The worker is still starting when the first job is added.
            await self._ping(began)
            return [await self._ping(began) for _ in _until(PING_SECONDS, PINGS)]

    async def _ping(self, began: asyncio.Queue[float]) -> float:
        await asyncio.sleep(IDLE_SECONDS)
        sent = time.perf_counter()
        await self._q.enqueue("ping", None)
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                return (await began.get() - sent) * 1000
        except TimeoutError:
            raise Undelivered(
                f"an idle worker did not start a job within {DRAIN_SECONDS:g} s"
            ) from None

    async def _add(
        self, add: Callable[[range], Awaitable[None]], jobs: int, size: int
    ) -> float:
        """Add *jobs* in pieces until the time limit; return jobs per second."""
        first = self._added
        gc.collect()
        began = time.perf_counter()
        for start in _until(ADD_SECONDS, jobs, size):
            piece = range(first + start, first + min(start + size, jobs))
            await add(piece)
            self._added += len(piece)
        return (self._added - first) / (time.perf_counter() - began)

    async def _drain(
        self, type: str, jobs: int, slots: int, *, nap: float | None
    ) -> float:
        counter = _RunCounter(jobs)

        async def handle(job: ActiveJob) -> None:
            counter.begin()
            if nap is not None:
                await asyncio.sleep(nap)
            counter.end(job.data["i"])

        self._q.process(type, slots, handle)
        gc.collect()
        async with self._q.work(types=[type]):
            await counter.full(DRAIN_SECONDS)
        return counter.rate()


class _RunCounter:
    """Which jobs ran, and the time from the first start to the last end."""

    def __init__(self, jobs: int) -> None:
        self._runs = bytearray(jobs)
        self._done = 0
        self._first = self._last = 0.0
        self._full = asyncio.Event()

    def begin(self) -> None:
        self._first = self._first or time.perf_counter()

    def end(self, number: int) -> None:
        self._runs[number] += 1
        self._done += 1
        self._last = time.perf_counter()
        if self._done == len(self._runs):
            self._full.set()

    async def full(self, seconds: float) -> None:
        """Wait until all ran, or until the time limit."""
        try:
            async with asyncio.timeout(seconds):
                await self._full.wait()
        except TimeoutError:
            if self._done < 2:
                raise Undelivered(
                    f"the worker ran {self._done} of {len(self._runs)} jobs in "
                    f"{seconds:g} s; run `kue doctor` and check the server's load"
                ) from None

    def rate(self) -> float:
        repeated = sum(runs > 1 for runs in self._runs)
        if repeated:
            raise Undelivered(
                f"{repeated} jobs ran more than once; was the worker kept from "
                "reaching the store?"
            )
        return (self._done - 1) / (self._last - self._first)


def _percentiles(waits: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    if len(waits) < 2:
        return waits[0], waits[0]
    return median(waits), quantiles(waits, n=100, method="inclusive")[-1]


def _until(seconds: float, stop: int, step: int = 1) -> Iterator[int]:
    """Yield from ``range``, at least once and for no longer than *seconds*."""
    deadline = time.perf_counter() + seconds
    for number in range(0, stop, step):
        if number and time.perf_counter() > deadline:
            return
        yield number
