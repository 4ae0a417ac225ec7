"""
Defects of the systems Kue comes from that need a scenario of their own.

The others are named where the verb is tested that they concern;
``tests/project/test_catalogue_is_covered.py`` sees that none is forgotten.
"""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from kue.model.draft import draft
from kue.model.events import Kind
from kue.model.job import Completed, Failed, Job, Released, Retried, State
from kue.store.contract import Store
from kue.store.values import (
    Change,
    Claim,
    ClaimRequest,
    MoveRequest,
    Outcome,
    Progress,
    RemoveRequest,
    Result,
)
from tests.support.engines import engine_at
from tests.support.jobs import (
    OOPS,
    SECOND,
    T0,
    add,
    add_many,
    add_one,
    claim,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    start_one,
    state_of,
)
from tests.support.listening import kinds, story_of
from tests.support.servers import RedisServer
from tests.support.upkeep import tend

TYPES = ["email", "sms", "video", "report"]


async def test_the_line_is_the_only_place_where_waiting_jobs_are(store: Store) -> None:
    """D-1: whatever is done to jobs, there are as many to take as there are waiting."""
    ids = await add_many(store, 10)
    await store.remove(RemoveRequest(ids[:2]), now=T0)
    await store.move(MoveRequest(ids[2:4], State.DELAYED, at=T0 + SECOND), now=T0)
    await store.move(MoveRequest(ids[2:4], State.WAITING), now=T0)
    await store.move(MoveRequest(ids[2:4], State.WAITING), now=T0)
    await store.cancel(ids[4:6], now=T0)
    await store.move(MoveRequest(ids[4:6], State.WAITING), now=T0)

    assert await claim_ids(store, limit=50) == ids[2:]
    assert await claim_ids(store, limit=50) == []


async def test_a_run_may_end_in_the_moment_it_began(store: Store) -> None:
    """D-6: an ending is a call with the run's token; nobody has to be listening."""
    job = await start_one(store)

    assert await end(store, job, Completed(), now=T0) is Result.DONE
    assert (await get_one(store, job.id)).duration == 0


async def test_a_bad_call_costs_a_worker_nothing(store: Store) -> None:
    """D-8: refused, lost or gone, the next claim works as if nothing had been."""
    job = await start_one(store)
    await store.remove(RemoveRequest([job.id], force=True), now=T0)
    for _ in range(3):
        assert await end(store, job, Failed(OOPS)) is Result.GONE
    fresh = await add_one(store)

    assert await claim_ids(store) == [fresh]


async def test_a_failed_run_is_never_seen_as_a_failed_job(store: Store) -> None:
    """D-19: at no moment between two attempts does anyone count a failed job."""
    job = await start_one(store, attempts=10)
    async with store.watch() as events:
        for _ in range(5):
            await end(store, job, Retried(OOPS))
            assert await count_of(store) == {State.WAITING: 1}
            job = await claim_one(store)
        heard = await story_of(store, events, job.id)

    assert Kind.FAILED not in kinds(heard)


async def test_two_operators_at_once_leave_a_job_in_one_state(
    store: Store, other_store: Store
) -> None:
    """D-23: who comes second is told what the first made of it."""
    for _ in range(10):
        job_id = await add_one(store)
        await asyncio.gather(
            store.cancel([job_id], now=T0),
            other_store.move(
                MoveRequest([job_id], State.DELAYED, at=T0 + SECOND), now=T0
            ),
            store.move(MoveRequest([job_id], State.WAITING), now=T0),
            other_store.remove(RemoveRequest([job_id]), now=T0),
        )
        assert await state_of(store, job_id) is None
    assert await count_of(store) == {}


async def test_a_call_that_is_refused_adds_not_even_a_part(store: Store) -> None:
    """U-6: a job is there whole or not at all."""
    await store.add([draft("email")], producer="p", seq=2, now=T0)
    before = await store.count()
    with pytest.raises(ValueError, match="at most 500"):
        await store.add([draft("new")] * 501, producer="p", seq=3, now=T0)
    with pytest.raises(ValueError, match=r"producer|seq"):
        await store.add([draft("email")] * 3, producer="p", seq=1, now=T0)

    assert await store.count() == before
    assert await store.types() == ["email"]


