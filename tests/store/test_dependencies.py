"""
Jobs that wait for others, of the same type and of other types.

Where types live on several shards the news of an ending travels by upkeep: every test
tends before it looks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kue.model.job import (
    Cancelled,
    Completed,
    Ending,
    Failed,
    Job,
    Retried,
    State,
)
from kue.store.contract import Store
from kue.store.values import MoveRequest, RemoveRequest, RenewRequest
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add_one,
    claim_ids,
    claim_one,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import lose_worker, tend

#: Enough types that some of them live on different shards.
TYPES = ["email", "sms", "video", "report", "page", "thumbnail"]


async def finish(
    store: Store, job: Job, ending: Ending | None = None, now: int = T0
) -> None:
    await end(store, job, ending or Completed(), now=now)
    await tend(store, now)


async def add_after(store: Store, *parents: int, type: str = "child", **o: Any) -> int:
    child = await add_one(store, type, after=parents, **o)
    await tend(store, o.get("now", T0))
    return child


async def test_a_job_waits_for_another_to_end_well(store: Store) -> None:
    parent = await start_one(store, "parent")
    child = await add_after(store, parent.id)

    job = await get_one(store, child)
    assert (job.state, job.spec.after) == (State.BLOCKED, (parent.id,))
    assert await claim_ids(store, "child") == []

    await finish(store, parent)

    assert await state_of(store, child) is State.WAITING
    assert await claim_ids(store, "child") == [child]


@pytest.mark.parametrize("type", TYPES)
async def test_parent_and_child_may_be_of_any_types(store: Store, type: str) -> None:
    parent = await start_one(store, "email")
    child = await add_after(store, parent.id, type=type)
    assert await state_of(store, child) is State.BLOCKED

    await finish(store, parent)

    assert await state_of(store, child) is State.WAITING


@pytest.mark.parametrize(
    "state", [State.WAITING, State.DELAYED, State.ACTIVE, State.FAILED, State.BLOCKED]
)
async def test_a_job_is_blocked_while_its_parent_has_not_ended_well(
    store: Store, state: State
) -> None:
    parent = await job_in(store, state, "email")

    child = await add_after(store, parent)

    assert await state_of(store, child) is State.BLOCKED


async def test_a_job_does_not_wait_for_what_has_ended_well(store: Store) -> None:
    parent = await job_in(store, State.COMPLETE, "email")
    child = await add_after(store, parent)

    assert await state_of(store, child) is State.WAITING


async def test_a_job_does_not_wait_long_for_a_job_that_ends_while_it_is_added(
    store: Store,
) -> None:
    """No upkeep between the two: whoever comes second sees the other."""
    parent = await start_one(store, "email")
    child = await add_one(store, "child", after=[parent.id])
    await end(store, parent, Completed())

    await tend(store)

    assert await state_of(store, child) is State.WAITING


@pytest.mark.parametrize("ending", [Failed(OOPS), Completed(), Cancelled()])
async def test_a_job_that_takes_any_end_runs_after_any(
    store: Store, ending: Ending
) -> None:
    parent = await start_one(store, "parent")
    child = await add_after(store, parent.id, on_parent_failure="run")
    assert await state_of(store, child) is State.BLOCKED

    await finish(store, parent, ending)

    assert await state_of(store, child) is State.WAITING


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_a_job_that_takes_any_end_does_not_wait_for_an_ended_parent(
    store: Store, state: State
) -> None:
    parent = await job_in(store, state, "parent")
    child = await add_after(store, parent, on_parent_failure="run")

    assert await state_of(store, child) is State.WAITING


async def test_a_retry_of_the_parent_is_no_end(store: Store) -> None:
    parent = await start_one(store, "parent", attempts=3)
    child = await add_after(store, parent.id, on_parent_failure="run")

    await finish(store, parent, Retried(OOPS))

    assert await state_of(store, child) is State.BLOCKED


async def test_a_failed_parent_keeps_its_child_waiting_until_it_is_retried(
    store: Store,
) -> None:
    parent = await start_one(store, "parent")
    child = await add_after(store, parent.id)
    await finish(store, parent, Failed(OOPS))
    assert await state_of(store, child) is State.BLOCKED

    await store.move(MoveRequest([parent.id], State.WAITING), now=T0)
    await finish(store, await claim_one(store, "parent"))

    assert await state_of(store, child) is State.WAITING


async def test_a_child_of_a_cancelled_parent_is_cancelled(store: Store) -> None:
    parent = await job_in(store, State.CANCELLED, "parent")
    child = await add_after(store, parent)

    job = await get_one(store, child)
    assert job.state is State.CANCELLED
    assert (job.history[-1].outcome, job.history[-1].token) == ("cancelled", "")


async def test_cancelling_a_parent_cancels_all_that_wait_for_it(store: Store) -> None:
    parent = await add_one(store, "email")
    child = await add_after(store, parent, type="sms")
    grandchild = await add_after(store, child, type="video")
    other = await add_after(store, parent, type="report", on_parent_failure="run")

    await store.cancel([parent], reason="not wanted", now=T0)
    await tend(store)

    assert await state_of(store, child) is State.CANCELLED
    assert await state_of(store, grandchild) is State.CANCELLED
    assert await state_of(store, other) is State.WAITING


async def test_a_parent_cancelled_with_its_lost_worker_cancels_its_child(
    store: Store,
) -> None:
    parent = await start_one(store, "parent")
    child = await add_after(store, parent.id)
    await store.cancel([parent.id], now=T0)

    await lose_worker(store, T0)

    assert await state_of(store, child) is State.CANCELLED


@pytest.mark.parametrize(
    "state", [State.WAITING, State.DELAYED, State.FAILED, State.ACTIVE]
)
async def test_removing_a_parent_cancels_all_that_wait_for_it(
    store: Store, state: State
) -> None:
    parent = await job_in(store, state, "email")
    child = await add_after(store, parent, type="sms")
    grandchild = await add_after(store, child, type="video")
    other = await add_after(store, parent, type="report", on_parent_failure="run")

    await store.remove(RemoveRequest([parent], force=True), now=T0)
    await tend(store)

    assert await state_of(store, child) is State.CANCELLED
    assert await state_of(store, grandchild) is State.CANCELLED
    assert await state_of(store, other) is State.WAITING


async def test_clearing_parents_cancels_all_that_wait_for_them(store: Store) -> None:
    parent = await add_one(store, "parent")
    child = await add_after(store, parent)

    await store.clear("parent", [State.WAITING], now=T0)
    await tend(store)

    assert await state_of(store, child) is State.CANCELLED


async def test_a_child_that_expires_is_not_released(store: Store) -> None:
    parent = await start_one(store, "parent")
    child = await add_after(store, parent.id, expires="1m")
    await store.renew(RenewRequest("w1", lease=HOUR), now=T0)
    late = T0 + MINUTE + 1
    await tend(store, late)
    assert await state_of(store, child) is State.FAILED

    await finish(store, parent, now=late)

    assert await state_of(store, child) is State.FAILED


async def test_an_expired_parent_has_failed(store: Store) -> None:
    parent = await add_one(store, "parent", expires="1m")
    strict = await add_after(store, parent)
    lenient = await add_after(store, parent, on_parent_failure="run")

    await tend(store, T0 + MINUTE + 1)

    assert await state_of(store, strict) is State.BLOCKED
    assert await state_of(store, lenient) is State.WAITING


async def test_a_parent_removed_as_it_completes_releases_its_child(
    store: Store,
) -> None:
    parent = await start_one(store, "parent", remove_on_complete=True)
    child = await add_after(store, parent.id)

    await finish(store, parent)

    assert await state_of(store, child) is State.WAITING


async def test_the_delay_of_a_blocked_job_counts_from_its_release(store: Store) -> None:
    parent = await start_one(store, "parent")
    child = await add_after(store, parent.id, delay="1m")
    assert await state_of(store, child) is State.BLOCKED
    released = T0 + SECOND

    await finish(store, parent, now=released)

    job = await get_one(store, child)
    assert (job.state, job.promote_at) == (State.DELAYED, released + MINUTE)
    assert await claim_ids(store, "child", now=released + MINUTE - 1) == []
    assert await claim_ids(store, "child", now=released + MINUTE) == [child]


async def test_the_moment_a_blocked_job_was_given_stays_what_it_is(
    store: Store,
) -> None:
    at = datetime.fromtimestamp((T0 + MINUTE) / 1000, UTC)
    early = await start_one(store, "parent")
    first = await add_after(store, early.id, at=at)
    late = await start_one(store, "parent")
    second = await add_after(store, late.id, at=at)

    await finish(store, early, now=T0 + SECOND)
    assert (await get_one(store, first)).promote_at == T0 + MINUTE
    await store.renew(RenewRequest("w1", lease=HOUR), now=T0 + SECOND)
    await finish(store, late, now=T0 + 2 * MINUTE)

    assert await state_of(store, second) is State.WAITING


async def test_a_blocked_job_does_not_start_at_its_time_alone(store: Store) -> None:
    """Its time comes early: then its parent still counts."""
    parent = await add_one(store, "parent", delay="1d")
    child = await add_after(store, parent, delay="1m")

    await tend(store, T0 + HOUR)

    assert await claim_ids(store, "child", now=T0 + HOUR) == []
    assert await state_of(store, child) is not State.WAITING


async def test_a_child_that_was_removed_is_not_brought_back(store: Store) -> None:
    parent = await start_one(store, "parent")
    child = await add_after(store, parent.id)
    await store.remove(RemoveRequest([child]), now=T0)

    await finish(store, parent)

    assert await state_of(store, child) is None


async def test_a_child_that_was_cancelled_is_not_brought_back(store: Store) -> None:
    parent = await start_one(store, "parent")
    child = await add_after(store, parent.id)
    await store.cancel([child], now=T0)

    await finish(store, parent)

    assert await state_of(store, child) is State.CANCELLED
