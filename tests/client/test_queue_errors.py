"""What ``q.on("error", …)`` receives."""

from __future__ import annotations

import pytest

from kue import Event, Kind, Kue, StoreCorrupt
from kue.model.job import Failed, Retried
from kue.store.contract import Store
from tests.client.test_subscriptions import Ear, run_once
from tests.support.flaky import Wire
from tests.support.jobs import OOPS


async def test_every_failed_run_is_an_error(q: Kue, kue_store: Store) -> None:
    ear = Ear()
    q.on("error", ear)
    job = await q.enqueue("email", attempts=2)

    await run_once(kue_store, "email", Retried(OOPS))
    await run_once(kue_store, "email", Failed(OOPS))

    await ear.until_heard(2)
    assert ear.kinds == [Kind.ERROR, Kind.ERROR]
    assert {event.job_id for event in ear.heard} == {job.id}
    assert {event.detail["message"] for event in ear.heard} == {OOPS.message}


async def test_what_a_listener_raises_is_an_error(q: Kue) -> None:
    ear = Ear()
    q.on("error", ear)

    def broken(event: Event) -> None:
        raise ValueError("no logo")

    q.on("job_enqueue", broken)
    await q.enqueue("email")

    await ear.until_heard(1)
    [event] = ear.heard
    assert (event.job_id, event.detail["kind"]) == (0, "ValueError")
    assert event.detail["source"] == "listener for enqueue"


async def test_what_a_listener_of_a_job_raises_is_an_error(q: Kue) -> None:
    ear = Ear()
    q.on("error", ear)

    def broken(event: Event) -> None:
        raise ValueError("no logo")

    job = await q.create_job("email").on("cancelled", broken).save()
    await job.cancel()

    await ear.until_heard(1)
    assert ear.heard[0].detail["message"] == "no logo"


async def test_an_outage_is_one_error_however_long_it_lasts(q: Kue, wire: Wire) -> None:
    ear = Ear()
    q.on("error", ear)
    q.process("email", _do_nothing)
    async with q.work() as worker:
        await wire.until_answered("cycle")
        wire.break_off("cycle", "renew", "tend", "stand_by")
        await ear.until_heard(1)
        wire.mend()
        await (await q.enqueue("email")).result(20)
        assert not worker.is_stopping

    [event] = ear.heard
    assert event.detail["kind"] == "StoreUnavailable"


async def test_damage_that_maintenance_meets_is_an_error(q: Kue, wire: Wire) -> None:
    ear = Ear()
    q.on("error", ear)
    q.process("email", _do_nothing)
    wire.spoil("tend", StoreCorrupt("a record has no body"))

    async with q.work():
        await ear.until_heard(1)
        wire.mend()

    assert ear.heard[0].detail["source"] == "maintenance"
    assert ear.heard[0].detail["message"] == "a record has no body"


async def test_a_listener_for_errors_that_raises_is_not_called_for_that(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear()

    async def broken(event: Event) -> None:
        await ear(event)
        raise ValueError("oops")

    q.on("error", broken)
    q.on("job_enqueue", broken)
    await q.enqueue("email")

    # One for the event itself, one for what its listener raised.
    await ear.until_heard(2)
    assert ear.kinds == [Kind.ENQUEUE, Kind.ERROR]


async def test_a_listener_for_errors_can_be_removed(q: Kue, kue_store: Store) -> None:
    gone, kept = Ear(), Ear()
    q.on("error", gone).on("error", kept)

    q.off("error", gone)
    await q.enqueue("email")
    await run_once(kue_store, "email", Failed(OOPS))

    await kept.until_heard(1)
    assert not gone.heard


async def _do_nothing(job: object) -> None:
    pass
