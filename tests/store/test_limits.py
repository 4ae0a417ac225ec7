"""`Store.limit` on a type: how many run at once, and how many start in a while."""

from __future__ import annotations

import pytest

from kue.model.job import (
    Cancelled,
    Completed,
    Ending,
    Failed,
    Released,
    Retried,
    Stalled,
    State,
)
from kue.store.contract import Store
from kue.store.values import Limits, PageRequest
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add_many,
    claim,
    claim_ids,
    count_of,
    end,
    take,
)
from tests.support.upkeep import lose_worker, pass_time, tend

ENDINGS: list[Ending] = [
    Completed(),
    Failed(OOPS),
    Cancelled(),
    Retried(OOPS),
    Retried(OOPS, HOUR),
    Released(),
    Stalled(OOPS),
]


async def test_limits_are_told_by_type(store: Store, other_store: Store) -> None:
    await store.limit("sms", Limits(rate=10, per=500), now=T0)
    await store.limit("email", Limits(concurrency=3, per_key=1), now=T0)

    assert await other_store.limits() == {
        "email": Limits(concurrency=3, per_key=1),
        "sms": Limits(rate=10, per=500),
    }


async def test_a_limit_replaces_the_one_before_and_none_takes_it_away(
    store: Store,
) -> None:
    await store.limit("email", Limits(concurrency=3), now=T0)
    await store.limit("email", Limits(rate=1), now=T0)
    assert await store.limits() == {"email": Limits(rate=1)}

    await store.limit("email", None, now=T0)
    assert await store.limits() == {}


async def test_no_more_run_at_once_than_allowed(store: Store) -> None:
    await store.limit("email", Limits(concurrency=3), now=T0)
    ids = await add_many(store, 10)

    assert await claim_ids(store, worker="w1", limit=2) == ids[:2]
    assert await claim_ids(store, worker="w2", limit=5) == ids[2:3]
    assert await claim_ids(store, worker="w3", limit=5) == []


