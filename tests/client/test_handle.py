"""The job a user holds: results, edits, and words that become errors."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kue import (
    BadPayload,
    InvalidTransition,
    JobCancelled,
    JobFailed,
    JobHandle,
    JobNotFound,
    Kue,
    UniqueHeld,
)
from kue.model.job import Cancelled, Completed, Failed, State
from kue.store.contract import Store
from kue.store.values import MAX_LOG_TEXT, Outcome
from tests.support.flaky import Wire
from tests.support.jobs import OOPS, claim, claim_one, end
from tests.support.patience import PATIENCE_SECONDS


async def start(q: Kue, store: Store, **options: Any) -> JobHandle[Any]:
    """Enqueue a job and start it, by the store's own clock."""
    handle = await q.enqueue("email", {"to": "a@b.c"}, **options)
    await claim_one(store, now=await store.now())
    return handle


async def finish(store: Store, handle: JobHandle[Any], ending: Any) -> None:
    """End the run of *handle*'s job as a worker would."""
    job = await handle.refresh()
    await end(store, job, ending, now=await store.now())


async def run(q: Kue, store: Store, ending: Any, **options: Any) -> JobHandle[Any]:
    """Enqueue a job, start it and end it."""
    handle = await start(q, store, **options)
    await finish(store, handle, ending)
    return handle


def read_as(kind: Any, handle: JobHandle[Any]) -> JobHandle[Any]:
    """Return a handle of the same job whose result is made a *kind*."""
    return JobHandle(
        handle._connection,
        handle.id,
        handle.type,
        reader=lambda stored: msgspec.convert(stored, kind),
    )


# -- result ------------------------------------------------------------------


async def test_the_result_of_a_job_that_has_ended_is_there_at_once(
    q: Kue, kue_store: Store
) -> None:
    handle = await run(q, kue_store, Completed({"sent": True}))

    assert await handle.result(timeout=PATIENCE_SECONDS) == {"sent": True}


async def test_a_reader_makes_the_result_of_what_is_stored(
    q: Kue, kue_store: Store
) -> None:
    started = await run(q, kue_store, Completed("2026-11-15T00:00:00Z"))
    handle = read_as(datetime, started)

    assert await handle.result(timeout=PATIENCE_SECONDS) == datetime(
        2026, 11, 15, tzinfo=UTC
    )


async def test_a_result_that_its_reader_does_not_know_says_so(
    q: Kue, kue_store: Store
) -> None:
    started = await run(q, kue_store, Completed("seven"))
    handle = read_as(int, started)

    with pytest.raises(msgspec.ValidationError, match="Expected `int`, got `str`"):
        await handle.result(timeout=PATIENCE_SECONDS)


async def test_a_result_is_waited_for_without_polling(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    handle = await start(q, kue_store)
    waiting = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))
    # It looks once, after it began to listen.
    await wire.until_answered("get", 1)
    job = (await kue_store.get([handle.id]))[0]
    assert job is not None
    looks = wire.times("get")

    await end(kue_store, job, Completed(7), now=await kue_store.now())

    assert await waiting == 7
    assert wire.times("get") == looks + 1


async def test_a_job_that_ends_while_we_begin_to_listen_is_not_missed(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    """It ends after the subscription and before the look: both tell of it, once."""
    handle = await start(q, kue_store)
    [job] = await kue_store.get([handle.id])
    assert job is not None
    gate = wire.hold("get")
    waiting = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))
    await wire.until_called("get", 2)

    await end(kue_store, job, Completed("in time"), now=await kue_store.now())
    gate.set()

    assert await waiting == "in time"


async def test_the_result_of_a_failed_job_is_its_error(
    q: Kue, kue_store: Store
) -> None:
    handle = await run(q, kue_store, Failed(OOPS))

    with pytest.raises(JobFailed, match=f"job {handle.id} failed: ValueError: oops"):
        await handle.result(timeout=PATIENCE_SECONDS)


