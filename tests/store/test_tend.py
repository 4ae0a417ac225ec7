"""`Store.tend`: one bounded pass, by anyone, at any time; and promotion."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.values import MaintenanceResult, PageRequest, PauseRequest, RenewRequest
from tests.support.jobs import (
    MINUTE,
    SECOND,
    T0,
    add,
    add_many,
    add_one,
    claim_ids,
    count_of,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import KEEP_ALL, tend, together

TYPES = ["email", "sms", "video", "report"]


async def test_a_store_with_nothing_to_do_is_left_alone(store: Store) -> None:
    assert await store.tend(now=T0) == MaintenanceResult()
    for state in State:
        await job_in(store, state, f"in {state}")

    before = await store.page(PageRequest(limit=50))
    tended = await store.tend(now=T0, keep=KEEP_ALL)

    assert tended == MaintenanceResult()
    assert not tended
    assert await store.page(PageRequest(limit=50)) == before


@pytest.mark.parametrize("field", [*MaintenanceResult.COUNTS, "more"])
def test_a_pass_that_did_anything_counts_as_true(field: str) -> None:
    assert msgspec.structs.replace(MaintenanceResult(), **{field: True})


def test_a_pass_that_only_found_peace_did_nothing() -> None:
    assert not MaintenanceResult(quiet=True, elsewhere=True)


async def test_due_jobs_are_promoted(store: Store) -> None:
    """D-35: a type's delayed jobs are in the order of their time, not of priority."""
    late = await add_one(store, delay=3, priority="critical")
    soon = await add_one(store, delay=1, priority="low")
    other = await add_one(store, "sms", delay=2)

    tended = await tend(store, T0 + 2 * SECOND)

    assert tended.promoted == 2
    assert await state_of(store, soon) is State.WAITING
    assert await state_of(store, other) is State.WAITING
    assert await state_of(store, late) is State.DELAYED


async def test_a_promoted_job_waits_and_has_no_time_any_more(store: Store) -> None:
    job_id = await add_one(store, delay=1)
    await tend(store, T0 + SECOND)

    job = await get_one(store, job_id)
    assert (job.state, job.promote_at, job.history) == (State.WAITING, None, ())
    assert job.spec.delay == SECOND


async def test_nothing_is_promoted_before_its_time(store: Store) -> None:
    job_id = await add_one(store, delay=1)

    assert (await tend(store, T0 + SECOND - 1)).promoted == 0
    assert await state_of(store, job_id) is State.DELAYED


async def test_a_thousand_jobs_due_in_the_same_moment_keep_their_order(
    store: Store,
) -> None:
    """D-38: as many as there are, in bounded steps, and in order."""
    ids = await add_many(store, 1000, delay=1)

    tended = await tend(store, T0 + SECOND, limit=300)

    assert tended.promoted == 1000
    assert await claim_ids(store, limit=500, now=T0 + SECOND) == ids[:500]
    assert await claim_ids(store, limit=500, now=T0 + SECOND) == ids[500:]


async def test_a_pass_does_no_more_than_its_limit_and_says_so(store: Store) -> None:
    await add_many(store, 25, delay=1)

    passes = [await store.tend(limit=10, now=T0 + SECOND) for _ in range(4)]

    assert [tended.promoted for tended in passes] == [10, 10, 5, 0]
    assert [tended.more for tended in passes[:2]] == [True, True]
    assert not passes[3]


async def test_two_who_tend_at_once_move_each_job_once(
    store: Store, other_store: Store
) -> None:
    """D-37: of all who promote, one wins each job."""
    for type in TYPES:
        await add_many(store, 100, type, delay=1)
    done = MaintenanceResult()

    for _ in range(10):
        passes = await asyncio.gather(
            *(
                each.tend(limit=40, now=T0 + SECOND)
                for each in (store, other_store, store, other_store)
            )
        )
        for tended in passes:
            done = together(done, tended)

    assert done.promoted == 400
    for type in TYPES:
        assert await count_of(store, type) == {State.WAITING: 100}


async def test_two_who_tend_at_once_rescue_each_run_once(
    store: Store, other_store: Store
) -> None:
    job = await start_one(store)
    await tend(store, T0)
    await store.leave("w1", now=T0)

    passes = await asyncio.gather(
        *(each.tend(now=T0 + 1) for each in (store, other_store) * 3)
    )

    assert sum(tended.rescued for tended in passes) == 1
    assert (await get_one(store, job.id)).stalls == 1


async def test_a_claim_and_a_pass_at_once_promote_each_job_once(
    store: Store, other_store: Store
) -> None:
    await add_many(store, 50, delay=1)

    ids, tended = await asyncio.gather(
        claim_ids(store, limit=50, now=T0 + SECOND),
        other_store.tend(now=T0 + SECOND),
    )

    ids += await claim_ids(store, limit=50, now=T0 + SECOND)
    assert len(ids) == len(set(ids)) == 50
    assert tended.promoted in (0, 50)


async def test_pauses_that_are_over_are_forgotten(store: Store) -> None:
    await store.pause(PauseRequest("email", until=T0 + MINUTE), now=T0)
    await store.pause(PauseRequest("sms", until=T0 + 2 * MINUTE), now=T0)
    await store.pause(PauseRequest(until=T0 + MINUTE), now=T0)

    await tend(store, T0 + MINUTE + 1)

    assert [pause.type for pause in await store.paused()] == ["sms"]


async def test_lost_workers_are_forgotten_once_their_runs_are_taken_back(
    store: Store,
) -> None:
    await start_one(store)
    await store.renew(RenewRequest("idle"), now=T0)
    await tend(store, T0)
    await store.leave("w1", now=T0)
    await store.leave("idle", now=T0)

    await tend(store, T0 + SECOND)

    assert await store.workers(now=T0 + SECOND) == []


async def test_one_pass_sees_to_everything(store: Store) -> None:
    await add_one(store, "delayed", delay=1)
    await start_one(store, "lost", worker="w9")
    await start_one(store, "silent", ttl="1s")
    await add_one(store, "expiring", expires="1s")
    old = await start_one(store, "old")
    await end(store, old, Completed())
    await tend(store, T0)
    await store.leave("w9", now=T0)

    tended = await tend(store, T0 + SECOND + 1, keep=Keep(complete_count=0))

    assert tended.promoted == 1
    assert tended.rescued == 1
    assert tended.timed_out == 1
    assert tended.expired == 1
    assert tended.pruned == 1


async def test_a_damaged_clock_of_a_caller_moves_nothing(store: Store) -> None:
    """With no time given the engine's own clock decides."""
    [added] = await add(store, [draft("email", delay=60)], now=await store.now())

    assert (await store.tend()).promoted == 0
    assert await state_of(store, added.id) is State.DELAYED


async def test_a_pass_right_after_another_is_not_made(store: Store) -> None:
    """R-8: any number of processes may ask, and one pass a second is enough."""
    await add_one(store, now=await store.now())
    # On a machine that is slow enough the next pass is due in between.
    while not (await store.tend()).quiet:
        pass

    assert not (await store.tend(now=await store.now())).quiet
