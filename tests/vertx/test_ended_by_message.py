"""Runs that are ended by messages, and custom events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kue import ActiveJob, JobFailed, Kue
from kue.bus import EventBus
from kue.vertx import emit, ended_by_message, job_done, job_done_fail, on_job
from tests.bus.hearing import Heard
from tests.support.patience import PATIENCE_SECONDS
from tests.vertx.hearing import AT


@asynccontextmanager
async def running(q: Kue, handler: Any) -> AsyncIterator[None]:
    q.process("email", handler)
    async with q.work():
        yield


async def test_a_message_from_elsewhere_ends_a_run(q: Kue, bus: EventBus) -> None:
    begun: asyncio.Queue[ActiveJob] = asyncio.Queue()
    async with running(q, ended_by_message(bus, begun.put)):
        done = await q.enqueue("email")
        job_done(bus, (await begun.get()).job, {"sent": 1})
        assert await done.result(timeout=PATIENCE_SECONDS) == {"sent": 1}

        failed = await q.enqueue("email")
        job_done_fail(bus, (await begun.get()).job, "no address")
        with pytest.raises(JobFailed, match="no address"):
            await failed.result(timeout=PATIENCE_SECONDS)
    assert not bus.consumers()


async def test_the_addresses_and_the_payload_are_those_of_vertx_kue(
    q: Kue, bus: EventBus
) -> None:
    """D-6: its consumers are there before the handler is called."""

    async def answer(job: ActiveJob) -> None:
        address = f"vertx.kue.handler.workers.done.{job.job.address_id}"
        bus.send(address, {"id": job.id, "result": 7})

    async with running(q, ended_by_message(bus, answer)):
        job = await q.enqueue("email")
        assert await job.result(timeout=PATIENCE_SECONDS) == 7


async def test_a_second_message_changes_nothing(q: Kue, bus: EventBus) -> None:
    """D-7."""

    async def answer(job: ActiveJob) -> None:
        job_done(bus, job.job, 1)
        job_done(bus, job.job, 2)
        job_done_fail(bus, job.job, "oops")

    async with running(q, ended_by_message(bus, answer)):
        job = await q.enqueue("email")
        assert await job.result(timeout=PATIENCE_SECONDS) == 1


async def test_a_blocking_handler_may_answer_from_its_thread(
    q: Kue, bus: EventBus
) -> None:
    loop = asyncio.get_running_loop()

    def answer(job: ActiveJob) -> None:
        loop.call_soon_threadsafe(job_done, bus, job.job, "thread")

    async with running(q, ended_by_message(bus, answer)):
        job = await q.enqueue("email")
        assert await job.result(timeout=PATIENCE_SECONDS) == "thread"


async def test_a_handler_that_raises_fails_the_run(q: Kue, bus: EventBus) -> None:
    async def broken(job: ActiveJob) -> None:
        raise ValueError("oops")

    async with running(q, ended_by_message(bus, broken)):
        job = await q.enqueue("email")
        with pytest.raises(JobFailed, match="oops"):
            await job.result(timeout=PATIENCE_SECONDS)
    assert not bus.consumers()


async def test_events_of_ones_own_reach_those_who_listen_to_the_job(
    q: Kue, bus: EventBus
) -> None:
    job, heard = q.create_job("email"), Heard()
    plain = Heard()
    on_job(bus, "own_opened", job, heard)
    address = AT.job("own_opened", job.address_id, "email")
    bus.consumer(address, lambda message: plain(message.body))

    emit(bus, "own_opened", job, {"times": 2})

    assert await heard.next() == {"times": 2}
    assert await plain.next() == {"times": 2}


@pytest.mark.parametrize(
    "event", ["complete", "opened", "own_", "own_Opened", "own_.x"]
)
def test_events_of_the_store_cannot_be_emitted(event: str, bus: EventBus) -> None:
    job = {"address_id": "a", "type": "email"}

    with pytest.raises(ValueError, match="named own_…, in small letters"):
        emit(bus, event, job)
