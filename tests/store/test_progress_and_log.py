"""`Store.progress`, `Store.log` and `Store.logs`: signs of life and what was said."""

from __future__ import annotations

import pytest

from kue.model.job import Completed, Retried, State
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    MAX_LOG_LINES,
    MAX_LOG_TEXT,
    LogLine,
    Progress,
    RemoveRequest,
    Result,
)
from tests.support.jobs import (
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim,
    claim_one,
    end,
    get_one,
    job_in,
    start_one,
)
from tests.support.upkeep import lose_worker

NOT_ACTIVE = [state for state in State if state is not State.ACTIVE]


async def say(store: Store, job_id: int, percent: int, *, token: str = "") -> Result:
    update = Progress(job_id, percent, {"step": percent}, token)
    [word] = await store.progress([update], now=T0)
    return word


async def test_progress_of_a_running_job_is_kept(store: Store) -> None:
    job = await start_one(store)

    assert await say(store, job.id, 40, token=job.token) is Result.DONE

    shown = await get_one(store, job.id)
    assert (shown.progress, shown.progress_data) == (40, {"step": 40})
    assert (shown.state, shown.token) == (State.ACTIVE, job.token)


@pytest.mark.parametrize("percent", [0, 1, 99, 100])
async def test_any_share_can_be_told(store: Store, percent: int) -> None:
    job = await start_one(store)
    await say(store, job.id, percent)

    assert (await get_one(store, job.id)).progress == percent


async def test_progress_may_be_told_without_a_token(store: Store) -> None:
    """By whoever watches a job from outside."""
    job = await start_one(store)

    assert await say(store, job.id, 10) is Result.DONE


async def test_the_last_word_on_progress_stands(store: Store) -> None:
    job = await start_one(store)
    words = await store.progress([Progress(job.id, 10), Progress(job.id, 30)], now=T0)
    await store.progress([Progress(job.id, 20, [1])], now=T0)

    shown = await get_one(store, job.id)
    assert words == [Result.DONE] * 2
    assert (shown.progress, shown.progress_data) == (20, [1])


async def test_progress_of_a_run_that_was_taken_back_is_lost(store: Store) -> None:
    job = await start_one(store)
    await lose_worker(store, T0)
    assert await say(store, job.id, 10, token=job.token) is Result.LOST

    again = await claim_one(store, worker="w2", now=T0 + 11 * SECOND)
    assert await say(store, job.id, 10, token=job.token) is Result.LOST

    assert (await get_one(store, job.id)).progress == 0
    assert await say(store, job.id, 20, token=again.token) is Result.DONE


@pytest.mark.parametrize("state", NOT_ACTIVE)
async def test_a_job_that_does_not_run_makes_no_progress(
    store: Store, state: State
) -> None:
    job_id = await job_in(store, state)
    before = await get_one(store, job_id)

    assert await say(store, job_id, 10) is Result.REFUSED

    assert await get_one(store, job_id) == before


async def test_a_run_that_has_ended_makes_no_progress(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, Completed())

    assert await say(store, job.id, 50, token=job.token) is Result.LOST


async def test_a_job_that_is_gone_makes_no_progress(store: Store) -> None:
    """U-6: a late word does not bring part of a removed job back."""
    job = await start_one(store)
    await store.remove(RemoveRequest([job.id], force=True), now=T0)

    assert await say(store, job.id, 10) is Result.GONE
    assert await say(store, job.id, 10, token=job.token) is Result.GONE
    assert await store.get([job.id]) == [None]


async def test_each_update_gets_its_own_word_in_the_order_asked(store: Store) -> None:
    running = await start_one(store, "email")
    waiting = await add_one(store, "sms")
    other = await start_one(store, "video")

    words = await store.progress(
        [
            Progress(waiting, 1),
            Progress(other.id, 2, token=other.token),
            Progress(987_654, 3),
            Progress(running.id, 4, token=other.token),
            Progress(running.id, 5, token=running.token),
        ],
        now=T0,
    )

    assert words == [Result.REFUSED, Result.DONE, Result.GONE, Result.LOST, Result.DONE]


