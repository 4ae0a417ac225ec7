"""
Flows in a process of producer and worker in one, which may be killed; and their checks.

Its clock is the test's, and its worker makes one call after another: so it does the
same each time, up to the write that it is killed after.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import kue
from kue import ActiveJob, Kue, State
from kue.client.batch_handle import JobFlows
from kue.model.job import Ending, Job
from kue.store.contract import Store
from kue.store.values import Claim, ClaimRequest, Outcome, PageRequest
from kue.worker.batches import BATCH
from kue.worker.executor import ending_of, ending_of_result
from kue.worker.flow_jobs import GATE, TYPES, processors
from kue.worker.inputs import read_inputs
from tests.faults.mortal import Killed, Life, bind
from tests.support.clocked import ClockedStore, OwnTime
from tests.support.jobs import HOUR, SECOND

#: More than a lease, and less than would make anyone think that the store was away.
LEASE_STEPS, STEP_MS = 8, 2 * SECOND
#: After so many, a batch has looked again whether its jobs have ended.
MAX_STEPS = 30
#: Types of jobs on all shards.
NAMES = ("node-0", "node-1", "node-2", "node-4", "node-5", "node-9", "node-11")
#: More rounds of work than any flow here needs.
ROUNDS = 60

#: What a process does until it is killed, and what must be so in the end.
Act: TypeAlias = "Callable[[Process], Awaitable[None]]"
Check: TypeAlias = "Callable[[Scene], Awaitable[None]]"


class Driven(ActiveJob):
    """A run of a job, as far as handlers of flows need one."""

    def __init__(self, job: Job, store: Store) -> None:
        super().__init__(job, SimpleNamespace())
        self.services = SimpleNamespace(store=store)


class Process:
    """A producer and worker in one: its store, its queue, and its life."""

    def __init__(self, scene: Scene, life: Life) -> None:
        self.name = f"w{next(scene.numbers)}"
        self.real = scene.new_store()
        bind(self.real, life)
        self.store = cast("Store", ClockedStore(self.real, scene.time))
        self.q = Kue(store=self.store)
        self.steps = [self._task(name, scene) for name in NAMES]
        self._own = {one.type: one.handler for one in processors(self.store)}
        self.scene = scene
        self._claims = itertools.count(1)

    def _task(self, name: str, scene: Scene) -> kue.Task[..., Any, Any]:
        @self.q.task(name=name, attempts=1)
        async def step(given: Any = None, *, label: str) -> str:
            return scene.run(label, given)

        return step

    async def work(self) -> None:
        """Run all jobs, and make maintenance, until nothing happens any more."""
        for _ in range(ROUNDS):
            jobs = await self._claim()
            outcomes = [Outcome(job, await self._run(job)) for job in jobs]
            if outcomes:
                await self.store.settle(outcomes)
            tended = await self.store.tend()
            if not jobs and not tended:
                return
        raise AssertionError("the work does not end")

    async def close(self) -> None:
        with suppress(Killed):
            await self.q.close()
        await self.real.close()

    async def _claim(self) -> list[Job]:
        claim = Claim(self.name, next(self._claims))
        types = [*NAMES, *sorted(TYPES)]
        request = ClaimRequest(types, 20, worker=self.name, claim=claim)
        claimed = await self.store.claim(request)
        jobs: list[Job] = claimed.jobs
        return jobs

    async def _run(self, job: Job) -> Ending:
        run: Any = Driven(job, self.store)
        try:
            if job.spec.inputs:
                await read_inputs(run)
            await self.scene.check_parents(job)
            if job.type in self._own:
                return ending_of_result(await self._own[job.type](run))
            data: Any = run.data
            if data["label"] == "grow":
                await self._grow(job)
            return ending_of_result(self.scene.run(data["label"], data.get("given")))
        except Exception as exc:
            return ending_of(run, exc)

    async def _grow(self, job: Job) -> None:
        child = self.steps[-1].options(unique="child", unique_for="1d")
        flows = JobFlows(self.q._connection)
        await flows.add(job, [child.si(label="child")], holds_next=True)


class Scene:
    """The jobs of one test, and which handlers were called."""

    def __init__(self, new_store: Callable[[], Store]) -> None:
        self.new_store = new_store
        self.time = OwnTime()
        self.numbers = itertools.count(1)
        #: Sees everything, and is never killed.
        self.eye = new_store()
        self.called: list[str] = []
        self.is_mended = False
        #: Whether handlers were called elsewhere.
        self.is_blind = False

    def run(self, label: str, given: Any) -> str:
        self.called.append(label)
        if label == "bad" and not self.is_mended:
            raise kue.Fail("it is bad")
        return f"{label}({','.join(given)})" if isinstance(given, list) else label

    async def check_parents(self, job: Job) -> None:
        """Check that no job is started before those that it waits for have ended."""
        for parent in await self.eye.get(job.spec.after):
            if parent is not None and job.on_parent_failure != "only":
                assert parent.state.is_final, (job.type, parent.state)
                is_strict = job.on_parent_failure in ("block", "cancel")
                assert not is_strict or parent.state is State.COMPLETE

    async def jobs(self) -> list[Job]:
        return (await self.eye.page(PageRequest(limit=100))).jobs

    async def finish(self, act: Act | None = None) -> None:
        """Have another process act, and do what is left as time passes."""
        process = Process(self, Life())
        if act is not None:
            await act(process)
        for step in range(MAX_STEPS):
            await self.time.pass_(STEP_MS)
            await process.work()
            if step >= LEASE_STEPS and not await self._is_waiting():
                break
        # Only gates of dead producers are left, and those wait for an hour.
        jobs = await self.jobs()
        if any(job.type == GATE and not job.state.is_final for job in jobs):
            await self.time.pass_(HOUR)
            await process.work()
        await process.close()

    async def _is_waiting(self) -> bool:
        """Return whether a retried batch has yet to look at its jobs again."""
        jobs = await self.jobs()
        return any(job.type == BATCH and job.state is State.DELAYED for job in jobs)

    async def states(self) -> dict[str, State]:
        """Return the states of all jobs, by label or type; there is one of each."""
        jobs = await self.jobs()
        named = [(_label(job), job.state) for job in jobs]
        assert len(dict(named)) == len(named), named
        return dict(named)

    def is_undone(self, states: dict[str, State]) -> bool:
        """Return whether a flow was not added as a whole, or not at all."""
        states.pop(GATE, None)
        is_undone = set(states.values()) <= {State.CANCELLED}
        assert not is_undone or self.is_blind or self.called == []
        return is_undone


def _label(job: Job) -> str:
    data = job.data if isinstance(job.data, dict) else {}
    return str(data.get("label", job.type))


# -- a diamond -----------------------------------------------------------------


async def diamond(process: Process) -> None:
    one, two, three, four, five, *_ = process.steps
    middle = kue.group(
        two.s(label="b"), three.s(label="c"), four.s(label="d"), one.s(label="e")
    )
    await (one.s(label="a") | middle | five.s(label="z")).enqueue()
    await process.work()


async def check_diamond(scene: Scene) -> None:
    states = await scene.states()
    if scene.is_undone(states):
        return
    assert states == dict.fromkeys("abcdez", State.COMPLETE)
    [last] = [job for job in await scene.jobs() if _label(job) == "z"]
    assert last.result == "z(b,c,d,e)"


# -- a chain whose middle fails ------------------------------------------------


async def chain(process: Process) -> None:
    one, two, three, four, *_ = process.steps
    links = one.s(label="a") | two.s(label="bad") | three.s(label="c")
    flow = links.catch(four.s(label="report"))
    await flow.enqueue(on_parent_failure="cancel")
    await process.work()


async def check_chain(scene: Scene) -> None:
    states = await scene.states()
    if scene.is_undone(states):
        return
    assert states == {
        "a": State.COMPLETE,
        "bad": State.FAILED,
        "c": State.CANCELLED,
        "report": State.COMPLETE,
    }


# -- a batch with all callbacks, and a retry -----------------------------------


async def batch(process: Process) -> None:
    one, two, three, four, five, six, seven = process.steps
    made = kue.batch("import").then(one.si(label="then"))
    made.catch(two.si(label="catch")).finally_(three.si(label="finally"))
    members = [four.s(label="a"), five.s(label="bad"), six.s(label="c")]
    await made.enqueue([*members, seven.s(label="d") | one.si(label="e")])
    await process.work()


async def check_batch(scene: Scene) -> None:
    states = await scene.states()
    state = states.pop("kue.batch", None)
    gate = states.pop(GATE, None)
    assert states.pop("kue.first-failure", State.COMPLETE).is_final
    if gate is State.CANCELLED or state is None:
        # It was not added as a whole; its first jobs may have run.
        waiting = states.pop("then", State.BLOCKED)
        assert waiting in (State.BLOCKED, State.CANCELLED)
        assert all(one.is_final for one in states.values()), states
        return
    assert state is State.FAILED
    assert states.pop("then") is State.BLOCKED
    assert [states.pop("catch"), states.pop("finally")] == [State.COMPLETE] * 2
    assert states.pop("bad") is State.FAILED
    assert states.keys() == set("acde")
    assert all(one.is_final for one in states.values())


CALLBACKS = ("then", "catch", "finally")


async def retried_batch(process: Process) -> None:
    await batch(process)
    process.scene.is_mended = True
    [job] = [job for job in await process.scene.jobs() if job.type == BATCH]
    await process.q.batch(job.id).retry_failed()
    await process.work()


async def check_retried_batch(scene: Scene) -> None:
    jobs = await scene.jobs()
    if any(job.type == GATE and job.state is State.CANCELLED for job in jobs):
        return
    for job in jobs:
        if job.type == BATCH and job.state is State.FAILED:
            # Who retried it is dead, and so an operator does it again.
            scene.is_mended = True
            await scene.finish(partial(retry, job.id))
    states = await scene.states()
    assert set(states.values()) <= {State.COMPLETE}, states
    called = [job for job in await scene.jobs() if _label(job) in CALLBACKS]
    ends = [one.outcome for job in called for one in job.history]
    assert ends.count("complete") == (len(CALLBACKS) if jobs else 0)


async def retry(batch_id: int, process: Process) -> None:
    await process.q.batch(batch_id).retry_failed()


# -- a job that adds others before those that wait for it ------------------------


async def growing(process: Process) -> None:
    one, two, three, *_ = process.steps
    await (one.s(label="grow") | two.s(label="b") | three.s(label="c")).enqueue()
    await process.work()


async def check_growing(scene: Scene) -> None:
    states = await scene.states()
    if scene.is_undone(states):
        return
    labels = ("grow", "child", "b", "c")
    assert states == dict.fromkeys(labels, State.COMPLETE)
    first = {label: scene.called.index(label) for label in labels}
    assert max(first["grow"], first["child"]) < first["b"] < first["c"]


SCENES: dict[str, tuple[Act, Check]] = {
    "diamond": (diamond, check_diamond),
    "chain": (chain, check_chain),
    "batch": (batch, check_batch),
    "retried batch": (retried_batch, check_retried_batch),
    "growing": (growing, check_growing),
}


async def live(scene: Scene, act: Act, life: Life) -> None:
    """Have a process act until it is done, or dead."""
    process = Process(scene, life)
    try:
        await act(process)
    except Killed:
        await life.until_arrived()
    finally:
        await process.close()
