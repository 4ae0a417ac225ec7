"""`Store.measure` and `Store.hours`: how long jobs took, by minute and by hour."""

from __future__ import annotations

import pytest

from kue.model.histogram import DAY_MS, Timing
from kue.model.job import Completed
from kue.store.contract import Store
from kue.store.values import HOURS_KEPT, MINUTES_KEPT, MINUTES_PER_PASS, Stat
from tests.support.jobs import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    T0,
    add_many,
    add_one,
    end,
    start_one,
)
from tests.support.upkeep import tend

NOW = T0 // MINUTE
#: The clock starts at a full hour, so that a test may count in it.
NOW_HOUR = T0 // HOUR
assert NOW_HOUR * HOUR == T0


async def minute(store: Store, at: int = T0) -> list[Stat]:
    return await store.stats(at // MINUTE, at // MINUTE)


async def hours(store: Store, first: int, last: int, now: int) -> list[Stat]:
    return await store.hours(first // HOUR, last // HOUR, now=now)


# -- minutes -------------------------------------------------------------------


async def test_what_was_measured_is_added_to_the_minute(store: Store) -> None:
    await store.measure([Timing("email", {1: 2}, {10: 1})], now=T0)
    await store.measure([Timing("email", {1: 1, 75: 4})], now=T0 + 59 * SECOND)
    await store.measure([Timing("email", runs={10: 5})], now=T0 + MINUTE)

    assert await store.stats(NOW, NOW + 1) == [
        Stat(NOW, "email", waits={1: 3, 75: 4}, runs={10: 1}),
        Stat(NOW + 1, "email", runs={10: 5}),
    ]


async def test_measures_stand_beside_what_was_counted(store: Store) -> None:
    job = await start_one(store)
    await store.measure([Timing("email", {1: 1}, {38: 1})], now=T0)
    await end(store, job, Completed(), now=T0 + 33)

    assert await minute(store) == [
        Stat(NOW, "email", 1, 1, run_ms=33, waits={1: 1}, runs={38: 1})
    ]


async def test_types_are_measured_apart(store: Store) -> None:
    timings = [Timing("a:b", {1: 1}), Timing("ü/ö", {2: 1}), Timing("c", {3: 1})]
    await store.measure(timings, now=T0)

    found = {stat.type: stat.waits for stat in await minute(store)}
    assert found == {"a:b": {1: 1}, "ü/ö": {2: 1}, "c": {3: 1}}


async def test_nothing_measured_is_nothing_written(store: Store) -> None:
    await store.measure([], now=T0)

    assert await minute(store) == []


@pytest.mark.parametrize("bad", [{7: 1}, {0: 1}, {DAY_MS + 1: 1}, {1: -1}])
async def test_a_bucket_that_there_is_not_is_refused(
    store: Store, bad: dict[int, int]
) -> None:
    with pytest.raises(ValueError, match=r"bucket"):
        await store.measure([Timing("email", bad)], now=T0)

    assert await minute(store) == []


async def test_one_call_takes_so_many_types(store: Store) -> None:
    with pytest.raises(ValueError, match="at most 500"):
        await store.measure([Timing(f"t{n}") for n in range(501)], now=T0)


# -- hours ---------------------------------------------------------------------


async def test_minutes_count_in_their_hour_before_and_after_upkeep(
    store: Store,
) -> None:
    await add_many(store, 2, now=T0)
    await store.measure([Timing("email", {1: 1, 2: 1}, {10: 1})], now=T0)
    await add_one(store, now=T0 + 20 * MINUTE)
    await store.measure([Timing("email", {1: 1})], now=T0 + 20 * MINUTE)
    await add_one(store, "sms", now=T0 + HOUR)
    now = T0 + HOUR + MINUTE
    expected = [
        Stat(NOW, "email", 3, waits={1: 2, 2: 1}, runs={10: 1}),
        Stat(NOW + 60, "sms", 1),
    ]

    assert await hours(store, T0, now, now) == expected
    for _ in range(3):
        await tend(store, now)
        assert await hours(store, T0, now, now) == expected


async def test_the_current_minute_is_added_once_it_is_full(store: Store) -> None:
    for second in (0, 30, 59):
        await add_one(store, now=T0 + second * SECOND)
        await tend(store, T0 + second * SECOND)
    now = T0 + MINUTE
    await add_one(store, now=now)
    await tend(store, now)

    assert await hours(store, T0, T0, now) == [Stat(NOW, "email", 4)]


async def test_a_minute_is_added_to_its_hour_by_one_of_many(
    store: Store, other_store: Store
) -> None:
    await add_many(store, 3)
    for tending in (store, other_store, store, other_store):
        await tend(tending, T0 + 2 * MINUTE)

    assert await hours(store, T0, T0, T0 + 2 * MINUTE) == [Stat(NOW, "email", 3)]


async def test_hours_outlive_their_minutes(store: Store) -> None:
    await add_one(store)
    await store.measure([Timing("email", {1: 1}, {2: 1})], now=T0)
    await tend(store, T0 + MINUTE)
    later = T0 + 30 * DAY
    await tend(store, later)

    found = await hours(store, T0, later, later)

    assert found == [Stat(NOW, "email", 1, waits={1: 1}, runs={2: 1})]


async def test_a_pass_adds_so_many_minutes_and_the_next_goes_on(store: Store) -> None:
    """Nobody tended for hours."""
    minutes = 2 * MINUTES_PER_PASS + 1
    for n in range(minutes):
        await store.measure([Timing("email", {1: 1})], now=T0 + n * MINUTE)
    now = T0 + minutes * MINUTE

    for _ in range(3):
        found = await hours(store, T0, now, now)
        assert sum(stat.waits[1] for stat in found) == minutes
        await tend(store, now)

    # No minute is kept any more that could be read instead.
    far = now + (MINUTES_KEPT + 1) * MINUTE
    await tend(store, far)
    found = await hours(store, T0, now, far)
    assert sum(stat.waits[1] for stat in found) == minutes


async def test_only_the_hours_asked_for_are_given(store: Store) -> None:
    for n in range(4):
        await add_one(store, now=T0 + n * HOUR)
    now = T0 + 3 * HOUR + MINUTE
    for _ in range(3):
        await tend(store, now)

    found = await hours(store, T0 + HOUR, T0 + 2 * HOUR, now)

    assert [stat.minute for stat in found] == [NOW + 60, NOW + 120]
    assert await hours(store, T0 + 2 * HOUR, T0 + HOUR, now) == []


async def test_a_clock_that_was_set_back_counts_nothing_twice(store: Store) -> None:
    await add_one(store)
    await tend(store, T0 + 10 * MINUTE)
    await tend(store, T0 + MINUTE)
    await tend(store, T0 + 10 * MINUTE)

    now = T0 + 10 * MINUTE
    assert await hours(store, T0, T0, now) == [Stat(NOW, "email", 1)]


async def test_a_quarter_of_a_year_can_be_asked_for(store: Store) -> None:
    await add_one(store)
    await tend(store, T0 + MINUTE)
    later = T0 + (HOURS_KEPT - 1) * HOUR

    assert len(await hours(store, T0, later, later)) == 1
