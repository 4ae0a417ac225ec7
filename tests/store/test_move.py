"""`Store.move`: what an operator may do to the order of things."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kue.job import MOVES_BY_HAND, Completed, Ending, Failed, Stalled, State
from kue.store.values import MAX_BATCH, Reply, Word
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import tend

if TYPE_CHECKING:
    from kue.store.base import Store

AT = T0 + 30 * MINUTE
TARGETS = [State.WAITING, State.DELAYED]
FINISHED = [State.COMPLETE, State.FAILED, State.CANCELLED]


async def move(store: Store, job_id: int, to: State, *, now: int = T0) -> Reply:
    at = AT if to is State.DELAYED else None
    [reply] = await store.move([job_id], to, at=at, now=now)
    return reply


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("state", list(State))
async def test_only_what_the_table_allows_is_done(
    store: Store, state: State, to: State
) -> None:
    """D-23, D-45: the state it is in decides, not the one somebody remembers."""
    job_id = await job_in(store, state)
    before = await get_one(store, job_id)

    reply = await move(store, job_id, to)

    if state is to is State.WAITING:
        assert reply == Reply(Word.ALREADY)
        assert await get_one(store, job_id) == before
    elif to in MOVES_BY_HAND[state]:
        assert reply == Reply(Word.DONE)
        assert await state_of(store, job_id) is to
        assert await count_of(store) == {to: 1}
    else:
        assert reply == Reply(Word.REFUSED, state=state)
        assert await get_one(store, job_id) == before


@pytest.mark.parametrize("to", [state for state in State if state not in TARGETS])
@pytest.mark.parametrize("state", [State.WAITING, State.FAILED, State.ACTIVE])
async def test_no_job_can_be_moved_into_or_out_of_a_run_by_hand(
    store: Store, state: State, to: State
) -> None:
    """U-1: no other word makes a state, and none hides a job."""
    job_id = await job_in(store, state)
    before = await get_one(store, job_id)

    with suppress(ValueError):
        [reply] = await store.move([job_id], to, now=T0)
        assert reply.word is Word.REFUSED

    assert await get_one(store, job_id) == before
    assert await count_of(store) == {state: 1}


async def test_a_job_that_is_gone_cannot_be_moved(store: Store) -> None:
    assert await move(store, 987_654, State.WAITING) == Reply(Word.GONE)


async def test_a_job_moved_to_waiting_is_ready_now(store: Store) -> None:
    job_id = await job_in(store, State.DELAYED)
    await move(store, job_id, State.WAITING)

    job = await get_one(store, job_id)
    assert (job.state, job.promote_at) == (State.WAITING, None)
    assert await claim_ids(store) == [job_id]


@pytest.mark.parametrize("state", [State.WAITING, State.DELAYED, *FINISHED])
async def test_a_job_moved_to_delayed_waits_until_then(
    store: Store, state: State
) -> None:
    job_id = await job_in(store, state)
    await move(store, job_id, State.DELAYED)

    assert (await get_one(store, job_id)).promote_at == AT
    assert await claim_ids(store, now=AT - 1) == []
    assert await claim_ids(store, now=AT) == [job_id]


async def test_a_delayed_job_can_be_put_off_and_brought_forward(store: Store) -> None:
    job_id = await job_in(store, State.DELAYED)
    for at in (T0 + 2 * HOUR, T0 + MINUTE):
        [reply] = await store.move([job_id], State.DELAYED, at=at, now=T0)
        assert reply.word is Word.DONE
        assert (await get_one(store, job_id)).promote_at == at


@pytest.mark.parametrize("state", FINISHED)
async def test_a_finished_job_starts_anew(store: Store, state: State) -> None:
    job_id = await add_one(store, attempts=3)
    await end(store, await claim_one(store), Stalled(OOPS))
    job = await claim_one(store)
    endings: dict[State, Ending] = {
        State.COMPLETE: Completed("once"),
        State.FAILED: Failed(OOPS),
    }
    if state in endings:
        await end(store, job, endings[state])
    else:
        await end(store, job, Stalled(OOPS))
        await store.cancel([job_id], now=T0)

    await move(store, job_id, State.WAITING, now=T0 + SECOND)

    anew = await get_one(store, job_id)
    assert (anew.state, anew.attempts, anew.stalls) == (State.WAITING, 0, 0)
    assert (anew.result, anew.ended_at) == (None, None)
    assert anew.history[0].outcome == "stalled"
    last = anew.history[-1]
    assert (last.outcome, last.token, last.at) == ("restarted", "", T0 + SECOND)
    again = await claim_one(store, now=T0 + SECOND)
    assert (again.attempts, again.stalls) == (1, 0)


async def test_a_restarted_job_has_all_its_attempts_again(store: Store) -> None:
    """U-9: retrying a dead letter is not refused for the attempts it has used."""
    job = await start_one(store, attempts=1)
    await end(store, job, Failed(OOPS))
    await move(store, job.id, State.WAITING)
    again = await claim_one(store)

    assert (again.attempts, again.max_attempts) == (1, 1)
    assert await end(store, again, Completed("second")) is Word.DONE
    done = await get_one(store, job.id)
    assert (done.result, done.error) == ("second", None)
    assert [line.outcome for line in done.history] == [
        "failed",
        "restarted",
        "complete",
    ]


async def test_a_finished_job_delayed_by_hand_starts_anew_too(store: Store) -> None:
    job_id = await job_in(store, State.FAILED)
    await move(store, job_id, State.DELAYED)

    job = await get_one(store, job_id)
    assert (job.attempts, job.history[-1].outcome) == (0, "restarted")


async def test_an_unfinished_job_is_only_reordered(store: Store) -> None:
    """Its attempts count on and its story says nothing of it."""
    job = await start_one(store, attempts=3)
    await end(store, job, Stalled(OOPS, HOUR))
    before = await get_one(store, job.id)
    await move(store, job.id, State.WAITING)

    after = await get_one(store, job.id)
    assert (after.history, after.stalls) == (before.history, 1)


async def test_a_blocked_job_moved_by_hand_waits_for_nobody_any_more(
    store: Store,
) -> None:
    parent = await start_one(store, "parent")
    child = await add_one(store, "child", after=[parent.id])
    await move(store, child, State.WAITING)
    assert await claim_ids(store, "child") == [child]

    await end(store, parent, Completed())
    await tend(store, T0)

    assert await state_of(store, child) is State.ACTIVE


async def test_a_blocked_job_moved_by_hand_does_not_end_with_its_parent(
    store: Store,
) -> None:
    parent = await add_one(store, "parent")
    child = await add_one(store, "child", after=[parent])
    await move(store, child, State.WAITING)

    await store.cancel([parent], now=T0)
    await tend(store, T0)

    assert await state_of(store, child) is State.WAITING


async def test_a_job_moved_back_in_line_has_the_place_of_its_id(store: Store) -> None:
    ids = await add_many(store, 3)
    await move(store, ids[0], State.DELAYED)
    await move(store, ids[0], State.WAITING)

    assert await claim_ids(store) == ids


async def test_many_are_moved_in_one_call_each_with_its_own_answer(
    store: Store,
) -> None:
    failed = await job_in(store, State.FAILED, "email")
    running = await job_in(store, State.ACTIVE, "sms")
    waiting = await job_in(store, State.WAITING, "video")

    replies = await store.move(
        [waiting, running, 987_654, failed], State.WAITING, now=T0
    )

    assert replies == [
        Reply(Word.ALREADY),
        Reply(Word.REFUSED, state=State.ACTIVE),
        Reply(Word.GONE),
        Reply(Word.DONE),
    ]


async def test_moving_twice_is_moving_once(store: Store) -> None:
    """D-45: one restart, however often the button is pressed."""
    job_id = await job_in(store, State.FAILED)
    await move(store, job_id, State.WAITING)

    assert await move(store, job_id, State.WAITING) == Reply(Word.ALREADY)
    outcomes = [line.outcome for line in (await get_one(store, job_id)).history]
    assert outcomes == ["failed", "restarted"]


async def test_more_than_a_batch_is_refused(store: Store) -> None:
    job_id = await job_in(store, State.DELAYED)

    with pytest.raises(ValueError, match="at most 500"):
        await store.move([job_id] * (MAX_BATCH + 1), State.WAITING, now=T0)

    assert await state_of(store, job_id) is State.DELAYED
