"""`Limits.max_waiting`: so many jobs of a type wait; more are refused, or others go."""

from __future__ import annotations

import pytest

from kue.model.draft import draft
from kue.model.events import Kind
from kue.model.job import Completed, Retried, State
from kue.store.contract import Store
from kue.store.validation import InvalidCall
from kue.store.values import REFUSED, Limits, MoveRequest, PageRequest, WhenFull
from tests.support.jobs import (
    HOUR,
    OOPS,
    SECOND,
    T0,
    add,
    add_many,
    add_one,
    all_ids,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    state_of,
)

REFUSING = Limits(max_waiting=3)
DROPPING = Limits(max_waiting=3, when_full=WhenFull.DROP_OLDEST)


@pytest.fixture
async def capped(store: Store) -> Store:
    """A store that refuses a fourth waiting job."""
    await store.limit("email", REFUSING, now=T0)
    return store


@pytest.fixture
async def dropping(store: Store) -> Store:
    """A store that drops the oldest job for a fourth one."""
    await store.limit("email", DROPPING, now=T0)
    return store


async def waiting(store: Store) -> list[int]:
    return await all_ids(store, PageRequest(State.WAITING, "email"))


async def test_jobs_above_the_cap_are_refused(capped: Store) -> None:
    added = await add(capped, [draft("email") for _ in range(5)])

    assert added[3:] == [REFUSED, REFUSED]
    assert [one.new for one in added] == [True, True, True, False, False]
    assert await count_of(capped) == {State.WAITING: 3}


async def test_a_refused_job_leaves_no_trace(capped: Store) -> None:
    ids = await add_many(capped, 3)
    assert await add(capped, [draft("email", unique="x", tags=["t"])]) == [REFUSED]
    await claim_one(capped)

    [added] = await add(capped, [draft("email", unique="x")])
    assert added.new
    assert added.id == ids[-1] + (ids[-1] - ids[-2])


async def test_a_repeated_call_is_refused_again(capped: Store) -> None:
    await add_many(capped, 3)
    drafts = [draft("email"), draft("video")]
    first = await capped.add(drafts, producer="p", seq=1, now=T0)
    await claim_one(capped)

    assert await capped.add(drafts, producer="p", seq=1, now=T0) == first
    assert first[0] == REFUSED
    assert first[1].new


async def test_there_is_room_again_once_a_job_starts(capped: Store) -> None:
    await add_many(capped, 3)
    await claim_one(capped)

    [added] = await add(capped, [draft("email")])
    assert added.new


async def test_wait_is_up_to_the_caller(store: Store) -> None:
    limits = Limits(max_waiting=1, when_full=WhenFull.WAIT, full_timeout=5)
    await store.limit("email", limits, now=T0)
    await add_one(store)

    assert await add(store, [draft("email")]) == [REFUSED]
    assert await store.limits() == {"email": limits}


async def test_other_types_have_room(capped: Store) -> None:
    await add_many(capped, 3)

    assert await add_many(capped, 5, "video")


async def test_delayed_and_blocked_jobs_do_not_count(capped: Store) -> None:
    parent = await add_one(capped, "parent")
    await add_many(capped, 3, delay="1h")
    await add_many(capped, 3, after=[parent])
    await add_many(capped, 3)

    assert await count_of(capped) == {
        State.DELAYED: 3,
        State.BLOCKED: 3,
        State.WAITING: 3,
    }


async def test_they_are_not_refused_when_they_are_ready(capped: Store) -> None:
    parent = await add_one(capped)
    running = await claim_one(capped)
    await add_one(capped, after=[parent])
    await add_one(capped, delay="1s")
    by_hand = await add_one(capped, delay="1h")
    await add_many(capped, 3)
    await end(capped, running, Completed())
    await capped.move(MoveRequest([by_hand], State.WAITING), now=T0)

    assert len(await claim_ids(capped, now=T0 + SECOND)) == 6


async def test_a_job_that_runs_again_is_not_refused(capped: Store) -> None:
    await add_one(capped, attempts=3)
    job = await claim_one(capped)
    await add_many(capped, 3)
    await end(capped, job, Retried(OOPS, 0))

    assert await count_of(capped) == {State.WAITING: 4}


async def test_held_jobs_count(store: Store) -> None:
    await store.limit("email", Limits(max_waiting=3, per_key=1), now=T0)
    await add_many(store, 3, group="a")
    await claim_ids(store)
    assert await add_one(store)

    assert await add(store, [draft("email")]) == [REFUSED]


async def test_a_duplicate_gets_its_holder_and_is_not_refused(capped: Store) -> None:
    holder = await add_one(capped, unique="x")
    await add_many(capped, 2)

    [added] = await add(capped, [draft("email", unique="x")])
    assert (added.id, added.new) == (holder, False)


async def test_a_job_may_be_replaced_in_a_full_type(capped: Store) -> None:
    holder = await add_one(capped, unique="x", data=1)
    await add_many(capped, 2)

    again = draft("email", 2, unique="x", on_conflict="replace")
    [added] = await add(capped, [again])
    assert (added.id, added.replaced) == (holder, True)
    assert (await get_one(capped, holder)).data == 2


