"""`Store.settle`: what each ending makes of a job.  The words are in test_fences."""

from __future__ import annotations

import pytest

from kue.model.job import (
    MAX_HISTORY,
    Cancelled,
    Completed,
    Ending,
    Error,
    Failed,
    Released,
    Retried,
    Stalled,
    State,
)
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, Outcome, Progress, Result
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
    state_of,
)

ENDINGS: list[Ending] = [
    Completed({"ok": True}),
    Failed(OOPS),
    Cancelled("not wanted"),
    Retried(OOPS),
    Retried(OOPS, 5 * SECOND),
    Released(reason="not now"),
    Released(5 * SECOND),
    Stalled(OOPS),
    Stalled(OOPS, 5 * SECOND),
]
NAMES = [
    "complete",
    "failed",
    "cancelled",
    "retry",
    "retry-later",
    "release",
    "release-later",
    "stalled",
    "stalled-later",
]


async def test_a_completed_run_completes_the_job(store: Store) -> None:
    job = await start_one(store, worker="w7", attempts=3)

    assert await end(store, job, Completed({"sent": 2}), now=T0 + 40) is Result.DONE

    done = await get_one(store, job.id)
    assert (done.state, done.result, done.error) == (
        State.COMPLETE,
        {"sent": 2},
        None,
    )
    assert (done.attempts, done.stalls, done.token) == (1, 0, "")
    assert done.progress == 100
    assert (done.started_at, done.ended_at, done.duration) == (T0, T0 + 40, 40)
    assert (done.updated_at, done.failed_at, done.worker) == (T0 + 40, None, "w7")
    [line] = done.history
    assert (line.token, line.at, line.outcome) == (job.token, T0 + 40, "complete")
    assert (line.result, line.run, line.duration) == ({"sent": 2}, job.run, 40)
    assert await count_of(store) == {State.COMPLETE: 1}


async def test_a_job_may_be_removed_as_it_completes(store: Store) -> None:
    """D-28: removeOnComplete works, and leaves nothing behind."""
    job = await start_one(store, remove_on_complete=True)

    assert await end(store, job, Completed()) is Result.DONE

    assert await state_of(store, job.id) is None
    assert await count_of(store) == {}


async def test_a_job_to_be_removed_on_complete_is_kept_when_it_fails(
    store: Store,
) -> None:
    job = await start_one(store, remove_on_complete=True)
    await end(store, job, Failed(OOPS))

    assert await state_of(store, job.id) is State.FAILED


async def test_a_failed_run_fails_the_job(store: Store) -> None:
    """D-31: the error is there to be seen, with kind, message and stack."""
    error = Error("KeyError", "'x'", "Traceback …\n  line 7")
    job = await start_one(store)

    assert await end(store, job, Failed(error), now=T0 + 9) is Result.DONE

    failed = await get_one(store, job.id)
    assert (failed.state, failed.error, failed.result) == (State.FAILED, error, None)
    assert (failed.failed_at, failed.ended_at, failed.duration) == (T0 + 9, T0 + 9, 9)
    assert (failed.attempts, failed.worker) == (1, "w1")
    assert [(line.outcome, line.error) for line in failed.history] == [
        ("failed", error)
    ]


async def test_a_run_may_end_its_job_as_cancelled(store: Store) -> None:
    job = await start_one(store)

    assert await end(store, job, Cancelled("by its owner"), now=T0 + 9) is Result.DONE

    cancelled = await get_one(store, job.id)
    assert (cancelled.state, cancelled.ended_at) == (State.CANCELLED, T0 + 9)
    assert (cancelled.error, cancelled.cancelling) == (None, False)
    [line] = cancelled.history
    assert (line.outcome, line.reason) == ("cancelled", "by its owner")


async def test_a_retried_run_puts_the_job_back_at_once(store: Store) -> None:
    """D-19: one move, from active to where it goes next, never through failed."""
    job = await start_one(store, attempts=3)

    assert await end(store, job, Retried(OOPS), now=T0 + 9) is Result.DONE

    waiting = await get_one(store, job.id)
    assert (waiting.state, waiting.promote_at) == (State.WAITING, None)
    assert (waiting.attempts, waiting.error) == (1, OOPS)
    assert (waiting.failed_at, waiting.ended_at) == (T0 + 9, None)
    assert (waiting.updated_at, waiting.duration) == (T0 + 9, 9)
    assert await count_of(store) == {State.WAITING: 1}
    assert (await claim_one(store, now=T0 + 9)).attempts == 2


async def test_a_retry_with_a_delay_waits_for_it(store: Store) -> None:
    """D-20: the pause is kept apart from the delay that was asked for."""
    job_id = await add_one(store, attempts=3, delay=1)
    job = await claim_one(store, now=T0 + SECOND)
    await end(store, job, Retried(OOPS, 500), now=T0 + 2 * SECOND)

    delayed = await get_one(store, job_id)
    assert (delayed.state, delayed.promote_at) == (State.DELAYED, T0 + 2500)
    assert delayed.spec.delay == SECOND
    assert delayed.history[-1].delay == 500
    assert await claim_ids(store, now=T0 + 2499) == []
    assert await claim_ids(store, now=T0 + 2500) == [job_id]


async def test_a_released_run_gives_its_attempt_back(store: Store) -> None:
    job = await start_one(store)

    assert await end(store, job, Released(reason="closed"), now=T0 + 9) is Result.DONE

    waiting = await get_one(store, job.id)
    assert (waiting.state, waiting.attempts, waiting.stalls) == (State.WAITING, 0, 0)
    assert (waiting.error, waiting.failed_at) == (None, None)
    [line] = waiting.history
    assert (line.outcome, line.reason, line.counts) == ("released", "closed", False)
    assert (await claim_one(store)).attempts == 1


