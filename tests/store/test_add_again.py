"""`Store.add` repeated: the same call of the same producer adds once."""

from __future__ import annotations

import asyncio

import pytest

from kue.model.draft import draft
from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import RemoveRequest
from tests.support.jobs import HOUR, T0, count_of, state_of

BATCH = [
    draft("email", 1),
    draft("sms", 2, unique="k"),
    draft("sms", 3, unique="k"),
    draft("video", 4, delay="1h"),
    draft("email", 5),
]


async def test_the_same_call_again_answers_the_same_and_adds_nothing(
    store: Store,
) -> None:
    """A producer whose connection broke asks again, and nothing is there twice."""
    first = await store.add(BATCH, producer="p", seq=1, now=T0)
    again = await store.add(BATCH, producer="p", seq=1, now=T0 + 1)

    assert again == first
    assert [added.new for added in first] == [True, True, False, True, True]
    assert await count_of(store, "email") == {State.WAITING: 2}
    assert await count_of(store, "sms") == {State.WAITING: 1}
    assert await count_of(store, "video") == {State.DELAYED: 1}


async def test_a_repeated_unique_hit_stays_a_hit(store: Store) -> None:
    """The answer is that of the first call, whatever became of the holder since."""
    [held] = await store.add([draft("email", unique="k")], producer="a", seq=1, now=T0)
    hit = await store.add([draft("email", unique="k")], producer="b", seq=1, now=T0)
    await store.cancel([held.id], now=T0)

    again = await store.add([draft("email", unique="k")], producer="b", seq=1, now=T0)

    assert again == hit == [held._replace(new=False)]


async def test_a_call_stays_done_after_its_jobs_are_gone(store: Store) -> None:
    [added] = await store.add([draft("email")], producer="p", seq=1, now=T0)
    await store.remove(RemoveRequest([added.id]), now=T0)

    again = await store.add([draft("email")], producer="p", seq=1, now=T0)

    assert again == [added]
    assert await state_of(store, added.id) is None


async def test_a_repeat_an_hour_later_still_adds_nothing(store: Store) -> None:
    first = await store.add(BATCH, producer="p", seq=7, now=T0)

    assert await store.add(BATCH, producer="p", seq=7, now=T0 + HOUR) == first


async def test_the_next_call_of_a_producer_adds(store: Store) -> None:
    ids = set()
    for seq in (1, 2, 5):
        [added] = await store.add([draft("email")], producer="p", seq=seq, now=T0)
        ids.add(added.id)

    assert len(ids) == 3


async def test_a_call_before_the_last_is_refused(store: Store) -> None:
    await store.add([draft("email")], producer="p", seq=4, now=T0)

    with pytest.raises(ValueError, match=r"producer|seq"):
        await store.add([draft("email")], producer="p", seq=3, now=T0)

    assert await count_of(store) == {State.WAITING: 1}


async def test_a_call_before_the_last_is_refused_whatever_its_types(
    store: Store,
) -> None:
    await store.add([draft("email")], producer="p", seq=4, now=T0)

    for type in ("sms", "video", "report", "page"):
        with pytest.raises(ValueError, match=r"producer|seq"):
            await store.add([draft(type)], producer="p", seq=3, now=T0)

    assert await store.types() == ["email"]


async def test_a_refused_call_adds_nothing_of_any_type(store: Store) -> None:
    await store.add(BATCH, producer="p", seq=2, now=T0)
    before = await store.count()

    with pytest.raises(ValueError, match=r"producer|seq"):
        await store.add(BATCH, producer="p", seq=1, now=T0)

    assert await store.count() == before


async def test_producers_do_not_know_of_each_other(store: Store) -> None:
    one = await store.add([draft("email")], producer="a", seq=9, now=T0)
    other = await store.add([draft("email")], producer="b", seq=1, now=T0)

    assert one != other
    assert await count_of(store) == {State.WAITING: 2}


async def test_the_same_call_from_two_places_at_once_adds_once(
    store: Store, other_store: Store
) -> None:
    """A reply that is only late: the repeat overtakes it."""
    one, other = await asyncio.gather(
        store.add(BATCH, producer="p", seq=1, now=T0),
        other_store.add(BATCH, producer="p", seq=1, now=T0),
    )

    assert one == other
    assert await count_of(store, "email") == {State.WAITING: 2}
    assert await count_of(store, "sms") == {State.WAITING: 1}
