"""A worker is killed at every step of a job's life; another ends it, once."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from kue import Kue, State
from kue.model.draft import draft
from kue.model.job import Job
from kue.model.retry_policy import CANCELLED
from kue.model.settings import DEFAULT_PREFIX
from kue.store.contract import Store
from kue.store.values import Claim, ClaimRequest, Result
from kue.worker.active_job import ActiveJob
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.processes import Process
from tests.faults.program_steps import (
    OTHER_TYPE,
    SLOTS,
    TYPE,
    effect,
)
from tests.support.jobs import get_one, outcomes, until_ended
from tests.support.leases import PATIENT_LEASE_SECONDS
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers import RedisServer

KILLED = -signal.SIGKILL

#: What happens to a worker that is killed at a step.
Happens: TypeAlias = "Callable[[Story, str], Awaitable[None]]"
AtEach: TypeAlias = "Callable[[Iterable[str], Happens], Awaitable[None]]"


class Story:
    """Jobs, a worker that dies over them, and another that ends them."""

    def __init__(self, url: str, prefix: str, store: Store, effects: Path) -> None:
        self.store = store
        self._url = url
        self._prefix = prefix
        self._effects = effects
        #: Jobs that the heir began, as they come.
        self.inherited: asyncio.Queue[int] = asyncio.Queue()

    @property
    def effects(self) -> Counter[int]:
        """How often the handler of each job did what it is for."""
        return Counter(map(int, self._effects.read_text().split()))

    async def add(
        self, type: str = TYPE, count: int = 1, *, producer: str = ""
    ) -> list[int]:
        batch = [draft(type)] * count
        added = await self.store.add(batch, producer=producer or type, seq=1)
        return [one.id for one in added]

    def victim(self, step: str) -> Process:
        """Return a worker that dies at *step*."""
        program = "tests.faults.program_steps"
        return Process(
            step, self._url, self._prefix, str(self._effects), program=program
        )

    async def kill_at(self, step: str) -> None:
        """Let a worker work until it dies at *step*."""
        async with asyncio.timeout(PATIENCE_SECONDS), self.victim(step) as victim:
            assert await victim.ended() == KILLED

    @asynccontextmanager
    async def heir(self) -> AsyncIterator[None]:
        """Let another worker work, which has a long life."""
        queue = Kue(self._url, prefix=self._prefix, lease=PATIENT_LEASE_SECONDS)
        for type in (TYPE, OTHER_TYPE):
            queue.process(type, SLOTS, self._handle)
        async with queue, queue.work():
            yield

    async def _handle(self, job: ActiveJob) -> str:
        self.inherited.put_nowait(job.id)
        await asyncio.to_thread(partial(effect, self._effects, job.id))
        return "heir"

    async def finish(self, ids: list[int]) -> list[Job]:
        """Let the heir work until all of *ids* have ended; see that all is well."""
        async with asyncio.timeout(PATIENCE_SECONDS), self.heir():
            jobs = [await until_ended(self.store, job_id) for job_id in ids]
        await assert_sound(self.store)
        return jobs


@pytest.fixture(params=["sqlite", "redis"])
def new_story(
    request: pytest.FixtureRequest, prefix: str, new_store: NewStore, tmp_path: Path
) -> Callable[[str], Story]:
    """Makes stories that know nothing of each other."""

    def make(name: str) -> Story:
        name = name.replace(" ", "-")
        effects = tmp_path / f"effects-{name}"
        effects.touch()
        url, own = f"sqlite:///{tmp_path / name}.db", DEFAULT_PREFIX
        if request.param == "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            url, own = server.url, f"{prefix}-{name}"
        return Story(url, own, new_store(url, prefix=own), effects)

    return make


@pytest.fixture
def story(new_story: Callable[[str], Story]) -> Story:
    return new_story("only")


@pytest.fixture
def at_each(new_story: Callable[[str], Story]) -> AtEach:
    """Tells what happens at each of some steps, all at once: leases take their time."""

    async def tell(steps: Iterable[str], happens: Happens) -> None:
        async with asyncio.TaskGroup() as group:
            for step in steps:
                group.create_task(_noted(step, happens(new_story(step), step)))

    return tell


async def _noted(step: str, happening: Awaitable[None]) -> None:
    try:
        await happening
    except Exception as exc:
        exc.add_note(f"the worker was killed at the step {step!r}")
        raise


def assert_completed_once(job: Job, by: str = "heir") -> None:
    """A crash is not the job's fault: one attempt was spent, on the run that counts."""
    assert (job.state, job.attempts, job.result) == (State.COMPLETE, 1, by)
    assert outcomes(job).count("complete") == 1


async def test_killed_before_its_effect_the_job_runs_again_and_has_it_once(
    at_each: AtEach,
) -> None:
    """After the claim, before the handler, in the handler, around a heartbeat."""

    async def happens(story: Story, step: str) -> None:
        ids = await story.add()
        await story.kill_at(step)

        [job] = await story.finish(ids)

        assert_completed_once(job)
        assert (outcomes(job), job.stalls) == (["stalled", "complete"], 1)
        assert story.effects == Counter(ids)

    steps = (
        "claimed",
        "received",
        "before the effect",
        "before a heartbeat",
        "after a heartbeat",
    )
    await at_each(steps, happens)


