"""`Store.move`: what an operator may do to the order of things."""

from __future__ import annotations

import pytest

from kue.model.job import (
    MAX_HISTORY,
    MOVES_BY_HAND,
    Completed,
    Ending,
    Failed,
    Job,
    Stalled,
    State,
)
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    Change,
    ExpectedState,
    MoveRequest,
    Reply,
    Result,
)
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

AT = T0 + 30 * MINUTE
TARGETS = [State.WAITING, State.DELAYED]
FINISHED = [State.COMPLETE, State.FAILED, State.CANCELLED]


async def move(store: Store, job_id: int, to: State, *, now: int = T0) -> Reply:
    at = AT if to is State.DELAYED else None
    [reply] = await store.move(MoveRequest([job_id], to, at=at), now=now)
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
        assert reply == Reply(Result.ALREADY)
        assert await get_one(store, job_id) == before
    elif to in MOVES_BY_HAND[state]:
        assert reply == Reply(Result.DONE)
        assert await state_of(store, job_id) is to
        assert await count_of(store) == {to: 1}
    else:
        assert reply == Reply(Result.REFUSED, state=state)
        assert await get_one(store, job_id) == before


@pytest.mark.parametrize("to", [state for state in State if state not in TARGETS])
@pytest.mark.parametrize("state", [State.WAITING, State.FAILED, State.ACTIVE])
async def test_no_job_can_be_moved_into_or_out_of_a_run_by_hand(
    store: Store, state: State, to: State
) -> None:
    job_id = await job_in(store, state)
    before = await get_one(store, job_id)

    with pytest.raises(ValueError, match="move"):
        await store.move(MoveRequest([job_id], to), now=T0)

    assert await get_one(store, job_id) == before
    assert await count_of(store) == {state: 1}


async def test_a_job_that_is_gone_cannot_be_moved(store: Store) -> None:
    assert await move(store, 987_654, State.WAITING) == Reply(Result.GONE)


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
        [reply] = await store.move(MoveRequest([job_id], State.DELAYED, at=at), now=T0)
        assert reply.word is Result.DONE
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
    """Retrying a dead letter is not refused for the attempts it has used."""
    job = await start_one(store, attempts=1)
    await end(store, job, Failed(OOPS))
    await move(store, job.id, State.WAITING)
    again = await claim_one(store)

    assert (again.attempts, again.max_attempts) == (1, 1)
    assert await end(store, again, Completed("second")) is Result.DONE
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
        MoveRequest([waiting, running, 987_654, failed], State.WAITING), now=T0
    )

    assert replies == [
        Reply(Result.ALREADY),
        Reply(Result.REFUSED, state=State.ACTIVE),
        Reply(Result.GONE),
        Reply(Result.DONE),
    ]


async def test_moving_twice_is_moving_once(store: Store) -> None:
    """D-45: one restart, however often the button is pressed."""
    job_id = await job_in(store, State.FAILED)
    await move(store, job_id, State.WAITING)

    assert await move(store, job_id, State.WAITING) == Reply(Result.ALREADY)
    outcomes = [line.outcome for line in (await get_one(store, job_id)).history]
    assert outcomes == ["failed", "restarted"]


async def test_more_than_a_batch_is_refused(store: Store) -> None:
    job_id = await job_in(store, State.DELAYED)

    with pytest.raises(ValueError, match="at most 500"):
        await store.move(MoveRequest([job_id] * (MAX_BATCH + 1), State.WAITING), now=T0)

    assert await state_of(store, job_id) is State.DELAYED


# -- from the states and the ending that were seen (R-1) ----------------------------


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("state", list(State))
async def test_a_job_that_is_in_another_state_by_now_is_not_moved(
    store: Store, state: State, to: State
) -> None:
    """R-1: the state is compared when the job is moved, not when it was read."""
    job_id = await job_in(store, state)
    others = [other for other in State if other is not state]
    before = await get_one(store, job_id)

    [reply] = await store.move(MoveRequest([job_id], to, at=AT, states=others), now=T0)

    is_there = state is to is State.WAITING
    wanted = Reply(Result.ALREADY) if is_there else Reply(Result.REFUSED, state=state)
    assert reply == wanted
    assert await get_one(store, job_id) == before


@pytest.mark.parametrize("state", [State.DELAYED, State.BLOCKED, *FINISHED])
async def test_a_job_that_is_in_one_of_the_states_is_moved(
    store: Store, state: State
) -> None:
    job_id = await job_in(store, state)
    states = [State.ACTIVE, state]

    [reply] = await store.move(
        MoveRequest([job_id], State.WAITING, states=states), now=T0
    )

    assert reply == Reply(Result.DONE)


