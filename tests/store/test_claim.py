"""`Store.claim`: who gets which jobs, and what a started job looks like."""

from __future__ import annotations

import pytest

from kue.model import retry_policy
from kue.model.job import MAX_PRIORITY, MIN_PRIORITY, Retried, Run, State
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, Claim, ClaimRequest
from tests.support.engines import Engine
from tests.support.jobs import (
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
    take,
)


async def test_a_claimed_job_is_active_with_a_token(store: Store) -> None:
    """D-3: state, worker, start and attempt change together."""
    job_id = await add_one(store, data={"n": 1}, attempts=3)

    claimed = await store.claim(
        ClaimRequest(["email"], 1, worker="w1", claim=Claim("lane", 7)), now=T0 + 5
    )

    [job] = claimed.jobs
    assert (job.id, job.state, job.data) == (job_id, State.ACTIVE, {"n": 1})
    assert job.run == Run(job.fence, T0 + 5, 1, "w1", "lane.7")
    assert (job.attempts, job.worker) == (1, "w1")
    assert (job.started_at, job.updated_at) == (T0 + 5, T0 + 5)
    assert (job.progress, job.cancelling, job.held) == (0, False, "")
    assert await get_one(store, job_id) == job
    assert await count_of(store) == {State.ACTIVE: 1}


async def test_a_claim_tells_the_time(store: Store) -> None:
    assert (await take(store, now=T0 + 123)).now == T0 + 123


async def test_first_in_is_first_out(store: Store) -> None:
    """Ids are numbers: 10 comes after 9, not after 1."""
    ids = await add_many(store, 120)

    assert await claim_ids(store, limit=120) == ids


async def test_a_lower_number_goes_first(store: Store) -> None:
    low = await add_one(store, priority="low")
    normal = await add_one(store, priority="normal")
    critical = await add_one(store, priority="critical")
    high = await add_one(store, priority="high")
    medium = await add_one(store, priority="medium")

    assert await claim_ids(store) == [critical, high, medium, normal, low]


async def test_the_extremes_of_priority_are_the_ends_of_the_line(store: Store) -> None:
    last = await add_one(store, priority=MAX_PRIORITY)
    middle = await add_one(store, priority=-1)
    first = await add_one(store, priority=MIN_PRIORITY)
    second = await add_one(store, priority=MIN_PRIORITY + 1)

    assert await claim_ids(store) == [first, second, middle, last]


async def test_a_claim_takes_the_best_and_leaves_the_rest(store: Store) -> None:
    ids = await add_many(store, 5)
    urgent = await add_one(store, priority="high")

    assert await claim_ids(store, limit=2) == [urgent, ids[0]]
    assert await claim_ids(store, limit=2) == ids[1:3]
    assert await claim_ids(store, limit=9) == ids[3:]
    assert await claim_ids(store, limit=9) == []


async def test_several_types_share_one_line(store: Store, engine: Engine) -> None:
    """Across shards the order is that of each type; within one it is that of all."""
    types = ["email", "sms", "video"]
    ids = {}
    for number in range(30):
        priority = (number * 7) % 5
        job_id = await add_one(store, types[number % 3], priority=priority)
        ids[job_id] = (priority, job_id)

    jobs = await claim(store, *types, limit=30)

    assert {job.id for job in jobs} == ids.keys()
    for type in types:
        order = [ids[job.id] for job in jobs if job.type == type]
        assert order == sorted(order)
    if engine.shards == 1:
        assert [ids[job.id] for job in jobs] == sorted(ids.values())


async def test_a_limit_is_for_all_types_together(store: Store) -> None:
    types = ["email", "sms", "video", "report"]
    for type in types:
        await add_many(store, 5, type)

    taken = [len(await claim(store, *types, limit=8)) for _ in range(4)]

    assert taken == [8, 8, 4, 0]


async def test_only_the_types_asked_for_are_taken(store: Store) -> None:
    wanted = await add_one(store, "email")
    other = await add_one(store, "sms", priority="critical")

    assert await claim_ids(store, "email", "never added") == [wanted]
    assert await state_of(store, other) is State.WAITING


async def test_a_type_named_twice_is_asked_once(store: Store) -> None:
    ids = await add_many(store, 3)

    assert await claim_ids(store, "email", "email", limit=2) == ids[:2]
    assert await claim_ids(store, "email", "email", limit=5) == ids[2:]


async def test_a_full_batch_can_be_taken_at_once(store: Store) -> None:
    ids = await add_many(store, MAX_BATCH + 1)

    assert await claim_ids(store, limit=MAX_BATCH) == ids[:MAX_BATCH]


@pytest.mark.parametrize("limit", [-1, MAX_BATCH + 1])
async def test_a_limit_no_call_may_have_is_refused(store: Store, limit: int) -> None:
    await add_one(store)

    with pytest.raises(ValueError, match="limit"):
        await claim(store, limit=limit)

    assert await count_of(store) == {State.WAITING: 1}


