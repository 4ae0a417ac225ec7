"""`check` of a Redis store: records and states that were damaged by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kue.model.job import Completed, Released, Retried, State
from kue.store.contract import Store
from kue.store.values import Limits, MoveRequest, RemoveRequest
from tests.support.hands import Hands, found, left_alone, mended
from tests.support.jobs import (
    HOUR,
    OOPS,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]


# -- records -------------------------------------------------------------------


async def test_a_job_without_a_record_is_taken_out(store: Store, hands: Hands) -> None:
    job_id, other = await add_many(store, 2)
    hands.do("DEL", hands.record(job_id))

    message = f"job {job_id} is in waiting, but has no record"
    await mended(store, "no-record", message, "take it out")

    assert await claim_ids(store) == [other]


@pytest.mark.parametrize("state", [s for s in State if s is not State.WAITING])
async def test_a_job_without_a_record_leaves_nothing_behind(
    store: Store, hands: Hands, state: State
) -> None:
    job_id = await job_in(
        store, state, unique="k", group="g", ttl="1h", expires="1h", retention="1h"
    )
    hands.do("DEL", hands.record(job_id))

    assert ("no-record", job_id) in await found(store, repair=True)

    assert await found(store) == []
    assert await add_one(store, unique="k", priority="critical") != job_id


async def test_a_job_that_is_marked_as_living_and_is_not_is_unmarked(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    await store.remove(RemoveRequest([job_id]))
    hands.mark_live(job_id, 1)

    message = f"job {job_id} is marked as living, but has no record"
    await mended(store, "no-record", message, "unmark it")


@pytest.mark.parametrize("member", ["abc", "007", "-1", "1.5", "\N{DIGIT ONE}\u0661"])
async def test_a_member_that_cannot_be_a_job_is_taken_out(
    store: Store, hands: Hands, member: str
) -> None:
    await add_one(store)
    hands.do("ZADD", hands.of_type("waiting"), 0, member)

    message = f"job {member} is in email:waiting, but there can be no such job here"
    await mended(store, "no-record", message, "take it out")


DAMAGE = {
    "no header": (b"0\t", b"zero\t"),
    "a priority out of range": (b"0\t1", b"5000\t1"),
    "a type that is not written as we do": (b"\temail", b"\te:mail"),
    "no body": (b"{", b""),
    "no end of the header": (b"\n", b" "),
    "a body that is no JSON": (b'"max_attempts"', b"max_attempts"),
    "a story that is no JSON": (b'\n{"run"', b"\n{run"),
    "a story with a run that is none": (b'"run":"', b'"run":"x:'),
}


@pytest.mark.parametrize("option", ["ttl", "expires", "retention", "unique_for"])
async def test_a_header_with_a_number_that_is_none_is_left_to_a_person(
    store: Store, hands: Hands, option: str
) -> None:
    options: dict[str, Any] = {option: "1h"}
    job_id = await add_one(store, unique="k", **options)
    hands.rewrite(
        job_id, b"\t%s=3600000" % option.encode(), b"\t%s=1:0" % option.encode()
    )

    message = f"job {job_id} has a record that cannot be read: "
    await left_alone(store, hands, "bad-record", message)


@pytest.mark.parametrize("what", DAMAGE)
async def test_a_record_that_cannot_be_read_is_left_to_a_person(
    store: Store, hands: Hands, what: str
) -> None:
    job = await start_one(store, attempts=2)
    await end(store, job, Retried(OOPS))
    old, new = DAMAGE[what]
    hands.rewrite(job.id, old, new)

    message = f"job {job.id} has a record that cannot be read: "
    await left_alone(store, hands, "bad-record", message)


async def test_a_record_of_another_type_is_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    hands.rewrite(job_id, b"\temail\n", b"\tsms\n")

    message = (
        f"job {job_id} is in waiting of 'email', but its record says that its type is "
        "'sms'"
    )
    await left_alone(store, hands, "bad-record", message)


async def test_the_advice_for_a_bad_record_works(store: Store, hands: Hands) -> None:
    job_id = await add_one(store)
    hands.do("SET", hands.record(job_id), "garbage")
    [finding] = (await store.check()).findings
    key = hands.record(job_id)
    assert f"look at it with GET {key}; to give it up, DEL that key" in finding.message

    hands.do("DEL", key)

    assert await found(store, repair=True) == [("no-record", job_id)]
    assert await found(store) == []


# -- parked --------------------------------------------------------------------


async def park(store: Store, hands: Hands) -> tuple[int, bytes]:
    """Have a claim set a job aside whose record is gone; return what that was."""
    job_id = await add_one(store, priority="critical")
    record: bytes = hands.do("GET", hands.record(job_id))
    hands.do("DEL", hands.record(job_id))
    assert await claim_ids(store) == []
    assert hands.do("ZSCORE", hands.of_type("parked"), job_id) is not None
    return job_id, record


async def test_a_parked_job_without_a_record_is_forgotten(
    store: Store, hands: Hands
) -> None:
    job_id, _ = await park(store, hands)

    message = f"job {job_id} is parked, and its record is gone"
    await mended(store, "parked", message, "forget it")


async def test_a_parked_job_that_can_be_read_again_goes_back_in_line(
    store: Store, hands: Hands
) -> None:
    job_id, record = await park(store, hands)
    hands.do("SET", hands.record(job_id), record)

    message = f"job {job_id} is parked, but its record can be read again"
    await mended(store, "parked", message, "put it back in line")

    assert await claim_ids(store) == [job_id]


async def test_a_parked_job_that_still_cannot_be_read_is_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    job_id, record = await park(store, hands)
    hands.do("SET", hands.record(job_id), record.replace(b"{", b"["))

    message = f"job {job_id} is parked: its record cannot be read: "
    await left_alone(store, hands, "parked", message)


async def test_a_job_that_is_parked_and_in_line_stays_in_line(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    hands.do("ZADD", hands.of_type("parked"), T0, job_id)

    message = f"job {job_id} is parked and in waiting"
    await mended(store, "parked", message, "keep it in waiting")


# -- in no state ---------------------------------------------------------------


async def test_a_job_in_no_state_goes_back_in_line(store: Store, hands: Hands) -> None:
    job_id = await add_one(store, priority="high")
    await add_one(store)
    hands.do("ZREM", hands.of_type("waiting"), job_id)

    message = f"job {job_id} is in no state"
    await mended(store, "in-no-state", message, "put it back in line")

    assert (await claim_ids(store))[0] == job_id


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_a_job_in_no_state_goes_where_its_story_ends(
    store: Store, hands: Hands, state: State
) -> None:
    job_id = await job_in(store, state, retention="1h", now=T0)
    before = await get_one(store, job_id)
    hands.do("ZREM", hands.of_type(state), job_id)
    hands.do("ZREM", hands.of_type(f"retain_{state}"), job_id)

    repair = f"put it among the {state} jobs, as its story ends"
    await mended(store, "in-no-state", f"job {job_id} is in no state", repair)

    assert await get_one(store, job_id) == before
    assert hands.do("ZSCORE", hands.of_type(state), job_id) == T0


async def test_a_delayed_job_in_no_state_does_not_run_early(
    store: Store, hands: Hands
) -> None:
    now = await store.now()
    job_id = await add_one(store, delay="1h", now=now)
    hands.do("ZREM", hands.of_type("delayed"), job_id)

    message = f"job {job_id} is in no state"
    await mended(store, "in-no-state", message, "delay it again until it is due")

    assert (await get_one(store, job_id)).promote_at == now + HOUR


async def test_a_job_that_was_to_be_retried_later_does_not_run_early(
    store: Store, hands: Hands
) -> None:
    now = await store.now()
    job = await start_one(store, attempts=3, now=now)
    await end(store, job, Retried(OOPS, HOUR), now=now)
    hands.do("ZREM", hands.of_type("delayed"), job.id)

    await store.check(repair=True)

    assert (await get_one(store, job.id)).promote_at == now + HOUR
    assert await found(store) == []


async def test_a_job_in_no_state_that_waits_for_others_is_blocked_again(
    store: Store, hands: Hands
) -> None:
    job_id = await job_in(store, State.BLOCKED)
    hands.do("ZREM", hands.of_type("blocked"), job_id)

    repair = "block it again, as it waits for others"
    await mended(store, "in-no-state", f"job {job_id} is in no state", repair)

    assert await state_of(store, job_id) is State.BLOCKED


async def test_a_lost_run_is_run_again(store: Store, hands: Hands) -> None:
    """It is worse to lose a job than to run it twice."""
    job = await start_one(store, ttl="1h")
    await store.cancel([job.id])
    hands.do("HDEL", hands.of_type("active"), job.id)

    message = f"job {job.id} is in no state"
    await mended(store, "in-no-state", message, "put it back in line")

    assert await claim_ids(store) == [job.id]


async def test_a_lost_run_of_a_job_that_runs_at_most_once_is_not_run_again(
    store: Store, hands: Hands
) -> None:
    job = await start_one(
        store, ttl="1h", delivery="at-most-once", unique="k", retention="1d"
    )
    hands.do("HDEL", hands.of_type("active"), job.id)

    repair = "fail it: it runs at most once, and may have"
    await mended(store, "in-no-state", f"job {job.id} is in no state", repair)

    failed = await get_one(store, job.id)
    assert failed.state is State.FAILED
    assert failed.error is not None
    assert failed.error.kind == "RunLost"
    assert await add_one(store, unique="k") != job.id


async def test_a_job_that_runs_at_most_once_and_has_not_run_goes_back_in_line(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store, delivery="at-most-once")
    hands.do("ZREM", hands.of_type("waiting"), job_id)

    message = f"job {job_id} is in no state"
    await mended(store, "in-no-state", message, "put it back in line")


async def test_a_job_that_runs_at_most_once_and_was_handed_back_is_not_run_again(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store, delivery="at-most-once")
    await end(store, job, Released())
    hands.do("ZREM", hands.of_type("waiting"), job.id)

    await store.check(repair=True)

    assert await state_of(store, job.id) is State.FAILED


async def test_a_job_that_runs_at_most_once_and_was_restarted_goes_back_in_line(
    store: Store, hands: Hands
) -> None:
    job_id = await job_in(store, State.FAILED, delivery="at-most-once")
    await store.move(MoveRequest([job_id], State.WAITING))
    hands.do("ZREM", hands.of_type("waiting"), job_id)

    await store.check(repair=True)

    assert await state_of(store, job_id) is State.WAITING


async def test_a_job_that_waited_for_others_still_waits_for_its_time(
    store: Store, hands: Hands
) -> None:
    moment = datetime(2099, 1, 1, tzinfo=UTC)
    parent = await start_one(store)
    job_id = await add_one(store, after=[parent.id], at=moment)
    await end(store, parent, Completed())
    assert await state_of(store, job_id) is State.DELAYED
    hands.do("ZREM", hands.of_type("delayed"), job_id)

    message = f"job {job_id} is in no state"
    await mended(store, "in-no-state", message, "delay it again until it is due")

    assert (await get_one(store, job_id)).promote_at == moment.timestamp() * 1000


# -- in two states -------------------------------------------------------------


async def test_a_job_that_runs_and_is_in_line_goes_on_running(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store)
    hands.do("ZADD", hands.of_type("waiting"), hands.line_score(job.id), job.id)

    message = f"job {job.id} is in active and in waiting"
    await mended(store, "in-two-states", message, "keep it in active")

    assert await store.get([job.id]) == [job]


async def test_a_job_in_two_states_stays_where_its_story_ends(
    store: Store, hands: Hands
) -> None:
    job_id = await job_in(store, State.COMPLETE)
    hands.do("ZADD", hands.of_type("waiting"), hands.line_score(job_id), job_id)
    hands.do("ZADD", hands.of_type("failed"), T0, job_id)

    message = f"job {job_id} is in waiting, complete and in failed"
    await mended(store, "in-two-states", message, "keep it in complete")


async def test_a_run_that_has_ended_is_not_taken_for_one_that_goes_on(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store)
    await store.cancel([job.id])
    hands.do("DEL", hands.home("cancelling"))
    await end(store, job, Retried(OOPS))
    hands.do("HSET", hands.of_type("active"), job.id, job.token)

    message = f"job {job.id} is in active and in waiting"
    await mended(store, "in-two-states", message, "keep it in waiting")


async def test_a_job_in_two_states_without_a_story_is_kept_where_it_runs_soonest(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store, delay="1h")
    hands.do("ZADD", hands.of_type("waiting"), hands.line_score(job_id), job_id)
    hands.do("ZADD", hands.of_type("blocked"), job_id, job_id)

    message = f"job {job_id} is in waiting, delayed and in blocked"
    await mended(store, "in-two-states", message, "keep it in waiting")


async def test_a_job_in_structures_of_two_types_stays_in_its_own(
    store: Store, hands: Hands
) -> None:
    other = hands.neighbour()
    job_id = await add_one(store)
    await add_one(store, other)
    hands.do("ZADD", hands.of_type("complete", other), T0, job_id)

    message = f"job {job_id} is in waiting and in complete of {other!r}"
    await mended(store, "in-two-states", message, "keep it in waiting")


# -- runs ----------------------------------------------------------------------


@pytest.mark.parametrize("run", ["", "garbage", "1:2:3:w1:c.1", "x" * 16 + ":1:1:w:c"])
async def test_a_run_that_nobody_can_hold_is_put_back_in_line(
    store: Store, hands: Hands, run: str
) -> None:
    job = await start_one(store, ttl="1h", expires="1h")
    hands.do("HSET", hands.of_type("active"), job.id, run)

    message = f"job {job.id} is active with the run {run!r}, which is none that "
    message += "anybody can hold"
    await mended(store, "bad-run", message, "put it back in line")

    assert await claim_ids(store) == [job.id]


async def test_a_run_that_nobody_can_hold_gives_its_groups_slot_back(
    store: Store, hands: Hands
) -> None:
    await store.limit("email", Limits(per_key=1))
    job = await start_one(store, group="g")
    held = await add_one(store, group="g")
    assert await claim_ids(store) == []
    hands.do("HSET", hands.of_type("active"), job.id, "garbage")

    assert await found(store, repair=True) == [("bad-run", job.id)]

    assert await found(store) == []
    assert await claim_ids(store, limit=1) == [job.id]
    await store.remove(RemoveRequest([job.id], force=True))
    assert await claim_ids(store) == [held]


async def test_a_bad_run_of_a_job_that_runs_at_most_once_fails_it(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store, delivery="at-most-once")
    hands.do("HSET", hands.of_type("active"), job.id, "garbage")

    await store.check(repair=True)

    assert await state_of(store, job.id) is State.FAILED
    assert await found(store) == []


async def test_a_run_of_an_unknown_worker_is_taken_back(
    store: Store, hands: Hands
) -> None:
    now = await store.now()
    [first, second] = await add_many(store, 2, now=now)
    await claim(store, worker="w:1", now=now)
    hands.do("DEL", hands.home("workers"))

    report = await store.check(repair=True)

    assert [finding.message for finding in report.findings] == [
        f"job {job_id} is run by worker 'w%3A1', which has no lease that could end"
        for job_id in (first, second)
    ]
    repair = "give it one that is over, so that upkeep takes the run back"
    assert {finding.repair for finding in report.findings} == {repair}
    assert all(finding.repaired for finding in report.findings)
    assert await found(store) == []
    assert (await store.tend(now=await store.now())).rescued == 2
    assert await state_of(store, first) is State.WAITING
