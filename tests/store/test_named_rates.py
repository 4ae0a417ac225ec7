"""Named limits that are rates: so many jobs start in a time, by name and key."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from kue.model.job import Completed, State
from kue.model.named_limits import LimitRule, StoredLimit
from kue.store.contract import Store
from kue.store.values import LimitUse, PauseRequest, RemoveRequest
from tests.support.jobs import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    end,
    get_one,
    take,
)
from tests.support.upkeep import pass_time, tend

API = {"api": ""}


async def set_rate(
    store: Store,
    number: int,
    per: int = SECOND,
    burst: int | None = None,
    *,
    now: int | None = T0,
) -> None:
    rule = LimitRule(rate=number, per=per, burst=burst)
    await store.set_named_limit("api", StoredLimit(rule), now=now)


async def starts(store: Store, since: int, until: int, step: int) -> list[int]:
    """Claim every *step* ms and end what starts; return when jobs started."""
    found = []
    for now in range(since, until, step):
        for job in await claim(store, limit=100, now=now):
            found.append(now)
            await end(store, job, Completed(), now=now)
    return found


def most_in_any_window(moments: list[int], per: int) -> int:
    """Return the most starts in *per* ms, wherever those begin."""
    return max(
        sum(start <= moment < start + per for moment in moments) for start in moments
    )


async def test_so_many_start_in_a_time(store: Store) -> None:
    await set_rate(store, 2)
    ids = await add_many(store, 5, limited_by=API)

    assert await claim_ids(store) == ids[:2]
    assert await claim_ids(store, now=T0 + SECOND - 1) == []
    assert await claim_ids(store, now=T0 + SECOND + 9) == ids[2:4]


@pytest.mark.parametrize("step", [1, 7, 50, 333])
async def test_no_window_has_more_than_the_rate(store: Store, step: int) -> None:
    """And hardly less, when workers are there all the time."""
    await set_rate(store, 5, 300)
    await add_many(store, 60, limited_by=API)

    found = await starts(store, T0, T0 + 1_200, step)

    assert most_in_any_window(found, 300) <= 5
    if step < 50:
        assert len(found) >= 5 * 4 * 0.95


async def test_a_start_of_the_past_does_not_count_for_long(store: Store) -> None:
    await set_rate(store, 1, HOUR)
    first, second = await add_many(store, 2, limited_by=API)

    assert await claim_ids(store) == [first]
    assert await claim_ids(store, now=T0 + HOUR - 1) == []
    assert await claim_ids(store, now=T0 + HOUR + HOUR // 100) == [second]


async def test_the_claim_says_when_the_next_may_start(store: Store) -> None:
    await set_rate(store, 1)
    await add_many(store, 2, limited_by=API)

    first = await take(store)
    second = await take(store)

    assert len(first.jobs) == 1
    assert second.jobs == []
    assert second.next_at is not None
    assert T0 + SECOND <= second.next_at <= T0 + SECOND + 10
    assert len(await claim(store, now=second.next_at)) == 1


async def test_a_held_job_says_until_when(store: Store) -> None:
    await set_rate(store, 1, MINUTE)
    _, held = await add_many(store, 2, limited_by={"api": "42"})
    await claim(store)

    job = await get_one(store, held)

    assert job.state is State.WAITING
    assert job.held == "waits for limit 'api' of '42', 1 per minute"
    assert job.held_until is not None
    assert T0 + MINUTE <= job.held_until <= T0 + MINUTE + MINUTE // 100


async def test_each_key_has_its_own_rate(store: Store) -> None:
    await set_rate(store, 1)
    a = await add_many(store, 3, limited_by={"api": "a"})
    b = await add_many(store, 3, limited_by={"api": "b"})

    assert await claim_ids(store) == [a[0], b[0]]
    assert await claim_ids(store, now=T0 + SECOND + 9) == [a[1], b[1]]


async def test_the_end_of_a_run_gives_nothing_back(store: Store) -> None:
    await set_rate(store, 1)
    await add_many(store, 2, limited_by=API)
    [job] = await claim(store)

    await end(store, job, Completed())

    assert await claim_ids(store) == []


async def test_a_bucket_lets_a_burst_start_and_then_the_rate(store: Store) -> None:
    await set_rate(store, 10, SECOND, burst=3)
    await add_many(store, 30, limited_by=API)

    found = Counter(await starts(store, T0, T0 + SECOND, 10))

    assert found[T0] == 3
    assert sum(found.values()) == 12
    assert set(found.values()) == {1, 3}


async def test_a_bucket_fills_to_its_burst_and_no_further(store: Store) -> None:
    await set_rate(store, 10, SECOND, burst=3)
    await add_many(store, 10, limited_by=API)
    assert len(await claim(store)) == 3

    assert len(await claim(store, now=T0 + HOUR)) == 3
    assert len(await claim(store, now=T0 + HOUR)) == 0


async def test_a_higher_rate_lets_held_jobs_start_at_once(store: Store) -> None:
    await set_rate(store, 1, HOUR)
    ids = await add_many(store, 4, limited_by=API)
    assert await claim_ids(store) == ids[:1]

    await set_rate(store, 3, HOUR)

    assert await claim_ids(store) == ids[1:3]


async def test_a_rate_may_become_a_concurrency_and_back(store: Store) -> None:
    await set_rate(store, 1, HOUR)
    ids = await add_many(store, 4, limited_by=API)
    [first] = await claim(store)
    rule = StoredLimit(LimitRule(concurrency=1))
    await store.set_named_limit("api", rule, now=T0)
    assert await claim_ids(store, now=T0 + 2 * HOUR) == []
    await end(store, first, Completed(), now=T0 + 2 * HOUR)
    [second] = await claim(store, now=T0 + 2 * HOUR)
    assert second.id == ids[1]

    await set_rate(store, 1, HOUR, now=T0 + 2 * HOUR)
    [third] = await claim(store, now=T0 + 2 * HOUR)
    assert third.id == ids[2]
    for job in (second, third):
        await end(store, job, Completed(), now=T0 + 2 * HOUR)
    await tend(store, T0 + 4 * HOUR)

    assert await claim_ids(store, now=T0 + 4 * HOUR) == [ids[3]]


async def test_a_deleted_rate_lets_all_start(store: Store) -> None:
    await set_rate(store, 1, HOUR)
    await add_many(store, 4, limited_by=API)
    assert len(await claim(store)) == 1

    await store.set_named_limit("api", None, now=T0)

    assert len(await claim(store)) == 3


async def test_a_clock_that_is_set_back_does_not_stop_a_rate(store: Store) -> None:
    await set_rate(store, 1)
    await add_many(store, 4, limited_by=API)
    assert len(await claim(store, now=T0 + HOUR)) == 1
    assert len(await claim(store, now=T0 + HOUR)) == 0

    await pass_time(store, T0, T0 + 5 * SECOND)

    assert len(await claim(store, now=T0 + 5 * SECOND)) == 1


async def test_a_pause_keeps_held_jobs_from_starting(store: Store) -> None:
    await set_rate(store, 1)
    await add_many(store, 2, limited_by=API)
    await claim(store)
    await store.pause(PauseRequest("email"), now=T0)

    assert await claim_ids(store, now=T0 + MINUTE) == []

    await store.resume("email", now=T0 + MINUTE)
    assert len(await claim_ids(store, now=T0 + MINUTE)) == 1


async def test_use_says_when_the_rate_lets_one_start(store: Store) -> None:
    await set_rate(store, 1, MINUTE)
    await add_many(store, 3, limited_by={"api": "a"})
    await claim(store)

    [use] = await store.limit_use("api", now=T0)

    assert use.opens_at is not None
    assert T0 + MINUTE <= use.opens_at <= T0 + MINUTE + MINUTE // 100
    assert use == LimitUse("a", 1, 2, use.opens_at)


async def test_a_waiter_is_woken_when_the_rate_lets_a_job_start(store: Store) -> None:
    """By the engine's clock: nothing else happens in the meantime."""
    await set_rate(store, 1, 300, now=None)
    await add_many(store, 2, limited_by=API, now=None)
    assert len(await claim(store, now=None)) == 1
    assert len(await claim(store, now=None)) == 0

    async with asyncio.timeout(60):
        # It may be woken early, for what has been claimed.
        while not await claim(store, now=None):
            assert await store.wait(["email"], 50) == {"email"}


