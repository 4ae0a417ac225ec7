"""Operating a queue: pauses, limits, clearing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kue import ActiveJob, Kue, State
from kue.store.contract import Store
from kue.store.values import Limits, RenewRequest, WhenFull
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


async def test_a_cap_and_an_order_are_kept_with_the_limits(q: Kue) -> None:
    await q.limit("email", max_waiting=10, when_full="wait", full_timeout="1m")
    await q.limit("report", concurrency=2, fair=True, weights={"vip": 3})
    await q.limit("sms", max_waiting=10, when_full="drop-oldest")
    await q.limit("push", ageing="10m")

    assert await q.limits() == {
        "email": Limits(max_waiting=10, when_full=WhenFull.WAIT, full_timeout=60_000),
        "report": Limits(concurrency=2, fair=True, weights={"vip": 3}),
        "sms": Limits(max_waiting=10, when_full=WhenFull.DROP_OLDEST),
        "push": Limits(ageing=600_000),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_waiting": 0}, "max_waiting must be 1 or more, not 0"),
        ({"when_full": "wait"}, "say what happens at max_waiting; give that too"),
        ({"full_timeout": 5}, "say what happens at max_waiting; give that too"),
        (
            {"max_waiting": 5, "when_full": "explode"},
            "when_full must be 'refuse', 'wait' or 'drop-oldest', not 'explode'",
        ),
        ({"max_waiting": 5, "full_timeout": "soon"}, "full_timeout 'soon'"),
        ({"weights": {"vip": 3}}, "weights are for groups of a fair type"),
        ({"fair": True, "weights": {"vip": 0}}, "'vip' must be from 1 to 60, not 0"),
        ({"fair": True, "weights": {"vip": 61}}, "'vip' must be from 1 to 60, not 61"),
        ({"fair": True, "ageing": "10m"}, "either fair or has ageing, not both"),
        ({"ageing": 0}, "ageing must be at least 1, not 0"),
        ({"ageing": "8d"}, "ageing must be at most 604,800,000 ms for one step"),
        (
            {"ageing": "1m", "max_waiting": 5, "when_full": "drop-oldest"},
            "use 'refuse' or 'wait'",
        ),
    ],
)
async def test_a_cap_or_an_order_that_makes_no_sense_is_refused(
    q: Kue, given: dict[str, Any], message: str
) -> None:
    await q.limit("email", concurrency=2)

    with pytest.raises(ValueError, match=re.escape(message)):
        await q.limit("email", **given)

    assert await q.limits() == {"email": Limits(concurrency=2)}


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
