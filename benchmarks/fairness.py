"""
How long a noisy tenant keeps others waiting, in a fair type and in others.

``python -m benchmarks.fairness`` lets one tenant add many jobs, and then 99 others ten
each.  One worker drains the type.  It reports when the last job of the 99 was done, in
per cent of the run, their positions in the order of completion, and how many jobs were
added and run per second.  A type without any rule shows what fairness costs.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tests.support.servers import RedisServer

import kue
from kue.model.draft import draft

if TYPE_CHECKING:
    from collections.abc import Iterator

NOISY_JOBS, TENANTS, JOBS_EACH = 200_000, 99, 10
#: Jobs of a type that run at once.
SLOTS = 200
TYPE, NOISY = "report", "noisy"
#: All of the 99 must be done by then, behind `NOISY_JOBS` or more.
MOST_PERCENT = 5.0
#: How often the progress bar moves.
REFRESH_SECONDS = 0.5


class Scenario(NamedTuple):
    """A type to drain: its rule, and the part of the noisy tenant's jobs it gets."""

    name: str
    rule: dict[str, Any]
    part: float = 1.0


def tenant(number: int) -> str:
    return f"tenant {number}"


#: Every third tenant pays for more.
WEIGHTS = {tenant(number): 3 for number in range(0, TENANTS, 3)}
SCENARIOS = (
    Scenario("no rule", {}),
    Scenario("fair", {"fair": True}),
    Scenario("fair, weights", {"fair": True, "weights": WEIGHTS}, 0.25),
)


class FairnessFigures(NamedTuple):
    """What one run measured."""

    jobs: int
    #: When the last job of the 99 tenants was done, in % of the time of the drain.
    last_percent: float
    #: Positions of their jobs in the order of completion; the first is 1.
    median_position: int
    p99_position: int
    #: The last position of a tenant with a weight, and of one without.
    last_weighted: int
    last_unweighted: int
    adds_per_second: float
    runs_per_second: float


@click.command()
@click.option("--only", type=click.Choice(["redis", "sqlite"]), help="One engine only.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1000),
    default=NOISY_JOBS,
    show_default=True,
    help="Jobs of the noisy tenant.",
)
def main(only: str | None, jobs: int) -> None:
    """Measure fairness on both engines; write build/fairness.json."""
    engines = [only] if only else ["redis", "sqlite"]
    found: dict[str, dict[str, FairnessFigures]] = {}
    with Progress(console=Console(stderr=True), auto_refresh=False) as progress:
        for engine in engines:
            found[engine] = {
                scenario.name: _measure(engine, scenario, jobs, progress)
                for scenario in SCENARIOS
            }
    _report(found)
    late = [engine for engine in engines if _is_late(found[engine]["fair"])]
    if late and jobs >= NOISY_JOBS:
        raise SystemExit(f"the 99 tenants waited too long on {' and '.join(late)}")


def _is_late(figures: FairnessFigures) -> bool:
    return figures.last_percent > MOST_PERCENT


def _measure(
    engine: str, scenario: Scenario, jobs: int, progress: Progress
) -> FairnessFigures:
    """Measure on a new and empty store."""
    jobs = int(jobs * scenario.part)
    with TemporaryDirectory() as folder:
        if engine == "sqlite":
            run = Drain(f"sqlite:///{folder}/kue.db", scenario, jobs)
            return uvloop.run(run.measure(progress, f"{engine}, {scenario.name}"))
        server = RedisServer(Path(folder))
        try:
            run = Drain(server.url, scenario, jobs)
            return uvloop.run(run.measure(progress, f"{engine}, {scenario.name}"))
        finally:
            server.stop()