async def test_nothing_asked_for_is_nothing_taken(store: Store) -> None:
    await add_one(store)

    assert await claim_ids(store, limit=0) == []
    empty = await store.claim(
        ClaimRequest([], 5, worker="w1", claim=Claim("lane", 1)), now=T0
    )
    assert empty.jobs == []
    assert await count_of(store) == {State.WAITING: 1}


async def test_fences_grow_with_every_run(store: Store) -> None:
    fences = []
    await add_one(store, attempts=10)
    for number in range(4):
        job = await claim_one(store, now=T0 + number)
        fences.append(job.fence)
        await end(store, job, Retried(OOPS), now=T0 + number)

    assert fences == sorted(set(fences))
    assert fences[0] > 0


async def test_a_fence_grows_though_the_clock_steps_back(store: Store) -> None:
    job = await start_one(store, attempts=3)
    await end(store, job, Retried(OOPS))
    again = await claim_one(store, now=T0 - MINUTE)

    assert again.fence > job.fence


async def test_all_jobs_of_a_claim_have_fences_of_their_own(store: Store) -> None:
    await add_many(store, 50)
    jobs = await claim(store, limit=50)

    assert len({job.fence for job in jobs}) == 50


async def test_attempts_are_counted_when_a_run_starts(store: Store) -> None:
    """D-17: a job with three attempts runs three times, not four."""
    await add_one(store, attempts=3)
    numbers = []
    for _ in range(3):
        job = await claim_one(store)
        numbers.append(job.attempts)
        await end(store, job, retry_policy.after_error(job, OOPS, T0))

    assert numbers == [1, 2, 3]
    assert await count_of(store) == {State.FAILED: 1}


async def test_a_claimed_job_brings_its_story(store: Store) -> None:
    job = await start_one(store, attempts=3)
    await end(store, job, Retried(OOPS), now=T0 + 1)

    again = await claim_one(store, now=T0 + 2)

    assert [line.outcome for line in again.history] == ["retry"]
    assert (again.error, again.attempts) == (OOPS, 2)


async def test_a_delayed_job_is_not_taken_before_its_time(store: Store) -> None:
    job_id = await add_one(store, delay=1)

    assert await claim_ids(store, now=T0 + SECOND - 1) == []
    assert await state_of(store, job_id) is State.DELAYED
    assert await claim_ids(store, now=T0 + SECOND) == [job_id]


async def test_a_due_job_takes_its_place_by_priority_and_id(store: Store) -> None:
    due = await add_one(store, delay=1)
    urgent_due = await add_one(store, delay=1, priority="high")
    waiting = await add_one(store)

    taken = await claim_ids(store, now=T0 + MINUTE)

    assert taken == [urgent_due, due, waiting]


async def test_other_types_are_not_promoted_by_a_claim(store: Store) -> None:
    other = await add_one(store, "sms", delay=1)

    await take(store, "email", now=T0 + MINUTE)

    assert await state_of(store, other) is State.DELAYED


async def test_a_claim_tells_when_the_next_job_is_due(store: Store) -> None:
    """D-38: a worker sleeps until then, not for a second at a time."""
    await add_one(store, "email", delay=60)
    await add_one(store, "sms", delay=30)
    await add_one(store, "video", delay=10)

    claimed = await take(store, "email", "sms")

    assert (claimed.jobs, claimed.next_at) == ([], T0 + 30 * SECOND)


async def test_when_time_changes_nothing_there_is_no_next_time(store: Store) -> None:
    await job_in(store, State.ACTIVE)
    await job_in(store, State.COMPLETE, "sms")

    assert (await take(store, "email", "sms")).next_at is None


async def test_a_job_past_its_life_fails_instead_of_being_handed_out(
    store: Store,
) -> None:
    """K-2: an over-age job is dead-lettered when its turn comes, not run."""
    old = await add_one(store, expires="1m", attempts=3)
    good = await add_one(store)

    assert await claim_ids(store, now=T0 + MINUTE + 1) == [good]

    job = await get_one(store, old)
    assert (job.state, job.error) == (State.FAILED, retry_policy.EXPIRED)
    assert (job.attempts, job.worker, job.failed_at) == (0, None, T0 + MINUTE + 1)
    [line] = job.history
    assert (line.token, line.outcome, line.run) == ("", "failed", None)


async def test_a_due_job_past_its_life_fails_too(store: Store) -> None:
    job_id = await add_one(store, delay="1m", expires="10s")

    assert await claim_ids(store, now=T0 + MINUTE + 1) == []
    assert await state_of(store, job_id) is State.FAILED


async def test_a_job_within_its_life_is_handed_out(store: Store) -> None:
    job_id = await add_one(store, expires="1m")

    assert await claim_ids(store, now=T0 + MINUTE - 1) == [job_id]


@pytest.mark.parametrize(
    "state",
    [State.ACTIVE, State.COMPLETE, State.FAILED, State.CANCELLED, State.BLOCKED],
)
async def test_nothing_but_waiting_jobs_is_handed_out(
    store: Store, state: State
) -> None:
    await job_in(store, state)

    assert await claim(store, now=T0 + MINUTE) == []