async def test_the_result_of_a_cancelled_job_says_why(q: Kue, kue_store: Store) -> None:
    handle = await run(q, kue_store, Cancelled("not wanted"))

    with pytest.raises(JobCancelled, match="was cancelled: not wanted"):
        await handle.result(timeout=PATIENCE_SECONDS)


async def test_waiting_ends_when_the_job_is_cancelled(q: Kue, wire: Wire) -> None:
    handle = await q.enqueue("email")
    waiting = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))
    await wire.until_answered("get")

    await handle.cancel("changed my mind")

    with pytest.raises(JobCancelled, match="changed my mind"):
        await waiting


async def test_waiting_ends_when_the_job_is_removed(q: Kue, wire: Wire) -> None:
    handle = await q.enqueue("email")
    waiting = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))
    await wire.until_answered("get")

    await handle.remove()

    with pytest.raises(JobNotFound, match=f"job {handle.id} does not exist"):
        await waiting


async def test_the_result_of_a_job_removed_before_is_not_found(q: Kue) -> None:
    handle = await q.enqueue("email")
    await handle.remove()

    with pytest.raises(JobNotFound):
        await handle.result(timeout=PATIENCE_SECONDS)


async def test_the_result_of_a_job_removed_on_completion_is_delivered(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    handle = await start(q, kue_store, remove_on_complete=True)
    [job] = await kue_store.get([handle.id])
    assert job is not None
    waiting = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))
    await wire.until_answered("get", 2)

    result = {"kept": "nowhere\tbut\nhere"}
    await end(kue_store, job, Completed(result), now=await kue_store.now())

    assert await waiting == result
    assert not await q.exists(handle.id)


async def test_a_retried_job_is_waited_for_until_its_new_end(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    handle = await run(q, kue_store, Failed(OOPS))
    await q.handle(await handle.refresh()).retry()

    waiting = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))
    looks = wire.times("get")
    await wire.until_answered("get", looks + 1)
    job = await claim_one(kue_store, now=await kue_store.now())
    await end(kue_store, job, Completed("at last"), now=await kue_store.now())

    assert await waiting == "at last"


async def test_a_hundred_results_can_be_awaited_at_once(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    """Each costs the store one watched job: neither a connection nor its commands."""
    handles = await q.enqueue_many("email", range(100))
    waiting = [
        asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))
        for handle in handles
    ]
    await asyncio.wait_for(wire.until_answered("get", 100), 50)

    now = await kue_store.now()
    jobs = await claim(kue_store, limit=100, now=now)
    outcomes = [Outcome(job, Completed(job.data)) for job in jobs]
    await kue_store.settle(outcomes, now=now)

    assert await asyncio.gather(*waiting) == list(range(100))


async def test_a_timeout_says_what_the_job_is_doing(q: Kue) -> None:
    handle = await q.enqueue("email")
    # On a busy machine the time may be over before the job was read.
    await handle.refresh()

    with pytest.raises(TimeoutError, match=rf"job {handle.id} is waiting and did not"):
        await handle.result(timeout=0.05)

    assert await q.inactive_count() == 1


# -- reading -----------------------------------------------------------------


async def test_a_new_handle_has_read_nothing(q: Kue, wire: Wire) -> None:
    handle = await q.enqueue("email")

    assert (handle.job, handle.address_id) == (None, None)
    assert wire.times("get") == 0


async def test_a_handle_remembers_the_job_it_read(q: Kue) -> None:
    handle = await q.enqueue("email")

    job = await handle.refresh()

    assert handle.job is job
    assert handle.address_id == job.address_id
    assert repr(handle) == f"<JobHandle {handle.id} 'email', waiting>"


async def test_another_job_with_the_same_id_is_not_ours(q: Kue) -> None:
    """After a fail-over that lost writes an id can be handed out a second time."""
    handle = await q.enqueue("email")
    job = await handle.refresh()
    earlier = msgspec.structs.replace(job, created_at=job.created_at - 60_000)
    stale = q.handle(earlier)

    for verb in (
        stale.refresh(),
        stale.cancel(),
        stale.remove(),
        stale.retry(),
        stale.update(data=1),
        stale.delay("1m"),
    ):
        with pytest.raises(JobNotFound):
            await verb
    assert (await handle.refresh()) == job


