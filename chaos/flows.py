"""
Flows under faults: is every edge respected, and no job stranded?

``python -m chaos.flows`` adds a random graph of 1,000 jobs, in all ways that there are,
while it kills workers, the producer and the store.  Then each job must have ended as
the graph requires; failed ones are retried, and no job may be left: see `chaos.dag`
and `chaos.flow_account`.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
import uvloop

import kue
from chaos.breach import Breach
from chaos.command import Seeds, until_terminated
from chaos.dag import draw
from chaos.fleet import START_SECONDS, Fleet, supervised
from chaos.flow_account import Account, Evidence
from chaos.flow_facts import Acknowledged, Ran
from chaos.flow_stage import (
    ENGINES,
    FlowInjector,
    Producing,
    Wanted,
    end_holds,
    stage_of,
)
from chaos.flows_app import GRAPH, MENDED, RUNS
from chaos.flows_producer import ACKNOWLEDGED
from chaos.journal import read_journals
from chaos.processes import Household
from chaos.run import (
    TICK_SECONDS,
    all_jobs,
    environ_of,
    in_background,
    opened,
)
from chaos.view import View
from kue.model.job import UNFINISHED, State
from kue.store.redis.store import RedisStore
from kue.worker.batches import BATCH
from kue.worker.flow_jobs import GATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.dag import Graph
    from chaos.stage import Stage
    from kue import Job
    from kue.store.contract import Store

APP = "chaos.flows_app:q"
#: The graph is added in this share of the time.
ADD_SHARE = 0.8
#: All must have ended this long after the last fault, and after the retries.
DRAIN_SECONDS = 180.0
#: If no job can run any more and nothing changes for this long, nothing will.
QUIET_SECONDS = 15.0
#: How often the jobs are compared with the graph in the meantime.
LOOK_SECONDS = 0.5


RUNNABLE = UNFINISHED - {State.BLOCKED}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one run found."""

    engine: str
    nodes: int
    seconds: float
    seed: int
    ok: bool
    breaches: int
    #: Jobs in the store, runs of handlers, and runs that repeated one.
    jobs: int
    edges: int
    runs: int
    repeated: int
    #: Adds that were not acknowledged, and so were made again.
    added_again: int
    #: Failed jobs that were retried in the end, and jobs that had waited for them.
    retried: int
    had_waited: int
    faults: dict[str, int]
    drain_s: float


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a run."""

    figures: Figures
    breaches: list[Breach]


async def run(wanted: Wanted, folder: Path, view: View) -> Outcome:
    """Run a graph under faults; all files are kept in *folder*."""
    household = Household()
    stage = stage_of(wanted, household, folder)
    try:
        async with stage:
            plan, shards = ENGINES[wanted.engine]
            if plan == "redis":
                stage.url += f"?shards={shards}"
                stage.direct += f"?shards={shards}"
            async with opened(stage) as store:
                return await FlowRun(wanted, household, folder, view, stage, store)()
    finally:
        household.end()


class FlowRun:
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
        self._graph: Graph = draw(wanted.nodes, wanted.seed)
        environ = environ_of(stage.url, folder)
        kinds = [supervised(children, APP) for children in wanted.workers]
        self._fleet = Fleet(household, folder, environ, kinds)
        add = wanted.seconds * ADD_SHARE
        self._producing = Producing(household, folder, environ, add)
        self._injector = FlowInjector(self._fleet, stage, self._producing)
        self._ways = {
            node.key: one.way for one in self._graph.portions for node in one.nodes
        }
        self._breaches: list[Breach] = []
        self._retried = self._had_waited = 0
        self._drained = 0.0

    async def __call__(self) -> Outcome:
        self._graph.write(self._folder / GRAPH)
        self._fleet.start()
        try:
            async with in_background(self._fleet.watch()):
                await self._until_started()
                await self._inject_faults()
                await self._drain("drain", mended=False)
                await self._check(mended=False)
                await self._mend()
                await self._drain("retry", mended=True)
            problems = await self._fleet.stop()
        finally:
            self._producing.kill()
            self._fleet.kill_all()
        self._breaches += [Breach("process", problem) for problem in problems]
        return await self._outcome()

    async def _until_started(self) -> None:
        self._begin("start", None)
        async with asyncio.timeout(START_SECONDS):
            wanted = sum(self._wanted.workers)
            while len(await self._store.workers()) < wanted:  # noqa: ASYNC110
                await asyncio.sleep(TICK_SECONDS)

    async def _inject_faults(self) -> None:
        """Inject faults while the graph is added, and until all of it is."""
        async with in_background(self._show()):
            producing = asyncio.create_task(self._producing.run())
            try:
                await self._injector.follow(self._wanted.faults)
                await self._stage.heal()
                await producing
            finally:
                producing.cancel()

    async def _drain(self, what: str, *, mended: bool) -> None:
        """Wait until all jobs are as the graph requires, or it takes too long."""
        self._begin(what, DRAIN_SECONDS)
        loop = asyncio.get_running_loop()
        began = changed = loop.time()
        before = (0, 0)
        while any(left := await self._left(mended=mended)):
            self._view.show(loop.time() - began, f"{left[0]} jobs left")
            changed = changed if left == (before[0], 0) else loop.time()
            before = left
            if loop.time() > min(began + DRAIN_SECONDS, changed + QUIET_SECONDS):
                break
            # Jobs are compared with the graph: there is no event for that.
            await asyncio.sleep(LOOK_SECONDS)
        self._drained = max(self._drained, loop.time() - began)

    async def _left(self, *, mended: bool) -> tuple[int, int]:
        """Return how many jobs are not as required, and how many can still run."""
        evidence = await self._evidence(mended=mended)
        await self._pass_hour(evidence.jobs)
        can_run = sum(job.state in RUNNABLE for job in evidence.jobs)
        return len(list(Account(evidence).misplaced())), can_run

    async def _pass_hour(self, jobs: Sequence[Job]) -> None:
        """Have what a dead producer left behind end, as it does after an hour."""
        gates = [one for one in jobs if one.type == GATE and one.state is State.DELAYED]
        async with kue.Kue(self._stage.direct) as q:
            for job in gates:
                await (await q.get(job.id)).promote()
        if isinstance(self._store, RedisStore):
            await end_holds(self._store)

    async def _evidence(self, *, mended: bool) -> Evidence:
        return Evidence(
            self._graph,
            read_journals(Ran, self._folder, RUNS),
            read_journals(Acknowledged, self._folder, ACKNOWLEDGED),
            await all_jobs(self._store),
            mended,
        )

    async def _check(self, *, mended: bool) -> Evidence:
        evidence = await self._evidence(mended=mended)
        self._breaches += Account(evidence).breaches()
        return evidence

    async def _mend(self) -> None:
        """Retry all that failed; it succeeds now, and what waited for it goes on."""
        (self._folder / MENDED).touch()
        jobs = await all_jobs(self._store)
        self._had_waited = sum(job.state is State.BLOCKED for job in jobs)
        failed = [job for job in jobs if job.state is State.FAILED]
        self._retried = len(failed)
        async with kue.Kue(self._stage.direct) as q:
            for job in failed:
                if job.type == BATCH:
                    await q.batch(job.id).retry_failed()
            for flow in {job.flow or job.id for job in failed if self._is_chained(job)}:
                await q.retry_flow(flow)
            for job in failed:
                handle = await q.get(job.id)
                if handle.job is not None and handle.job.state is State.FAILED:
                    await handle.retry()

    def _is_chained(self, job: Job) -> bool:
        """Return whether a job is one of a chain or group."""
        data = job.data if isinstance(job.data, dict) else {}
        return self._ways.get(str(data.get("node"))) == "flow"

    async def _outcome(self) -> Outcome:
        self._begin("check", None)
        evidence = await self._check(mended=True)
        report = await self._store.check()
        for found in report.findings:
            self._breaches.append(Breach("doctor", f"{found.code}: {found.message}"))
        return Outcome(self._figures(evidence), self._breaches)

    def _figures(self, evidence: Evidence) -> Figures:
        wanted = self._wanted
        runs = [one for one in evidence.runs if one.what == "start"]
        copies = {one.portion: one.copy for one in evidence.acknowledged}
        return Figures(
            engine=wanted.engine,
            nodes=wanted.nodes,
            seconds=wanted.seconds,
            seed=wanted.seed,
            ok=not self._breaches,
            breaches=len(self._breaches),
            jobs=len(evidence.jobs),
            edges=sum(len(node.parents) for node in self._graph.nodes.values()),
            runs=len(runs),
            repeated=len(runs) - len({one.job for one in runs}),
            added_again=sum(copies.values()),
            retried=self._retried,
            had_waited=self._had_waited,
            faults=dict(sorted(self._injector.struck.items())),
            drain_s=round(self._drained, 1),
        )

    # -- the progress line -----------------------------------------------------

    def _begin(self, what: str, seconds: float | None) -> None:
        name = f"{self._wanted.engine}, seed {self._wanted.seed}"
        self._view.begin(f"{name}: {what}", seconds)

    async def _show(self) -> None:
        self._begin("faults", self._wanted.seconds)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            known = read_journals(Acknowledged, self._folder, ACKNOWLEDGED)
            struck = self._injector.struck.total()
            total = len(self._graph.portions)
            status = f"{struck} faults, {len(known)} of {total} parts added"
            self._view.show(loop.time() - began, status)
            await asyncio.sleep(TICK_SECONDS)


@click.command()
@click.option(
    "--engine", type=click.Choice(list(ENGINES)), default="redis", show_default=True
)
@click.option(
    "--nodes", type=click.IntRange(1, 10_000), default=1_000, show_default=True
)
@click.option("--seconds", type=click.FloatRange(1), default=60, show_default=True)
@click.option("--seeds", type=Seeds(), default="1", show_default=True, help="1 or 1..5")
@click.option("--calm", is_flag=True, help="Without faults.")
def main(engine: str, nodes: int, seconds: float, seeds: list[int], calm: bool) -> None:
    """
    Kill workers, producers and the store while a random graph of jobs runs.

    Prints a line of JSON per seed.  Exits with 1 when a job did not end as the graph
    requires, an edge was not respected, or `kue doctor` found something.
    """
    ends = [_run(Wanted(engine, nodes, seconds, seed, calm)) for seed in seeds]
    if not all(ends):
        sys.exit(1)


def _run(wanted: Wanted) -> bool:
    folder = Path(tempfile.mkdtemp(prefix=f"kue-flows-{wanted.engine}-{wanted.seed}-"))
    with View() as view, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(until_terminated(run(wanted, folder, view)))
        if outcome.breaches:
            lines = "".join(f"{breach}\n" for breach in outcome.breaches)
            (folder / "breaches.txt").write_text(lines)
            view.show_breaches(outcome.breaches, str(folder))
    click.echo(msgspec.json.encode(outcome.figures))
    if outcome.figures.ok:
        shutil.rmtree(folder)
    return outcome.figures.ok


if __name__ == "__main__":
    main()