async def retry(store: Store, seen: Job, *, now: int = T0) -> Reply:
    """Retry the ending that was seen."""
    [reply] = await store.move(
        MoveRequest(
            [seen.id],
            State.WAITING,
            states=FINISHED,
            seen={seen.id: ExpectedState.of(seen)},
        ),
        now=now,
    )
    return reply


@pytest.mark.parametrize("state", FINISHED)
async def test_the_second_retry_of_an_ending_is_a_no_op(
    store: Store, state: State
) -> None:
    """R-1: whatever became of the job since, or when a lost reply repeats the call."""
    job_id = await job_in(store, state, attempts=1)
    seen = await get_one(store, job_id)

    assert await retry(store, seen) == Reply(Result.DONE)
    assert await retry(store, seen) == Reply(Result.ALREADY)
    run = await claim_one(store)
    assert await retry(store, seen) == Reply(Result.ALREADY)
    # In the very same millisecond: a run has a token of its own.
    await end(store, run, Failed(OOPS))
    assert await retry(store, seen) == Reply(Result.ALREADY)

    after = await get_one(store, job_id)
    assert after.state is State.FAILED
    assert [line.outcome for line in after.history].count("restarted") == 1
    assert await retry(store, after) == Reply(Result.DONE)


@pytest.mark.parametrize("to", TARGETS)
async def test_a_job_that_was_seen_unfinished_is_not_restarted(
    store: Store, to: State
) -> None:
    """R-1: who delays or promotes a job does not run it again once it has ended."""
    job = await start_one(store, attempts=2)
    await end(store, job, Stalled(OOPS, HOUR))
    seen = {job.id: ExpectedState.of(await get_one(store, job.id))}
    await store.move(MoveRequest([job.id], State.WAITING, seen=seen), now=T0)
    await end(store, await claim_one(store), Completed())

    [reply] = await store.move(MoveRequest([job.id], to, at=AT, seen=seen), now=T0)

    assert reply == Reply(Result.REFUSED, state=State.COMPLETE)
    assert await state_of(store, job.id) is State.COMPLETE


async def test_an_ending_with_a_long_line_is_recognised(store: Store) -> None:
    """R-1: a result of many kilobytes is no reason to retry twice, or not at all."""
    job = await start_one(store)
    await end(store, job, Completed("x" * 200_000))
    seen = await get_one(store, job.id)

    assert await retry(store, seen) == Reply(Result.DONE)
    await end(store, await claim_one(store), Completed("y" * 20_000))
    assert await retry(store, seen) == Reply(Result.ALREADY)


async def test_an_ending_is_recognised_when_its_job_was_edited_since(
    store: Store,
) -> None:
    job_id = await job_in(store, State.FAILED)
    seen = await get_one(store, job_id)
    await store.update([Change(job_id, data="longer" * 99, priority=-7)], now=T0)

    assert await retry(store, seen) == Reply(Result.DONE)


async def test_an_ending_is_recognised_behind_a_long_story(store: Store) -> None:
    """R-1: also when the oldest lines of the story have fallen off."""
    job_id = await job_in(store, State.FAILED)
    first = await get_one(store, job_id)
    for _ in range(MAX_HISTORY):
        seen = await get_one(store, job_id)
        assert await retry(store, seen) == Reply(Result.DONE)
        await end(store, await claim_one(store), Failed(OOPS))
        assert await retry(store, seen) == Reply(Result.ALREADY)
    assert await retry(store, first) == Reply(Result.ALREADY)


async def test_each_job_of_a_call_is_compared_with_what_was_seen_of_it(
    store: Store,
) -> None:
    ids = [await job_in(store, State.FAILED, type) for type in ("a", "b", "c")]
    first, second, third = [await get_one(store, job_id) for job_id in ids]
    await retry(store, second)
    stranger = ExpectedState(third.created_at + 1, third.ending)

    replies = await store.move(
        MoveRequest(
            [*ids, 987_654],
            State.WAITING,
            states=FINISHED,
            seen={
                first.id: ExpectedState.of(first),
                second.id: ExpectedState.of(second),
                third.id: stranger,
            },
        ),
        now=T0,
    )

    words = [Result.DONE, Result.ALREADY, Result.GONE, Result.GONE]
    assert replies == [Reply(word) for word in words]
