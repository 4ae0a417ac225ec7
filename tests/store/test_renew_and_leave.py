"""`Store.renew` and `Store.leave`: the lease belongs to the worker, not to the job."""

from __future__ import annotations

from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import RemoveRequest, RenewRequest
from tests.support.jobs import (
    MINUTE,
    SECOND,
    T0,
    add_many,
    claim,
    claim_one,
    end,
    get_one,
    start_one,
    state_of,
)
from tests.support.upkeep import lose_worker, pass_time, tend

TYPES = ["email", "sms", "video", "report"]


async def test_one_beat_keeps_everything_a_worker_runs(store: Store) -> None:
    """K-11: liveness is the worker's business, whatever and however much it runs."""
    for type in TYPES:
        await add_many(store, 3, type)
    jobs = await claim(store, *TYPES, limit=12)

    for now in range(T0, T0 + MINUTE, 3 * SECOND):
        assert (await store.renew(RenewRequest("w1", runs=jobs), now=now)).lost == []
        assert (await store.tend(now=now)).rescued == 0

    assert [job.state for job in await store.get([j.id for j in jobs]) if job] == [
        State.ACTIVE
    ] * 12


async def test_a_beat_sets_the_lease_to_now_and_the_time_asked_for(
    store: Store,
) -> None:
    await start_one(store)
    await store.renew(RenewRequest("w1", lease=3 * SECOND), now=T0 + SECOND)

    [worker] = await store.workers(now=T0 + SECOND)
    assert (worker.deadline, worker.alive) == (T0 + 4 * SECOND, True)


async def test_a_late_beat_is_fine_until_someone_took_the_run_back(
    store: Store,
) -> None:
    job = await start_one(store)
    await tend(store, T0)

    late = T0 + 30 * SECOND
    assert (await store.renew(RenewRequest("w1", runs=[job]), now=late)).lost == []
    await tend(store, late)

    assert (await get_one(store, job.id)).token == job.token


async def test_a_beat_names_the_runs_that_were_taken_back(store: Store) -> None:
    await add_many(store, 2)
    lost = await claim(store, limit=2)
    await lose_worker(store, T0)
    late = T0 + 11 * SECOND
    kept = await start_one(store, "sms", now=late)

    beat = await store.renew(RenewRequest("w1", runs=[*lost, kept]), now=late)

    assert sorted(beat.lost) == sorted(job.id for job in lost)


async def test_a_beat_names_a_run_that_another_worker_has_by_now(store: Store) -> None:
    job = await start_one(store)
    await lose_worker(store, T0)
    late = T0 + 11 * SECOND
    await claim_one(store, worker="w2", now=late)

    assert (await store.renew(RenewRequest("w1", runs=[job]), now=late)).lost == [
        job.id
    ]


async def test_a_beat_names_a_run_that_the_same_worker_started_anew(
    store: Store,
) -> None:
    """The job is in its hands, but this run is over."""
    job = await start_one(store)
    await lose_worker(store, T0)
    late = T0 + 11 * SECOND
    again = await claim_one(store, worker="w1", now=late)

    assert (await store.renew(RenewRequest("w1", runs=[job]), now=late)).lost == [
        job.id
    ]
    assert (await store.renew(RenewRequest("w1", runs=[again]), now=late)).lost == []


async def test_a_beat_names_runs_of_jobs_that_were_removed(store: Store) -> None:
    await add_many(store, 2)
    gone, kept = await claim(store, limit=2)
    await store.remove(RemoveRequest([gone.id], force=True), now=T0)

    assert (await store.renew(RenewRequest("w1", runs=[gone, kept]), now=T0)).lost == [
        gone.id
    ]


async def test_a_beat_names_runs_that_have_ended(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, Completed())

    assert (await store.renew(RenewRequest("w1", runs=[job]), now=T0)).lost == [job.id]


