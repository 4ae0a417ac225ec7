"""`Store.settle`: whose word counts.  A run that was taken back changes nothing."""

from __future__ import annotations

import msgspec
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
from kue.store.values import MoveRequest, Outcome, RemoveRequest, RenewRequest, Result
from tests.support.jobs import (
    OOPS,
    SECOND,
    T0,
    add_many,
    claim,
    claim_one,
    count_of,
    end,
    get_one,
    start_one,
    state_of,
)
from tests.support.upkeep import lose_worker, pass_time

ENDINGS: list[Ending] = [
    Completed("mine"),
    Failed(OOPS),
    Cancelled("mine"),
    Retried(OOPS),
    Released(),
    Stalled(OOPS),
]
NAMES = ["complete", "failed", "cancelled", "retry", "release", "stalled"]
STATES = [
    State.COMPLETE,
    State.FAILED,
    State.CANCELLED,
    State.WAITING,
    State.WAITING,
    State.WAITING,
]

LATER = T0 + 20 * SECOND


@pytest.mark.parametrize("again", ENDINGS, ids=[f"then-{name}" for name in NAMES])
@pytest.mark.parametrize(
    ("first", "state"), list(zip(ENDINGS, STATES, strict=True)), ids=NAMES
)
async def test_the_first_ending_of_a_run_stands(
    store: Store, first: Ending, state: State, again: Ending
) -> None:
    """D-7: a run ends once, whatever it is told afterwards."""
    job = await start_one(store, attempts=3)
    assert await end(store, job, first) is Result.DONE
    before = await get_one(store, job.id)

    assert await end(store, job, again, now=T0 + 1) is Result.ALREADY

    assert await get_one(store, job.id) == before
    assert before.state is state


@pytest.mark.parametrize("late", ENDINGS, ids=NAMES)
async def test_a_run_that_was_taken_back_can_no_longer_end(
    store: Store, late: Ending
) -> None:
    """D-7: nor while the job waits for someone else."""
    job = await start_one(store)
    await lose_worker(store, T0)
    before = await get_one(store, job.id)

    assert await end(store, job, late, now=LATER) is Result.LOST

    assert await get_one(store, job.id) == before


@pytest.mark.parametrize("late", ENDINGS, ids=NAMES)
async def test_a_run_cannot_end_the_run_that_replaced_it(
    store: Store, late: Ending
) -> None:
    """D-7: nor while someone else runs it."""
    job = await start_one(store)
    await lose_worker(store, T0)
    successor = await claim_one(store, worker="w2", now=LATER)

    assert await end(store, job, late, now=LATER) is Result.LOST

    assert await get_one(store, job.id) == successor
    assert await end(store, successor, Completed("theirs"), now=LATER) is Result.DONE
    assert (await get_one(store, job.id)).result == "theirs"


async def test_a_run_that_was_taken_back_stays_lost_after_the_job_has_ended(
    store: Store,
) -> None:
    job = await start_one(store)
    await lose_worker(store, T0)
    successor = await claim_one(store, worker="w2", now=LATER)
    await end(store, successor, Completed("theirs"), now=LATER)

    assert await end(store, job, Completed("mine"), now=LATER) is Result.LOST
    assert (await get_one(store, job.id)).result == "theirs"


async def test_a_run_that_was_taken_back_for_its_ttl_is_lost(store: Store) -> None:
    job = await start_one(store, ttl="2s", attempts=3)
    await pass_time(store, T0, T0 + 2 * SECOND + 1)

    assert await end(store, job, Completed(), now=T0 + 3 * SECOND) is Result.LOST
    assert await state_of(store, job.id) is State.WAITING


@pytest.mark.parametrize("late", ENDINGS, ids=NAMES)
async def test_a_run_of_a_job_that_was_removed_finds_it_gone(
    store: Store, late: Ending
) -> None:
    """U-6: nothing brings a removed job back, not even in part."""
    job = await start_one(store)
    await store.remove(RemoveRequest([job.id], force=True), now=T0)

    assert await end(store, job, late) is Result.GONE

    assert await state_of(store, job.id) is None
    assert await count_of(store) == {}


