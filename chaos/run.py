"""One run: set up, hurt, heal, drain, and look what came of it."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from chaos import history as histories
from chaos.clients import Clients
from chaos.cluster_stage import ClusterStage
from chaos.figures import Figures, breaches, figures
from chaos.fleet import WORKERS, Fleet
from chaos.injector import Injector
from chaos.listener import Listener
from chaos.lossy_stage import LossyStage
from chaos.plan import TYPES
from chaos.probe import Probe
from chaos.processes import Household
from chaos.redis_stage import RedisStage
from chaos.sentinel_stage import SentinelStage
from chaos.sink import Sink
from chaos.sqlite_stage import SqliteStage
from kue import Kind
from kue.model import settings
from kue.store import store_for
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from chaos.breach import Breach
    from chaos.history import History
    from chaos.plan import Plan
    from chaos.stage import Stage
    from chaos.view import View
    from kue import Job
    from kue.store.contract import Store

LEASE = "1.5s"
#: Workers are there this soon, on a busy machine.
START_SECONDS = 60.0
#: What is left must have ended this long after everything healed.  Runs of a worker
#: that a Redis has forgotten are found within a minute.
DRAIN_SECONDS = 120.0
TICK_SECONDS = 0.1


class Outcome(NamedTuple):
    """What came of a run."""

    figures: Figures
    breaches: list[Breach]


async def run(plan: Plan, folder: Path, view: View) -> Outcome:
    """Do what *plan* says; all files are kept in *folder*."""
    plan.write(folder / "plan.json")
    Sink(folder).create()
    household = Household()
    try:
        async with _stage(plan, household, folder) as stage, _opened(stage) as store:
            return await Run(plan, household, folder, view, stage, store).outcome()
    finally:
        household.end()


class Run:
    """A run with its store open."""

    def __init__(
        self,
        plan: Plan,
        household: Household,
        folder: Path,
        view: View,
        stage: Stage,
        store: Store,
    ) -> None:
        self._plan = plan
        self._household = household
        self._folder = folder
        self._view = view
        self._stage = stage
        self._store = store
        self._environ = _environ(stage.url, folder)
        self._listener = Listener()
        self._fleet = Fleet(household, folder, self._environ)
        self._injector = Injector(self._fleet, stage)
        self._mishaps: list[str] = []
        self._drained = 0.0

    async def outcome(self) -> Outcome:
        async with self._listener.listening(self._store):
            try:
                await self._live()
            finally:
                self._fleet.kill_all()
            await self._listener.until_quiet()
        history = await self._history()
        drawn = figures(self._plan, history, self._injector.struck, drain=self._drained)
        return Outcome(drawn, breaches(history))

    async def _live(self) -> None:
        self._fleet.start()
        async with _beside(self._fleet.watch()):
            await self._until_staffed()
            async with _beside(self._show()):
                await self._hurt()
            await self._heal()
            self._drained = await self._drain()
            deaf = await Probe(self._store, self._fleet, self._folder).deaf()
            await self._drain()
        self._mishaps += [f"worker {pid} lives and takes no job" for pid in deaf]
        self._view.begin(f"{self._name}: stop", None)
        self._mishaps += await self._fleet.stop()

    async def _until_staffed(self) -> None:
        """Wait until every worker has made itself known."""
        self._view.begin(f"{self._name}: start", None)
        async with asyncio.timeout(START_SECONDS):
            while len(await self._store.workers()) < WORKERS:  # noqa: ASYNC110
                await asyncio.sleep(TICK_SECONDS)

    async def _hurt(self) -> None:
        clients = Clients(self._household, self._folder, self._environ)
        try:
            await self._injector.follow(self._plan.faults)
            self._mishaps += await clients.ended(self._plan.seconds)
        finally:
            clients.kill_all()

    async def _heal(self) -> None:
        await self._stage.heal()
        for type in (None, *TYPES):
            await self._store.resume(type)

    async def _drain(self) -> float:
        """Wait until all jobs have ended, or it takes too long; return how long."""
        self._view.begin(f"{self._name}: drain", DRAIN_SECONDS)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while left := await self._unfinished():
            self._view.show(loop.time() - began, f"{left} jobs left")
            if loop.time() - began > DRAIN_SECONDS:
                break
            await asyncio.sleep(TICK_SECONDS)
        return loop.time() - began

    async def _unfinished(self) -> int:
        counted = await self._store.count()
        return sum(
            count
            for states in counted.values()
            for state, count in states.items()
            if not state.is_final
        )

    # -- what came of it -------------------------------------------------------

    async def _history(self) -> History:
        self._view.begin(f"{self._name}: check", None)
        report = await self._store.check()
        left = self._household.survivors()
        return msgspec.structs.replace(
            histories.read(self._folder),
            away=tuple(self._stage.away),
            losses=tuple(self._stage.losses),
            events=tuple(self._listener.events),
            jobs=tuple(await self._jobs()),
            findings=tuple(f"{one.code}: {one.message}" for one in report.findings),
            mishaps=(*self._mishaps, *(f"process {pid} lives on" for pid in left)),
        )

    async def _jobs(self) -> list[Job]:
        page = await self._store.page(limit=MAX_BATCH)
        jobs = page.jobs
        while page.cursor is not None:
            page = await self._store.page(limit=MAX_BATCH, cursor=page.cursor)
            jobs += page.jobs
        return jobs

    # -- the line that shows it ------------------------------------------------

    @property
    def _name(self) -> str:
        return f"{self._plan.engine}, seed {self._plan.seed}"

    async def _show(self) -> None:
        self._view.begin(f"{self._name}: faults", self._plan.seconds)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            self._view.show(loop.time() - began, self._news())
            await asyncio.sleep(TICK_SECONDS)

    def _news(self) -> str:
        heard = self._listener.heard
        return (
            f"{self._injector.struck.total()} faults, {heard[Kind.ENQUEUE]:,} jobs "
            f"in line, {heard[Kind.START]:,} runs, {heard[Kind.COMPLETE]:,} complete"
        )


def _stage(plan: Plan, household: Household, folder: Path) -> Stage:
    match plan.engine:
        case "sqlite":
            return SqliteStage(household, folder)
        case "sentinel":
            return SentinelStage(folder)
        case "cluster":
            return ClusterStage(folder)
        case "lossy":
            return LossyStage(folder)
        case _:
            return RedisStage(folder, plan.seed)


def _environ(url: str, folder: Path) -> dict[str, str]:
    """Return what processes are told; nothing of the user's own Kue gets in."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KUE_", "REDIS_"))
    }
    return {
        **inherited,
        "KUE_URL": url,
        "KUE_LEASE": LEASE,
        # Nothing is pruned: the checker is to see every job.
        "KUE_KEEP_COMPLETE": "10000000",
        "CHAOS_FOLDER": str(folder),
        "CHAOS_HARNESS": str(os.getpid()),
    }


@asynccontextmanager
async def _opened(stage: Stage) -> AsyncIterator[Store]:
    # A busy machine keeps us waiting; what we see is to be the end of it.
    known = settings.load(environ={}, url=stage.direct, budget="60s")
    store = store_for(known)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Do *work* beside the body, and end it after that."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        ends = await asyncio.gather(task, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
