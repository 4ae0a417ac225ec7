"""Workers out of touch with their store: what becomes of what they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kue import JobFailed, Kue, State
from kue.model.settings import Settings
from tests.support.engines import Engine
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS, until


class Work:
    """A handler whose first run goes on until it is told to end."""

    def __init__(self) -> None:
        self.begun = 0
        self.is_over = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, job: object) -> str:
        self.begun += 1
        if self.begun > 1:
            return "second run"
        try:
            await self.release.wait()
        finally:
            self.is_over.set()
        return "first run"


def strict(settings: Settings, wire: Wire, lease: str = "1s") -> Kue:
    return Kue(
        settings.url,
        prefix=settings.prefix,
        store=wire.store,
        lease=lease,
        strict_lease=True,
    )


@pytest.fixture
async def strict_q(place: Engine, wire: Wire) -> AsyncIterator[Kue]:
    async with strict(place.settings, wire) as q:
        yield q


async def test_a_worker_out_of_touch_lets_its_runs_go_on(q: Kue, wire: Wire) -> None:
    work = Work()
    q.process("email", work)

    job = await q.enqueue("email")
    async with q.work():
        await until(lambda: work.begun == 1)
        wire.is_cut = True
        # Longer than the lease, which nothing announces.
        await asyncio.sleep(1.5)
        assert not work.is_over.is_set()
        work.release.set()
        wire.is_cut = False
        assert await job.result(timeout=PATIENCE_SECONDS) == "first run"


@pytest.mark.parametrize("fault", ["refused", "not answered"])
async def test_with_a_strict_lease_its_runs_end_and_begin_anew(
    strict_q: Kue, wire: Wire, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work()
    strict_q.process("email", work)

    job = await strict_q.enqueue("email")
    async with strict_q.work():
        await until(lambda: work.begun == 1)
        gate = asyncio.Event()
        if fault == "refused":
            wire.is_cut = True
        else:
            gate = wire.hold("renew")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await work.is_over.wait()
        wire.is_cut = False
        gate.set()
        assert await job.result(timeout=PATIENCE_SECONDS) == "second run"

    ended = await job.refresh()
    assert [attempt.outcome for attempt in ended.history] == ["released", "complete"]
    assert ended.history[0].reason == "the worker was out of touch with the store"
    assert ended.attempts == 1
    assert caplog.text.count("cancelling 1 running jobs of type email") == 1


async def test_with_a_strict_lease_a_job_delivered_at_most_once_fails(
    strict_q: Kue, wire: Wire
) -> None:
    work = Work()
    strict_q.process("email", work)

    job = await strict_q.enqueue("email", delivery="at-most-once")
    async with strict_q.work():
        await until(lambda: work.begun == 1)
        wire.is_cut = True
        async with asyncio.timeout(PATIENCE_SECONDS):
            await work.is_over.wait()
        wire.is_cut = False
        with pytest.raises(JobFailed, match="OutOfTouch"):
            await job.result(timeout=PATIENCE_SECONDS)


async def test_with_a_strict_lease_a_worker_in_touch_goes_on(
    place: Engine, wire: Wire
) -> None:
    work = Work()
    # So long that a busy machine does not cost the worker its run.
    async with strict(place.settings, wire, lease="6s") as q:
        q.process("email", work)
        job = await q.enqueue("email")
        async with q.work():
            await until(lambda: work.begun == 1)
            # More than a lease's worth.
            await wire.until_answered("renew", wire.times("renew") + 4)
            assert (await job.refresh()).state is State.ACTIVE
            work.release.set()
            assert await job.result(timeout=PATIENCE_SECONDS) == "first run"
