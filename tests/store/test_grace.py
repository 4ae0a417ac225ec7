"""`Store.tend` when everybody was away, or the clock jumped: nobody alive is robbed."""

from __future__ import annotations

from kue.model.job import Completed, State
from kue.model.settings import LEASE_MS
from kue.store.contract import Store
from kue.store.values import GRACE_GAP_MS, RenewRequest, Result
from tests.support.jobs import (
    HOUR,
    SECOND,
    T0,
    add_one,
    claim_ids,
    end,
    get_one,
    start_one,
    state_of,
)
from tests.support.upkeep import pass_time, tend

#: Both the lease and the patience for a gap are over.
BACK = T0 + 10 * LEASE_MS


async def test_nobody_is_robbed_in_the_first_pass_after_a_gap(store: Store) -> None:
    """The store was away: leases look over, but no one could have beaten."""
    job = await start_one(store)
    await tend(store, T0)

    tended = await tend(store, BACK)

    assert tended.rescued == 0
    assert (await get_one(store, job.id)).token == job.token


async def test_a_worker_that_beats_after_the_gap_keeps_its_runs(store: Store) -> None:
    job = await start_one(store)
    await tend(store, T0)
    await tend(store, BACK)
    await store.renew(RenewRequest("w1"), now=BACK + SECOND)

    await pass_time(store, BACK + SECOND, BACK + LEASE_MS)

    assert await end(store, job, Completed(), now=BACK + LEASE_MS) is Result.DONE


async def test_a_worker_that_stays_away_is_robbed_half_a_lease_later(
    store: Store,
) -> None:
    job = await start_one(store)
    await tend(store, T0)

    before = await pass_time(store, BACK, BACK + LEASE_MS // 2 - 1)
    after = await tend(store, BACK + LEASE_MS // 2 + 1)

    assert (before.rescued, after.rescued) == (0, 1)
    assert await state_of(store, job.id) is State.WAITING


async def test_grace_is_not_given_again_and_again(store: Store) -> None:
    """Where upkeep is rare, a lost worker is still found."""
    job = await start_one(store)
    await tend(store, T0)
    await tend(store, BACK)

    tended = await tend(store, BACK + 2 * LEASE_MS)

    assert tended.rescued == 1
    assert await state_of(store, job.id) is State.WAITING


async def test_the_grace_is_half_of_the_lease_given(store: Store) -> None:
    await start_one(store)
    await store.tend(lease=4 * SECOND, now=T0)
    await store.tend(lease=4 * SECOND, now=BACK)

    [worker] = await store.workers(now=BACK)
    assert worker.alive
    assert worker.deadline == BACK + 2 * SECOND


async def test_a_lease_that_lasts_longer_anyway_is_not_cut_short(store: Store) -> None:
    await add_one(store)
    await claim_ids(store, lease=HOUR)
    await tend(store, T0)
    await tend(store, T0 + GRACE_GAP_MS + SECOND)

    [worker] = await store.workers(now=T0)
    assert worker.deadline >= T0 + HOUR


async def test_without_a_gap_there_is_no_grace(store: Store) -> None:
    await start_one(store)

    tended = await pass_time(store, T0, T0 + LEASE_MS + 1)

    assert tended.rescued == 1


async def test_leases_are_set_anew_when_the_clock_stepped_back(store: Store) -> None:
    await start_one(store)
    await tend(store, T0)

    await tend(store, T0 - HOUR)

    [worker] = await store.workers(now=T0 - HOUR)
    assert (worker.alive, worker.deadline) == (True, T0 - HOUR + LEASE_MS)


async def test_a_lost_worker_is_found_though_the_clock_stepped_back(
    store: Store,
) -> None:
    """Otherwise its jobs would wait an hour for the old time to come again."""
    job = await start_one(store)
    await tend(store, T0)

    tended = await pass_time(store, T0 - HOUR, T0 - HOUR + LEASE_MS + 1)

    assert tended.rescued == 1
    assert await state_of(store, job.id) is State.WAITING


async def test_a_live_worker_keeps_its_runs_when_the_clock_stepped_back(
    store: Store,
) -> None:
    job = await start_one(store)
    await tend(store, T0)
    now = T0 - HOUR
    for _ in range(5):
        await tend(store, now)
        await store.renew(RenewRequest("w1"), now=now + SECOND)
        now += 4 * SECOND

    assert await end(store, job, Completed(), now=now) is Result.DONE


async def test_delayed_jobs_keep_their_moment_when_the_clock_stepped_back(
    store: Store,
) -> None:
    job_id = await add_one(store, delay=60)
    await tend(store, T0)
    await tend(store, T0 - HOUR)

    assert (await get_one(store, job_id)).promote_at == T0 + 60 * SECOND
    assert await claim_ids(store, now=T0 - HOUR) == []


async def test_work_goes_on_at_the_time_the_clock_says(store: Store) -> None:
    await tend(store, T0)
    await tend(store, T0 - HOUR)
    job = await start_one(store, now=T0 - HOUR)

    assert await end(store, job, Completed(), now=T0 - HOUR + 5) is Result.DONE
    done = await get_one(store, job.id)
    assert (done.created_at, done.ended_at) == (T0 - HOUR, T0 - HOUR + 5)
