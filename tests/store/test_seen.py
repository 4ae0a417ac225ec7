"""What the caller saw of a job is compared where the verb acts (R-1, R-3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import pytest

from kue.model.job import Failed, State
from kue.store.contract import Store
from kue.store.values import (
    Change,
    ExpectedState,
    LogLine,
    MoveRequest,
    Progress,
    RemoveRequest,
    Reply,
    Result,
)
from tests.support.jobs import (
    OOPS,
    T0,
    claim_one,
    end,
    get_one,
    job_in,
    state_of,
)


def first(replies: Iterable[Reply]) -> Result:
    [reply] = replies
    return reply.word


async def move(store: Store, job_id: int, seen: ExpectedState) -> Result:
    return first(
        await store.move(
            MoveRequest([job_id], State.DELAYED, at=T0, seen={job_id: seen}), now=T0
        )
    )


async def cancel(store: Store, job_id: int, seen: ExpectedState) -> Result:
    return first(await store.cancel([job_id], seen={job_id: seen}, now=T0))


async def remove(store: Store, job_id: int, seen: ExpectedState) -> Result:
    return first(
        await store.remove(
            RemoveRequest([job_id], force=True, seen={job_id: seen}), now=T0
        )
    )


async def update(store: Store, job_id: int, seen: ExpectedState) -> Result:
    [word] = await store.update([Change(job_id, data="other", seen=seen)], now=T0)
    return word


async def progress(store: Store, job_id: int, seen: ExpectedState) -> Result:
    update = Progress(job_id, 50, created_at=seen.created_at)
    [word] = await store.progress([update], now=T0)
    return word


async def log(store: Store, job_id: int, seen: ExpectedState) -> Result:
    return await store.log(
        job_id, [LogLine("hello")], created_at=seen.created_at, now=T0
    )


@pytest.mark.parametrize("state", [State.WAITING, State.ACTIVE, State.FAILED])
@pytest.mark.parametrize("verb", [move, cancel, remove, update, progress, log])
async def test_no_verb_touches_another_job_that_has_the_id(
    store: Store,
    verb: Callable[[Store, int, ExpectedState], Awaitable[Result]],
    state: State,
) -> None:
    """R-3: the one that was meant was created at another time, and is gone."""
    job_id = await job_in(store, state)
    before = await get_one(store, job_id)

    assert (
        await verb(store, job_id, ExpectedState(before.created_at - 1)) is Result.GONE
    )

    assert await get_one(store, job_id) == before
    assert await store.logs(job_id) == []


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (move, State.WAITING),
        (cancel, State.DELAYED),
        (remove, State.FAILED),
        (update, State.BLOCKED),
        (progress, State.ACTIVE),
        (log, State.COMPLETE),
    ],
)
async def test_every_verb_acts_on_the_job_that_was_seen(
    store: Store,
    verb: Callable[[Store, int, ExpectedState], Awaitable[Result]],
    state: State,
) -> None:
    job_id = await job_in(store, state)
    seen = ExpectedState.of(await get_one(store, job_id))

    assert await verb(store, job_id, seen) is Result.DONE


@pytest.mark.parametrize("verb", [remove, update])
async def test_an_ending_that_was_not_seen_is_left_as_it_is(
    store: Store, verb: Callable[[Store, int, ExpectedState], Awaitable[Result]]
) -> None:
    """R-1: who clears or edits failures means those failures, not what came after."""
    job_id = await job_in(store, State.FAILED)
    seen = ExpectedState.of(await get_one(store, job_id))
    await store.move(MoveRequest([job_id], State.WAITING), now=T0)
    assert await verb(store, job_id, seen) is Result.REFUSED
    await end(store, await claim_one(store), Failed(OOPS))
    after = await get_one(store, job_id)

    assert await verb(store, job_id, seen) is Result.REFUSED
    assert await get_one(store, job_id) == after
    assert await verb(store, job_id, ExpectedState.of(after)) is Result.DONE


async def test_a_job_that_ended_since_is_not_removed_as_an_unfinished_one(
    store: Store,
) -> None:
    job_id = await job_in(store, State.ACTIVE)
    job = await get_one(store, job_id)
    await end(store, job, Failed(OOPS))

    assert await remove(store, job_id, ExpectedState.of(job)) is Result.REFUSED
    assert await state_of(store, job_id) is State.FAILED