async def test_a_job_of_another_type_is_not_ours_even_before_we_read_it(
    q: Kue,
) -> None:
    job = await (await q.enqueue("email")).refresh()
    other = msgspec.structs.replace(job, type="report")

    with pytest.raises(JobNotFound):
        await q.handle(other).refresh()


async def test_log_lines_are_read_back_in_order(q: Kue) -> None:
    handle = await q.enqueue("email")

    await handle.log("one")
    await handle.log({"two": 2}, level="warning")
    await handle.log("x" * (MAX_LOG_TEXT + 10))

    lines = await handle.logs()
    assert [line.text for line in lines[:2]] == ["one", "{'two': 2}"]
    assert [line.level for line in lines] == ["info", "warning", "info"]
    assert len(lines[2].text) == MAX_LOG_TEXT
    assert [line.text for line in await q.logs(handle.id, 0, 0)] == ["one"]


async def test_a_log_line_is_formatted_only_if_there_are_arguments(q: Kue) -> None:
    handle = await q.enqueue("email")

    await handle.log("row %d of %s", 7, "10", level="debug")
    await handle.log("100 %d")

    lines = [(line.level, line.text) for line in await handle.logs()]
    assert lines == [("debug", "row 7 of 10"), ("info", "100 %d")]


async def test_arguments_that_do_not_fit_a_log_line_are_refused(q: Kue) -> None:
    handle = await q.enqueue("email")

    with pytest.raises(ValueError, match=r"cannot be formatted with .*a level is"):
        await handle.log("failed", "error")


async def test_an_unknown_log_level_is_refused(q: Kue) -> None:
    handle = await q.enqueue("email")

    with pytest.raises(ValueError, match="log level 'loud' is unknown; there are"):
        await handle.log("hey", level="loud")


async def test_further_fields_are_kept_with_the_job(q: Kue) -> None:
    handle = await q.enqueue("email", meta={"trace": "7"})

    await asyncio.gather(*(handle.set(f"key {n}", str(n)) for n in range(5)))

    assert [await handle.get(f"key {n}") for n in range(5)] == list("01234")
    assert await handle.get("trace") == "7"
    assert await handle.get("never set") is None


async def test_too_many_further_fields_are_refused_and_nothing_is_lost(q: Kue) -> None:
    handle = await q.enqueue("email")
    await handle.set("first", "x" * 5000)

    with pytest.raises(BadPayload, match="the limit is 8,192"):
        await handle.set("second", "x" * 5000)

    assert (await handle.refresh()).spec.meta == {"first": "x" * 5000}


# -- progress ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("done", "total", "percent"),
    [(1, 3, 33), (50, 100, 50), (5, 0, 0), (0, 0, 0), (-4, 10, 0), (99, 10, 100)],
)
async def test_progress_is_whole_percent_from_0_to_100(
    q: Kue, kue_store: Store, done: int, total: int, percent: int
) -> None:
    handle = await start(q, kue_store)

    await handle.progress(done, total, {"at": done})

    job = await handle.refresh()
    assert (job.progress, job.progress_data) == (percent, {"at": done})


async def test_progress_that_is_no_number_is_refused(q: Kue) -> None:
    handle = await q.enqueue("email")

    with pytest.raises(ValueError, match="progress must be finite, not nan"):
        await handle.progress(float("nan"))


async def test_progress_data_must_be_json(q: Kue, kue_store: Store) -> None:
    handle = await start(q, kue_store)

    with pytest.raises(BadPayload, match="progress data"):
        await handle.progress(1, 2, object())


async def test_only_a_running_job_has_progress(q: Kue) -> None:
    handle = await q.enqueue("email")

    with pytest.raises(
        InvalidTransition, match="is waiting and cannot report progress"
    ):
        await handle.progress(1, 2)


# -- operating ---------------------------------------------------------------