async def test_a_release_that_counts_spends_the_attempt(store: Store) -> None:
    job = await start_one(store, attempts=2)
    await end(store, job, Released(counts=True))

    waiting = await get_one(store, job.id)
    assert (waiting.attempts, waiting.history[-1].counts) == (1, True)
    assert (await claim_one(store)).attempts == 2


async def test_a_release_with_a_delay_waits_for_it(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, Released(3 * SECOND), now=T0 + SECOND)

    delayed = await get_one(store, job.id)
    assert (delayed.state, delayed.promote_at) == (State.DELAYED, T0 + 4 * SECOND)


async def test_a_stalled_run_counts_as_a_stall_and_not_as_an_attempt(
    store: Store,
) -> None:
    job = await start_one(store)

    assert await end(store, job, Stalled(OOPS)) is Result.DONE

    waiting = await get_one(store, job.id)
    assert (waiting.state, waiting.attempts, waiting.stalls) == (State.WAITING, 0, 1)
    assert waiting.history[-1].outcome == "stalled"
    again = await claim_one(store)
    assert (again.attempts, again.stalls) == (1, 1)


async def test_a_stall_with_a_delay_waits_for_it(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, Stalled(OOPS, SECOND))

    delayed = await get_one(store, job.id)
    assert (delayed.state, delayed.promote_at) == (State.DELAYED, T0 + SECOND)


async def test_stalls_add_up_through_other_endings(store: Store) -> None:
    await add_one(store, attempts=9)
    endings: list[Ending] = [Stalled(OOPS), Retried(OOPS), Stalled(OOPS), Released()]
    for ending in endings:
        await end(store, await claim_one(store), ending)

    job = await claim_one(store)
    assert (job.stalls, job.attempts) == (2, 2)


@pytest.mark.parametrize("ending", ENDINGS, ids=NAMES)
async def test_every_ending_forgets_progress(store: Store, ending: Ending) -> None:
    job = await start_one(store, attempts=3)
    await store.progress([Progress(job.id, 40, {"step": 4})], now=T0)

    await end(store, job, ending)

    ended = await get_one(store, job.id)
    shown = 100 if isinstance(ending, Completed) else 0
    assert (ended.progress, ended.progress_data) == (shown, None)


@pytest.mark.parametrize("ending", ENDINGS, ids=NAMES)
async def test_every_ending_adds_one_line_to_the_story(
    store: Store, ending: Ending
) -> None:
    job = await start_one(store, attempts=3)
    await end(store, job, ending, now=T0 + 3)

    ended = await get_one(store, job.id)
    [line] = ended.history
    assert (line.token, line.at) == (job.token, T0 + 3)
    assert line.error == getattr(ending, "error", None)
    assert line.reason == getattr(ending, "reason", "")
    assert line.delay == getattr(ending, "delay", 0)
    assert line.taken == ""
    assert (ended.worker, ended.started_at) == ("w1", T0)


async def test_a_story_keeps_its_newest_lines(store: Store) -> None:
    """D-32: nothing that is kept with a job grows for ever."""
    await add_one(store, attempts=1000)
    for number in range(MAX_HISTORY + 5):
        job = await claim_one(store, now=T0 + number)
        error = Error("ValueError", f"number {number}")
        await end(store, job, Retried(error), now=T0 + number)

    job = await get_one(store, job.id)
    assert job.attempts == MAX_HISTORY + 5
    assert [line.error.message for line in job.history if line.error] == [
        f"number {number}" for number in range(5, MAX_HISTORY + 5)
    ]


async def test_an_attempt_is_not_forgotten_with_its_line(store: Store) -> None:
    """Thirty releases push every line of the one failed run out of the story."""
    job = await start_one(store, attempts=5)
    await end(store, job, Retried(OOPS))
    for _ in range(MAX_HISTORY + 10):
        await end(store, await claim_one(store), Released())

    job = await claim_one(store)
    assert job.attempts == 2


async def test_many_runs_end_in_one_call_each_in_its_own_way(store: Store) -> None:
    ids = await add_many(store, len(ENDINGS), attempts=3)
    jobs = await claim(store, limit=len(ENDINGS))

    words = await store.settle(
        [Outcome(job, ending) for job, ending in zip(jobs, ENDINGS, strict=True)],
        now=T0,
    )

    assert words == [Result.DONE] * len(ENDINGS)
    states = [job.state for job in await store.get(ids) if job]
    put_back = [State.WAITING, State.DELAYED]
    assert states == [
        State.COMPLETE,
        State.FAILED,
        State.CANCELLED,
        *put_back,
        *put_back,
        *put_back,
    ]


async def test_a_full_batch_ends_in_one_call(store: Store) -> None:
    await add_many(store, MAX_BATCH)
    jobs = await claim(store, limit=MAX_BATCH)

    words = await store.settle([Outcome(job, Completed()) for job in jobs], now=T0)

    assert words == [Result.DONE] * MAX_BATCH
    assert await count_of(store) == {State.COMPLETE: MAX_BATCH}


async def test_more_than_a_batch_is_refused(store: Store) -> None:
    job = await start_one(store)

    with pytest.raises(ValueError, match="at most 500"):
        await store.settle([Outcome(job, Completed())] * (MAX_BATCH + 1), now=T0)

    assert await state_of(store, job.id) is State.ACTIVE


async def test_no_outcomes_are_no_words(store: Store) -> None:
    assert await store.settle([], now=T0) == []
