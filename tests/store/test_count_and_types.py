"""`Store.count` and `Store.types`."""

from __future__ import annotations

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import Limits, PauseRequest, RemoveRequest
from tests.support.jobs import (
    DAY,
    MINUTE,
    T0,
    add_many,
    add_one,
    claim,
    count_of,
    end,
    job_in,
)
from tests.support.schedules import every
from tests.support.upkeep import tend


async def test_an_empty_store_has_no_types(store: Store) -> None:
    assert await store.types() == []
    assert await store.count() == {}


async def test_types_are_sorted(store: Store) -> None:
    names = ["sms", "email", "Zebra", "émail", "a", "10", "9"]
    for name in names:
        await add_one(store, name)

    assert await store.types() == sorted(names)


async def test_a_type_is_remembered_when_its_jobs_are_gone(store: Store) -> None:
    job_id = await add_one(store)
    await store.remove(RemoveRequest([job_id]), now=T0)

    assert await store.types() == ["email"]
    assert await count_of(store) == {}
    assert "email" in await store.count()


async def days_pass(store: Store) -> None:
    for now in (T0, T0 + DAY + MINUTE, T0 + 2 * DAY + 2 * MINUTE):
        await tend(store, now)


async def test_a_type_that_was_idle_for_a_day_is_forgotten_until_it_is_used_again(
    store: Store,
) -> None:
    """R-16: the list of types only grew."""
    job_id = await add_one(store)
    await store.remove(RemoveRequest([job_id]), now=T0)
    await add_one(store, "sms", delay="10d")
    await tend(store, T0)
    assert await store.types() == ["email", "sms"]

    await days_pass(store)

    assert await store.types() == ["sms"]
    assert list(await store.count()) == ["sms"]
    await add_one(store, now=T0 + 3 * DAY)
    assert await store.types() == ["email", "sms"]
    assert (await store.check()).findings == ()


@pytest.mark.parametrize("reason", ["limit", "pause", "schedule"])
async def test_a_type_that_someone_thought_of_is_not_forgotten(
    store: Store, reason: str
) -> None:
    job_id = await add_one(store, "a type")
    await store.remove(RemoveRequest([job_id]), now=T0)
    if reason == "limit":
        await store.limit("a type", Limits(rate=1), now=T0)
    elif reason == "pause":
        await store.pause(PauseRequest("a type"), now=T0)
    else:
        first_at = T0 + 100 * DAY
        await store.schedule(every("s", "1h", draft("a type"), first_at=first_at))

    await days_pass(store)

    assert await store.types() == ["a type"]


async def test_a_type_in_use_is_not_forgotten(store: Store) -> None:
    for day in range(4):
        job_id = await add_one(store, now=T0 + day * DAY)
        await store.remove(RemoveRequest([job_id]), now=T0 + day * DAY)
        await tend(store, T0 + day * DAY)

    assert await store.types() == ["email"]


@pytest.mark.parametrize("state", list(State))
async def test_each_state_is_counted(store: Store, state: State) -> None:
    """D-46: counted, not loaded."""
    for _ in range(3):
        await job_in(store, state)
    await job_in(store, state, "sms")

    assert await count_of(store, "email") == {state: 3}
    assert await count_of(store, "sms") == {state: 1}


async def test_every_type_has_a_number_for_every_state(store: Store) -> None:
    await add_one(store, "email")
    await job_in(store, State.FAILED, "sms")

    counts = await store.count()

    assert counts["email"].get(State.WAITING) == 1
    assert counts["sms"].get(State.FAILED) == 1
    for numbers in counts.values():
        assert sum(numbers.values()) == 1
        assert set(numbers) <= set(State)


async def test_counts_follow_every_move(store: Store) -> None:
    await add_many(store, 4)
    jobs = await claim(store, limit=3)
    await end(store, jobs[0], Completed())
    await store.cancel([jobs[1].id], now=T0)
    await store.remove(RemoveRequest([jobs[2].id], force=True), now=T0)
    await tend(store)

    assert await count_of(store) == {
        State.WAITING: 1,
        State.ACTIVE: 1,
        State.COMPLETE: 1,
    }


async def test_all_stores_count_the_same(store: Store, other_store: Store) -> None:
    await add_many(store, 3, "email")
    await add_many(other_store, 2, "sms")

    assert await store.count() == await other_store.count()
    assert await store.types() == await other_store.types() == ["email", "sms"]
