"""Durable steps and signals: `Store.record_step`, `receive`, `signal`, suspensions."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kue.model.draft import draft
from kue.model.events import Kind
from kue.model.job import Cancelled, Completed, Failed, Job, Released, Retried, State
from kue.model.steps import (
    MAX_SIGNALS,
    MAX_STEPS,
    MAX_SUSPENSIONS,
    JobSteps,
    Signal,
    Step,
)
from kue.store.contract import Store
from kue.store.values import (
    Limits,
    MoveRequest,
    RemoveRequest,
    Reply,
    Result,
)
from tests.support.jobs import (
    DAY,
    HOUR,
    OOPS,
    SECOND,
    T0,
    add,
    add_one,
    claim,
    claim_one,
    count_of,
    end,
    get_one,
    job_in,
    outcomes,
    start_one,
    state_of,
)
from tests.support.upkeep import lose_worker

APPROVED = "wait:1:approved"


async def record(
    store: Store, job: Job, name: str, result: Any = None, *, now: int = T0
) -> Result:
    raw = msgspec.Raw(msgspec.json.encode(result))
    return await store.record_step(job, name, raw, duration=5, now=now)


async def suspend(
    store: Store, job: Job, field: str = APPROVED, delay: int = DAY, *, now: int = T0
) -> Result:
    return await end(store, job, Released(delay, suspended=field), now=now)


async def send(
    store: Store, job_id: int, data: Any = None, name: str = "approved", now: int = T0
) -> Result:
    return (await store.signal(job_id, Signal(name=name, data=data), now=now)).word


async def receive(store: Store, job: Job, *, number: int = 1, now: int = T0) -> Any:
    return await store.receive(job, "approved", number, now=now)


async def names_of(store: Store, job_id: int) -> list[str]:
    return [step.name for step in (await store.steps(job_id)).steps]


# -- steps -----------------------------------------------------------------------------


async def test_the_result_of_a_step_is_kept_with_the_job(store: Store) -> None:
    job = await start_one(store)

    assert await record(store, job, "charge", {"id": 7}, now=T0 + 9) is Result.DONE

    step = Step(kind="step", name="charge", at=T0 + 9, duration=5, result={"id": 7})
    assert await store.steps(job.id) == JobSteps((step,))


async def test_steps_are_in_the_order_in_which_they_ended(store: Store) -> None:
    job = await start_one(store)
    names = [f"step {number}" for number in range(12)]
    for name in names:
        await record(store, job, name)

    assert await names_of(store, job.id) == names


async def test_a_job_without_steps_has_none(store: Store) -> None:
    assert await store.steps(await add_one(store)) == JobSteps()
    assert await store.steps(123_456) == JobSteps()


async def test_the_first_result_of_a_step_stands(store: Store) -> None:
    job = await start_one(store)
    await record(store, job, "charge", 1)

    assert await record(store, job, "charge", 2) is Result.ALREADY
    assert [step.result for step in (await store.steps(job.id)).steps] == [1]


@pytest.mark.parametrize(
    "name", ["a:b", "50% {off}", 'say "hi"\\', "größe ✓", "x" * 200]
)
async def test_a_step_may_have_any_name(store: Store, name: str) -> None:
    job = await start_one(store)

    await record(store, job, name, name)

    [step] = (await store.steps(job.id)).steps
    assert (step.name, step.result) == (name, name)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
async def test_a_name_that_cannot_be_one_is_refused(store: Store, name: str) -> None:
    job = await start_one(store)

    with pytest.raises(ValueError, match="the name of a step or a signal"):
        await record(store, job, name)
    with pytest.raises(ValueError, match="the name of a step or a signal"):
        await send(store, job.id, name=name)


async def test_a_run_that_was_reclaimed_records_nothing(store: Store) -> None:
    job = await start_one(store, attempts=3)
    await lose_worker(store, since=T0)
    again = await claim_one(store, now=T0 + HOUR)

    assert await record(store, job, "charge") is Result.LOST
    assert await receive(store, job) is Result.LOST
    assert await record(store, again, "charge") is Result.DONE


async def test_a_job_that_was_removed_records_nothing(store: Store) -> None:
    job = await start_one(store)
    await store.remove(RemoveRequest([job.id], force=True), now=T0)

    assert await record(store, job, "charge") is Result.GONE
    assert await receive(store, job) is Result.GONE


async def test_steps_outlast_retries_and_lost_workers(store: Store) -> None:
    job = await start_one(store, attempts=3)
    await record(store, job, "one")
    await end(store, job, Retried(OOPS))
    job = await claim_one(store)
    await record(store, job, "two")
    await lose_worker(store, since=T0)

    assert await names_of(store, job.id) == ["one", "two"]


async def test_a_job_has_a_thousand_steps_and_no_more(store: Store) -> None:
    job = await start_one(store)
    for first in range(0, MAX_STEPS, 100):
        numbers = range(first, first + 100)
        words = await asyncio.gather(*(record(store, job, str(n)) for n in numbers))
        assert set(words) == {Result.DONE}

    assert await record(store, job, "one more") is Result.REFUSED
    assert await record(store, job, "0") is Result.ALREADY
    assert len((await store.steps(job.id)).steps) == MAX_STEPS


async def test_large_results_are_kept_whole(store: Store) -> None:
    job = await start_one(store)
    for number in range(60):
        await record(store, job, str(number), "x" * 60_000)

    kept = (await store.steps(job.id)).steps
    assert [len(step.result) for step in kept] == [60_000] * 60


# -- restarts, removal -----------------------------------------------------------------


async def restart(store: Store, job_id: int, *, now: int = T0) -> None:
    [reply] = await store.move(MoveRequest([job_id], State.WAITING), now=now)
    assert reply == Reply(Result.DONE)


@pytest.mark.parametrize("ending", [Failed(OOPS), Cancelled("enough")])
async def test_a_failed_job_that_is_retried_by_hand_keeps_its_steps(
    store: Store, ending: Any
) -> None:
    job = await start_one(store)
    await record(store, job, "charge")
    await end(store, job, ending)

    await restart(store, job.id)

    assert await names_of(store, job.id) == ["charge"]


async def test_a_complete_job_that_runs_again_begins_afresh(store: Store) -> None:
    job = await start_one(store)
    await record(store, job, "charge")
    await send(store, job.id)
    await end(store, job, Completed())

    await restart(store, job.id)

    assert await store.steps(job.id) == JobSteps()
    again = await claim_one(store)
    assert await record(store, again, "charge") is Result.DONE


async def test_a_job_that_is_replaced_begins_afresh(store: Store) -> None:
    job = await start_one(store, unique="u")
    await record(store, job, "charge")
    await suspend(store, job)
    await send(store, job.id, name="other")

    await add(store, [draft("email", {"i": 2}, unique="u", on_conflict="replace")])

    assert await store.steps(job.id) == JobSteps()


async def test_steps_are_removed_with_their_job(store: Store) -> None:
    """The doctor, which looks after each test, would find them."""
    removed, completed, pruned = [await start_one(store) for _ in range(3)]
    kept = await start_one(store, remove_on_complete=True)
    for job in (removed, completed, pruned, kept):
        await record(store, job, "charge")
        await send(store, job.id)
    await end(store, kept, Completed())
    await store.remove(RemoveRequest([removed.id], force=True), now=T0)
    await end(store, completed, Completed())
    await end(store, pruned, Completed())
    await store.clear("email", [State.COMPLETE], limit=1, now=T0)
    await store.clear(None, [State.COMPLETE], now=T0)

    for job in (removed, completed, pruned, kept):
        assert await store.steps(job.id) == JobSteps()


# -- sleeps ----------------------------------------------------------------------------


async def test_a_job_that_sleeps_holds_no_slot_and_goes_on_when_it_is_time(
    store: Store,
) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    job = await start_one(store)
    other = await add_one(store)

    assert await suspend(store, job, "sleep:1", 2 * DAY) is Result.DONE

    asleep = await get_one(store, job.id)
    assert (asleep.state, asleep.promote_at) == (State.DELAYED, T0 + 2 * DAY)
    assert (asleep.attempts, asleep.stalls) == (0, 0)
    assert (await claim_one(store)).id == other
    assert (await store.steps(job.id)).steps == (
        Step(kind="sleep", name="1", at=T0, until=T0 + 2 * DAY),
    )
    await store.limit("email", None, now=T0)
    assert await claim(store, now=T0 + 2 * DAY - 1) == []
    assert (await claim_one(store, now=T0 + 2 * DAY)).id == job.id


async def test_a_sleep_that_goes_on_ends_when_it_was_to_end(store: Store) -> None:
    job = await start_one(store)
    await suspend(store, job, "sleep:1", HOUR)
    await restart(store, job.id)
    job = await claim_one(store, now=T0 + SECOND)

    await suspend(store, job, "sleep:1", HOUR, now=T0 + SECOND)

    assert (await get_one(store, job.id)).promote_at == T0 + HOUR


async def test_a_suspension_that_is_settled_again_is_already_settled(
    store: Store,
) -> None:
    job = await start_one(store)
    await suspend(store, job, "sleep:1", HOUR)

    assert await suspend(store, job, "sleep:1", HOUR, now=T0 + 5) is Result.ALREADY

    again = await claim_one(store, now=T0 + HOUR)
    await suspend(store, again, "sleep:2", HOUR, now=T0 + HOUR)
    assert await suspend(store, job, "sleep:1", HOUR, now=T0 + HOUR) is Result.ALREADY
    assert await names_of(store, job.id) == ["1", "2"]


async def test_suspensions_do_not_push_errors_out_of_the_history(store: Store) -> None:
    job = await start_one(store, attempts=30)
    for _ in range(15):
        await end(store, job, Retried(OOPS))
        job = await claim_one(store)
    now = T0
    for number in range(1, 30):
        await suspend(store, job, f"sleep:{number}", SECOND, now=now)
        now += SECOND
        job = await claim_one(store, now=now)

    shown = await get_one(store, job.id)
    assert outcomes(shown) == ["retry"] * 15 + ["released"] * MAX_SUSPENSIONS
    assert shown.attempts == 16
    kept = [past.suspended for past in shown.history[-MAX_SUSPENSIONS:]]
    assert kept == ["sleep:27", "sleep:28", "sleep:29"]


async def test_a_full_history_keeps_its_newest_errors(store: Store) -> None:
    job = await start_one(store, attempts="unlimited")
    for _ in range(25):
        await end(store, job, Retried(OOPS))
        job = await claim_one(store)
    for number in range(1, 8):
        await suspend(store, job, f"sleep:{number}", 0)
        job = await claim_one(store)

    assert outcomes(await get_one(store, job.id)) == ["retry"] * 17 + ["released"] * 3


async def test_a_run_that_was_asked_to_cancel_does_not_sleep(store: Store) -> None:
    job = await start_one(store)
    await store.cancel([job.id], now=T0)

    await suspend(store, job)

    assert await state_of(store, job.id) is State.CANCELLED
    assert await store.steps(job.id) == JobSteps()


# -- signals ---------------------------------------------------------------------------


async def test_a_signal_wakes_the_job_that_waits_for_it(store: Store) -> None:
    job = await start_one(store)
    await suspend(store, job)
    assert await state_of(store, job.id) is State.DELAYED

    assert await send(store, job.id, {"by": "ann"}, now=T0 + 5) is Result.DONE

    assert await count_of(store) == {State.WAITING: 1}
    again = await claim_one(store, now=T0 + 6)
    got = await receive(store, again, now=T0 + 7)
    assert (got.result, got.timed_out, got.ended_at) == ({"by": "ann"}, False, T0 + 7)
    assert (got.at, got.until) == (T0, T0 + DAY)


async def test_a_signal_that_comes_first_is_kept_until_the_job_waits(
    store: Store,
) -> None:
    job_id = await add_one(store, delay="1s")
    await send(store, job_id, 7)
    assert await state_of(store, job_id) is State.DELAYED

    job = await claim_one(store, now=T0 + SECOND)

    got = await receive(store, job, now=T0 + SECOND)
    assert (got.result, got.at) == (7, T0 + SECOND)


async def test_a_signal_between_the_look_and_the_suspension_is_not_lost(
    store: Store,
) -> None:
    job = await start_one(store)
    assert await receive(store, job) is None

    await send(store, job.id, 7)
    await suspend(store, job)

    assert await state_of(store, job.id) is State.WAITING
    assert (await receive(store, await claim_one(store))).result == 7


async def test_a_wait_returns_the_same_signal_in_every_run(store: Store) -> None:
    job = await start_one(store, attempts=3)
    await send(store, job.id, 1)
    await send(store, job.id, 2)
    assert (await receive(store, job)).result == 1
    await end(store, job, Retried(OOPS))

    again = await claim_one(store)

    assert (await receive(store, again)).result == 1
    assert (await receive(store, again, number=2)).result == 2
    assert await receive(store, again, number=3) is None


async def test_a_wait_whose_time_has_passed_has_timed_out_for_good(
    store: Store,
) -> None:
    job = await start_one(store, attempts=3)
    await suspend(store, job, delay=HOUR)
    job = await claim_one(store, now=T0 + HOUR)
    assert (await receive(store, job, now=T0 + HOUR)).timed_out
    await end(store, job, Retried(OOPS), now=T0 + HOUR)

    await send(store, job.id, "late", now=T0 + HOUR)

    again = await claim_one(store, now=T0 + HOUR)
    assert (await receive(store, again, now=T0 + HOUR)).timed_out
    assert (await receive(store, again, number=2, now=T0 + HOUR)).result == "late"


async def test_a_wait_goes_on_until_its_time_whenever_the_job_runs(
    store: Store,
) -> None:
    job = await start_one(store)
    await suspend(store, job, delay=HOUR)
    await restart(store, job.id)
    job = await claim_one(store, now=T0 + SECOND)

    wait = await receive(store, job, now=T0 + SECOND)
    assert (wait.ended_at, wait.until) == (None, T0 + HOUR)
    await suspend(store, job, delay=HOUR, now=T0 + SECOND)

    assert (await get_one(store, job.id)).promote_at == T0 + HOUR


async def test_another_signal_does_not_wake_the_job(store: Store) -> None:
    job = await start_one(store)
    await suspend(store, job)

    await send(store, job.id, name="paid")

    assert await state_of(store, job.id) is State.DELAYED


async def test_a_signal_does_not_cut_a_backoff_short(store: Store) -> None:
    """The first one woke the job, which has not come to its wait again since."""
    job = await start_one(store, attempts=3)
    await suspend(store, job)
    await send(store, job.id)
    job = await claim_one(store)
    await end(store, job, Retried(OOPS, HOUR))

    await send(store, job.id)

    assert await state_of(store, job.id) is State.DELAYED


async def test_the_same_signal_again_is_kept_once(store: Store) -> None:
    job = await start_one(store)
    signal = Signal(name="approved", data=1)

    first, second = [await store.signal(job.id, signal, now=T0) for _ in range(2)]

    assert (first.word, second.word) == (Result.DONE, Result.ALREADY)
    assert len((await store.steps(job.id)).signals) == 1


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_a_job_that_has_ended_takes_no_signal(store: Store, state: State) -> None:
    job_id = await job_in(store, state)

    reply = await store.signal(job_id, Signal(name="approved"), now=T0)

    assert reply == Reply(Result.REFUSED, state)


async def test_a_job_that_is_another_one_takes_no_signal(store: Store) -> None:
    job_id = await add_one(store)
    signal = Signal(name="approved")

    assert (await store.signal(job_id + 1000, signal)).word is Result.GONE
    other = await store.signal(job_id, signal, created_at=T0 - 1, now=T0)
    assert other.word is Result.GONE
    same = await store.signal(job_id, signal, created_at=T0, now=T0)
    assert same.word is Result.DONE


async def test_a_job_keeps_a_thousand_signals_and_no_more(store: Store) -> None:
    job_id = await add_one(store)
    for _ in range(0, MAX_SIGNALS, 100):
        await asyncio.gather(*(send(store, job_id) for _ in range(100)))

    assert await send(store, job_id) is Result.REFUSED


@pytest.mark.parametrize(
    "state", [State.WAITING, State.DELAYED, State.BLOCKED, State.ACTIVE]
)
async def test_an_unfinished_job_keeps_signals_and_its_state(
    store: Store, state: State
) -> None:
    job_id = await job_in(store, state)

    assert await send(store, job_id, [1]) is Result.DONE

    assert await state_of(store, job_id) is state
    [signal] = (await store.steps(job_id)).signals
    assert (signal.name, signal.data, signal.at) == ("approved", [1], T0)
    assert not signal.received


async def test_what_a_job_waits_for_is_shown(store: Store) -> None:
    job = await start_one(store)
    await record(store, job, "charge")
    await suspend(store, job)

    pending = (await store.steps(job.id)).pending(T0)
    assert pending is not None
    assert (pending.kind, pending.name, pending.until) == ("wait", "approved", T0 + DAY)

    await send(store, job.id)
    await receive(store, await claim_one(store))
    assert (await store.steps(job.id)).pending(T0) is None


async def test_a_failed_wait_begins_again_when_the_job_is_retried_by_hand(
    store: Store,
) -> None:
    job = await start_one(store)
    await record(store, job, "charge")
    await suspend(store, job, delay=HOUR)
    later = T0 + HOUR
    job = await claim_one(store, now=later)
    await receive(store, job, now=later)
    await end(store, job, Failed(OOPS), now=later)

    await restart(store, job.id, now=later)

    job = await claim_one(store, now=later)
    assert await receive(store, job, now=later) is None
    await suspend(store, job, delay=HOUR, now=later)
    assert (await get_one(store, job.id)).promote_at == later + HOUR
    assert await names_of(store, job.id) == ["charge", "approved"]


async def test_a_wait_that_was_cancelled_begins_again_too(store: Store) -> None:
    job = await start_one(store)
    await suspend(store, job, delay=HOUR)
    await store.cancel([job.id], now=T0)

    await restart(store, job.id, now=T0 + 2 * HOUR)

    job = await claim_one(store, now=T0 + 2 * HOUR)
    assert await receive(store, job, now=T0 + 2 * HOUR) is None


async def test_a_wait_that_got_its_signal_stays_when_the_job_is_retried_by_hand(
    store: Store,
) -> None:
    job = await start_one(store)
    await send(store, job.id, 1)
    await receive(store, job)
    await end(store, job, Failed(OOPS))

    await restart(store, job.id)

    assert (await receive(store, await claim_one(store))).result == 1


async def test_signals_wake_jobs_of_a_fair_type_and_of_a_group(store: Store) -> None:
    await store.limit("email", Limits(fair=True, per_key=1), now=T0)
    job = await start_one(store, group="g")
    await suspend(store, job)
    other = await add_one(store, group="g")
    assert (await claim_one(store)).id == other

    await send(store, job.id)

    assert await claim(store) == []
    assert (await get_one(store, job.id)).held


async def test_subscribers_are_notified(store: Store) -> None:
    job = await start_one(store)
    async with store.watch([job.id]) as events:
        await record(store, job, "charge")
        assert (await anext(events)).kind is Kind.UPDATE
        await suspend(store, job)
        assert (await anext(events)).kind is Kind.RELEASE
        await send(store, job.id, name="other")
        assert (await anext(events)).kind is Kind.UPDATE
        await send(store, job.id)
        assert (await anext(events)).kind is Kind.PROMOTION


async def test_concurrent_signals_and_suspensions_lose_nothing(store: Store) -> None:
    """Each is sent while the run that waits for it is being settled."""
    job = await start_one(store)
    for number in range(1, 20):
        field = f"wait:{number}:approved"
        await asyncio.gather(
            suspend(store, job, field), send(store, job.id, {"n": number})
        )
        job = await claim_one(store)
        got = await receive(store, job, number=number)
        assert got.result == {"n": number}
