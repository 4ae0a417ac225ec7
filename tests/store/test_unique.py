"""Unique keys: at most one unfinished job of a type has one."""

from __future__ import annotations

import pytest

from kue.model.draft import draft
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
from kue.store.values import Added, MoveRequest, RemoveRequest, Result
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    T0,
    add,
    add_one,
    claim_one,
    count_of,
    end,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import lose_worker, tend

UNFINISHED = [State.WAITING, State.DELAYED, State.ACTIVE, State.BLOCKED]
FINISHED = [State.COMPLETE, State.FAILED, State.CANCELLED]


async def add_again(store: Store, *, now: int = T0, type: str = "email") -> Added:
    [added] = await add(store, [draft(type, "other", unique="k")], now=now)
    return added


@pytest.mark.parametrize("state", UNFINISHED)
async def test_an_unfinished_job_answers_for_its_key(
    store: Store, state: State
) -> None:
    holder = await job_in(store, state, unique="k")

    assert await add_again(store) == Added(holder, new=False, created_at=T0)
    assert await count_of(store) == {state: 1}


@pytest.mark.parametrize("state", FINISHED)
async def test_a_finished_job_no_longer_holds_its_key(
    store: Store, state: State
) -> None:
    holder = await job_in(store, state, unique="k")

    added = await add_again(store)

    assert added.new
    assert added.id != holder


async def test_within_one_call_the_first_draft_holds_the_key(store: Store) -> None:
    first, plain, second, other = await add(
        store,
        [
            draft("email", 1, unique="k"),
            draft("email", 2),
            draft("email", 3, unique="k"),
            draft("email", 4, unique="other"),
        ],
    )

    assert second == Added(first.id, new=False, created_at=T0)
    assert len({first.id, plain.id, other.id}) == 3
    assert await count_of(store) == {State.WAITING: 3}


async def test_types_do_not_share_keys(store: Store) -> None:
    await add_one(store, unique="k")

    assert (await add_again(store, type="sms")).new
    assert (await add_again(store, type="video")).new


@pytest.mark.parametrize(
    "ending",
    [Retried(OOPS), Retried(OOPS, 5000), Released(), Released(5000), Stalled(OOPS)],
    ids=["retry", "retry later", "release", "release later", "stalled"],
)
async def test_a_job_that_will_run_again_keeps_its_key(
    store: Store, ending: Ending
) -> None:
    """K-4: no duplicate slips in while a retry waits."""
    job = await start_one(store, unique="k", attempts=3)
    await end(store, job, ending)

    assert await add_again(store) == Added(job.id, new=False, created_at=T0)


async def test_a_job_taken_back_from_a_lost_worker_keeps_its_key(store: Store) -> None:
    """K-4: nor while a job goes on elsewhere."""
    job = await start_one(store, unique="k")
    await lose_worker(store, T0)

    held = await add_again(store, now=T0 + MINUTE)
    assert (held.id, held.new) == (job.id, False)


@pytest.mark.parametrize(
    "ending", [Completed(), Failed(OOPS), Cancelled()], ids=["well", "badly", "cancel"]
)
async def test_a_key_is_held_for_its_time_even_when_the_job_has_ended(
    store: Store, ending: Ending
) -> None:
    job = await start_one(store, unique="k", unique_for="1h")
    await end(store, job, ending)

    held = await add_again(store, now=T0 + HOUR - 1)
    assert (held.id, held.new) == (job.id, False)
    assert (await add_again(store, now=T0 + HOUR + 1)).new


async def test_the_time_of_a_key_counts_from_when_the_job_was_added(
    store: Store,
) -> None:
    await add_one(store, unique="k", unique_for="1h")
    job = await claim_one(store, now=T0 + HOUR - MINUTE)
    await end(store, job, Completed(), now=T0 + HOUR - 1)

    assert (await add_again(store, now=T0 + HOUR + 1)).new


