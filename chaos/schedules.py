"""
Schedules under faults: does each tick fire exactly once?

``python -m chaos.schedules`` adds 10,000 schedules of all kinds, which are due for two
minutes.  In this time it kills the five worker processes and restarts Redis, at random.
Then each tick must have one job, and that job must have run: see `chaos.ticks`.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click
import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

import kue
from chaos.command import until_terminated
from chaos.fleet import START_SECONDS, Fleet, supervised
from chaos.journal import now_ms, read_journals
from chaos.plan import Fault, draw_fault, moments
from chaos.processes import Household
from chaos.run import (
    TICK_SECONDS,
    Injector,
    all_jobs,
    environ_of,
    in_background,
    opened,
    unfinished,
)
from chaos.schedules_app import TYPE, tick_of
from chaos.servers import LeashedRedis, RedisServers, kill
from chaos.sqlite_stage import SqliteStage
from chaos.ticks import Account, TickRun, account, draw
from chaos.view import View
from kue.model.draft import draft

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chaos.stage import Stage
    from chaos.ticks import Definition
    from kue.store.contract import Store

APP = "chaos.schedules_app:q"
KINDS = (supervised(3, APP), supervised(2, APP))
WORKERS = sum(kind.workers for kind in KINDS)
#: What a restart must not lose.
CONFIG = {"appendonly": "yes", "appendfsync": "always"}
#: Kind of fault → how common it is, and the range of how long it lasts.
WORKER_FAULTS = {"kill": (10, (0.0, 0.0)), "orphan": (2, (0.0, 0.0))}
FAULTS = {
    "redis": {**WORKER_FAULTS, "redis_kill": (4, (0.1, 2.0))},
    "sqlite": WORKER_FAULTS,
}
#: Seconds between two faults, on average.
FAULT_SECONDS = 2.0
#: Before the first tick; and per schedule, to add it.
LEAD_MS, ADD_MS = 2_000, 4
#: Schedules that are added at once.
BATCH = 50
#: All must have fired and run this long after the last tick.
DRAIN_SECONDS = 120.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one run found."""

    engine: str
    schedules: int
    seconds: float
    seed: int
    #: How often what was injected.
    faults: dict[str, int]
    #: Ticks that were due, and those that did not fire once: all three must be 0.
    due: int
    missing: int
    twice: int
    unexpected: int
    #: Runs of a job after its first, because a worker died before it was settled.
    repeated_runs: int
    #: What `kue doctor` finds, and what else went wrong.
    problems: list[str]
    #: From the time when a tick was due to when it fired, in ms: p50, p99 and maximum.
    fired_late_ms: tuple[int, int, int]
    #: The same until its handler was called.
    ran_late_ms: tuple[int, int, int]

    @property
    def ok(self) -> bool:
        wrong = self.missing + self.twice + self.unexpected + len(self.problems)
        return self.due > 0 and not wrong


class Wanted(msgspec.Struct, frozen=True):
    """What is to be run."""

    engine: str
    schedules: int
    seconds: float
    seed: int
    calm: bool = False

    @property
    def faults(self) -> list[Fault]:
        random, kinds = Random(f"faults {self.seed}"), FAULTS[self.engine]
        seconds = 0 if self.calm else self.seconds
        return [
            draw_fault(random, at, kinds)
            for at in moments(random, FAULT_SECONDS, seconds)
        ]


class DurableRedis(RedisServers):
    """A Redis that writes to disk before it answers."""

    @property
    def masters(self) -> list[LeashedRedis]:
        return [self._server]

    async def start(self) -> None:
        self._server = await asyncio.to_thread(
            LeashedRedis, self._folder, config=CONFIG
        )
        self._cleanup.callback(self._server.stop)
        self.url = self.direct = self._server.url

    async def strike_own(self, fault: Fault) -> None:
        assert fault.kind == "redis_kill"
        await kill(self._server, fault.seconds)