async def test_a_job_that_removed_itself_answers_a_repeat_without_harm(
    store: Store,
) -> None:
    """Nothing is left that could tell ended from removed; both mean all is well."""
    job = await start_one(store, remove_on_complete=True)
    await end(store, job, Completed())

    assert await end(store, job, Completed()) in (Result.ALREADY, Result.GONE)


async def test_a_made_up_token_is_no_right_to_end_a_run(store: Store) -> None:
    """D-16: completion is keyed by the run, not by an address that can be shared."""
    await add_many(store, 2)
    one, other = await claim(store, limit=2)
    forged = msgspec.structs.replace(one, token=other.token)

    assert await end(store, forged, Completed("forged")) is Result.LOST

    assert await state_of(store, one.id) is State.ACTIVE
    assert await state_of(store, other.id) is State.ACTIVE


async def test_a_run_of_an_earlier_life_cannot_end_a_restarted_job(
    store: Store,
) -> None:
    """Its own ending is in the story: it is told that it ended, and changes nothing."""
    job = await start_one(store)
    await end(store, job, Completed("first"))
    await store.move(MoveRequest([job.id], State.WAITING), now=T0 + 1)
    second = await claim_one(store, now=T0 + 2)

    assert await end(store, job, Failed(OOPS), now=T0 + 3) is Result.ALREADY
    assert await get_one(store, job.id) == second


async def test_each_outcome_gets_its_own_word_in_the_order_asked(store: Store) -> None:
    await add_many(store, 4)
    lost, done, gone, already = await claim(store, limit=4)
    await end(store, already, Completed())
    await store.remove(RemoveRequest([gone.id], force=True), now=T0)
    stranger = msgspec.structs.replace(lost, token=done.token)

    words = await store.settle(
        [
            Outcome(stranger, Completed()),
            Outcome(done, Completed()),
            Outcome(gone, Completed()),
            Outcome(already, Failed(OOPS)),
        ],
        now=T0,
    )

    assert words == [Result.LOST, Result.DONE, Result.GONE, Result.ALREADY]


async def test_a_late_run_ends_well_as_long_as_nobody_took_it_back(
    store: Store,
) -> None:
    """The end of a lease is a permission to take the run, not the end of the run."""
    job = await start_one(store)

    assert await end(store, job, Completed("late"), now=LATER) is Result.DONE
    assert (await get_one(store, job.id)).result == "late"


async def test_upkeep_takes_no_run_whose_lease_is_not_over(store: Store) -> None:
    """Between looking and ending the worker may have beaten: then the run goes on."""
    job = await start_one(store)
    await store.renew(RenewRequest("w1"), now=T0 + 9 * SECOND)
    outcome = Outcome(job, Stalled(OOPS), overdue="lease")

    assert await store.settle([outcome], now=T0 + 11 * SECOND) == [Result.LOST]
    assert await state_of(store, job.id) is State.ACTIVE
    assert await store.settle([outcome], now=LATER) == [Result.DONE]
    assert await state_of(store, job.id) is State.WAITING


async def test_upkeep_takes_no_run_whose_ttl_has_not_passed(store: Store) -> None:
    job = await start_one(store, ttl="30s")
    outcome = Outcome(job, Failed(OOPS), overdue="ttl")

    assert await store.settle([outcome], now=LATER) == [Result.LOST]
    assert await state_of(store, job.id) is State.ACTIVE
    assert await store.settle([outcome], now=T0 + 31 * SECOND) == [Result.DONE]
    assert await state_of(store, job.id) is State.FAILED


async def test_a_cancelled_run_that_maintenance_took_back_is_lost_to_its_worker(
    store: Store,
) -> None:
    job = await start_one(store)
    await store.cancel([job.id], now=T0)
    outcome = Outcome(job, Stalled(OOPS), overdue="lease")

    assert await store.settle([outcome], now=LATER) == [Result.DONE]

    after = await get_one(store, job.id)
    assert (after.state, after.history[-1].taken) == (State.CANCELLED, "lease")
    assert await end(store, job, Completed("late"), now=LATER) is Result.LOST