async def test_a_job_without_the_limit_starts_beside_held_ones(store: Store) -> None:
    await set_rate(store, 1, HOUR)
    await add_many(store, 3, limited_by=API)
    assert len(await claim(store)) == 1
    free = await add_one(store)

    assert await claim_ids(store) == [free]


async def test_a_start_that_another_limit_prevents_is_left_to_the_next_job(
    store: Store,
) -> None:
    await set_rate(store, 1)
    one = StoredLimit(LimitRule(concurrency=1))
    await store.set_named_limit("one", one, now=T0)
    await add_one(store, limited_by=API | {"one": ""})
    [first] = await claim(store)
    both = await add_one(store, limited_by=API | {"one": ""})
    other = await add_one(store, limited_by=API)
    later = T0 + SECOND + 9
    assert await claim_ids(store, now=T0) == []

    # The rate has come to the older of them, which waits for the end of the first.
    started = await claim_ids(store, now=later) + await claim_ids(store, now=later)

    assert started == [other]
    await end(store, first, Completed(), now=later)
    assert await claim_ids(store, now=later + SECOND + 9) == [both]


async def test_a_start_that_a_removed_job_leaves_is_used_by_the_next(
    store: Store,
) -> None:
    await set_rate(store, 2)
    ids = await add_many(store, 6, limited_by=API)
    assert await claim_ids(store) == ids[:2]
    later = T0 + SECOND + 9
    # Two could start, and one does.
    assert await claim_ids(store, limit=1, now=later) == ids[2:3]

    await store.remove(RemoveRequest([ids[3]]), now=later)

    assert await claim_ids(store, now=later) == ids[4:5]
    assert await claim_ids(store, now=later) == []
