"""`check` of a Redis store: times at which upkeep is to act, damaged by hand."""

from __future__ import annotations

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.model.schedule import Schedule, every
from kue.store.contract import Store
from kue.store.values import RemoveRequest
from tests.support.hands import Hands, left_alone, mended
from tests.support.jobs import HOUR, MINUTE, T0, add_one, claim_one, end
from tests.support.upkeep import tend

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]


async def schedule_one(store: Store, name: str = "nightly") -> Schedule:
    schedule = every(name, "1h", draft("email"), first_at=T0)
    await store.schedule(schedule)
    return schedule


# -- schedules -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["nightly", 'a:{b}%41 "é"'])
async def test_a_schedule_without_a_time_gets_its_own(
    store: Store, hands: Hands, name: str
) -> None:
    """It would never fire again."""
    await schedule_one(store, name)
    hands.do("ZREM", hands.home("due"), name)
    assert (await store.tend(now=T0)).fired == 0

    message = f"the schedule {name!r} is not to fire, but its next time is {T0}"
    await mended(store, "schedule-drift", message, f"have it fire at {T0}")

    assert (await store.tend(now=T0)).fired == 1


@pytest.mark.parametrize("wrong", [T0 + HOUR, T0 - HOUR, "inf", "1.5"])
async def test_a_schedule_with_another_time_than_its_own_gets_its_own(
    store: Store, hands: Hands, wrong: int | str
) -> None:
    await schedule_one(store)
    hands.do("ZADD", hands.home("due"), wrong, "nightly")

    message = f"the schedule 'nightly' is to fire at {wrong}, but its next time is {T0}"
    await mended(store, "schedule-drift", message, f"have it fire at {T0}")

    assert (await store.tend(now=T0)).fired == 1


async def test_a_time_without_a_schedule_is_taken_out(
    store: Store, hands: Hands
) -> None:
    await schedule_one(store)
    hands.do("ZADD", hands.home("due"), T0, "gone")

    message = "a schedule 'gone' is to fire, but there is none"
    await mended(store, "schedule-drift", message, "take it out")

    assert [schedule.name for schedule in await store.schedules()] == ["nightly"]


async def test_a_name_that_is_no_text_is_taken_out_too(
    store: Store, hands: Hands
) -> None:
    hands.do("ZADD", hands.home("due"), T0, b"\xff")

    message = r"a schedule '\\xff' is to fire, but there is none"
    await mended(store, "schedule-drift", message, "take it out")


async def test_a_schedule_that_cannot_be_read_is_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    await schedule_one(store)
    hands.do("HSET", hands.home("schedules"), "nightly", "garbage")

    message = "the schedule 'nightly' cannot be read"
    await left_alone(store, hands, "bad-record", message)


async def test_schedules_that_fire_are_in_order(store: Store) -> None:
    for number in range(20):
        await schedule_one(store, f"nightly {number}")
    await tend(store, T0 + 90 * MINUTE)
    await store.unschedule("nightly 7")

    assert (await store.check()).findings == ()


# -- unique keys that outlast their job ----------------------------------------


async def test_a_key_that_nobody_holds_needs_no_freeing(
    store: Store, hands: Hands
) -> None:
    hands.do("ZADD", hands.of_type("lapse"), T0 + HOUR, "orphan%3A1")
    await add_one(store)

    message = "unique key 'orphan:1' of 'email' is to be freed later, but nobody "
    await mended(store, "unique-drift", f"{message}holds it", "take it out")


async def test_a_key_without_an_end_that_nobody_holds_is_found(
    store: Store, hands: Hands
) -> None:
    hands.do("ZADD", hands.of_type("lapse"), "inf", "orphan")
    await add_one(store)

    message = "unique key 'orphan' of 'email' is to be freed later, but nobody "
    await mended(store, "unique-drift", f"{message}holds it", "take it out")


async def test_a_key_that_outlasts_its_job_is_in_order(store: Store) -> None:
    await add_one(store, unique="once an hour", unique_for="1h")
    await end(store, await claim_one(store), Completed())

    assert (await store.check()).findings == ()


@pytest.mark.parametrize("way", ["remove", "clear"])
async def test_a_key_goes_whole_with_a_job_that_is_removed_by_hand(
    store: Store, hands: Hands, way: str
) -> None:
    """What frees the key forgets when it was to be freed."""
    job_id = await add_one(store, unique="once an hour", unique_for="1h")
    await end(store, await claim_one(store), Completed())
    assert hands.do("ZCARD", hands.of_type("lapse")) == 1

    if way == "remove":
        await store.remove(RemoveRequest([job_id]), now=T0)
    else:
        await store.clear("email", [State.COMPLETE], now=T0)

    assert hands.do("EXISTS", hands.of_type("lapse"), hands.of_type("unique")) == 0
    assert (await store.check()).findings == ()