async def test_an_update_changes_what_is_given_and_nothing_else(q: Kue) -> None:
    handle = await q.enqueue("email", {"to": "a"}, tags=["old"], attempts=2)

    await handle.update(data={"to": "b"}, priority="high")
    job = await handle.refresh()
    assert (job.data, job.priority) == ({"to": "b"}, -10)
    assert (job.tags, job.max_attempts) == (("old",), 2)

    await handle.update(tags=["new", "newer"], attempts=5)
    job = await handle.refresh()
    assert (job.tags, job.max_attempts) == (("new", "newer"), 5)
    assert job.data == {"to": "b"}


async def test_an_update_to_null_is_not_no_update(q: Kue) -> None:
    handle = await q.enqueue("email", {"to": "a"})

    await handle.update(data=None)

    assert (await handle.refresh()).data is None


async def test_a_bad_update_is_refused_before_it_is_sent(q: Kue, wire: Wire) -> None:
    handle = await q.enqueue("email")

    with pytest.raises(ValueError, match="priority must be from -1024 to 1023"):
        await handle.update(priority=10_000)

    assert wire.times("update") == 0


async def test_cancelling_a_waiting_job_ends_it(q: Kue) -> None:
    handle = await q.enqueue("email")

    assert await handle.cancel("no") is True
    assert await handle.cancel("no") is True
    assert (await handle.refresh()).state is State.CANCELLED


async def test_cancelling_a_running_job_only_asks(q: Kue, kue_store: Store) -> None:
    handle = await start(q, kue_store)

    assert await handle.cancel("no") is False
    assert await handle.cancel("no") is False
    assert (await handle.refresh()).cancelling


async def test_a_job_that_has_ended_cannot_be_cancelled(
    q: Kue, kue_store: Store
) -> None:
    handle = await run(q, kue_store, Completed())

    with pytest.raises(InvalidTransition, match="is complete and cannot be cancelled"):
        await handle.cancel()


async def test_a_running_job_is_removed_only_by_force(q: Kue, kue_store: Store) -> None:
    handle = await start(q, kue_store)

    with pytest.raises(InvalidTransition, match=r"is active .* use force=True"):
        await handle.remove()
    await handle.remove(force=True)

    assert not await q.exists(handle.id)


async def test_a_failed_job_can_be_retried(q: Kue, kue_store: Store) -> None:
    handle = await run(q, kue_store, Failed(OOPS))

    await handle.retry()
    # A second operator who presses the button finds it done.
    await handle.retry()

    job = await handle.refresh()
    assert (job.state, job.attempts) == (State.WAITING, 0)


async def test_of_two_who_retry_one_ending_one_does(q: Kue, kue_store: Store) -> None:
    """R-1: also when the job has failed again by the time the second one asks."""
    mine = await run(q, kue_store, Failed(OOPS))
    mine, theirs = await q.get(mine.id), await q.get(mine.id)

    assert await mine.retry() is True
    await claim_one(kue_store, now=await kue_store.now())
    await finish(kue_store, mine, Failed(OOPS))
    assert await theirs.retry() is False

    assert (await theirs.refresh()).state is State.FAILED
    assert await theirs.retry() is True


async def test_a_handle_retries_each_ending_once(q: Kue, kue_store: Store) -> None:
    """R-1: what it read before it retried is not taken for the next ending."""
    handle = await run(q, kue_store, Failed(OOPS))
    await handle.refresh()

    assert await handle.retry() is True
    again = await claim_one(kue_store, now=await kue_store.now())
    await end(kue_store, again, Failed(OOPS), now=await kue_store.now())
    assert await handle.retry() is True


async def test_a_retry_can_bring_other_data(q: Kue, kue_store: Store) -> None:
    handle = await start(q, kue_store)
    with pytest.raises(InvalidTransition, match="is active and cannot be retried"):
        await handle.retry(data="new")
    await finish(kue_store, handle, Failed(OOPS))
    late = await q.get(handle.id)

    assert await q.handle(await handle.refresh()).retry(data="new") is True
    with pytest.raises(InvalidTransition, match="be retried with other data"):
        await late.retry(data="late")

    job = await handle.refresh()
    assert (job.state, job.data) == (State.WAITING, "new")


