"""`Store.tend` and retention: D-32, what ended is kept as long as it should be."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.job import Completed, State
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    LogLine,
    MoveRequest,
    Outcome,
    PageRequest,
    RenewRequest,
)
from tests.support.jobs import (
    HOUR,
    MINUTE,
    T0,
    add_many,
    add_one,
    claim,
    count_of,
    end,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import tend

FINISHED = [State.COMPLETE, State.FAILED, State.CANCELLED]


def keep_count(state: State, count: int) -> Keep:
    return Keep(**{**_forever(), f"{state}_count": count})


def keep_age(state: State, age: int) -> Keep:
    return Keep(**{**_forever(), f"{state}_age": age})


def _forever() -> dict[str, int | None]:
    return dict.fromkeys(Keep.__struct_fields__)


@pytest.mark.parametrize("state", FINISHED)
async def test_the_newest_are_kept_by_count(store: Store, state: State) -> None:
    ids = [await job_in(store, state, now=T0 + number) for number in range(5)]

    tended = await tend(store, T0 + MINUTE, keep=keep_count(state, 2))

    assert tended.pruned == 3
    assert [await state_of(store, job_id) for job_id in ids] == [None] * 3 + [state] * 2


@pytest.mark.parametrize("state", FINISHED)
async def test_the_young_are_kept_by_age(store: Store, state: State) -> None:
    old = await job_in(store, state, now=T0)
    young = await job_in(store, state, now=T0 + 2 * MINUTE)

    tended = await tend(store, T0 + 3 * MINUTE, keep=keep_age(state, 2 * MINUTE))

    assert tended.pruned == 1
    assert await state_of(store, old) is None
    assert await state_of(store, young) is state


@pytest.mark.parametrize("state", FINISHED)
async def test_without_a_rule_everything_is_kept(store: Store, state: State) -> None:
    job_id = await job_in(store, state)

    tended = await tend(store, T0 + 10_000 * HOUR, keep=Keep(**_forever()))

    assert tended.pruned == 0
    assert await state_of(store, job_id) is state


async def test_each_type_keeps_its_own_number(store: Store) -> None:
    for type in ("email", "sms"):
        for number in range(3):
            await job_in(store, State.COMPLETE, type, now=T0 + number)

    tended = await tend(store, T0 + MINUTE, keep=keep_count(State.COMPLETE, 2))

    assert tended.pruned == 2
    assert await count_of(store, "email") == {State.COMPLETE: 2}
    assert await count_of(store, "sms") == {State.COMPLETE: 2}


async def test_a_rule_for_one_state_says_nothing_of_the_others(store: Store) -> None:
    for state in FINISHED:
        await job_in(store, state)

    await tend(store, T0 + MINUTE, keep=keep_count(State.COMPLETE, 0))

    assert await count_of(store) == {State.FAILED: 1, State.CANCELLED: 1}


async def test_unfinished_jobs_are_never_pruned(store: Store) -> None:
    unfinished = (State.WAITING, State.ACTIVE, State.BLOCKED, State.DELAYED)
    ids = [await job_in(store, state, str(state)) for state in unfinished]
    strict = Keep(0, 0, 0, 0, 0, 0)
    await store.renew(RenewRequest("w1", lease=2 * HOUR), now=T0)

    tended = await tend(store, T0 + MINUTE, keep=strict)

    assert tended.pruned == 0
    assert None not in await store.get(ids)


async def test_a_job_may_say_how_long_it_is_kept(store: Store) -> None:
    short = await job_in(store, State.COMPLETE, "email", retention="1m")
    long = await job_in(store, State.COMPLETE, "sms", retention="2h")

    await tend(store, T0 + MINUTE - 1)
    assert await state_of(store, short) is State.COMPLETE
    await tend(store, T0 + MINUTE + 1)
    assert await state_of(store, short) is None
    assert await state_of(store, long) is State.COMPLETE
    await tend(store, T0 + 2 * HOUR + 1)
    assert await state_of(store, long) is None


@pytest.mark.parametrize("state", FINISHED)
async def test_its_own_word_goes_before_the_rule(store: Store, state: State) -> None:
    own = await job_in(store, state, retention="2h")
    ruled = await job_in(store, state)
    strict = Keep(0, MINUTE, 0, MINUTE, 0, MINUTE)

    await tend(store, T0 + HOUR, keep=strict)

    assert await state_of(store, own) is state
    assert await state_of(store, ruled) is None


async def test_retention_starts_when_the_job_ends(store: Store) -> None:
    job = await start_one(store, retention="1m")
    await end(store, job, Completed(), now=T0 + 10 * MINUTE)

    assert (await tend(store, T0 + 10 * MINUTE + 1)).pruned == 0
    assert (await tend(store, T0 + 11 * MINUTE + 1)).pruned == 1


async def test_no_retention_at_all_means_gone_at_the_next_pass(store: Store) -> None:
    job_id = await job_in(store, State.COMPLETE, retention=0)

    await tend(store, T0 + 1)

    assert await state_of(store, job_id) is None


async def test_a_restarted_job_is_not_pruned_for_its_earlier_end(store: Store) -> None:
    job_id = await job_in(store, State.COMPLETE, retention="1m")
    await store.move(MoveRequest([job_id], State.WAITING), now=T0)

    assert (await tend(store, T0 + HOUR)).pruned == 0
    assert await state_of(store, job_id) is State.WAITING


async def test_a_pruned_job_leaves_nothing_behind(store: Store) -> None:
    """D-30: no structure still lists it, whatever its type."""
    job_id = await job_in(store, State.COMPLETE, unique="k", retention=0)
    await store.log(job_id, [LogLine("hello")], now=T0)
    await tend(store, T0 + 1)

    assert await store.logs(job_id) == []
    assert await count_of(store) == {}
    assert (await store.page(PageRequest())).jobs == []
    assert (await add_one(store, unique="k")) != job_id


async def test_many_are_pruned_in_bounded_steps(store: Store) -> None:
    await add_many(store, 25)
    await store.cancel(
        [job.id for job in (await store.page(PageRequest())).jobs], now=T0
    )
    strict = keep_count(State.CANCELLED, 5)

    first = await store.tend(limit=10, keep=strict, now=T0 + 1)
    rest = await tend(store, T0 + 1, limit=10, keep=strict)

    assert 0 < first.pruned <= 10
    assert first.more
    assert first.pruned + rest.pruned == 20
    assert await count_of(store) == {State.CANCELLED: 5}


async def test_pruning_a_failed_parent_leaves_no_dependant_waiting_for_ever(
    store: Store,
) -> None:
    """Nothing would ever release it: it is told as if someone removed the parent."""
    parent = await job_in(store, State.FAILED, "parent", retention="1m")
    child = await add_one(store, "child", after=[parent])
    await tend(store, T0)
    assert await state_of(store, child) is State.BLOCKED

    await tend(store, T0 + MINUTE + 1)

    assert await state_of(store, parent) is None
    assert await state_of(store, child) is State.CANCELLED


async def ended(store: Store, count: int, **options: Any) -> None:
    """Have jobs complete, and nothing else be there to be claimed."""
    await add_many(store, count, **options)
    while jobs := await claim(store, limit=MAX_BATCH):
        await store.settle([Outcome(job, Completed()) for job in jobs], now=T0)


@pytest.mark.parametrize("rule", [{"complete_count": 0}, {"complete_age": MINUTE}])
async def test_jobs_with_their_own_retention_do_not_keep_others_from_being_pruned(
    store: Store, rule: dict[str, int]
) -> None:
    """R-11: however many they are, and though they are older."""
    await ended(store, 2_300, retention="1d")
    await ended(store, 20)

    tended = await tend(store, T0 + HOUR, keep=Keep(**{**_forever(), **rule}))

    assert tended.pruned == 20
    assert await count_of(store) == {State.COMPLETE: 2_300}


async def test_jobs_with_their_own_retention_do_not_count_in_other_states(
    store: Store,
) -> None:
    for _ in range(3):
        await job_in(store, State.FAILED, retention="1d")
    ids = [await job_in(store, State.COMPLETE, now=T0 + number) for number in range(3)]

    tended = await tend(store, T0 + MINUTE, keep=keep_count(State.COMPLETE, 2))

    assert tended.pruned == 1
    assert await state_of(store, ids[0]) is None
