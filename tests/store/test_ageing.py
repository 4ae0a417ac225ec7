"""`Limits.ageing`: waiting is worth steps of priority, so that no job waits forever."""

from __future__ import annotations

import pytest

from kue.model.job import Retried, State
from kue.store.contract import Store
from kue.store.validation import InvalidCall
from kue.store.values import Change, Limits, PageRequest, WhenFull
from tests.support.jobs import (
    DAY,
    HOUR,
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    all_ids,
    claim_ids,
    claim_one,
    end,
    take,
)

#: Waiting a minute is worth one step.
AGEING = Limits(ageing=MINUTE)


@pytest.fixture
async def ageing(store: Store) -> Store:
    """A store where jobs of one type gain priority by waiting."""
    await store.limit("email", AGEING, now=T0)
    return store


async def test_jobs_of_the_same_age_start_by_priority(ageing: Store) -> None:
    low = await add_one(ageing, priority=10)
    high = await add_one(ageing, priority=-10)
    normal = await add_one(ageing)

    assert await claim_ids(ageing) == [high, normal, low]


async def test_jobs_of_the_same_priority_start_by_age(ageing: Store) -> None:
    ids = [await add_one(ageing, now=T0 + number) for number in (0, 5, 9)]

    assert await claim_ids(ageing, now=T0 + SECOND) == ids


async def test_a_job_that_waited_long_starts_before_better_ones(ageing: Store) -> None:
    low = await add_one(ageing, priority=10)
    soon = await add_one(ageing, priority=-10, now=T0 + 19 * MINUTE)
    later = await add_one(ageing, priority=-10, now=T0 + 21 * MINUTE)

    now = T0 + 22 * MINUTE
    assert await claim_ids(ageing, now=now) == [soon, low, later]


async def test_pages_show_the_order_of_claims(ageing: Store) -> None:
    for number in range(8):
        await add_one(ageing, priority=number % 3 * 5, now=T0 + number * 61 * SECOND)
    request = PageRequest(State.WAITING, "email", limit=3)
    now = T0 + HOUR

    assert await all_ids(ageing, request) == await claim_ids(ageing, now=now)


async def test_age_counts_from_when_a_job_is_ready(ageing: Store) -> None:
    """A backlog that becomes due has not waited yet."""
    due = T0 + HOUR
    delayed = await add_one(ageing, priority=5, delay="1h")
    fresh = await add_one(ageing, now=due)

    assert await claim_ids(ageing, now=due) == [fresh, delayed]


async def test_a_job_that_runs_again_counts_from_then(ageing: Store) -> None:
    await add_one(ageing, attempts=3)
    job = await claim_one(ageing)
    waiting = await add_one(ageing, now=T0 + SECOND)
    await end(ageing, job, Retried(OOPS, 0), now=T0 + 2 * SECOND)

    assert await claim_ids(ageing, now=T0 + MINUTE) == [waiting, job.id]


async def test_another_priority_keeps_the_age(ageing: Store) -> None:
    old = await add_one(ageing, priority=10)
    middle = await add_one(ageing, now=T0 + MINUTE)
    await ageing.update([Change(old, priority=0)], now=T0 + 2 * MINUTE)
    fresh = await add_one(ageing, now=T0 + 3 * MINUTE)

    assert await claim_ids(ageing, now=T0 + HOUR) == [old, middle, fresh]


async def test_beside_other_types_a_job_has_the_priority_it_reached(
    ageing: Store,
) -> None:
    aged = await add_one(ageing, priority=10)
    now = T0 + 15 * MINUTE
    normal = await add_one(ageing, "email2", now=now)
    high = await add_one(ageing, "email2", priority=-10, now=now)

    claimed = await take(ageing, "email", "email2", now=now)
    found = [job.id for job in claimed.jobs]
    # With several shards the order holds within each.
    together = {aged % 3, normal % 3, high % 3}
    assert found == [high, aged, normal] or len(together) > 1


async def test_jobs_that_wait_when_ageing_is_set_count_from_their_creation(
    store: Store,
) -> None:
    low = await add_one(store, priority=10)
    late = await add_one(store, priority=-10, now=T0 + HOUR)
    await store.limit("email", AGEING, now=T0 + HOUR)

    assert await claim_ids(store, now=T0 + HOUR) == [low, late]


async def test_jobs_that_wait_when_it_is_removed_go_by_priority(ageing: Store) -> None:
    low = await add_many(ageing, 2, priority=10)
    high = await add_one(ageing, priority=-10, now=T0 + DAY)
    await ageing.limit("email", None, now=T0 + DAY)
    normal = await add_one(ageing, now=T0 + DAY)

    assert await claim_ids(ageing, now=T0 + DAY) == [high, normal, *low]


async def test_very_many_are_reordered(store: Store) -> None:
    ids = await add_many(store, 300, priority=10)
    ids += await add_many(store, 300, priority=10, now=T0 + 1)
    ids += await add_many(store, 300, priority=10, now=T0 + 2)
    held = Limits(ageing=MINUTE, concurrency=1)
    await store.limit("email", held, now=T0)
    high = await add_one(store, priority=-10, now=T0 + HOUR)

    assert await claim_ids(store, limit=5, now=T0 + HOUR) == ids[:1]
    page = PageRequest(State.WAITING, "email", limit=500)
    assert await all_ids(store, page) == [*ids[1:], high]


async def test_held_jobs_are_reordered_as_well(store: Store) -> None:
    await store.limit("email", Limits(per_key=1), now=T0)
    [low, other] = await add_many(store, 2, group="a", priority=10)
    running = await claim_one(store)
    assert running.id == low
    assert await claim_ids(store) == []
    await store.limit("email", Limits(per_key=1, ageing=MINUTE), now=T0)
    high = await add_one(store, group="a", priority=-10, now=T0 + HOUR)
    await end(store, running, Retried(OOPS, HOUR), now=T0 + HOUR)

    assert await claim_ids(store, now=T0 + HOUR) == [other]
    assert high != other


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(ageing=0), "at least 1"),
        (Limits(ageing=8 * DAY), "at most"),
        (Limits(ageing=1, max_waiting=1, when_full=WhenFull.DROP_OLDEST), "oldest"),
    ],
)
async def test_rules_that_make_no_sense_are_refused(
    store: Store, limits: Limits, why: str
) -> None:
    with pytest.raises(InvalidCall, match=why):
        await store.limit("email", limits, now=T0)