async def test_killed_after_its_effect_and_before_it_could_say_so_the_job_runs_twice(
    story: Story,
) -> None:
    """The price of at least once; one of the two runs counts."""
    ids = await story.add()
    await story.kill_at("before settling")

    [job] = await story.finish(ids)

    assert_completed_once(job)
    assert (outcomes(job), job.stalls) == (["stalled", "complete"], 1)
    assert story.effects == Counter(ids * 2)


async def test_killed_when_the_store_had_recorded_its_end_the_job_is_over(
    story: Story,
) -> None:
    ids = await story.add()
    await story.kill_at("settled")

    [job] = await story.finish(ids)

    assert_completed_once(job, by="victim")
    assert (outcomes(job), job.stalls) == (["complete"], 0)
    assert story.effects == Counter(ids)


async def test_killed_with_many_running_jobs_none_is_lost_or_completed_twice(
    at_each: AtEach,
) -> None:
    async def happens(story: Story, step: str) -> None:
        ids = await story.add(TYPE, 20) + await story.add(OTHER_TYPE, 20)
        await story.kill_at(step)

        jobs = await story.finish(ids)

        for job in jobs:
            assert (job.state, job.attempts) == (State.COMPLETE, 1)
            assert outcomes(job) in (["complete"], ["stalled", "complete"])
        # What ran twice is what was running.
        repeated = [job.id for job in jobs if job.stalls]
        assert len(repeated) <= 2 * SLOTS
        assert story.effects.keys() == set(ids)
        assert {job_id for job_id, times in story.effects.items() if times > 1} <= set(
            repeated
        )

    await at_each(("claimed", "received", "before settling", "settled"), happens)


async def test_killed_while_handing_back_each_job_is_handed_back_or_rescued(
    at_each: AtEach,
) -> None:
    async def happens(story: Story, step: str) -> None:
        ids = await story.add(TYPE, SLOTS) + await story.add(OTHER_TYPE, SLOTS)
        async with asyncio.timeout(PATIENCE_SECONDS), story.victim(step) as victim:
            for _ in ids:
                await victim.line()
            victim.terminate()
            assert await victim.ended() == KILLED

        jobs = await story.finish(ids)

        for job in jobs:
            assert_completed_once(job)
            assert outcomes(job) in (["released", "complete"], ["stalled", "complete"])
            assert job.stalls == outcomes(job).count("stalled")
        if step == "before handing back":
            assert {job.stalls for job in jobs} == {1}
        if step == "after handing back some":
            assert any(job.stalls == 0 for job in jobs)
        assert story.effects == Counter(ids)

    steps = (
        "before handing back",
        "after handing back some",
        "before handing back the rest",
        "after handing back",
    )
    await at_each(steps, happens)


async def test_killed_in_its_maintenance_the_next_worker_goes_on_with_it(
    at_each: AtEach,
) -> None:
    async def happens(story: Story, step: str) -> None:
        ids = await story.add()
        await story.store.claim(
            ClaimRequest([TYPE], 1, worker="lost", claim=Claim("a", 1))
        )
        await story.store.leave("lost")
        await story.kill_at(step)

        [job] = await story.finish(ids)

        # Taken back once; the worker that died may have begun it.
        assert_completed_once(job, by=str(job.result))
        assert outcomes(job).count("stalled") == job.stalls >= 1
        assert story.effects.keys() == set(ids)

    await at_each(("before maintenance", "after maintenance"), happens)


async def test_killed_when_it_was_woken_its_wake_up_is_not_lost(story: Story) -> None:
    """Another idle worker begins the job, though another may have been woken."""
    ids: list[int] = []
    async with asyncio.timeout(PATIENCE_SECONDS), story.victim("woken") as victim:
        assert await victim.line() == "waits"
        death = asyncio.create_task(victim.ended())
        async with story.heir():
            while not death.done():
                ids += await story.add(producer=f"waker {len(ids)}")
                assert await story.inherited.get() == ids[-1]
        assert await death == KILLED

    assert story.effects == Counter(ids)
    for job_id in ids:
        assert outcomes(await get_one(story.store, job_id)) == ["complete"]
    await assert_sound(story.store)


async def test_killed_when_it_was_handed_jobs_while_it_waited_they_run_elsewhere(
    story: Story,
) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), story.victim("handed jobs") as victim:
        assert await victim.line() == "waits"
        ids = await story.add()
        assert await victim.ended() == KILLED

    [job] = await story.finish(ids)

    assert_completed_once(job)
    assert outcomes(job) == ["stalled", "complete"]
    assert story.effects == Counter(ids)


async def test_killed_over_a_job_that_was_asked_to_end_the_job_is_cancelled(
    story: Story,
) -> None:
    """Nobody wants it any more: it is not run again."""
    [job_id] = ids = await story.add()
    async with asyncio.timeout(PATIENCE_SECONDS), story.victim("held") as victim:
        await victim.line()
        # It does not receive the request, and dies.
        victim.freeze()
        [reply] = await story.store.cancel([job_id], reason="not wanted")
        assert reply.word is Result.ASKED
        victim.kill()
        await victim.ended()

    [job] = await story.finish(ids)

    assert (job.id, job.state) == (job_id, State.CANCELLED)
    assert job.history[-1].reason.startswith(CANCELLED)
    assert story.effects == Counter()
