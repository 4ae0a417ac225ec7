"""`Limits.fair`: groups of a type take turns within each priority."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, Released, Retried, State
from kue.store.contract import Store
from kue.store.validation import InvalidCall
from kue.store.values import (
    MAX_WEIGHT,
    MAX_WEIGHTS,
    Change,
    Limits,
    MoveRequest,
    PageRequest,
)
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add,
    add_many,
    add_one,
    all_ids,
    claim,
    claim_ids,
    claim_one,
    end,
    take,
)
from tests.support.upkeep import tend

FAIR = Limits(fair=True)


@pytest.fixture
async def fair(store: Store) -> Store:
    """A store where groups of one type take turns."""
    await store.limit("email", FAIR, now=T0)
    return store


async def waiting(store: Store) -> list[int]:
    """Return the ids of all that wait, in order, in pages of two."""
    return await all_ids(store, PageRequest(State.WAITING, "email", limit=2))


def are_turns(found: list[int], *turns: set[int]) -> bool:
    """Return whether *found* has one turn after another; within one in any order."""
    for turn in turns:
        if set(found[: len(turn)]) != turn:
            return False
        found = found[len(turn) :]
    return found == []


async def test_groups_take_turns(fair: Store) -> None:
    a = await add_many(fair, 3, group="a")
    b = await add_many(fair, 2, group="b")

    claimed = await claim_ids(fair)
    assert are_turns(claimed, {a[0], b[0]}, {a[1], b[1]}, {a[2]})


async def test_a_group_that_comes_late_waits_for_no_backlog(fair: Store) -> None:
    noisy = await add_many(fair, 50, group="noisy")
    assert await claim_ids(fair, limit=20) == noisy[:20]
    late = await add_many(fair, 3, group="late")

    assert set(late) <= set(await claim_ids(fair, limit=7))


async def test_a_group_that_had_much_is_not_punished_when_all_is_done(
    fair: Store,
) -> None:
    await add_many(fair, 40, group="a")
    assert len(await claim(fair, limit=50)) == 40
    a = await add_many(fair, 2, group="a")
    b = await add_many(fair, 2, group="b")

    assert are_turns(await claim_ids(fair), {a[0], b[0]}, {a[1], b[1]})


async def test_a_group_saves_up_no_turns(fair: Store) -> None:
    """It was idle while another had many; then both take turns."""
    first = await add_one(fair, group="b")
    a = await add_many(fair, 9, group="a")
    assert set(await claim_ids(fair, limit=6)) == {first, *a[:5]}
    b = await add_many(fair, 3, group="b")

    claimed = await claim_ids(fair)
    assert are_turns(claimed, *({a[5 + n], b[n]} for n in range(3)), {a[8]})


async def test_jobs_without_a_group_are_a_group(fair: Store) -> None:
    plain = await add_many(fair, 3)
    a = await add_many(fair, 2, group="a")

    claimed = await claim_ids(fair)
    assert are_turns(claimed, {plain[0], a[0]}, {plain[1], a[1]}, {plain[2]})


async def test_a_weight_is_how_often_a_group_gets_a_turn(store: Store) -> None:
    await store.limit("email", Limits(fair=True, weights={"big one": 3}), now=T0)
    await add_many(store, 8, group="a")
    big = await add_many(store, 12, group="big one")

    first = await claim_ids(store, limit=8)
    assert len(set(first) & set(big)) == 6


async def test_a_changed_weight_counts_from_then_on(store: Store) -> None:
    await store.limit("email", Limits(fair=True), now=T0)
    await add_many(store, 12, group="a")
    await store.limit("email", Limits(fair=True, weights={"b": 2}), now=T0)
    b = await add_many(store, 8, group="b")

    assert len(set(await claim_ids(store, limit=6)) & set(b)) == 4


async def test_priority_comes_before_turns(fair: Store) -> None:
    low = await add_many(fair, 2, group="a", priority="low")
    high = await add_many(fair, 3, group="b", priority="high")
    other = await add_one(fair, group="a", priority="high")

    claimed = await claim_ids(fair)
    assert are_turns(claimed, {high[0], other}, *({one} for one in (*high[1:], *low)))


async def test_drafts_of_one_call_take_turns(fair: Store) -> None:
    drafts = [draft("email", group=group) for group in "aaabbb"]
    ids = [added.id for added in await add(fair, drafts)]

    claimed = await claim_ids(fair)
    assert are_turns(claimed, *({ids[n], ids[n + 3]} for n in range(3)))


async def test_pages_show_the_order_of_claims(fair: Store) -> None:
    """But for groups that have their turns at the same time."""
    await fair.limit("email", Limits(fair=True, weights={"b": 7}), now=T0)
    await add_many(fair, 1, group="a")
    await add_many(fair, 3, group="b")
    await add_many(fair, 2, group="c", priority="high")

    assert await waiting(fair) == await claim_ids(fair, limit=20)


async def test_pages_from_the_end_show_it_backwards(fair: Store) -> None:
    await fair.limit("email", Limits(fair=True, weights={"b": 7}), now=T0)
    await add_many(fair, 1, group="a")
    await add_many(fair, 6, group="b")
    await claim_one(fair)
    request = PageRequest(State.WAITING, "email", limit=3, descending=True)

    assert await all_ids(fair, request) == (await claim_ids(fair, limit=20))[::-1]


async def test_a_far_page_has_its_place_in_the_order(fair: Store) -> None:
    await add_many(fair, 5, group="a")
    await add_many(fair, 5, group="b")
    page = await fair.page(PageRequest(State.WAITING, "email", skip=6, limit=2))

    assert [job.id for job in page.jobs] == (await waiting(fair))[6:8]


async def test_jobs_that_become_due_take_turns(fair: Store) -> None:
    a = await add_many(fair, 3, group="a", delay="1s")
    b = await add_many(fair, 3, group="b")
    then = T0 + 2 * SECOND

    claimed = await claim_ids(fair, now=then)
    assert len(set(claimed[:2]) & set(a)) == 1
    assert {*claimed} == {*a, *b}


async def test_a_delayed_backlog_delays_nobody_when_it_is_due(fair: Store) -> None:
    backlog = await add_many(fair, 30, group="a", delay="1s")
    now = T0 + MINUTE
    await tend(fair, now=now)
    late = await add_many(fair, 3, group="b", now=now)

    claimed = await claim_ids(fair, limit=7, now=now)
    assert set(late) < set(claimed)
    assert set(claimed) - set(late) <= set(backlog)


@pytest.mark.parametrize(
    "ending",
    [Retried(OOPS, 0), Released(0, True), Released(0, False)],
    ids=["retried", "released", "released and not counted"],
)
async def test_a_job_that_runs_again_goes_first(fair: Store, ending: Any) -> None:
    a = await add_many(fair, 5, group="a", attempts=5)
    job = await claim_one(fair)
    assert job.id == a[0]
    await end(fair, job, ending)
    b = await add_many(fair, 5, group="b")

    # Beside the next of its group, which had that turn before.
    assert set(await claim_ids(fair, limit=3)) == {a[0], a[1], b[0]}


async def test_a_group_pays_for_what_runs_again(fair: Store) -> None:
    await add_one(fair, group="a", attempts=5)
    job = await claim_one(fair)
    b = await add_many(fair, 3, group="b")
    await end(fair, job, Retried(OOPS, 0))
    later = await add_one(fair, group="a")

    claimed = await claim_ids(fair)
    assert are_turns(claimed, {job.id, b[0]}, {b[1]}, {later, b[2]})


async def test_released_dependants_take_turns(fair: Store) -> None:
    parent = await add_one(fair)
    job = await claim_one(fair)
    children = await add_many(fair, 3, group="a", after=[parent])
    b = await add_many(fair, 2, group="b")
    await end(fair, job, Completed())

    claimed = await claim_ids(fair, limit=4)
    assert set(claimed) == {*children[:2], *b}


async def test_a_job_moved_by_hand_takes_a_turn(fair: Store) -> None:
    delayed = await add_one(fair, group="a", delay="1h")
    a = await add_many(fair, 3, group="a")
    b = await add_one(fair, group="b")
    await fair.move(MoveRequest([delayed], State.WAITING), now=T0)

    claimed = await claim_ids(fair)
    assert are_turns(claimed, {a[0], b}, {a[1]}, {a[2]}, {delayed})


async def test_another_priority_gives_a_turn_there(fair: Store) -> None:
    await add_many(fair, 3, group="a")
    last = await add_one(fair, group="a")
    await fair.update([Change(last, priority=-10)], now=T0)

    assert (await claim_ids(fair))[0] == last


async def test_other_data_leaves_a_job_where_it_is(fair: Store) -> None:
    await add_many(fair, 3, group="a")
    await add_many(fair, 3, group="b")
    before = await waiting(fair)
    await fair.update([Change(before[3], data={"n": 1})], now=T0)

    assert await waiting(fair) == before


async def test_held_jobs_keep_their_turns(store: Store) -> None:
    await store.limit("email", Limits(fair=True, per_key=1), now=T0)
    a = await add_many(store, 3, group="a")
    b = await add_many(store, 3, group="b")
    first = await claim(store, limit=5)
    assert {job.id for job in first} == {a[0], b[0]}
    for job in first:
        await end(store, job, Completed())

    assert set(await claim_ids(store)) == {a[1], b[1]}


async def test_a_type_that_becomes_fair_is_so_for_new_jobs(store: Store) -> None:
    old = await add_many(store, 100, group="a")
    await store.limit("email", FAIR, now=T0)
    late = await add_one(store, group="b")

    assert late in await claim_ids(store, limit=3)
    assert await claim_ids(store, limit=3) == old[2:5]


async def test_a_type_that_is_no_longer_fair_goes_by_age(fair: Store) -> None:
    a = await add_many(fair, 3, group="a")
    b = await add_many(fair, 3, group="b")
    high = await add_one(fair, priority="high")
    await fair.limit("email", None, now=T0)
    c = await add_one(fair, group="c")

    assert await waiting(fair) == [high, *a, *b, c]
    assert await claim_ids(fair) == [high, *a, *b, c]


async def test_jobs_that_run_or_are_delayed_go_by_age_then_as_well(
    fair: Store,
) -> None:
    a = await add_many(fair, 4, group="a", attempts=3)
    jobs = await claim(fair, limit=3)
    b = await add_one(fair, group="b")
    await fair.limit("email", None, now=T0)
    for job in jobs:
        await end(fair, job, Retried(OOPS, 0))

    assert await claim_ids(fair) == [*a, b]


async def test_a_claim_of_several_types_keeps_the_order_of_each(fair: Store) -> None:
    a = await add_many(fair, 3, group="a")
    b = await add_many(fair, 3, group="b")
    await add_one(fair, type="other")

    claimed = await claim(fair, "email", "other", limit=7)
    found = [job.id for job in claimed if job.type == "email"]
    assert are_turns(found, {a[0], b[0]}, {a[1], b[1]}, {a[2], b[2]})


async def test_turns_of_types_are_their_own(store: Store) -> None:
    await store.limit("email", FAIR, now=T0)
    await add_many(store, 5, "video", group="a")
    a = await add_many(store, 2, group="a")
    b = await add_many(store, 2, group="b")

    assert are_turns(await claim_ids(store), {a[0], b[0]}, {a[1], b[1]})


async def test_beside_another_type_jobs_count_by_age(fair: Store) -> None:
    """However small their virtual times are, they do not come first forever."""
    first = await add_many(fair, 3, "other")
    late = await add_many(fair, 3, group="a")
    last = await add_one(fair, "other")

    claimed = [job.id for job in (await take(fair, "email", "other", limit=5)).jobs]
    # With several shards the order holds within each.
    assert claimed == [*first, *late[:2]] or late[0] % 4 != last % 4


async def test_turns_survive_another_process(store: Store, other_store: Store) -> None:
    await store.limit("email", FAIR, now=T0)
    a = await add_many(store, 3, group="a")
    b = await add_many(other_store, 3, group="b")

    claimed = await claim_ids(other_store, limit=4)
    assert are_turns(claimed, {a[0], b[0]}, {a[1], b[1]})


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(weights={"a": 2}), "fair"),
        (Limits(fair=True, weights={"a": 0}), "from 1"),
        (Limits(fair=True, weights={"a": MAX_WEIGHT + 1}), "from 1"),
        (
            Limits(fair=True, weights={str(n): 2 for n in range(MAX_WEIGHTS + 1)}),
            "most",
        ),
        (Limits(fair=True, ageing=HOUR), "either"),
    ],
)
async def test_rules_that_make_no_sense_are_refused(
    store: Store, limits: Limits, why: str
) -> None:
    with pytest.raises(InvalidCall, match=why):
        await store.limit("email", limits, now=T0)


async def test_names_of_groups_with_weights_may_be_any(store: Store) -> None:
    odd = 'a {b}: "c"=1, %7B'
    limits = Limits(fair=True, weights={odd: 2, "b": 3, "é": 60})
    await store.limit("email", limits, now=T0)
    assert await store.limits() == {"email": limits}

    await add_many(store, 4, group="x")
    weighted = await add_many(store, 8, group=odd)
    assert len(set(await claim_ids(store, limit=6)) & set(weighted)) == 4