class Drain:
    """Jobs that are added, and then run by one worker."""

    def __init__(self, url: str, scenario: Scenario, noisy_jobs: int) -> None:
        self._queue = kue.Kue(url)
        self._rule = scenario.rule
        self._noisy_jobs = noisy_jobs
        self._total = noisy_jobs + TENANTS * JOBS_EACH
        #: Tenant and time of each job that is done, in order.
        self._done: list[tuple[str, float]] = []
        self._is_empty = asyncio.Event()

    async def measure(self, progress: Progress, label: str) -> FairnessFigures:
        try:
            await self._queue.limit(TYPE, **self._rule)
            before = time.perf_counter()
            await self._add(progress, label)
            added = time.perf_counter()
            await self._run(progress, label)
        finally:
            await self._queue.close()
        return self._figures(added - before, added)

    async def _add(self, progress: Progress, label: str) -> None:
        task = progress.add_task(f"{label}: add", total=self._total)

        def advance(done: int) -> None:
            progress.update(task, completed=done, refresh=True)

        # The noisy tenant first: it is what the others would have to wait for.
        await self._queue.enqueue_many(self._drafts(), on_progress=advance)
        progress.update(task, completed=self._total, refresh=True)

    def _drafts(self) -> Iterator[kue.Draft]:
        noisy = draft(TYPE, group=NOISY, remove_on_complete=True)
        for _ in range(self._noisy_jobs):
            yield noisy
        for number in range(TENANTS):
            one = draft(TYPE, group=tenant(number), remove_on_complete=True)
            for _ in range(JOBS_EACH):
                yield one

    async def _run(self, progress: Progress, label: str) -> None:
        self._queue.process(TYPE, SLOTS, self._handle)
        worker = asyncio.create_task(self._queue.run())
        task = progress.add_task(f"{label}: run", total=self._total)
        while not self._is_empty.is_set() and not worker.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_empty.wait(), REFRESH_SECONDS)
            progress.update(task, completed=len(self._done), refresh=True)
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker

    async def _handle(self, job: kue.ActiveJob) -> None:
        self._done.append((job.job.group or "", time.perf_counter()))
        if len(self._done) == self._total:
            self._is_empty.set()

    def _figures(self, seconds_of_adds: float, started: float) -> FairnessFigures:
        end = self._done[-1][1]
        others = [
            (position, name, at)
            for position, (name, at) in enumerate(self._done, start=1)
            if name != NOISY
        ]
        positions = [position for position, _, _ in others]
        weighted = [position for position, name, _ in others if name in WEIGHTS]
        plain = [position for position, name, _ in others if name not in WEIGHTS]
        last_at = others[-1][2]
        return FairnessFigures(
            jobs=self._total,
            last_percent=100 * (last_at - started) / (end - started),
            median_position=positions[len(positions) // 2],
            p99_position=positions[int(len(positions) * 0.99)],
            last_weighted=weighted[-1],
            last_unweighted=plain[-1],
            adds_per_second=self._total / seconds_of_adds,
            runs_per_second=self._total / (end - started),
        )


def _report(found: dict[str, dict[str, FairnessFigures]]) -> None:
    title = f"{TENANTS} tenants with {JOBS_EACH} jobs each, behind a noisy one"
    table = Table(title=title)
    for name in ("engine", "type", "jobs", "done at", "median", "p99"):
        table.add_column(
            name, justify="left" if name in ("engine", "type") else "right"
        )
    for name in ("last of weight 3", "last of weight 1", "adds/s", "runs/s"):
        table.add_column(name, justify="right")
    for engine, by_name in found.items():
        for name, one in by_name.items():
            numbers = (one.median_position, one.p99_position)
            lasts = (one.last_weighted, one.last_unweighted)
            rates = (one.adds_per_second, one.runs_per_second)
            cells = [f"{number:,.0f}" for number in (*numbers, *lasts, *rates)]
            table.add_row(
                engine, name, f"{one.jobs:,}", f"{one.last_percent:.1f} %", *cells
            )
    Console(width=120).print(table)
    path = Path("build/fairness.json")
    path.parent.mkdir(exist_ok=True)
    figures = {
        engine: {name: one._asdict() for name, one in by_name.items()}
        for engine, by_name in found.items()
    }
    path.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