async def run(wanted: Wanted, folder: Path, view: View) -> Figures:
    """Run schedules under faults; all files are kept in *folder*."""
    household = Household()
    stage = _stage(wanted, household, folder)
    try:
        async with stage, opened(stage) as store:
            return await ScheduleRun(wanted, household, folder, view, stage, store)()
    finally:
        household.end()


class ScheduleRun:
    """A run with its store open."""

    def __init__(
        self,
        wanted: Wanted,
        household: Household,
        folder: Path,
        view: View,
        stage: Stage,
        store: Store,
    ) -> None:
        self._wanted = wanted
        self._folder = folder
        self._view = view
        self._stage = stage
        self._store = store
        environ = environ_of(stage.url, folder)
        self._fleet = Fleet(household, folder, environ, KINDS)
        self._injector = Injector(self._fleet, stage)
        self._problems: list[str] = []

    async def __call__(self) -> Figures:
        self._fleet.start()
        try:
            async with in_background(self._fleet.watch()):
                await self._until_started()
                definitions = await self._add()
                await self._inject_faults(definitions)
                await self._drain()
            self._problems += await self._fleet.stop()
        finally:
            self._fleet.kill_all()
        return await self._figures(definitions)

    async def _until_started(self) -> None:
        self._view.begin("start the workers", None)
        async with asyncio.timeout(START_SECONDS):
            while len(await self._store.workers()) < WORKERS:  # noqa: ASYNC110
                await asyncio.sleep(TICK_SECONDS)

    async def _add(self) -> list[Definition]:
        """Add the schedules, before the first of them is due."""
        wanted = self._wanted
        start = now_ms() + LEAD_MS + ADD_MS * wanted.schedules
        end = start + round(wanted.seconds * 1000)
        definitions = draw(wanted.schedules, wanted.seed, start, end)
        self._view.begin("add schedules", wanted.schedules)
        async with kue.Kue(self._stage.direct) as q:
            for first in range(0, wanted.schedules, BATCH):
                batch = definitions[first : first + BATCH]
                await asyncio.gather(*(_add_one(q, one) for one in batch))
                self._view.show(first + BATCH, f"{first + len(batch):,}")
        if now_ms() >= start:
            raise click.ClickException("this machine is too slow to add them in time")
        return definitions

    async def _inject_faults(self, definitions: Sequence[Definition]) -> None:
        """Inject faults while schedules are due."""
        start = min(one.start for one in definitions)
        async with in_background(self._show(start)):
            await asyncio.sleep((start - now_ms()) / 1000)
            await self._injector.follow(self._wanted.faults)
            # The schedules are due until then.
            end = max(one.end for one in definitions)
            await asyncio.sleep(max(0.0, (end - now_ms()) / 1000))
        await self._stage.heal()

    async def _drain(self) -> None:
        """Wait until all schedules are over and all jobs have ended."""
        self._view.begin("drain", DRAIN_SECONDS)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while left := await self._left():
            self._view.show(loop.time() - began, left)
            if loop.time() - began > DRAIN_SECONDS:
                self._problems.append(f"after {DRAIN_SECONDS:.0f} s: {left}")
                break
            await asyncio.sleep(TICK_SECONDS)

    async def _left(self) -> str:
        """Return what is still to fire or to run, in words; empty if nothing is."""
        due = sum(one.due_at is not None for one in await self._store.schedules())
        jobs = await unfinished(self._store)
        return f"{due} schedules due, {jobs} jobs unfinished" if due or jobs else ""

    async def _figures(self, definitions: Sequence[Definition]) -> Figures:
        self._view.begin("check", None)
        report = await self._store.check()
        found = [f"{one.code}: {one.message}" for one in report.findings]
        jobs = await all_jobs(self._store)
        runs = read_journals(TickRun, self._folder, "ticks-*.jsonl")
        fired = [(job.data["schedule"], tick_of(job), job.id) for job in jobs]
        result = account(definitions, fired, runs)
        self._describe(result)
        started = {run.job: run.at - run.tick for run in reversed(runs)}
        wanted = self._wanted
        return Figures(
            engine=wanted.engine,
            schedules=wanted.schedules,
            seconds=wanted.seconds,
            seed=wanted.seed,
            faults=dict(sorted(self._injector.struck.items())),
            due=result.due,
            missing=len(result.missing),
            twice=len(result.twice),
            unexpected=len(result.unexpected),
            repeated_runs=result.repeated,
            problems=self._problems + found,
            fired_late_ms=_spread(job.created_at - tick_of(job) for job in jobs),
            ran_late_ms=_spread(started.values()),
        )

    def _describe(self, result: Account) -> None:
        """Write the ticks that did not fire once to a file."""
        troubles = {
            "missing": result.missing,
            "twice": result.twice,
            "unexpected": result.unexpected,
        }
        lines = [
            f"{word} {name} {tick}"
            for word, ticks in troubles.items()
            for name, tick in ticks
        ]
        (self._folder / "breaches.txt").write_text("\n".join(lines))

    async def _show(self, start: int) -> None:
        self._view.begin("schedules under faults", self._wanted.seconds)
        while True:
            struck = self._injector.struck.total()
            self._view.show((now_ms() - start) / 1000, f"{struck} faults")
            await asyncio.sleep(TICK_SECONDS)


