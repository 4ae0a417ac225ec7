"""Delivery, told as stories: what is promised to a job from its birth to its end."""

from __future__ import annotations

import random

from kue.model import retry_policy
from kue.model.job import Completed, Ending, Job, Released, Retried, State
from kue.store.contract import Store
from kue.store.values import Outcome, RenewRequest, Result
from tests.support.jobs import (
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    start_one,
)
from tests.support.upkeep import lose_worker, pass_time, tend

LEASE = 10 * SECOND


async def test_a_zombie_wakes_up_and_harms_nobody(store: Store) -> None:
    """Frozen for longer than its lease, it finds its job in other hands."""
    zombie = await start_one(store, worker="zombie", attempts=3)
    await lose_worker(store, T0)
    now = T0 + LEASE + SECOND
    heir = await claim_one(store, worker="heir", now=now)
    assert heir.fence > zombie.fence

    beat = await store.renew(RenewRequest("zombie", runs=[zombie]), now=now)
    assert beat.lost == [zombie.id]
    words = await store.settle(
        [Outcome(zombie, Completed("zombie")), Outcome(heir, Completed("heir"))],
        now=now,
    )

    assert words == [Result.LOST, Result.DONE]
    assert (await get_one(store, zombie.id)).result == "heir"


async def test_a_job_delivered_at_most_once_never_starts_twice(store: Store) -> None:
    job = await start_one(store, delivery="at-most-once", attempts=5)
    await lose_worker(store, T0)

    for _ in range(3):
        assert await claim_ids(store, now=T0 + 60 * SECOND) == []
    assert (await get_one(store, job.id)).state is State.FAILED


async def test_a_job_delivered_at_most_once_may_be_put_back_before_it_began(
    store: Store,
) -> None:
    """A worker that stops hands it back; that is no loss."""
    job = await start_one(store, delivery="at-most-once")
    await end(store, job, Released())

    assert await claim_ids(store) == [job.id]


async def test_a_job_that_always_fails_runs_as_often_as_it_may(store: Store) -> None:
    """D-17: and then it is where a person finds it."""
    await add_one(store, attempts=4)
    runs = 0
    while jobs := await claim(store):
        runs += len(jobs)
        for job in jobs:
            await end(store, job, retry_policy.after_error(job, OOPS, T0))

    assert runs == 4
    assert await count_of(store) == {State.FAILED: 1}


async def test_a_job_that_kills_every_worker_is_stopped(store: Store) -> None:
    await add_one(store, attempts=1000)
    runs = 0
    now = T0
    for _ in range(20):
        for job in await claim(store, now=now):
            runs += 1
            if retry_policy.runs_alone(job):
                await store.begin(job, alone=True, now=now)
        await pass_time(store, now, now + LEASE + 1)
        now += LEASE + 1

    assert runs == retry_policy.MAX_STALLS + 1
    assert await count_of(store) == {State.FAILED: 1}


async def test_a_fleet_that_dies_and_returns_after_hours_loses_nothing(
    store: Store,
) -> None:
    ids = await add_many(store, 200)
    for number in range(4):
        await claim(store, limit=50, worker=f"w{number}")
    await tend(store, T0)

    back = T0 + 3600 * SECOND
    await pass_time(store, back, back + LEASE)

    assert await claim_ids(store, limit=200, now=back + LEASE) == ids


async def test_no_run_ever_has_the_token_of_another(store: Store) -> None:
    await add_many(store, 20, attempts=100)
    tokens: list[str] = []
    for number in range(10):
        jobs = await claim(store, limit=20, now=T0 + number % 3)
        tokens += [job.token for job in jobs]
        await store.settle(
            [Outcome(job, Retried(OOPS)) for job in jobs], now=T0 + number % 3
        )

    assert len(tokens) == len(set(tokens)) == 200


async def test_nothing_starts_before_its_time(store: Store) -> None:
    chance = random.Random(7)
    for _ in range(60):
        await add_one(store, delay=chance.randrange(1, 20_000) / 1000)
    started: list[Job] = []
    for now in range(T0, T0 + 20 * SECOND + 1, 250):
        started += await claim(store, limit=100, now=now)

    assert len(started) == 60
    for job in started:
        assert job.started_at is not None
        assert 0 <= job.started_at - (job.created_at + job.spec.delay) < 250


async def test_every_job_ends_once_whatever_happens_on_the_way(store: Store) -> None:
    """D-26: workers that raise, stop, die and come back too late, in one seeded run."""
    chance = random.Random(2026)
    ids = await add_many(store, 60, attempts=100)
    held: list[Job] = []
    accepted: list[int] = []
    now = T0
    for turn in range(400):
        now += chance.randrange(1500)
        worker = f"w{chance.randrange(4)}"
        held += await claim(store, limit=3, worker=worker, now=now)
        chance.shuffle(held)
        for job in [held.pop() for _ in range(min(len(held), 3))]:
            endings: list[Ending] = [Completed(turn), Retried(OOPS, 100), Released(50)]
            ending = chance.choice(endings)
            word = await end(store, job, ending, now=now)
            if word is Result.DONE and isinstance(ending, Completed):
                accepted.append(job.id)
        if chance.random() < 0.3:
            await tend(store, now)
    for _ in range(100):
        now += 3 * SECOND
        await tend(store, now)
        for job in await claim(store, limit=10, worker="last", now=now):
            if await end(store, job, Completed(), now=now) is Result.DONE:
                accepted.append(job.id)

    ended = await count_of(store)
    assert sum(ended.values()) == 60
    assert ended[State.COMPLETE] == len(accepted) == len(set(accepted))
    # A few may have lost too many workers; nothing is left in between.
    assert ended.get(State.FAILED, 0) + ended[State.COMPLETE] == 60
    assert set(accepted) <= set(ids)
