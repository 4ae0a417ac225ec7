"""`Store.watch`: who hears what, from when on, and what happens to slow listeners."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from kue.model.draft import draft
from kue.model.events import Event, Kind
from kue.model.job import Completed, Retried, State
from kue.store.contract import Store
from kue.store.values import Progress, RemoveRequest
from tests.support.jobs import (
    OOPS,
    T0,
    add,
    add_many,
    add_one,
    claim_one,
    end,
    get_one,
    start_one,
    state_of,
)
from tests.support.listening import kinds, read_until, story_of
from tests.support.patience import PATIENCE_SECONDS

TYPES = ["email", "sms", "video", "report"]


async def test_a_listener_to_one_job_hears_of_no_other(store: Store) -> None:
    mine, other = await add_many(store, 2)
    async with store.watch([mine]) as events:
        for job_id in (other, mine):
            await store.cancel([job_id], now=T0)
        await store.remove(RemoveRequest([other]), now=T0)
        heard = await story_of(store, events, mine)

    assert [(event.job_id, event.kind) for event in heard] == [(mine, Kind.CANCELLED)]


async def test_a_listener_to_some_jobs_hears_of_each(store: Store) -> None:
    ids = [await add_one(store, type) for type in TYPES]
    unheard = await add_one(store, "page")
    async with store.watch(ids) as events:
        await store.cancel([*ids, unheard], now=T0)
        waiting = set(ids)
        heard = []
        while waiting:
            heard += await read_until(events, lambda _: True)
            waiting.discard(heard[-1].job_id)

    assert sorted(event.job_id for event in heard) == sorted(ids)


async def test_every_listener_hears_everything(
    store: Store, other_store: Store
) -> None:
    """D-13: an event is nobody's to take from another."""
    job = await start_one(store, attempts=3)
    async with AsyncExitStack() as stack:
        listeners = [
            await stack.enter_async_context(watching)
            for watching in (
                store.watch(),
                store.watch(),
                other_store.watch(),
                store.watch([job.id]),
                other_store.watch([job.id]),
            )
        ]
        await end(store, job, Retried(OOPS))
        again = await claim_one(store)
        await end(store, again, Completed())
        await store.remove(RemoveRequest([job.id]), now=T0)
        told = [
            await read_until(events, lambda event: event.kind is Kind.REMOVE)
            for events in listeners
        ]

    assert [kinds(heard) for heard in told] == [
        [Kind.FAILED_ATTEMPT, Kind.START, Kind.COMPLETE, Kind.REMOVE]
    ] * 5


async def test_a_listener_hears_of_all_types(store: Store) -> None:
    async with store.watch() as events:
        added = await add(store, [draft(type) for type in TYPES])
        missing = {answer.id for answer in added}
        while missing:
            [event] = await read_until(events, lambda _: True)
            assert event.kind is Kind.ENQUEUE
            missing.discard(event.job_id)


async def test_nothing_is_missed_from_the_moment_of_listening_on(store: Store) -> None:
    for number in range(20):
        async with store.watch() as events:
            job_id = await add_one(store, data=number)
            [event] = await read_until(events, lambda _: True)
        assert (event.kind, event.job_id) == (Kind.ENQUEUE, job_id)


async def test_a_listener_to_one_job_misses_nothing_either(store: Store) -> None:
    for number in range(10):
        job_id = await add_one(store, data=number)
        async with store.watch([job_id]) as events:
            await store.cancel([job_id], now=T0)
            [event] = await read_until(events, lambda _: True)
        assert event.kind is Kind.CANCELLED


async def test_nothing_of_before_is_told(store: Store) -> None:
    job_id = await add_one(store)
    async with store.watch() as events:
        heard = await story_of(store, events, job_id)

    assert heard == []


async def test_the_events_of_a_job_come_in_the_order_of_its_life(store: Store) -> None:
    async with store.watch() as events:
        job = await start_one(store, attempts=50)
        for _ in range(20):
            await end(store, job, Retried(OOPS))
            job = await claim_one(store)
        heard = await story_of(store, events, job.id)

    expected = [Kind.ENQUEUE, Kind.START] + [Kind.FAILED_ATTEMPT, Kind.START] * 20
    assert kinds(heard) == expected
    attempts = [event.attempt for event in heard if event.kind is Kind.START]
    assert attempts == list(range(1, 22))


async def test_a_fact_is_so_by_the_time_it_is_told(store: Store) -> None:
    """D-14: state first, event after."""
    job = await start_one(store)
    async with store.watch([job.id]) as events:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                store.progress([Progress(job.id, 70, token=job.token)], now=T0)
            )
            await read_until(events, lambda event: event.kind is Kind.PROGRESS)
            assert (await get_one(store, job.id)).progress == 70
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(end(store, job, Completed()))
            await read_until(events, lambda event: event.kind is Kind.COMPLETE)
            assert await state_of(store, job.id) is State.COMPLETE


async def test_a_slow_listener_is_told_how_much_it_missed(store: Store) -> None:
    async with store.watch(buffer=3) as slow, store.watch() as quick:
        ids = await add_many(store, 50)

        def is_last(event: Event) -> bool:
            return event.job_id == ids[-1]

        assert len(await read_until(quick, is_last)) == 50
        heard = await read_until(slow, is_last)

    lagged = [event for event in heard if event.kind is Kind.LAGGED]
    kept = [event.job_id for event in heard if event.kind is not Kind.LAGGED]
    missed = sum(event.detail["missed"] for event in lagged)
    assert missed > 0
    assert all(event.job_id == 0 for event in lagged)
    assert missed + len(kept) == 50
    assert kept == sorted(kept)


async def test_a_slow_listener_goes_on_hearing(store: Store) -> None:
    async with store.watch(buffer=2) as events:
        await add_many(store, 20)
        await read_until(events, lambda event: event.kind is Kind.LAGGED)
        last = await add_one(store, "email")
        heard = await read_until(events, lambda event: event.job_id == last)

    assert heard[-1].kind is Kind.ENQUEUE


async def test_a_listener_that_keeps_up_is_never_told_that_it_lagged(
    store: Store,
) -> None:
    async with store.watch(buffer=2) as events:
        for _ in range(10):
            job_id = await add_one(store)
            [event] = await read_until(events, lambda _: True)
            assert (event.kind, event.job_id) == (Kind.ENQUEUE, job_id)


async def test_a_slow_listener_slows_nobody_down(store: Store) -> None:
    async with store.watch(buffer=1), store.watch([1], buffer=1):
        async with asyncio.timeout(PATIENCE_SECONDS):
            ids = await add_many(store, 500)
            await store.cancel(ids, now=T0)

    assert await state_of(store, ids[-1]) is State.CANCELLED


async def test_a_listener_may_stop_at_any_time(store: Store) -> None:
    """D-15: one that has left is forgotten; those that stay go on."""
    async with store.watch() as stays:
        async with store.watch():
            await add_one(store)
        async with store.watch([1]):
            pass
        last = await add_one(store)
        heard = await read_until(stays, lambda event: event.job_id == last)

    assert kinds(heard) == [Kind.ENQUEUE, Kind.ENQUEUE]


async def test_an_event_says_nothing_of_data_or_result(store: Store) -> None:
    """What must not be stale, or is large, is read from the store."""
    async with store.watch() as events:
        job = await start_one(store, data={"secret": "s3cr3t"})
        await end(store, job, Completed({"secret": "s3cr3t"}))
        heard = await story_of(store, events, job.id)

    assert "s3cr3t" not in repr(heard)