async def test_a_store_keeps_its_connections(redis_server: RedisServer) -> None:
    """D-25: all calls of a store go where its settings say, by a few connections."""
    engine = engine_at("redis", redis_server.url)
    store = engine.new_store()
    with closing(redis_server.client()) as client:
        await add_many(store, 10, attempts=5)
        before = len(client.client_list())
        for number in range(100):
            jobs = await claim(store, limit=3, now=T0 + number)
            for job in jobs:
                await end(store, job, Released(), now=T0 + number)
        after = len(client.client_list())
    await store.close()

    assert str(redis_server.port) in store.name
    assert after <= before + 2


async def test_calls_in_flight_at_once_do_not_get_into_each_other(
    store: Store,
) -> None:
    """D-26: each answer is that of its own question."""

    async def one_life(number: int) -> None:
        type = TYPES[number % 4]
        [added] = await add(store, [draft(type, number)])
        claimed = await store.claim(
            ClaimRequest([type], 1, worker=f"w{number}", claim=Claim(f"l{number}", 1)),
            now=T0,
        )
        [job] = claimed.jobs
        assert job.worker == f"w{number}"
        await store.progress([Progress(job.id, 50, number, job.token)], now=T0)
        assert (await get_one(store, job.id)).progress_data == number
        assert await end(store, job, Completed(number)) is Result.DONE
        assert (await get_one(store, job.id)).result == number
        assert (await get_one(store, added.id)).data == number

    await asyncio.gather(*(one_life(number) for number in range(60)))

    for type in TYPES:
        assert await count_of(store, type) == {State.COMPLETE: 15}


async def test_upkeep_belongs_to_nobody_and_needs_no_timer(
    store: Store, other_store: Store
) -> None:
    """D-36: any number may tend, as often as they like; the work is done once."""
    await add_many(store, 20, delay=1)
    passes = await asyncio.gather(
        *(each.tend(now=T0 + SECOND) for each in (store, other_store) * 5)
    )

    assert sum(tended.promoted for tended in passes) == 20


async def test_a_worker_stops_in_good_order(store: Store) -> None:
    """It hands back what it has, leaves, and nothing is spent or lost."""
    ids = await add_many(store, 5)
    jobs = await claim(store, limit=5)
    await store.settle([Outcome(job, Released(reason="stop")) for job in jobs], now=T0)
    await store.leave("w1", now=T0)
    await tend(store, T0 + 1)

    back = await claim(store, limit=5, worker="w2", now=T0 + 1)
    assert [(job.id, job.attempts, job.stalls) for job in back] == [
        (job_id, 1, 0) for job_id in ids
    ]


async def test_a_claim_brings_the_whole_job(store: Store) -> None:
    """D-40: a worker needs nobody but the store, and asks it once."""
    await add_one(store, data={"n": 1}, attempts=3, tags=["t"], meta={"a": "b"})
    await end(store, await claim_one(store), Retried(OOPS))
    job: Job = await claim_one(store, now=T0 + 1)

    assert job == await get_one(store, job.id)
    assert (job.data, job.tags, len(job.history)) == ({"n": 1}, ("t",), 1)


async def test_upkeep_takes_no_listener_away(store: Store) -> None:
    """U-8: a pass that ends silent runs leaves everyone listening."""
    # Listeners stay listed by the engine's own clock.
    now = await store.now()
    job = await start_one(store, ttl="1s", attempts=5, now=now)
    async with store.watch() as events:
        await tend(store, now + 2 * SECOND)
        again = await claim_one(store, now=now + 2 * SECOND)
        await tend(store, now + 4 * SECOND)
        heard = await story_of(store, events, job.id)

    assert again.id == job.id
    assert kinds(heard) == [Kind.FAILED_ATTEMPT, Kind.START, Kind.FAILED_ATTEMPT]


async def test_a_second_process_finds_the_store_as_it_is(
    store: Store, other_store: Store
) -> None:
    """K-9: opening what exists already changes nothing and leaves nothing open."""
    ids = await add_many(store, 3)
    await other_store.open()
    await store.open()

    assert await claim_ids(other_store) == ids
    assert await add_one(other_store) > ids[-1]


async def test_a_run_is_ended_by_its_token_whatever_became_of_the_job(
    store: Store,
) -> None:
    """K-6: nothing compares the text of a job with what it was when it was taken."""
    job = await start_one(store, data="old")
    await store.update([Change(job.id, data="new", priority=9, tags=("x",))], now=T0)
    await store.progress([Progress(job.id, 10)], now=T0)

    assert await end(store, job, Completed()) is Result.DONE