async def test_a_batch_of_progress_has_an_end(store: Store) -> None:
    await add_many(store, MAX_BATCH)
    jobs = await claim(store, limit=MAX_BATCH)
    updates = [Progress(job.id, 7, token=job.token) for job in jobs]

    assert await store.progress(updates, now=T0) == [Result.DONE] * MAX_BATCH
    with pytest.raises(ValueError, match="at most 500"):
        await store.progress([*updates, updates[0]], now=T0)


@pytest.mark.parametrize("state", list(State))
async def test_a_log_takes_lines_whatever_the_state(store: Store, state: State) -> None:
    job_id = await job_in(store, state)

    word = await store.log(job_id, [LogLine("one"), LogLine("two")], now=T0 + 5)

    assert word is Result.DONE
    assert await store.logs(job_id) == [
        LogLine("one", at=T0 + 5),
        LogLine("two", at=T0 + 5),
    ]


async def test_a_line_keeps_what_it_says_and_the_engine_adds_the_time(
    store: Store,
) -> None:
    job = await start_one(store)
    line = LogLine(
        'it said:\n\t"höre 🚀" \\ {} \x00 ok', level="warning", attempt=1, at=7
    )

    await store.log(job.id, [line], now=T0)

    [kept] = await store.logs(job.id)
    assert (kept.text, kept.level, kept.attempt) == (line.text, "warning", 1)
    assert kept.at == T0


async def test_a_log_goes_on_through_all_attempts(store: Store) -> None:
    job = await start_one(store, attempts=2)
    await store.log(job.id, [LogLine("first", attempt=1)], now=T0)
    await end(store, job, Retried(OOPS))
    again = await claim_one(store)
    await store.log(job.id, [LogLine("second", attempt=2)], now=T0)
    await end(store, again, Completed())

    assert [line.text for line in await store.logs(job.id)] == ["first", "second"]


async def test_a_log_keeps_its_newest_lines(store: Store) -> None:
    """D-32: a chatty job does not fill the store."""
    job_id = await add_one(store)
    texts = [f"line {number}" for number in range(MAX_LOG_LINES + 200)]
    for start in range(0, len(texts), 300):
        lines = [LogLine(text) for text in texts[start : start + 300]]
        await store.log(job_id, lines, now=T0)

    kept = await store.logs(job_id)
    assert [line.text for line in kept] == texts[-MAX_LOG_LINES:]


async def test_a_very_long_line_is_cut(store: Store) -> None:
    job_id = await add_one(store)
    await store.log(job_id, [LogLine("x" * (MAX_LOG_TEXT * 2))], now=T0)

    [line] = await store.logs(job_id)
    assert line.text.startswith("x" * (MAX_LOG_TEXT - 10))
    # One more for the sign that something was left out.
    assert len(line.text) <= MAX_LOG_TEXT + 1


@pytest.mark.parametrize(
    ("start", "stop", "texts"),
    [
        (0, -1, "abcde"),
        (0, 0, "a"),
        (1, 3, "bcd"),
        (-2, -1, "de"),
        (-3, -2, "cd"),
        (3, 99, "de"),
        (5, 9, ""),
        (3, 1, ""),
        (-99, 1, "ab"),
    ],
)
async def test_part_of_a_log_can_be_read(
    store: Store, start: int, stop: int, texts: str
) -> None:
    job_id = await add_one(store)
    await store.log(job_id, [LogLine(text) for text in "abcde"], now=T0)

    lines = await store.logs(job_id, start, stop)

    assert "".join(line.text for line in lines) == texts


async def test_a_job_that_is_gone_has_no_log(store: Store) -> None:
    job_id = await add_one(store)
    await store.log(job_id, [LogLine("hello")], now=T0)
    await store.remove(RemoveRequest([job_id]), now=T0)

    assert await store.log(job_id, [LogLine("late")], now=T0) is Result.GONE
    assert await store.log(job_id, [], now=T0) is Result.GONE
    assert await store.logs(job_id) == []


async def test_logs_do_not_mix(store: Store) -> None:
    one, other = await add_many(store, 2)
    await store.log(one, [LogLine("one")], now=T0)

    assert await store.logs(other) == []


async def test_no_lines_are_no_lines(store: Store) -> None:
    job_id = await add_one(store)

    assert await store.log(job_id, [], now=T0) is Result.DONE
    assert await store.logs(job_id) == []
