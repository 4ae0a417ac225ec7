"""`Store.tend` and expires: a job that has not ended in its life is failed."""

from __future__ import annotations

import msgspec
import pytest

from kue.model import retry_policy
from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import Limits, MoveRequest, RenewRequest, Result
from tests.support.jobs import (
    DAY,
    MINUTE,
    SECOND,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    count_of,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
    take,
)
from tests.support.upkeep import KEEP_ALL, tend

UNSTARTED = [State.WAITING, State.DELAYED, State.BLOCKED]


@pytest.mark.parametrize("state", UNSTARTED)
async def test_a_job_that_was_not_started_in_its_life_is_failed(
    store: Store, state: State
) -> None:
    """K-2: wherever it waits, nobody has to ask for it."""
    job_id = await job_in(store, state, expires="1m")

    tended = await tend(store, T0 + MINUTE + 1)

    assert tended.expired == 1
    job = await get_one(store, job_id)
    assert (job.state, job.error) == (State.FAILED, retry_policy.EXPIRED)
    assert (job.attempts, job.ended_at) == (0, T0 + MINUTE + 1)
    [line] = job.history
    assert (line.token, line.outcome) == ("", "failed")


@pytest.mark.parametrize("state", UNSTARTED)
async def test_a_job_has_all_of_its_life(store: Store, state: State) -> None:
    job_id = await job_in(store, state, expires="1m")

    assert (await tend(store, T0 + MINUTE - 1)).expired == 0
    assert await state_of(store, job_id) is state


@pytest.mark.parametrize("state", UNSTARTED)
async def test_a_job_without_an_end_waits_for_ever(store: Store, state: State) -> None:
    job_id = await job_in(store, state)

    assert (await tend(store, T0 + 365 * DAY)).expired == 0
    assert await state_of(store, job_id) in (State.WAITING, State.BLOCKED)


async def test_a_run_under_a_lease_is_left_to_its_worker(store: Store) -> None:
    """Which ends it in time; what it reports is accepted."""
    job = await start_one(store, expires="1s")
    await tend(store, T0)
    await store.renew(RenewRequest("w1", lease=5 * MINUTE), now=T0)

    assert (await tend(store, T0 + MINUTE)).expired == 0
    assert await end(store, job, Completed(), now=T0 + MINUTE) is Result.DONE


@pytest.mark.parametrize("cause", ["lease", "ttl"])
async def test_a_lost_run_of_a_job_that_has_expired_fails_it(
    store: Store, cause: str
) -> None:
    ttl = "30s" if cause == "ttl" else None
    job = await start_one(store, expires="1m", attempts=5, ttl=ttl)
    late = T0 + 2 * MINUTE
    lease = 5 * MINUTE if cause == "ttl" else SECOND
    await store.renew(RenewRequest("w1", lease=lease), now=T0)

    # After a pause of all maintenance, leases are extended once.
    await tend(store, late - 30 * SECOND)
    await tend(store, late)

    failed = await get_one(store, job.id)
    assert (failed.state, failed.attempts) == (State.FAILED, 1)
    assert failed.error is not None
    assert failed.error.kind == "Expired"
    assert failed.error.message.startswith("the job expired while it ran, 1 min after")
    assert await claim_ids(store, now=late) == []


async def test_an_expired_job_is_not_handed_out(store: Store) -> None:
    await add_one(store, expires="1m")
    await tend(store, T0 + MINUTE + 1)

    assert await claim_ids(store, now=T0 + MINUTE + 2) == []


async def test_what_ended_does_not_expire(store: Store) -> None:
    for state in (State.COMPLETE, State.FAILED, State.CANCELLED):
        await job_in(store, state, str(state), expires="1m")

    assert (await tend(store, T0 + 2 * MINUTE)).expired == 0


async def test_many_expire_in_bounded_steps(store: Store) -> None:
    await add_many(store, 25, expires="1s")
    await add_many(store, 5)

    first = await store.tend(limit=10, now=T0 + 2 * SECOND)
    rest = await tend(store, T0 + 2 * SECOND, limit=10)

    assert 0 < first.expired <= 10
    assert first.more
    assert first.expired + rest.expired == 25
    assert await count_of(store) == {State.FAILED: 25, State.WAITING: 5}


async def test_an_expired_job_may_be_put_back_in_line(store: Store) -> None:
    job_id = await add_one(store, expires="1m")
    late = T0 + 5 * MINUTE
    await tend(store, late)

    [reply] = await store.move(MoveRequest([job_id], State.WAITING), now=late)

    assert reply.word is Result.DONE


async def test_a_job_that_an_expired_one_lets_go_counts_for_when_there_is_more(
    store: Store,
) -> None:
    """It is ready within the very claim that found its parent expired."""
    await store.limit("email", Limits(rate=1, per=MINUTE), now=T0)
    await add_one(store)
    assert len(await claim(store)) == 1
    # Two types of one shard, however many there are: others hear of it later.
    parent = await add_one(store, "fax", expires="1s")
    await add_one(store, after=[parent], on_parent_failure="run")

    claimed = await take(store, "email", "fax", now=T0 + SECOND)

    assert claimed.jobs == []
    assert claimed.next_at == T0 + MINUTE


@pytest.mark.parametrize(("older", "younger"), [("a", "b"), ("b", "a")])
async def test_a_job_expires_before_what_it_waits_for_is_pruned(
    store: Store, older: str, younger: str
) -> None:
    """Whatever the order in which upkeep comes to their types."""
    parent = await job_in(store, State.FAILED, older)
    job_id = await add_one(store, younger, after=[parent], expires="1m")
    keep = msgspec.structs.replace(KEEP_ALL, failed_age=2 * MINUTE)

    await tend(store, T0 + 2 * MINUTE, keep=keep)

    assert await state_of(store, parent) is None
    assert (await get_one(store, job_id)).error == retry_policy.EXPIRED