async def _add_one(q: kue.Kue, one: Definition) -> None:
    await q.schedule(one.name, draft(TYPE, {"schedule": one.name}), **one.options)


def _stage(wanted: Wanted, household: Household, folder: Path) -> Stage:
    if wanted.engine == "sqlite":
        return SqliteStage(household, folder)
    return DurableRedis(folder)


def _spread(values: Iterable[int]) -> tuple[int, int, int]:
    """Return p50, p99 and the maximum."""
    ordered = sorted(values) or [0]
    last = len(ordered) - 1
    return ordered[last // 2], ordered[last * 99 // 100], ordered[last]


@click.command()
@click.option(
    "--engine", type=click.Choice(list(FAULTS)), default="redis", show_default=True
)
@click.option(
    "--schedules", type=click.IntRange(1, 10_000), default=10_000, show_default=True
)
@click.option("--seconds", type=click.FloatRange(1), default=120, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--calm", is_flag=True, help="Without faults.")
def main(engine: str, schedules: int, seconds: float, seed: int, calm: bool) -> None:
    """
    Kill workers, and restart Redis, while schedules fire; write build/schedules.json.

    Exits with 1 when a tick did not fire exactly once, or `kue doctor` found something.
    """
    wanted = Wanted(engine, schedules, seconds, seed, calm)
    folder = Path(tempfile.mkdtemp(prefix=f"kue-schedules-{engine}-"))
    with View() as view, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(until_terminated(run(wanted, folder, view)))
    _report(figures)
    if not figures.ok:
        click.echo(f"kept: {folder}", err=True)
        sys.exit(1)
    shutil.rmtree(folder)


def _report(figures: Figures) -> None:
    table = Table(
        "figure",
        "value",
        title=f"{figures.engine}: {figures.schedules:,} schedules, {WORKERS} workers, "
        f"{figures.seconds:.0f} s, seed {figures.seed}",
    )
    faults = ", ".join(f"{kind} {count}" for kind, count in figures.faults.items())
    rows = {
        "faults": faults,
        "ticks due": f"{figures.due:,}",
        "missing · twice · unexpected": f"{figures.missing} · {figures.twice} · "
        f"{figures.unexpected}",
        "runs repeated": str(figures.repeated_runs),
        "problems": "\n".join(figures.problems) or "none",
        "fired late, p50 · p99 · max": _milliseconds(figures.fired_late_ms),
        "ran late, p50 · p99 · max": _milliseconds(figures.ran_late_ms),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
    path = Path("build/schedules.json")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.encode(figures))


def _milliseconds(spread: tuple[int, int, int]) -> str:
    return " · ".join(f"{value:,}" for value in spread) + " ms"


if __name__ == "__main__":
    main()
