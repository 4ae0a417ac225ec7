"""
How long one script blocks Redis on very large data.

``python -m benchmarks.bounds`` starts a Redis, fills it, and runs the most expensive
operations of each case; SLOWLOG names the longest script.  One more case counts the
commands of maintenance with one worker and with sixty.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tests.support.servers import RedisServer

from kue.aio.retry import StoreRetry
from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.model.settings import Keep, Settings, load
from kue.store import store_for
from kue.store.redis.scripts import load as script
from kue.store.redis.scripts import names as script_names
from kue.store.values import (
    MAX_BATCH,
    MAX_LOG_TEXT,
    Claim,
    ClaimRequest,
    Filter,
    LogLine,
    Outcome,
    PageRequest,
    PauseRequest,
    RemoveRequest,
)
from kue.worker.maintenance import Maintenance
from kue.worker.shared_context import SharedContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import redis

    from kue.model.job import Draft
    from kue.store.contract import Store

#: No script should take longer, in ms.
TARGET_MS = 25.0
#: `--quick` divides all sizes by this.
QUICK = 10
#: How long maintenance is observed, in seconds.
WATCHED_SECONDS = 60.0
#: Calls in flight while a store is filled.
TOGETHER = 50


class Longest(NamedTuple):
    """The script that took longest."""

    name: str
    milliseconds: float
    #: The tenth longest call: on a busy machine the longest may have been preempted.
    tenth: float


class Bench:
    """A separate Redis, and what the cases share."""

    def __init__(self, server: RedisServer, progress: Progress, part: int) -> None:
        self.url = server.url
        self.redis: redis.Redis = server.client()
        self._progress = progress
        self._part = part
        self._scripts = {script(name).sha: name for name in script_names()}

    def size(self, full: int) -> int:
        return max(1, full // self._part)

    def store(self) -> Store:
        return store_for(load(environ={}, url=self.url))

    def steps(self, label: str, count: int) -> Iterator[int]:
        """Yield the numbers below *count*, and show the progress."""
        yield from self._progress.track(range(count), description=label)

    def begin(self) -> None:
        self.redis.flushall()
        self.redis.config_set("slowlog-log-slower-than", 500)
        self.redis.config_set("slowlog-max-len", 20_000)
        self.redis.slowlog_reset()

    def longest(self) -> Longest:
        found: Any = self.redis.slowlog_get(-1)
        took = [(entry["duration"], entry["command"]) for entry in found]
        scripts = [one for one in took if one[1][:4].upper() == b"EVAL"]
        if not scripts:
            return Longest("none over 0.5 ms", 0.5, 0.5)
        scripts.sort(reverse=True)
        duration, command = scripts[0]
        sha = command.split(b" ")[1].decode("ascii", "replace")
        tenth = scripts[min(9, len(scripts) - 1)][0] / 1000
        return Longest(self._scripts.get(sha, "EVAL"), duration / 1000, tenth)


async def add(store: Store, drafts: list[Draft]) -> list[int]:
    added = await store.add(drafts, producer=secrets.token_hex(8), seq=1)
    return [one.id for one in added]


async def run_all(store: Store, job_type: str) -> None:
    """Claim and complete all jobs of a type."""
    lane, seq = secrets.token_hex(4), 0
    while True:
        seq += 1
        claim = Claim(lane, seq)
        claimed = await store.claim(
            ClaimRequest([job_type], MAX_BATCH, worker="w", claim=claim)
        )
        if not claimed.jobs:
            return
        await store.settle([Outcome(job, Completed()) for job in claimed.jobs])


async def tend_until(store: Store, is_done: Callable[[], Awaitable[bool]]) -> None:
    """Run maintenance until *is_done*."""
    while not await is_done():
        await store.tend(keep=Keep())


async def dependants(bench: Bench, store: Store) -> None:
    """Two parents end that 200 thousand jobs wait for."""
    count = bench.size(200_000)
    parents = await add(store, [draft("parent"), draft("parent")])
    waiting = [draft("child", after=parents)] * MAX_BATCH
    for _ in bench.steps("dependants", max(1, count // MAX_BATCH)):
        await add(store, waiting)
    await run_all(store, "parent")

    async def all_released() -> bool:
        return (await store.count())["child"][State.BLOCKED] == 0

    await tend_until(store, all_released)


async def dead_workers(bench: Bench, store: Store) -> None:
    """100 workers with 400 lanes each die."""
    workers, lanes = bench.size(100), 400
    for number in bench.steps("dead workers", workers):
        for first in range(0, lanes, TOGETHER):
            await asyncio.gather(
                *(
                    store.claim(
                        ClaimRequest(
                            ["t"], 1, worker=f"w{number}", claim=Claim(f"{lane}", 1)
                        )
                    )
                    for lane in range(first, first + TOGETHER)
                )
            )
        await store.leave(f"w{number}")

    async def all_forgotten() -> bool:
        return not await store.workers()

    await add(store, [draft("t")])
    await tend_until(store, all_forgotten)


async def ended(bench: Bench, store: Store) -> None:
    """The last of 300 thousand ended jobs are listed."""
    count = bench.size(300_000)
    for _ in bench.steps("ended jobs", max(1, count // MAX_BATCH)):
        await add(store, [draft("t")] * MAX_BATCH)
    await run_all(store, "t")
    for descending in (False, True):
        await store.page(
            PageRequest(
                State.COMPLETE, "t", limit=50, skip=count - 100, descending=descending
            )
        )
        await store.page(
            PageRequest(
                State.COMPLETE, limit=50, skip=count - 100, descending=descending
            )
        )


async def payloads(bench: Bench, store: Store) -> None:
    """2,000 jobs with 256 KiB of data each are added, claimed and read."""
    count, data = bench.size(2_000), "x" * (256 * 1024 - 2)
    some = min(count, 200)
    for _ in bench.steps("payloads", max(1, count // some)):
        ids = await add(store, [draft("t", data)] * some)
        await store.get(ids)
        await store.page(PageRequest(State.WAITING, "t", limit=some))
        await run_all(store, "t")
        await store.remove(RemoveRequest(ids))


async def types(bench: Bench, store: Store) -> None:
    """10 thousand types have one job each, and are maintained, counted and resumed."""
    count = bench.size(10_000)
    for step in bench.steps("types", max(1, count // MAX_BATCH)):
        numbers = range(step * MAX_BATCH, (step + 1) * MAX_BATCH)
        await add(store, [draft(f"type {number}") for number in numbers])
    until = time.monotonic() + 5
    while time.monotonic() < until:
        await store.tend(keep=Keep())
    await store.count()
    await store.errors()
    await store.pause(PauseRequest())
    await store.resume()
    minute = await store.now() // 60_000
    await store.hours(minute // 60 - 24, minute // 60)


async def delayed(bench: Bench, store: Store) -> None:
    """A million delayed jobs are due at once."""
    count = bench.size(1_000_000)
    due = datetime.now(UTC) + timedelta(seconds=1)
    for _ in bench.steps("delayed jobs", max(1, count // MAX_BATCH)):
        await add(store, [draft("t", at=due)] * MAX_BATCH)

    async def all_due() -> bool:
        return (await store.count())["t"][State.DELAYED] == 0

    await tend_until(store, all_due)


async def search(bench: Bench, store: Store) -> None:
    """100 thousand small jobs, large ones and long logs are searched in vain."""
    for _ in bench.steps("small jobs", max(1, bench.size(100_000) // MAX_BATCH)):
        await add(store, [draft("t", {"to": "ann@example.com"})] * MAX_BATCH)
    for text in ("x" * 250_000, "ä" * 125_000, "\\ \n" * 50_000):
        ids = await add(store, [draft("t", text)] * bench.size(200))
    for job_id in ids:
        for _ in range(10):
            await store.log(job_id, [LogLine("é" * MAX_LOG_TEXT)] * 10)
    wanted = Filter(text="nobody says this")
    page = await store.find(wanted, descending=True)
    while page.cursor is not None:
        page = await store.find(wanted, cursor=page.cursor, descending=True)


async def commands_of_maintenance(bench: Bench, workers: int) -> float:
    """Return commands per second, with 50 types and one long job."""
    store = bench.store()
    for number in range(50):
        await add(store, [draft(f"type {number}")])
        await run_all(store, f"type {number}")
    await add(store, [draft("type 0")])
    await store.claim(
        ClaimRequest(["type 0"], 1, worker="w", claim=Claim("long", 1), lease=600_000)
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await _start_maintenance(bench, stack, workers)
        # They settle first; then commands are counted over a fixed time.
        await asyncio.sleep(3)
        before, began = _commands(bench), time.monotonic()
        await asyncio.sleep(WATCHED_SECONDS)
        rate = (_commands(bench) - before - 1) / (time.monotonic() - began)
    return rate


async def _start_maintenance(bench: Bench, stack: AsyncExitStack, workers: int) -> None:
    tasks = await stack.enter_async_context(asyncio.TaskGroup())
    for _ in range(workers):
        store = bench.store()
        stack.push_async_callback(store.close)
        context = SharedContext("bench", store, StoreRetry("bench"), Settings(), [])
        task = tasks.create_task(Maintenance(context).run())
        stack.callback(task.cancel)


def _commands(bench: Bench) -> int:
    return int(bench.redis.info("stats")["total_commands_processed"])


CASES = {
    "dependants": dependants,
    "dead_workers": dead_workers,
    "ended": ended,
    "payloads": payloads,
    "types": types,
    "delayed": delayed,
    "search": search,
}
#: The one that counts commands.
MAINTENANCE = "maintenance"


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of everything.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([*CASES, MAINTENANCE]),
    help="Measure this case; may be repeated.",
)
@click.option(
    "--json",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("build/bounds.json"),
    show_default=True,
    help="Where to write the figures.",
)
def main(quick: bool, only: tuple[str, ...], path: Path) -> None:
    """
    Measure the longest-running Redis script on very large data.

    Needs redis-server in PATH, and starts it on a free port.
    """
    console = Console(stderr=True)
    figures: dict[str, float] = {}
    with (
        TemporaryDirectory() as folder,
        Progress(console=console, transient=True) as progress,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        server = RedisServer(Path(folder))
        # If allowed, so that other load on the machine is not measured.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, server.pid, -20)
        try:
            bench = Bench(server, progress, QUICK if quick else 1)
            table = runner.run(measure(bench, only, figures))
        finally:
            server.stop()
    Console().print(table)
    write(figures, path)
    click.echo(f"written to {path}", err=True)


async def measure(
    bench: Bench, only: tuple[str, ...], figures: dict[str, float]
) -> Table:
    target = f"under {TARGET_MS:.0f} ms"
    table = Table("case", "longest script", "ms", "10th longest", target)
    for name, case in CASES.items():
        if only and name not in only:
            continue
        bench.begin()
        store = bench.store()
        try:
            await case(bench, store)
        finally:
            await store.close()
        longest = bench.longest()
        figures[f"{name}_ms"] = longest.milliseconds
        figures[f"{name}_tenth_ms"] = longest.tenth
        is_met = "yes" if longest.milliseconds < TARGET_MS else "no"
        times = (f"{longest.milliseconds:.1f}", f"{longest.tenth:.1f}")
        table.add_row(name, longest.name, *times, is_met)
    if not only or MAINTENANCE in only:
        await _compare_maintenance(bench, figures, table)
    return table


async def _compare_maintenance(
    bench: Bench, figures: dict[str, float], table: Table
) -> None:
    for workers in (1, 60):
        bench.begin()
        rate = await commands_of_maintenance(bench, workers)
        figures[f"maintenance_{workers}_commands"] = round(rate, 1)
        table.add_row(f"maintenance of {workers}", f"{rate:.0f} commands per second")
    one, many = (figures[f"maintenance_{n}_commands"] for n in (1, 60))
    figures["maintenance_60_over_1_worker"] = round(many / one, 2)


def write(figures: dict[str, float], path: Path) -> None:
    """Add figures to those already in the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
