"""Operating a queue: pauses, limits, clearing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kue import ActiveJob, Kue, State
from kue.store.contract import Store
from kue.store.values import Limits, RenewRequest
from tests.support.jobs import claim


async def test_a_paused_type_hands_out_nothing(q: Kue, kue_store: Store) -> None:
    await q.enqueue("email")

    await q.pause("email", reason="mail server moves", by="ann")

    [pause] = await q.paused()
    assert (pause.type, pause.reason, pause.by) == ("email", "mail server moves", "ann")
    assert await claim(kue_store, "email", now=await kue_store.now()) == []
    assert await q.resume("email") is True
    assert await q.resume("email") is False
    assert len(await claim(kue_store, "email", now=await kue_store.now())) == 1


async def test_a_pause_can_end_by_itself(q: Kue, kue_store: Store) -> None:
    moment = datetime.now(UTC) + timedelta(hours=2)
    before = await kue_store.now()

    await q.pause("email", until="1h")
    await q.pause("report", until=moment)

    email, report = await q.paused()
    assert email.until is not None
    assert email.until >= before + 3_600_000
    assert report.until == int(moment.timestamp() * 1000)


async def test_a_worker_can_be_paused_alone(q: Kue, kue_store: Store) -> None:
    await q.pause(worker="mail-1", reason="new disk", by="ann", until="1h")

    [pause] = await q.paused()
    assert (pause.type, pause.worker) == (None, "mail-1")
    assert (pause.reason, pause.by) == ("new disk", "ann")
    assert (await kue_store.renew(RenewRequest("mail-1"))).paused == pause
    assert (await kue_store.renew(RenewRequest("mail-2"))).paused is None

    assert await q.resume(worker="mail-1") is True
    assert await q.resume(worker="mail-1") is False
    assert (await kue_store.renew(RenewRequest("mail-1"))).paused is None


async def test_a_pause_is_that_of_a_type_or_of_a_worker(q: Kue) -> None:
    with pytest.raises(ValueError, match="'email' and 'mail-1'"):
        await q.pause("email", worker="mail-1")
    with pytest.raises(ValueError, match="call once for each"):
        await q.resume("email", worker="mail-1")

    assert await q.paused() == []


async def test_others_work_on_while_a_worker_is_paused(q: Kue) -> None:
    """Also those that stop when nothing is left: what a limit holds back is left."""

    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        pass

    await q.limit("email", rate=1, per="200ms")
    await q.enqueue_many("email", range(2))
    await q.pause(worker="another")

    await q.run(burst=True)

    assert await q.count("complete") == 2


async def test_limits_are_set_and_lifted(q: Kue) -> None:
    await q.limit("email", concurrency=2, rate=10, per="1m", per_key=1)
    assert await q.limits() == {
        "email": Limits(concurrency=2, rate=10, per=60_000, per_key=1)
    }

    await q.limit("email")
    assert await q.limits() == {}


async def test_a_limit_holds(q: Kue, kue_store: Store) -> None:
    await q.enqueue_many("email", range(5))

    await q.limit("email", concurrency=2)

    assert len(await claim(kue_store, "email", now=await kue_store.now())) == 2


async def test_a_limit_that_makes_no_sense_is_refused(q: Kue) -> None:
    with pytest.raises(ValueError, match="rate must be 1 or more, not 0"):
        await q.limit("email", rate=0)
    with pytest.raises(ValueError, match="per must be at least a millisecond"):
        await q.limit("email", rate=1, per=0)
    assert await q.limits() == {}


async def test_clearing_removes_all_however_many(q: Kue) -> None:
    await q.enqueue_many("email", range(1_200))
    await q.enqueue("report")

    assert await q.clear("email", [State.WAITING]) == 1_200

    assert await q.counts_by_type() == {
        "email": dict.fromkeys(State, 0),
        "report": {state: int(state is State.WAITING) for state in State},
    }


async def test_clearing_spares_what_has_not_ended_unless_told_otherwise(
    q: Kue,
) -> None:
    await q.enqueue("email")
    cancelled = await q.enqueue("email")
    await cancelled.cancel()

    assert await q.clear() == 1

    assert await q.inactive_count() == 1


async def test_running_jobs_are_not_cleared(q: Kue) -> None:
    with pytest.raises(ValueError, match="active"):
        await q.clear("email", ["active"])
