"""One run: set up, inject faults, heal, drain, and check."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from chaos import history as histories
from chaos.clients import Clients
from chaos.cluster_stage import ClusterStage
from chaos.figures import Figures, breaches, figures
from chaos.fleet import START_SECONDS, WORKERS, Fleet
from chaos.listener import Listener
from chaos.lossy_stage import LossyStage
from chaos.plan import TYPES, in_time
from chaos.probe import Probe
from chaos.processes import Household
from chaos.redis_stage import RedisStage
from chaos.sentinel_stage import SentinelStage
from chaos.sink import Sink
from chaos.sqlite_stage import SqliteStage
from kue import Kind
from kue.model import settings
from kue.store import store_for
from kue.store.values import MAX_BATCH, PageRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence
    from pathlib import Path

    from chaos.breach import Breach
    from chaos.history import History
    from chaos.plan import Fault, Plan
    from chaos.stage import Stage
    from chaos.view import View
    from kue import Job
    from kue.store.contract import Store

LEASE = "1.5s"
#: All jobs must have ended this long after the last fault.  Runs of a worker that a
#: Redis has forgotten are found within a minute.
DRAIN_SECONDS = 120.0
TICK_SECONDS = 0.1


class Outcome(NamedTuple):
    """The outcome of a run."""

    figures: Figures
    breaches: list[Breach]


async def run(plan: Plan, folder: Path, view: View) -> Outcome:
    """Carry out *plan*; all files are kept in *folder*."""
    plan.write(folder / "plan.json")
    Sink(folder).create()
    household = Household()
    try:
        async with _stage(plan, household, folder) as stage, opened(stage) as store:
            return await Run(plan, household, folder, view, stage, store).outcome()
    finally:
        household.end()


class Injector:
    """Injects faults into the workers and the store."""

    def __init__(self, fleet: Fleet, stage: Stage) -> None:
        self._fleet = fleet
        self._stage = stage
        #: How many of each kind have struck.
        self.struck: Counter[str] = Counter()

    async def follow(self, faults: Sequence[Fault]) -> None:
        """Inject *faults*; return when the last is over."""
        async with asyncio.TaskGroup() as group:
            async for fault in in_time(faults):
                group.create_task(self.strike(fault))

    async def strike(self, fault: Fault) -> None:
        self.struck[fault.kind] += 1
        match fault.kind:
            case "kill":
                self._fleet.kill(fault.pick)
            case "stop":
                pause = partial(self._stage.pause, fault.seconds)
                await self._fleet.freeze(fault.pick, pause)
            case "terminate":
                self._fleet.terminate(fault.pick)
            case "orphan":
                self._fleet.orphan(fault.pick)
            case _:
                await self._stage.strike(fault)


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
        self._environ = environ_of(stage.url, folder)
        self._listener = Listener()
        self._fleet = Fleet(household, folder, self._environ)
        self._injector = Injector(self._fleet, stage)
        self._mishaps: list[str] = []
        self._drained = 0.0

    async def outcome(self) -> Outcome:
        async with self._listener.listening(self._store):
            try:
                await self._execute()
            finally:
                self._fleet.kill_all()
            await self._listener.until_quiet()
        history = await self._history()
        drawn = figures(self._plan, history, self._injector.struck, drain=self._drained)
        return Outcome(drawn, breaches(history))

    async def _execute(self) -> None:
        self._fleet.start()
        async with in_background(self._fleet.watch()):
            await self._until_started()
            async with in_background(self._show()):
                await self._inject_faults()
            await self._heal()
            self._drained = await self._drain()
            idle = await Probe(self._store, self._fleet, self._folder).idle_workers()
            await self._drain()
        self._mishaps += [f"worker {pid} is alive and runs no jobs" for pid in idle]
        self._view.begin(f"{self._name}: stop", None)
        self._mishaps += await self._fleet.stop()

    async def _until_started(self) -> None:
        """Wait until every worker has registered."""
        self._view.begin(f"{self._name}: start", None)
        async with asyncio.timeout(START_SECONDS):
            while len(await self._store.workers()) < WORKERS:  # noqa: ASYNC110
                await asyncio.sleep(TICK_SECONDS)

    async def _inject_faults(self) -> None:
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
        while left := await unfinished(self._store):
            self._view.show(loop.time() - began, f"{left} jobs left")
            if loop.time() - began > DRAIN_SECONDS:
                break
            await asyncio.sleep(TICK_SECONDS)
        return loop.time() - began

    # -- the history -----------------------------------------------------------

    async def _history(self) -> History:
        self._view.begin(f"{self._name}: check", None)
        report = await self._store.check()
        left = self._household.survivors()
        return msgspec.structs.replace(
            histories.read(self._folder),
            away=tuple(self._stage.away),
            losses=tuple(self._stage.losses),
            events=tuple(self._listener.events),
            jobs=tuple(await all_jobs(self._store)),
            findings=tuple(f"{one.code}: {one.message}" for one in report.findings),
            mishaps=(*self._mishaps, *(f"process {pid} still runs" for pid in left)),
        )

    # -- the progress line -----------------------------------------------------

    @property
    def _name(self) -> str:
        return f"{self._plan.engine}, seed {self._plan.seed}"

    async def _show(self) -> None:
        self._view.begin(f"{self._name}: faults", self._plan.seconds)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            self._view.show(loop.time() - began, self._status())
            await asyncio.sleep(TICK_SECONDS)

    def _status(self) -> str:
        counts = self._listener.counts
        return (
            f"{self._injector.struck.total()} faults, {counts[Kind.ENQUEUE]:,} jobs "
            f"queued, {counts[Kind.START]:,} runs, {counts[Kind.COMPLETE]:,} complete"
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


def environ_of(url: str, folder: Path) -> dict[str, str]:
    """Return the environment of processes, without the user's own Kue settings."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KUE_", "REDIS_"))
    }
    return {
        **inherited,
        "KUE_URL": url,
        "KUE_LEASE": LEASE,
        # Nothing is pruned, so that every job is checked.
        "KUE_KEEP_COMPLETE": "10000000",
        "CHAOS_FOLDER": str(folder),
        "CHAOS_HARNESS": str(os.getpid()),
    }


async def unfinished(store: Store) -> int:
    """Return how many jobs have not ended."""
    counted = await store.count()
    return sum(
        count
        for states in counted.values()
        for state, count in states.items()
        if not state.is_final
    )


async def all_jobs(store: Store) -> list[Job]:
    page = await store.page(PageRequest(limit=MAX_BATCH))
    jobs = page.jobs
    while page.cursor is not None:
        page = await store.page(PageRequest(limit=MAX_BATCH, cursor=page.cursor))
        jobs += page.jobs
    return jobs


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Store]:
    # With a long budget, since a busy machine is slow.
    config = settings.load(environ={}, url=stage.direct, budget="60s")
    store = store_for(config)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def in_background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run *work* in the background of the body, and cancel it afterwards."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        ends = await asyncio.gather(task, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