async def test_a_job_that_outlives_the_time_of_its_key_still_holds_it(
    store: Store,
) -> None:
    job_id = await add_one(store, unique="k", unique_for="1m")

    held = await add_again(store, now=T0 + HOUR)
    assert (held.id, held.new) == (job_id, False)


async def test_a_key_is_held_for_its_time_though_the_job_is_removed_on_complete(
    store: Store,
) -> None:
    job = await start_one(store, unique="k", unique_for="1h", remove_on_complete=True)
    await end(store, job, Completed())

    assert await state_of(store, job.id) is None
    held = await add_again(store, now=T0 + MINUTE)
    assert (held.id, held.new) == (job.id, False)
    assert (await add_again(store, now=T0 + HOUR + 1)).new


async def test_a_key_is_held_for_its_time_though_the_job_is_pruned(
    store: Store,
) -> None:
    """Upkeep removes it, not a person: nobody has said that the key is free."""
    job = await start_one(store, unique="k", unique_for="1h", retention=0)
    await end(store, job, Completed())
    await tend(store, T0 + 1)

    assert await state_of(store, job.id) is None
    held = await add_again(store, now=T0 + MINUTE)
    assert (held.id, held.new) == (job.id, False)
    assert (await add_again(store, now=T0 + HOUR + 1)).new


async def test_removing_a_job_on_complete_frees_its_key(store: Store) -> None:
    job = await start_one(store, unique="k", remove_on_complete=True)
    await end(store, job, Completed())

    assert (await add_again(store)).new


@pytest.mark.parametrize("state", [*UNFINISHED, *FINISHED])
async def test_removing_a_job_by_hand_frees_its_key(store: Store, state: State) -> None:
    """No key is blocked forever by a job that is gone."""
    holder = await job_in(store, state, unique="k", unique_for="1h")
    await store.remove(RemoveRequest([holder], force=True), now=T0)

    assert (await add_again(store)).new


async def test_a_job_that_expired_no_longer_holds_its_key(store: Store) -> None:
    """Nor by one that never ran."""
    await add_one(store, unique="k", expires="1m")
    await tend(store, T0 + MINUTE + 1)

    assert (await add_again(store, now=T0 + MINUTE + 2)).new


async def test_the_end_of_an_old_holder_does_not_free_the_new_ones_key(
    store: Store,
) -> None:
    """A finished job is removed late; its key belongs to someone else by then."""
    old = await job_in(store, State.COMPLETE, unique="k")
    new = await add_again(store)
    await store.remove(RemoveRequest([old]), now=T0)

    assert await add_again(store) == Added(new.id, new=False, created_at=T0)


async def test_a_restarted_job_takes_its_key_again(store: Store) -> None:
    job_id = await job_in(store, State.FAILED, unique="k")
    await store.move(MoveRequest([job_id], State.WAITING), now=T0)

    assert await add_again(store) == Added(job_id, new=False, created_at=T0)


async def test_a_job_cannot_restart_while_another_holds_its_key(store: Store) -> None:
    old = await job_in(store, State.FAILED, unique="k")
    new = await add_again(store)

    [reply] = await store.move(MoveRequest([old], State.WAITING), now=T0)

    assert reply == (Result.HELD, None, new.id)
    assert await state_of(store, old) is State.FAILED


async def test_a_job_can_restart_within_the_time_of_its_own_key(store: Store) -> None:
    job_id = await job_in(store, State.COMPLETE, unique="k", unique_for="1h")

    [reply] = await store.move(MoveRequest([job_id], State.WAITING), now=T0 + MINUTE)

    assert reply.word is Result.DONE


async def test_a_window_lasts_to_its_end_for_a_job_that_ends_just_before(
    store: Store,
) -> None:
    job = await start_one(store, unique="k", unique_for="1m")
    await end(store, job, Completed(), now=T0 + MINUTE - 500)

    held = await add_again(store, now=T0 + MINUTE - 400)
    free = await add_again(store, now=T0 + MINUTE)

    assert held == Added(job.id, new=False, created_at=T0)
    assert free.new
