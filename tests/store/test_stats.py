"""`Store.stats`: what happened in each minute, counted by the move itself."""

from __future__ import annotations

from kue.model.draft import draft
from kue.model.job import Cancelled, Completed, Failed, Released, Retried, Stalled
from kue.store.contract import Store
from kue.store.values import RemoveRequest, Stat
from tests.support.jobs import (
    DAY,
    MINUTE,
    OOPS,
    T0,
    add_many,
    add_one,
    claim_one,
    end,
    start_one,
)
from tests.support.upkeep import lose_worker, tend

#: The clock starts at a full minute, so that a test may count in it.
NOW = T0 // MINUTE
assert NOW * MINUTE == T0


async def stats(store: Store, since: int = NOW, until: int = NOW) -> list[Stat]:
    found = await store.stats(since, until)
    return sorted(found, key=lambda stat: (stat.minute, stat.type))


async def test_nothing_happened_yet(store: Store) -> None:
    assert await stats(store) == []


async def test_added_jobs_are_counted_by_type(store: Store) -> None:
    await add_many(store, 3, "email")
    await add_one(store, "sms", delay=60)

    assert await stats(store) == [
        Stat(NOW, "email", added=3),
        Stat(NOW, "sms", added=1),
    ]


async def test_a_job_that_was_not_added_is_not_counted(store: Store) -> None:
    """A unique key that is held and a call that is repeated add nothing."""
    drafts = [draft("email", unique="k"), draft("email", unique="k")]
    for _ in range(2):
        await store.add(drafts, producer="p", seq=1, now=T0)

    assert await stats(store) == [Stat(NOW, "email", added=1)]


async def test_runs_are_counted_with_their_time(store: Store) -> None:
    """D-13: work time is counted with the ending; no listener can steal it."""
    job = await start_one(store)
    await end(store, job, Completed(), now=T0 + 300)
    job = await start_one(store, now=T0 + 300)
    await end(store, job, Failed(OOPS), now=T0 + 350)

    assert await stats(store) == [
        Stat(NOW, "email", added=2, complete=1, failed=1, run_ms=350)
    ]


async def test_a_retried_run_counts_its_time_and_no_ending(store: Store) -> None:
    job = await start_one(store, attempts=2)
    await end(store, job, Retried(OOPS), now=T0 + 100)
    again = await claim_one(store, now=T0 + 200)
    await end(store, again, Completed(), now=T0 + 230)

    assert await stats(store) == [Stat(NOW, "email", added=1, complete=1, run_ms=130)]


async def test_runs_that_say_nothing_of_the_work_count_no_time(store: Store) -> None:
    for ending in (Released(), Stalled(OOPS), Cancelled()):
        job = await start_one(store, priority=-1)
        await end(store, job, ending, now=T0 + 100)
        await store.cancel([job.id], now=T0 + 100)

    assert await stats(store) == [Stat(NOW, "email", added=3)]


async def test_a_repeated_ending_is_counted_once(store: Store) -> None:
    job = await start_one(store)
    for _ in range(3):
        await end(store, job, Completed(), now=T0 + 40)

    assert await stats(store) == [Stat(NOW, "email", added=1, complete=1, run_ms=40)]


async def test_a_job_removed_as_it_completes_is_counted(store: Store) -> None:
    job = await start_one(store, remove_on_complete=True)
    await end(store, job, Completed(), now=T0 + 40)

    assert await stats(store) == [Stat(NOW, "email", added=1, complete=1, run_ms=40)]


async def test_each_minute_is_counted_for_itself(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, Completed(), now=T0 + MINUTE + 500)
    await add_one(store, now=T0 + 3 * MINUTE)

    everything = [
        Stat(NOW, "email", added=1),
        Stat(NOW + 1, "email", complete=1, run_ms=MINUTE + 500),
        Stat(NOW + 3, "email", added=1),
    ]
    assert await stats(store, NOW, NOW + 3) == everything
    assert await stats(store, NOW, NOW + 2) == everything[:2]
    assert await stats(store, NOW + 1, NOW + 3) == everything[1:]
    assert await stats(store, NOW + 1, NOW + 1) == everything[1:2]
    assert await stats(store, NOW + 2, NOW + 2) == []
    assert await stats(store, NOW + 3, NOW) == []


async def test_jobs_failed_by_upkeep_are_counted(store: Store) -> None:
    await add_one(store, "email", expires="1s")
    await start_one(store, "sms", delivery="at-most-once")
    await lose_worker(store, T0)

    failed = {stat.type: stat.failed for stat in await stats(store)}
    assert failed == {"email": 1, "sms": 1}


async def test_counts_outlive_the_jobs(store: Store) -> None:
    job_id = await add_one(store)
    await store.remove(RemoveRequest([job_id]), now=T0)
    await tend(store, T0 + MINUTE)

    assert await stats(store) == [Stat(NOW, "email", added=1)]


async def test_the_work_time_is_that_of_all_successful_runs(store: Store) -> None:
    """D-13: counted with the ending, once, and of no failed run."""
    job = await start_one(store, attempts=2)
    await end(store, job, Retried(OOPS), now=T0 + 100)
    again = await claim_one(store, now=T0 + 200)
    for _ in range(2):
        await end(store, again, Completed(), now=T0 + 230)
    job = await start_one(store, "sms", now=T0 + 300)
    await end(store, job, Failed(OOPS), now=T0 + 350)
    job = await start_one(store, "sms", now=T0 + 400)
    await end(store, job, Completed(), now=T0 + 405)

    assert await store.work_time(now=T0 + 405) == 35


async def test_the_work_time_counts_each_minute_once(store: Store) -> None:
    """Also those that are no longer kept as minutes."""
    for minute in (0, 10, 70):
        at = T0 + minute * MINUTE
        job = await start_one(store, now=at)
        await end(store, job, Completed(), now=at + 40)
        await tend(store, now=at + 3 * MINUTE)
        await tend(store, now=at + 4 * MINUTE)
    far = T0 + 400 * DAY
    await tend(store, now=far)
    job = await start_one(store, now=far)
    await end(store, job, Completed(), now=far + 7)

    assert await store.work_time(now=far + 7) == 127
