"""A worker with a fixed name, and others that had it before or have it still."""

from __future__ import annotations

import os
from typing import Any

import pytest

from kue import ActiveJob, JobHandle, Kue, State
from kue.store.contract import Store
from kue.store.values import RenewRequest
from tests.support.flaky import Wire
from tests.support.jobs import claim, outcomes
from tests.support.patience import PATIENCE_SECONDS, until

#: Longer than any test takes.
LEASE_MS = 3_600_000


async def echo(job: ActiveJob) -> Any:
    return job.data


async def hold(q: Kue, store: Store, lease: int = LEASE_MS) -> JobHandle[Any]:
    """Have a worker of another process, named w1 as well, run a job."""
    q.process("email", echo)
    job = await q.enqueue("email", "hello")
    await claim(store, worker="w1", lease=lease, now=await store.now())
    info = {"host": "elsewhere", "pid": 7}
    await store.renew(RenewRequest("w1", info=info, lease=lease))
    return job


async def test_what_a_killed_worker_ran_is_requeued_when_its_lease_is_over(
    q: Kue, kue_store: Store
) -> None:
    job = await hold(q, kue_store, lease=300)

    async with q.work(name="w1"):
        assert await job.result(timeout=PATIENCE_SECONDS) == "hello"

    assert outcomes(await job.refresh()) == ["stalled", "complete"]


async def test_it_waits_until_one_elsewhere_has_stopped(
    q: Kue, wire: Wire, kue_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    job = await hold(q, kue_store)

    async with q.work(name="w1"):
        await until(lambda: "pid 7 on elsewhere" in caplog.text)
        assert (await job.refresh()).state is State.ACTIVE
        assert wire.times("cycle") == 0
        await kue_store.leave("w1")
        assert await job.result(timeout=PATIENCE_SECONDS) == "hello"


async def test_two_workers_of_a_process_do_not_share_a_name(
    q: Kue, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    q.process("email", echo)
    async with q.work(name="w1"):
        await wire.until_answered("renew")
        async with q.work(name="w1") as second:
            await until(lambda: f"pid {os.getpid()}" in caplog.text)
            job = await q.enqueue("email", 1)
            assert await job.result(timeout=PATIENCE_SECONDS) == 1
            assert second.done == 0
        # The first one goes on.
        assert [status.alive for status in await q.workers()] == [True]


async def test_one_that_is_stopped_while_it_waits_leaves_the_other_alone(
    q: Kue, kue_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    job = await hold(q, kue_store)

    async with q.work(name="w1"):
        await until(lambda: "worker w1 waits" in caplog.text)

    assert [status.alive for status in await q.workers()] == [True]
    assert (await job.refresh()).state is State.ACTIVE