async def test_jobs_that_are_held_back_still_wait(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    await add_many(store, 10)
    await claim(store)

    assert await count_of(store) == {State.ACTIVE: 1, State.WAITING: 9}
    assert len((await store.page(PageRequest(State.WAITING, "email"))).jobs) == 9


async def test_a_limit_of_one_type_says_nothing_of_others(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    await add_many(store, 3, "email")
    await add_many(store, 3, "sms")

    jobs = await claim(store, "email", "sms")

    assert sorted(job.type for job in jobs) == ["email", "sms", "sms", "sms"]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
async def test_every_ending_frees_the_slot(store: Store, ending: Ending) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    await add_many(store, 2, attempts=5)
    [job] = await claim(store)
    assert await claim(store) == []

    await end(store, job, ending)

    assert len(await claim(store)) == 1
    assert await claim(store) == []


async def test_a_repeated_ending_frees_the_slot_once(store: Store) -> None:
    await store.limit("email", Limits(concurrency=2), now=T0)
    await add_many(store, 5)
    one, _ = await claim(store)
    for _ in range(3):
        await end(store, one, Completed())

    assert len(await claim(store)) == 1


async def test_a_run_taken_back_frees_its_slot(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    await add_many(store, 2)
    await claim(store)

    await lose_worker(store, T0)

    assert len(await claim(store, now=T0 + 20 * SECOND)) == 1
    assert await claim(store, now=T0 + 20 * SECOND) == []


async def test_a_run_ended_for_its_ttl_frees_its_slot(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    await add_many(store, 2, ttl="2s")
    await claim(store)

    await pass_time(store, T0, T0 + 2 * SECOND + 1)

    assert len(await claim(store, now=T0 + 3 * SECOND)) == 1


async def test_runs_that_began_before_the_limit_count(store: Store) -> None:
    await add_many(store, 5)
    await claim(store, limit=2)
    await store.limit("email", Limits(concurrency=3), now=T0)

    assert len(await claim(store)) == 1


async def test_a_wider_limit_lets_more_run(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    await add_many(store, 5)
    await claim(store)

    await store.limit("email", Limits(concurrency=3), now=T0)

    assert len(await claim(store)) == 2


async def test_a_narrower_limit_takes_nothing_back(store: Store) -> None:
    await store.limit("email", Limits(concurrency=3), now=T0)
    await add_many(store, 6)
    runs = await claim(store)
    await store.limit("email", Limits(concurrency=1), now=T0)

    await end(store, runs[0], Completed())
    assert await claim(store) == []
    await end(store, runs[1], Completed())
    assert await claim(store) == []
    await end(store, runs[2], Completed())
    assert len(await claim(store)) == 1


async def test_without_a_limit_all_run_again(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1, per_key=1), now=T0)
    await add_many(store, 5, group="g")
    await claim(store)

    await store.limit("email", None, now=T0)

    assert len(await claim(store)) == 4


async def test_no_more_start_in_a_while_than_the_rate_allows(store: Store) -> None:
    await store.limit("email", Limits(rate=3, per=MINUTE), now=T0)
    ids = await add_many(store, 10)

    assert await claim_ids(store) == ids[:3]
    assert await claim_ids(store, now=T0 + 1) == []
    assert await claim_ids(store, now=T0 + MINUTE + 1) == ids[3:6]


async def test_a_claim_tells_when_the_rate_allows_more(store: Store) -> None:
    await store.limit("email", Limits(rate=2, per=MINUTE), now=T0)
    ids = await add_many(store, 5)
    first = await take(store)
    assert len(first.jobs) == 2

    held = await take(store)

    assert held.jobs == []
    assert held.next_at is not None
    assert T0 < held.next_at <= T0 + MINUTE
    assert (await claim_ids(store, now=held.next_at))[0] == ids[2]


async def test_an_idle_while_saves_up_no_more_than_the_rate(store: Store) -> None:
    await store.limit("email", Limits(rate=2, per=SECOND), now=T0)
    await add_many(store, 10)

    assert len(await claim(store, now=T0 + HOUR)) == 2


async def test_the_rate_holds_over_a_long_run(store: Store) -> None:
    """Asked for every 50 ms for 10 s: 5 a second, and 5 that were saved up."""
    await store.limit("email", Limits(rate=5, per=SECOND), now=T0)
    await add_many(store, 100)
    started = 0
    for now in range(T0, T0 + 10 * SECOND + 1, 50):
        started += len(await claim(store, limit=100, now=now))

    assert 50 <= started <= 55


async def test_a_rate_counts_starts_and_not_what_became_of_them(store: Store) -> None:
    await store.limit("email", Limits(rate=2, per=MINUTE), now=T0)
    await add_many(store, 5)
    for job in await claim(store):
        await end(store, job, Completed())

    assert await claim(store, now=T0 + 1) == []


async def test_a_rate_that_is_lifted_holds_nothing_back(store: Store) -> None:
    await store.limit("email", Limits(rate=1, per=HOUR), now=T0)
    await add_many(store, 4)
    await claim(store)

    await store.limit("email", None, now=T0)

    assert len(await claim(store)) == 3


async def test_rate_and_concurrency_hold_together(store: Store) -> None:
    await store.limit("email", Limits(rate=3, per=MINUTE, concurrency=2), now=T0)
    await add_many(store, 10)
    runs = await claim(store)
    assert len(runs) == 2
    for job in runs:
        await end(store, job, Completed())

    assert len(await claim(store)) == 1


async def test_a_limit_is_kept_when_there_are_no_jobs(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    await tend(store, T0 + HOUR)
    await add_many(store, 2)

    assert await store.types() == ["email"]
    assert len(await claim(store)) == 1


async def test_order_is_kept_under_a_limit(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    ids = await add_many(store, 3)
    urgent = await add_many(store, 2, priority="high")
    order = []
    for _ in range(5):
        [job] = await claim(store)
        order.append(job.id)
        await end(store, job, Completed())

    assert order == urgent + ids


async def test_writing_the_same_rate_again_lets_no_more_start(store: Store) -> None:
    limits = Limits(rate=2, per=HOUR)
    await store.limit("email", limits, now=T0)
    first, second, _ = await add_many(store, 3)
    assert await claim_ids(store) == [first, second]

    await store.limit("email", limits, now=T0)

    assert await claim_ids(store) == []
