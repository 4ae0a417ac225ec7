"""`check` of a Redis store: jobs, their states and entries, damaged by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kue.model.job import Completed, Released, Retried, State
from kue.store.contract import Store
from kue.store.values import (
    Change,
    Limits,
    MoveRequest,
    PageRequest,
    Progress,
    RemoveRequest,
)
from tests.support.hands import Hands, found, left_alone, repaired
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


@pytest.mark.parametrize("member", ["abc", "007", "-1", "1.5", "\N{DIGIT ONE}\u0661"])
async def test_a_member_that_cannot_be_a_job_is_taken_out(
    store: Store, hands: Hands, member: str
) -> None:
    await add_one(store)
    hands.do("ZADD", hands.of_type("waiting"), 0, member)

    message = f"job {member} is in email:waiting, but there can be no such job here"
    await repaired(store, "no-record", message, "take it out")


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
    await repaired(store, "parked", message, "forget it")


async def test_a_parked_job_that_can_be_read_again_goes_back_in_line(
    store: Store, hands: Hands
) -> None:
    job_id, record = await park(store, hands)
    hands.do("SET", hands.record(job_id), record)

    message = f"job {job_id} is parked, but its record can be read again"
    await repaired(store, "parked", message, "requeue it")

    assert await claim_ids(store) == [job_id]


async def test_a_parked_job_that_still_cannot_be_read_is_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    job_id, record = await park(store, hands)
    hands.do("SET", hands.record(job_id), record.replace(b"{", b"["))

    message = f"job {job_id} is parked: its record cannot be read: "
    await left_alone(store, hands, "parked", message)


# -- in no state ---------------------------------------------------------------


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_a_job_in_no_state_goes_where_its_story_ends(
    store: Store, hands: Hands, state: State
) -> None:
    job_id = await job_in(store, state, retention="1h", now=T0)
    before = await get_one(store, job_id)
    hands.do("ZREM", hands.of_type(state), job_id)
    hands.do("ZREM", hands.of_type(f"retain_{state}"), job_id)

    repair = f"put it among the {state} jobs, as its history ends"
    await repaired(store, "in-no-state", f"job {job_id} is in no state", repair)

    assert await get_one(store, job_id) == before
    assert hands.do("ZSCORE", hands.of_type(state), job_id) == T0


async def test_a_delayed_job_in_no_state_does_not_run_early(
    store: Store, hands: Hands
) -> None:
    now = await store.now()
    job_id = await add_one(store, delay="1h", now=now)
    hands.do("ZREM", hands.of_type("delayed"), job_id)

    message = f"job {job_id} is in no state"
    await repaired(store, "in-no-state", message, "delay it again until it is due")

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


async def test_a_lost_run_of_a_job_that_runs_at_most_once_is_not_run_again(
    store: Store, hands: Hands
) -> None:
    job = await start_one(
        store, ttl="1h", delivery="at-most-once", unique="k", retention="1d"
    )
    hands.do("HDEL", hands.of_type("active"), job.id)

    repair = "fail it: it runs at most once, and may have"
    await repaired(store, "in-no-state", f"job {job.id} is in no state", repair)

    failed = await get_one(store, job.id)
    assert failed.state is State.FAILED
    assert failed.error is not None
    assert failed.error.kind == "RunLost"
    assert await add_one(store, unique="k") != job.id


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
    await repaired(store, "in-no-state", message, "delay it again until it is due")

    assert (await get_one(store, job_id)).promote_at == moment.timestamp() * 1000


# -- in two states -------------------------------------------------------------


async def test_a_job_in_structures_of_two_types_stays_in_its_own(
    store: Store, hands: Hands
) -> None:
    other = hands.neighbour()
    job_id = await add_one(store)
    await add_one(store, other)
    hands.do("ZADD", hands.of_type("complete", other), T0, job_id)

    message = f"job {job_id} is in waiting and in complete of {other!r}"
    await repaired(store, "in-two-states", message, "keep it in waiting")


# -- runs ----------------------------------------------------------------------


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
    repair = "give it one that is over, so that maintenance takes the run back"
    assert {finding.repair for finding in report.findings} == {repair}
    assert all(finding.repaired for finding in report.findings)
    assert await found(store) == []
    assert (await store.tend(now=await store.now())).rescued == 2
    assert await state_of(store, first) is State.WAITING


async def hold_one(store: Store) -> tuple[int, int]:
    """Have one job of a group run and another held back by that; return both."""
    await store.limit("email", Limits(per_key=1), now=T0)
    running, held = await add_many(store, 2, group="a group")
    assert await claim_ids(store) == [running]
    assert (await get_one(store, held)).held
    return running, held


# -- marks and scores ----------------------------------------------------------


async def test_a_job_that_is_not_marked_as_living_is_marked(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    hands.mark_live(job_id, 0)
    assert (await store.page(PageRequest())).jobs == []

    message = f"job {job_id} is not marked as living, so that pages over all states "
    await repaired(store, "count-drift", message + "leave it out", "mark it")

    assert [job.id for job in (await store.page(PageRequest())).jobs] == [job_id]


# -- attempts ------------------------------------------------------------------


async def test_attempts_that_the_story_accounts_for_are_fine(store: Store) -> None:
    """Someone lowered the limit, or a run ended with a request for one more."""
    job = await start_one(store, attempts=5)
    await end(store, job, Retried(OOPS))
    await store.update([Change(job.id, max_attempts=1)])
    other = await start_one(store, "sms", attempts=1)
    await end(store, other, Retried(OOPS))

    assert await found(store) == []


# -- entries -------------------------------------------------------------------


async def test_an_entry_in_another_type_is_taken_out(
    store: Store, hands: Hands
) -> None:
    other = hands.neighbour()
    job = await start_one(store, ttl="1h")
    await add_one(store, other)
    hands.do("ZADD", hands.of_type("ttl", other), T0, job.id)

    message = f"job {job.id} is in active, but has an entry in ttl"
    await repaired(store, "stray-entry", message, "take it out")

    assert hands.do("ZSCORE", hands.of_type("ttl"), job.id) is not None


async def test_a_ttl_that_nobody_watches_is_watched_again(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store, ttl="1h")
    hands.do("DEL", hands.of_type("ttl"))

    message = f"job {job.id} is in active and has its own time, but no entry in ttl"
    await repaired(store, "missing-entry", message, "add it to ttl")

    deadline = hands.do("ZSCORE", hands.of_type("ttl"), job.id)
    assert abs(deadline - await store.now() - HOUR) < 60_000


# -- unique keys ---------------------------------------------------------------


async def test_a_unique_key_held_by_a_job_that_ended_goes_to_the_open_one(
    store: Store, hands: Hands
) -> None:
    ended = await job_in(store, State.COMPLETE, unique="k")
    job_id = await add_one(store, unique="k")
    hands.do("HSET", hands.of_type("unique"), "k", f"{ended}:0")

    assert ("unique-drift", job_id) in await found(store, repair=True)

    assert await found(store) == []
    assert hands.do("HGET", hands.of_type("unique"), "k") == f"{job_id}:0".encode()


async def test_two_open_jobs_with_one_unique_key_are_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    first = await add_one(store, unique="k")
    hands.do("DEL", hands.of_type("unique"))
    second = await add_one(store, unique="k")

    message = f"job {first} and job {second} both have the unique key 'k'"
    await left_alone(store, hands, "two-unique", message)

    await store.cancel([second])
    assert await found(store, repair=True) == [("unique-drift", first)]
    assert await found(store) == []


async def test_a_unique_key_that_is_to_outlast_its_job_is_no_damage(
    store: Store, hands: Hands
) -> None:
    now = await store.now()
    await job_in(store, State.COMPLETE, unique="k", unique_for="1h", now=now)
    gone = await job_in(store, State.COMPLETE, unique="l", unique_for="1h", now=now)
    await store.tend(now=now)
    hands.do("ZADD", hands.of_type("lapse"), 0, "over, and about to be freed")
    hands.do(
        "HSET", hands.of_type("unique"), "over, and about to be freed", f"{gone}:1"
    )

    assert await found(store) == []


async def test_a_unique_key_waits_until_its_holders_state_is_known(
    store: Store, hands: Hands
) -> None:
    """It is not known yet whether that one has ended."""
    holder = await add_one(store, unique="k")
    hands.do("DEL", hands.of_type("unique"))
    other = await add_one(store, unique="k")
    hands.do("HSET", hands.of_type("unique"), "k", f"{holder}:0")
    hands.do("ZREM", hands.of_type("waiting"), holder)

    assert await found(store, repair=True) == [("in-no-state", holder)]
    assert await found(store) == [("two-unique", other)]


# -- groups --------------------------------------------------------------------


async def test_a_slot_that_nobody_has_goes_to_the_job_that_was_held(
    store: Store, hands: Hands
) -> None:
    running, held = await hold_one(store)
    [job] = await store.get([running])
    assert job is not None
    hands.do("HINCRBY", hands.of_type("running"), "a group", 1)
    await end(store, job, Completed())
    hands.do("ZREM", hands.of_type("waiting"), held)
    hands.do("ZADD", hands.of_type("held"), hands.line_score(held), held)
    hands.do("ZADD", hands.of_type("held:a group"), hands.line_score(held), held)
    assert await claim_ids(store) == []

    message = "group 'a group' of 'email' counts 1 running jobs, but 0 run"
    await repaired(store, "group-drift", message, "set it to 0")

    assert await claim_ids(store) == [held]


# -- what must not be found ----------------------------------------------------


async def test_a_job_with_everything_is_sound_in_every_state(store: Store) -> None:
    """As it stands: nothing here is damaged."""
    for number, state in enumerate(State):
        await job_in(
            store,
            state,
            priority=-number,
            unique=f"key {number}",
            unique_for="1h",
            group="g",
            ttl="1h",
            expires="1h",
            retention="1h",
            attempts=3,
            delivery="at-most-once",
        )
    [running] = (await store.page(PageRequest(State.ACTIVE))).jobs
    await store.progress([Progress(running.id, 50)])
    await store.cancel([running.id])

    assert await found(store) == []
