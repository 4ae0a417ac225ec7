"""Listeners of jobs from before they are saved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kue import (
    ActiveJob,
    DuplicateJob,
    Event,
    JobError,
    Kind,
    Kue,
    StoreUnavailable,
)
from kue.model.job import Completed
from kue.store.contract import Store
from tests.client.test_subscriptions import Ear, run_once
from tests.support.flaky import Wire
from tests.support.patience import eventually, until


async def test_a_listener_from_before_the_save_receives_every_event(q: Kue) -> None:
    ear = Ear()

    @q.process("resize")
    async def resize(job: ActiveJob) -> None:
        await job.progress(1, 2)

    async with q.work():
        builder = q.create_job("resize")
        for event in ("enqueue", "start", "progress", "complete"):
            builder.on(event, ear)
        job = await builder.save()
        await ear.until_heard(4)

    assert ear.kinds == [Kind.ENQUEUE, Kind.START, Kind.PROGRESS, Kind.COMPLETE]
    assert {event.job_id for event in ear.heard} == {job.id}


async def test_events_that_precede_the_reply_to_the_add_are_received(
    q: Kue, wire: Wire, kue_store: Store
) -> None:
    """A worker elsewhere may be done before the producer knows the id of its job."""
    ear = Ear()
    reply = wire.hold_reply("add")
    sent = asyncio.create_task(q.create_job("email").on("complete", ear).save())
    await eventually(kue_store.count)
    await run_once(kue_store, "email", Completed())
    reply.set()

    job = await sent

    await ear.until_heard(1)
    assert ear.heard[0].job_id == job.id


async def test_listeners_receive_only_the_events_of_their_job(
    q: Kue, kue_store: Store
) -> None:
    first, second = Ear(), Ear()
    one, other = await asyncio.gather(
        q.create_job("email").on("complete", first).save(),
        q.create_job("report").on("complete", second).save(),
    )

    await run_once(kue_store, "report", Completed())
    await second.until_heard(1)
    await run_once(kue_store, "email", Completed())
    await first.until_heard(1)

    assert [event.job_id for event in first.heard] == [one.id]
    assert [event.job_id for event in second.heard] == [other.id]


async def test_a_listener_of_a_saved_job_is_removed_by_its_handle(
    q: Kue, kue_store: Store
) -> None:
    gone, kept = Ear(), Ear()
    builder = q.create_job("email").on("complete", gone).on("complete", kept)
    job = await builder.save()

    job.off("complete", gone)
    await run_once(kue_store, "email", Completed())

    await kept.until_heard(1)
    assert not gone.heard


async def test_an_existing_job_that_has_ended_reports_its_end(
    q: Kue, kue_store: Store
) -> None:
    await q.create_job("email").unique("hi", for_="1h").save()
    await run_once(kue_store, "email", Completed())
    ear = Ear()

    again = q.create_job("email").unique("hi", for_="1h").on("complete", ear)
    job = await again.save()

    assert not job.is_new
    assert ear.kinds == [Kind.COMPLETE]


async def test_an_end_that_was_missed_in_an_outage_is_reported_after_it(
    q: Kue, kue_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = Ear()
    watch, is_over = kue_store.watch, asyncio.Event()

    @asynccontextmanager
    async def lost() -> AsyncIterator[AsyncIterator[Event]]:
        async def events() -> AsyncIterator[Event]:
            await is_over.wait()
            monkeypatch.setattr(kue_store, "watch", watch)
            raise StoreUnavailable("the connection was lost")
            yield

        yield events()

    monkeypatch.setattr(kue_store, "watch", lost, raising=False)
    await q.create_job("email").on("complete", ear).save()
    await run_once(kue_store, "email", Completed())
    is_over.set()

    await ear.until_heard(1)
    assert ear.kinds == [Kind.COMPLETE]


async def test_the_subscription_ends_with_the_last_of_the_jobs(
    q: Kue, kue_store: Store
) -> None:
    ear = Ear()
    await q.create_job("email").on("complete", ear).save()
    await run_once(kue_store, "email", Completed())
    await ear.until_heard(1)

    await until(lambda: not _subscription())


async def test_the_subscription_ends_if_the_only_save_fails(q: Kue, wire: Wire) -> None:
    wire.spoil("add", ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        await q.create_job("email").on("complete", print).save()

    await until(lambda: not _subscription())


async def test_a_listener_is_not_interrupted_by_a_save_that_fails(
    q: Kue, kue_store: Store
) -> None:
    ear = Ear()
    await q.enqueue("report", unique="daily")

    async def follow_up(event: Event) -> None:
        again = q.create_job("report").unique("daily", on_conflict="reject")
        with pytest.raises(DuplicateJob):
            await again.on("complete", print).save()
        await asyncio.sleep(0)
        await ear(event)

    await q.create_job("email").on("complete", follow_up).save()
    await run_once(kue_store, "email", Completed())

    await ear.until_heard(1)
    await until(lambda: not _subscription())


async def test_a_listener_is_refused_once_the_job_is_saved(q: Kue) -> None:
    builder = q.create_job("email")
    await builder.save()

    with pytest.raises(JobError, match="this job was saved as job"):
        builder.on("complete", print)


def test_the_blocking_builder_has_listeners(plain_q: Kue) -> None:
    ear = Ear()
    with plain_q.sync as sync:
        job = sync.create_job("email").on("cancelled", ear).save()
        job.cancel("no")
        sync.call(lambda q: ear.until_heard(1))

    assert ear.kinds == [Kind.CANCELLED]


def _subscription() -> list[asyncio.Task[object]]:
    names = "kue job listeners"
    return [task for task in asyncio.all_tasks() if task.get_name() == names]