async def test_a_job_that_ended_since_it_was_read_is_neither_delayed_nor_promoted(
    q: Kue, kue_store: Store
) -> None:
    """R-1: it would run again."""
    handle = await start(q, kue_store)
    seen = await q.get(handle.id)
    await finish(kue_store, handle, Completed())

    with pytest.raises(InvalidTransition, match="is complete and cannot be delayed"):
        await seen.delay("1h")
    with pytest.raises(InvalidTransition, match="is complete and cannot be promoted"):
        await seen.promote()

    assert (await handle.refresh()).state is State.COMPLETE
    await q.handle(await handle.refresh()).delay("1h")
    assert (await handle.refresh()).state is State.DELAYED


async def test_a_job_that_was_restarted_since_it_was_read_is_not_delayed(
    q: Kue, kue_store: Store
) -> None:
    """R-1: nor does the caller believe that it was."""
    handle = await run(q, kue_store, Failed(OOPS))
    seen = await q.get(handle.id)
    await handle.retry()

    with pytest.raises(InvalidTransition, match="is waiting and cannot be delayed"):
        await seen.delay("1h")

    assert (await handle.refresh()).state is State.WAITING
    await seen.delay("1h")
    assert (await handle.refresh()).state is State.DELAYED


async def test_a_running_job_cannot_be_retried(q: Kue, kue_store: Store) -> None:
    handle = await start(q, kue_store)

    with pytest.raises(InvalidTransition, match="is active and cannot be retried"):
        await handle.retry()


async def test_a_job_whose_key_was_taken_cannot_be_retried(
    q: Kue, kue_store: Store
) -> None:
    handle = await run(q, kue_store, Failed(OOPS), unique="one")
    holder = await q.enqueue("email", unique="one")

    with pytest.raises(UniqueHeld, match=f"job {holder.id} holds its unique key"):
        await handle.retry()


async def test_priority_and_state_are_changed(q: Kue, kue_store: Store) -> None:
    ended, waits = await run(q, kue_store, Failed(OOPS)), await q.enqueue("email")

    async def states() -> list[State]:
        return [(await one.refresh()).state for one in (ended, waits)]

    await waits.update(priority="high")
    await waits.delay("1h")
    assert await states() == [State.FAILED, State.DELAYED]
    await waits.promote()
    await ended.retry()
    assert await states() == [State.WAITING, State.WAITING]

    first = await claim_one(kue_store, now=await kue_store.now())
    assert (first.id, first.priority) == (waits.id, -10)


async def test_a_delayed_job_can_be_promoted(q: Kue) -> None:
    handle = await q.enqueue("email", delay="1h")

    await handle.promote()

    assert (await handle.refresh()).state is State.WAITING


async def test_promoting_does_not_bring_an_ended_job_back(
    q: Kue, kue_store: Store
) -> None:
    handle = await run(q, kue_store, Completed())

    with pytest.raises(InvalidTransition, match="is complete and cannot be promoted"):
        await handle.promote()


async def test_a_waiting_job_can_be_delayed(q: Kue, kue_store: Store) -> None:
    handle = await q.enqueue("email")
    before = await kue_store.now()

    await handle.delay("1h")

    job = await handle.refresh()
    assert job.state is State.DELAYED
    assert job.promote_at is not None
    assert job.promote_at >= before + 3_600_000

    moment = datetime.now(UTC) + timedelta(days=1)
    await handle.delay(moment)
    assert (await handle.refresh()).promote_at == int(moment.timestamp() * 1000)


async def test_a_job_that_is_gone_is_not_found_by_any_verb(q: Kue) -> None:
    handle = await q.enqueue("email")
    await q.handle(await handle.refresh()).remove()

    for verb in (
        handle.refresh(),
        handle.log("hello?"),
        handle.progress(1),
        handle.update(data=1),
        handle.cancel(),
        handle.remove(),
        handle.retry(),
        handle.promote(),
        handle.delay(1),
    ):
        with pytest.raises(JobNotFound):
            await verb
