"""Jobs whose events are off."""

from __future__ import annotations

import asyncio

import pytest

from kue import JobNotFound, Kue
from kue.model.job import Completed, Failed
from kue.store.contract import Store
from tests.client.test_subscriptions import Ear, run_once
from tests.support.engines import Engine
from tests.support.flaky import Wire
from tests.support.jobs import OOPS


async def test_a_queue_without_job_events_publishes_none(
    place: Engine, wire: Wire
) -> None:
    ear = Ear()
    async with Kue(store=wire.store, job_events=False) as q:
        q.on("job_enqueue", ear)
        await q.enqueue("email")
        await q.create_job("email", {"to": "ann"}).priority("high").save()
        await q.enqueue_many("email", range(2))
        task = q.task(_do_nothing)
        await task.enqueue()
        loud = await q.create_job("email").events().save()
        await ear.until_heard(1)

        assert [event.job_id for event in ear.heard] == [loud.id]


async def test_the_result_of_a_quiet_job_is_waited_for(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    job = await q.create_job("email").events(False).save()
    waiting = asyncio.create_task(job.result(timeout=60))
    await wire.until_answered("get")
    await run_once(kue_store, "email", Completed(7))

    assert await waiting == 7


async def test_a_quiet_job_calls_back_with_its_end_alone(
    q: Kue, kue_store: Store
) -> None:
    ear = Ear()
    job = await q.create_job("email").events(False).save()
    job.on("start", ear).on("failed", ear)
    await run_once(kue_store, "email", Failed(OOPS))

    await ear.until_heard(1)
    assert [event.kind for event in ear.heard] == ["failed"]


async def test_waiting_for_a_quiet_job_ends_when_it_is_removed(
    q: Kue, wire: Wire
) -> None:
    job = await q.create_job("email").events(False).save()
    waiting = asyncio.create_task(job.result(timeout=60))
    await wire.until_answered("get")
    await job.remove()

    with pytest.raises(JobNotFound):
        await waiting


async def test_listeners_of_a_quiet_job_are_refused(q: Kue) -> None:
    with pytest.raises(ValueError, match=r"switch them on with \.events\(True\)"):
        await q.create_job("email").events(False).on("complete", print).save()


async def _do_nothing() -> None:
    pass