async def test_a_lowered_cap_refuses_and_removes_none(capped: Store) -> None:
    await add_many(capped, 3)
    await capped.limit("email", Limits(max_waiting=1), now=T0)

    assert await add(capped, [draft("email")]) == [REFUSED]
    assert await count_of(capped) == {State.WAITING: 3}


async def test_without_a_cap_there_is_room(capped: Store) -> None:
    await add_many(capped, 3)
    await capped.limit("email", None, now=T0)

    assert await add_many(capped, 3)


# -- drop the oldest -----------------------------------------------------------


async def test_the_oldest_goes_for_a_new_one(dropping: Store) -> None:
    ids = await add_many(dropping, 3)
    new = await add_one(dropping)

    assert await waiting(dropping) == [*ids[1:], new]
    assert await state_of(dropping, ids[0]) is State.CANCELLED


async def test_a_dropped_job_says_why(dropping: Store) -> None:
    [first, *_] = await add_many(dropping, 4)

    job = await get_one(dropping, first)
    assert job.history[-1].reason == (
        "dropped: 3 jobs of its type wait, as many as its cap allows"
    )


async def test_a_dropped_job_is_an_event(dropping: Store) -> None:
    [first, *_] = await add_many(dropping, 3)
    async with dropping.watch([first]) as events:
        await add_one(dropping)
        event = await anext(events)

    assert (event.kind, event.job_id) == (Kind.CANCELLED, first)


async def test_those_of_the_lowest_priority_go_first(dropping: Store) -> None:
    normal = await add_one(dropping)
    low = await add_many(dropping, 2, priority="low")
    new = await add_one(dropping, priority="high")

    assert await waiting(dropping) == [new, normal, low[1]]


async def test_higher_ones_go_when_no_lower_ones_are_left(dropping: Store) -> None:
    normal = await add_many(dropping, 2)
    await add_one(dropping, priority="low")
    new = await add_many(dropping, 2)

    assert await waiting(dropping) == [normal[1], *new]


async def test_of_many_at_once_the_last_stay(dropping: Store) -> None:
    ids = await add_many(dropping, 450)

    assert await waiting(dropping) == ids[-3:]
    assert await count_of(dropping) == {State.WAITING: 3, State.CANCELLED: 447}


async def test_held_jobs_go_last(store: Store) -> None:
    limits = Limits(max_waiting=3, when_full=WhenFull.DROP_OLDEST, per_key=1)
    await store.limit("email", limits, now=T0)
    a = await add_many(store, 3, group="a")
    assert await claim_ids(store) == a[:1]
    b = await add_many(store, 4, group="b", priority="high")

    assert await waiting(store) == [b[-1], *a[1:]]
    await store.cancel([b[-1]], now=T0)
    c = await add_many(store, 3, group="a")
    assert await waiting(store) == [*a[1:], c[-1]]


async def test_a_dropped_job_frees_its_key_and_ends_its_dependants(
    dropping: Store,
) -> None:
    first = await add_one(dropping, unique="x")
    child = await add_one(dropping, "video", after=[first])
    await add_many(dropping, 3)

    assert await state_of(dropping, child) is State.CANCELLED
    [added] = await add(dropping, [draft("email", unique="x")])
    assert added.new


async def test_a_repeated_call_drops_nothing_more(dropping: Store) -> None:
    await add_many(dropping, 3)
    for _ in range(2):
        await dropping.add([draft("email")], producer="p", seq=1, now=T0)

    assert await count_of(dropping) == {State.WAITING: 3, State.CANCELLED: 1}


async def test_running_and_delayed_jobs_are_not_dropped(dropping: Store) -> None:
    [running] = await add_many(dropping, 1)
    await claim_one(dropping)
    [delayed] = await add_many(dropping, 1, delay="1h")
    await add_many(dropping, 5)

    assert await state_of(dropping, running) is State.ACTIVE
    assert await state_of(dropping, delayed) is State.DELAYED


async def test_a_fair_type_may_have_a_cap(store: Store) -> None:
    await store.limit("email", Limits(max_waiting=2, fair=True), now=T0)
    added = await add(store, [draft("email", group=group) for group in "aab"])

    assert [one.new for one in added] == [True, True, False]


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_waiting=0),
        Limits(max_waiting=1, full_timeout=-1),
        Limits(max_waiting=1, when_full=WhenFull.DROP_OLDEST, fair=True),
    ],
)
async def test_caps_that_make_no_sense_are_refused(
    store: Store, limits: Limits
) -> None:
    with pytest.raises(InvalidCall):
        await store.limit("email", limits, now=T0)


async def test_the_clock_of_a_test_is_that_of_a_dropped_job(dropping: Store) -> None:
    [first, *_] = await add_many(dropping, 3)
    await add_one(dropping, now=T0 + HOUR)

    assert (await get_one(dropping, first)).ended_at == T0 + HOUR