async def test_a_beat_tells_which_runs_are_to_be_cancelled(store: Store) -> None:
    """R-16: of those it asked about; what was asked of others is not even read."""
    asked = await start_one(store, "email")
    asked_too = await start_one(store, "sms")
    other = await start_one(store, "video")
    theirs = await start_one(store, "report", worker="w2")
    await store.cancel([asked.id, theirs.id], now=T0)
    await store.cancel([asked_too.id], reason='a "second"\tthought\n', now=T0)

    beat = await store.renew(RenewRequest("w1", runs=[asked, asked_too, other]), now=T0)

    assert beat.lost == []
    assert beat.cancel == {asked.id: "", asked_too.id: 'a "second"\tthought\n'}
    assert (await store.renew(RenewRequest("w1", runs=[other]), now=T0)).cancel == {}
    beat = await store.renew(RenewRequest("w2", runs=[theirs]), now=T0)
    assert beat.cancel == {theirs.id: ""}


async def test_a_beat_tells_of_a_cancel_until_the_run_has_ended(store: Store) -> None:
    """A reply may be lost: the worker hears it again at the next beat."""
    job = await start_one(store)
    await store.cancel([job.id], reason="enough", now=T0)
    await store.cancel([job.id], reason="the first reason stands", now=T0)

    first = await store.renew(RenewRequest("w1", runs=[job]), now=T0)
    second = await store.renew(RenewRequest("w1", runs=[job]), now=T0 + SECOND)
    await end(store, job, Completed())
    third = await store.renew(RenewRequest("w1", runs=[job]), now=T0 + 2 * SECOND)

    assert first.cancel == second.cancel == {job.id: "enough"}
    assert third.cancel == {}


async def test_a_worker_is_known_by_its_beat_alone(store: Store) -> None:
    await store.renew(RenewRequest("idle", info={"host": "a"}), now=T0)

    [worker] = await store.workers(now=T0)
    assert (worker.name, worker.active, worker.info) == ("idle", 0, {"host": "a"})


async def test_info_is_replaced_whole_and_kept_when_none_is_given(store: Store) -> None:
    await store.renew(RenewRequest("w1", info={"host": "a", "pid": 7}), now=T0)
    await store.renew(RenewRequest("w1", info={"host": "b"}), now=T0)
    await store.renew(RenewRequest("w1"), now=T0)

    [worker] = await store.workers(now=T0)
    assert worker.info == {"host": "b"}


async def test_a_beat_says_nothing_of_other_workers(store: Store) -> None:
    await start_one(store, worker="w2")
    await store.renew(RenewRequest("w1"), now=T0 + 9 * SECOND)

    tended = await lose_worker(store, T0)

    assert tended.rescued == 1


async def test_what_a_leaving_worker_still_runs_is_taken_back_at_once(
    store: Store,
) -> None:
    """A worker that stops leaves nothing to wait for its lease."""
    jobs = [await start_one(store, type) for type in TYPES]
    await tend(store, T0)
    await store.leave("w1", now=T0 + SECOND)

    tended = await tend(store, T0 + SECOND + 1)

    assert tended.rescued == len(TYPES)
    for job in jobs:
        assert await state_of(store, job.id) is State.WAITING


async def test_only_the_one_who_leaves_is_gone(store: Store) -> None:
    stays = await start_one(store, "sms", worker="w2")
    await start_one(store, "email", worker="w1")
    await tend(store, T0)
    await store.leave("w1", now=T0)

    await tend(store, T0 + SECOND)

    assert await state_of(store, stays.id) is State.ACTIVE
    assert [worker.name for worker in await store.workers(now=T0)] == ["w2"]


async def test_a_stranger_may_leave(store: Store) -> None:
    await store.leave("nobody", now=T0)

    assert not [w for w in await store.workers(now=T0 + 1) if w.alive]


async def test_a_worker_that_left_may_come_back(store: Store) -> None:
    await store.renew(RenewRequest("w1"), now=T0)
    await store.leave("w1", now=T0 + 1)
    job = await start_one(store, now=T0 + 2)

    await pass_time(store, T0 + 2, T0 + 9 * SECOND)

    assert (await get_one(store, job.id)).token == job.token


async def test_a_worker_that_left_is_not_alive_even_if_the_clock_goes_back(
    store: Store,
) -> None:
    await store.renew(RenewRequest("w1"), now=T0)
    await store.leave("w1", now=T0)

    [status] = await store.workers(now=T0 - 1)

    assert not status.alive
