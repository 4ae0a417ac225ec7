"""A worker is ordered to stop under load: nothing is lost or counted twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from kue import State
from kue.model.draft import draft
from kue.model.job import Job
from kue.store.contract import Store
from tests.faults.processes import Process
from tests.faults.program_stopping import DEAF, FOR_EVER, POOL, SLOTS
from tests.support.jobs import get_many, get_one, outcomes
from tests.support.patience import PATIENCE_SECONDS, until

#: Longer than any wait here: a call that ends has not waited for it to pass.
GRACE_SECONDS = 600.0
#: Jobs of each kind, and how long each of them takes.
LOAD = {"coroutine": (400, 0.1), "thread": (100, 0.1), "child": (20, 0.1)}


class Scene:
    """Jobs of all kinds, and what their handlers say of themselves."""

    def __init__(self, url: str, prefix: str, store: Store, path: Path) -> None:
        self.store = store
        self._url = url
        self._prefix = prefix
        self._path = path

    async def add(
        self, kind: str, count: int = 1, *, seconds: float = 0, how: str = ""
    ) -> list[int]:
        data = {"path": str(self._path), "seconds": seconds, "how": how}
        added = await self.store.add(
            [draft(kind, data)] * count, producer=kind + how, seq=1
        )
        return [one.id for one in added]

    def worker(self, grace: float = GRACE_SECONDS) -> Process:
        program = "tests.faults.program_stopping"
        where = (self._url, self._prefix, "")
        return Process(str(grace), *where, program=program)

    def said(self, word: str) -> Counter[int]:
        """Return how often each job began, or ended."""
        # What is being written at the moment may lack the end of its last line.
        whole = self._path.read_text().rpartition("\n")[0]
        lines = [line.split() for line in whole.splitlines()]
        return Counter(int(job_id) for said, job_id, _ in lines if said == word)

    async def begun(self, *ids: int) -> None:
        """Return once these jobs have begun."""
        await until(lambda: self.said("began").keys() >= set(ids))

    async def jobs(self, ids: list[int]) -> list[Job]:
        return await get_many(self.store, ids)


@pytest.fixture
def scene(url: str, prefix: str, store: Store, tmp_path: Path) -> Scene:
    path = tmp_path / "said"
    path.touch()
    return Scene(url, prefix, store, path)


async def stopped(worker: Process, number: signal.Signals) -> int:
    """Stop a worker and return its exit code."""
    worker.signal(number)
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await worker.ended()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_under_load_nothing_is_lost_and_nothing_counted_twice(
    scene: Scene, number: signal.Signals
) -> None:
    kinds: Mapping[str, list[int]] = {
        kind: await scene.add(kind, count, seconds=seconds)
        for kind, (count, seconds) in LOAD.items()
    }
    ids = [job_id for some in kinds.values() for job_id in some]
    async with scene.worker() as worker:
        await scene.begun(*(some[0] for some in kinds.values()))
        code = await stopped(worker, number)

    assert code == 0
    halfway = await scene.jobs(ids)
    assert_all_over_or_untouched(halfway, scene)
    left = [job.id for job in halfway if job.state is State.WAITING]
    assert 0 < len(left) < len(ids)

    await run_to_the_end(scene, ids)


def assert_all_over_or_untouched(jobs: list[Job], scene: Scene) -> None:
    ended = scene.said("ended")
    assert scene.said("began") == ended, "a run was cut off within the grace"
    for job in jobs:
        is_over = job.id in ended
        assert job.state is (State.COMPLETE if is_over else State.WAITING)
        assert job.attempts == int(is_over)
        # One that was on its way to the worker is handed back unseen.
        assert outcomes(job) in ([["complete"]] if is_over else [[], ["released"]])


async def run_to_the_end(scene: Scene, ids: list[int]) -> None:
    async with scene.worker() as worker:
        await until(lambda: scene.said("ended").keys() >= set(ids))
        assert await stopped(worker, signal.SIGTERM) == 0
    assert scene.said("began") == scene.said("ended") == Counter(ids)
    for job in await scene.jobs(ids):
        assert (job.state, job.attempts) == (State.COMPLETE, 1)
        assert outcomes(job).count("complete") == 1


async def test_what_never_ends_is_handed_back_when_the_grace_is_over(
    scene: Scene,
) -> None:
    """Without having spent its attempt, of which it has but one."""
    ids = [(await scene.add(kind, how=FOR_EVER))[0] for kind in SLOTS]
    async with scene.worker(grace=0.3) as worker:
        await scene.begun(*ids)
        code = await stopped(worker, signal.SIGTERM)

    assert code == 0
    for job in await scene.jobs(ids):
        assert (job.state, job.attempts, job.stalls) == (State.WAITING, 0, 0)
        assert outcomes(job) == ["released"]


@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)],
)
async def test_a_second_signal_hands_back_at_once(
    scene: Scene, first: signal.Signals, second: signal.Signals
) -> None:
    ids = [(await scene.add(kind, how=FOR_EVER))[0] for kind in SLOTS]
    # More than there are slots for: nobody begins these while it stops.
    more = [job_id for kind in SLOTS for job_id in await scene.add(kind, SLOTS[kind])]
    async with scene.worker() as worker:
        await scene.begun(*ids)
        worker.signal(first)
        assert await worker.line() == "stopping"
        code = await stopped(worker, second)

    assert code == 0
    for job in await scene.jobs(ids):
        assert (job.state, job.attempts) == (State.WAITING, 0)
        assert outcomes(job) == ["released"]
    for job in await scene.jobs(more):
        assert job.state in (State.WAITING, State.COMPLETE)


async def test_a_thread_that_does_not_respond_is_left_behind_and_its_job_runs_again(
    scene: Scene,
) -> None:
    """It is in a call into C; its attempt is not spent on it either."""
    [job_id] = await scene.add("thread", how=DEAF)
    async with scene.worker(grace=0.1) as worker:
        await scene.begun(job_id)
        code = await stopped(worker, signal.SIGTERM)

    assert code == 0
    # The worker deregistered: nobody has to wait for its lease.
    while (job := await get_one(scene.store, job_id)).state is State.ACTIVE:
        await scene.store.tend()
    assert (job.state, job.attempts) == (State.WAITING, 0)
    # Handed back at the last moment, or taken back.
    assert outcomes(job) in (["released"], ["stalled"])


async def test_a_signal_to_all_processes_fails_no_job_in_a_child(scene: Scene) -> None:
    """As systemd does it: the worker and its children are ordered to end at once."""
    ids = await scene.add("child", SLOTS["child"], seconds=1)
    async with scene.worker() as worker:
        await scene.begun(*ids)
        for pid in children_of(worker.pid):
            os.kill(pid, signal.SIGTERM)
        code = await stopped(worker, signal.SIGTERM)

    assert code == 0
    for job in await scene.jobs(ids):
        assert (job.state, job.error) == (State.COMPLETE, None)


async def test_what_a_child_forked_still_receives_signals(scene: Scene) -> None:
    """A pool of processes is ended by such signals."""
    [job_id] = await scene.add("child", how=POOL)
    async with scene.worker() as worker:
        await until(lambda: job_id in scene.said("ended"))
        assert await stopped(worker, signal.SIGTERM) == 0

    assert (await get_one(scene.store, job_id)).state is State.COMPLETE


async def test_the_children_of_a_killed_worker_end_with_it(scene: Scene) -> None:
    """What it began will be begun again by another: it must not go on."""
    ids = await scene.add("child", SLOTS["child"], how=FOR_EVER)
    async with scene.worker() as worker:
        await scene.begun(*ids)
        children = children_of(worker.pid)
        worker.kill()
        await worker.ended()
        await until(lambda: not any(map(is_there, children)))

    assert len(children) == len(ids)


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
