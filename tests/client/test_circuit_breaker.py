"""Circuit breakers: shared by all workers, by name, on every store."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any, Never, cast

import pytest
from msgspec.structs import replace

import kue
from kue import ActiveJob, Circuit, Job, JobHandle, Kue, State
from kue.aio import throttled_log
from kue.client import circuit_monitor
from kue.client.circuit_records import ROOM, TRIES, CircuitRecords
from kue.model.circuit import (
    CircuitPolicy,
    CircuitRecord,
    CircuitRun,
    after_failure,
    opened_by_hand,
)
from kue.store.contract import Store
from kue.store.values import KeepRequest
from tests.support.flaky import Wire
from tests.support.patience import eventually, until
from tests.worker import child_tasks
from tests.worker.child_tasks import ProviderDown
from tests.worker.working import worked

#: Longer than any test takes.
AGES = 1e9
POLICY = CircuitPolicy.of(failures=20, within="1d", open_for="1h", max_open_for=None)


def breaker(**options: Any) -> Any:
    """Return a circuit that opens after three failures, for an hour."""
    given: dict[str, Any] = {"on": ProviderDown, "failures": 3, "within": "1d"}
    given["open_for"] = "1h"
    return kue.circuit_breaker("stripe", **given | options)


async def circuit_of(q: Kue) -> Circuit:
    [circuit] = await q.circuits()
    return circuit


async def half_open(q: Kue) -> None:
    """Open the circuit for a moment, and wait until that is over."""
    await q.open_circuit("stripe", for_="1ms")

    async def is_half_open() -> bool:
        return (await circuit_of(q)).state == "half-open"

    await eventually(is_half_open)


async def released(job: JobHandle[Any]) -> Job:
    """Wait until the job was released (or has ended, after all), and return it."""

    async def look() -> Job | None:
        seen = await job.refresh()
        return seen if seen.releases or seen.state.is_final else None

    return cast("Job", await eventually(look))


async def ended(job: JobHandle[Any]) -> Job:
    async def look() -> Job | None:
        seen = await job.refresh()
        return seen if seen.state.is_final else None

    return cast("Job", await eventually(look))


# -- opening -------------------------------------------------------------------


async def test_failures_in_several_workers_open_a_circuit(q: Kue) -> None:
    started: list[int] = []

    @q.task(attempts=1, concurrency=1, middleware=[breaker()])
    async def pay(n: int) -> Never:
        started.append(n)
        # Both workers have one before the first fails.
        await until(lambda: len(started) >= 2)
        raise ProviderDown("503")

    jobs = [await pay.enqueue(n) for n in range(3)]
    async with q.work(), q.work():
        for job in jobs:
            assert (await ended(job)).state is State.FAILED
        circuit = await circuit_of(q)

    assert (circuit.state, circuit.failures) == ("open", 3)
    assert (circuit.cause, circuit.last_error) == (
        "3 failures in 1 day",
        "ProviderDown: 503",
    )
    assert circuit.until is not None
    assert circuit.opened_at is not None
    assert circuit.until - circuit.opened_at == 3_600_000


async def test_a_job_waits_for_an_open_circuit_and_spends_no_attempt(q: Kue) -> None:
    @q.task(attempts=1, middleware=[breaker(failures=1)])
    async def pay(n: int) -> Never:
        raise ProviderDown("503 ü")

    failed = await pay.enqueue(1)
    async with q.work():
        assert (await ended(failed)).attempts == 1
        seen = await released(await pay.enqueue(2))
        circuit = await circuit_of(q)

    assert (seen.state, seen.attempts, seen.releases) == (State.DELAYED, 0, 1)
    entry = seen.history[-1]
    assert entry.reason == f"circuit stripe {circuit.summary}"
    assert entry.reason.startswith("circuit stripe is open until 20")
    assert entry.reason.endswith(": 1 failure in 1 day, last ProviderDown: 503 ü")
    assert circuit.until is not None
    assert seen.promote_at is not None
    # The release is settled a moment after it was decided.
    assert seen.promote_at - circuit.until in range(-1_000, 600_000)


async def test_jobs_that_wait_do_not_return_in_one_instant(q: Kue) -> None:
    @q.task(middleware=[breaker()])
    async def pay(n: int) -> None: ...

    jobs = [await pay.enqueue(n) for n in range(10)]
    opened = await q.open_circuit("stripe", for_="1h")
    async with q.work(concurrency=1):
        seen = [await released(job) for job in jobs]

    returns = [job.promote_at or 0 for job in seen]
    assert opened.until is not None
    assert min(returns) > opened.until - 1_000
    assert len(set(returns)) > 1


async def test_what_a_failure_costs_the_job_is_as_without_a_circuit(q: Kue) -> None:
    @q.task(attempts=3, backoff="1h", middleware=[breaker()])
    async def pay() -> Never:
        raise ProviderDown("503")

    job = await pay.enqueue()
    async with q.work():
        await eventually(lambda: _has_history(job))
        circuit = await circuit_of(q)

    seen = await job.refresh()
    assert (seen.state, seen.attempts) == (State.DELAYED, 1)
    assert seen.history[-1].outcome == "retry"
    assert (circuit.state, circuit.failures) == ("closed", 1)


async def _has_history(job: JobHandle[Any]) -> bool:
    return bool((await job.refresh()).history)


@pytest.mark.parametrize(
    ("option", "outcome"), [("not_counted", "released"), ("fail_on", "failed")]
)
async def test_errors_that_other_middleware_turned_into_endings_count(
    q: Kue, option: str, outcome: str
) -> None:
    options: dict[str, Any] = {option: ProviderDown}

    @q.task(attempts=3, backoff="1h", middleware=[breaker()], **options)
    async def pay() -> Never:
        raise ProviderDown("503")

    job = await pay.enqueue()
    async with q.work():
        await eventually(lambda: _has_history(job))
        circuit = await circuit_of(q)

    assert (await job.refresh()).history[-1].outcome == outcome
    assert (circuit.failures, circuit.last_error) == (1, "ProviderDown: 503")


@pytest.mark.parametrize("execution", ["thread", "process"])
async def test_errors_of_handlers_elsewhere_count_and_those_derived_from_them(
    q: Kue, execution: Any
) -> None:
    register: Any = q.task(
        execution=execution, attempts=1, middleware=[breaker(failures=1)]
    )
    task = register(child_tasks.call_provider)

    job = await task.enqueue("down")
    with pytest.raises(kue.JobFailed, match="Timeout503: 503"):
        await worked(q, job)

    circuit = await circuit_of(q)
    assert (circuit.state, circuit.last_error) == ("open", "Timeout503: 503")


async def test_other_errors_and_steering_pass_unchanged(q: Kue) -> None:
    @q.task(attempts=1, middleware=[breaker(failures=1)])
    async def pay(kind: str) -> Never:
        raise {"bug": KeyError("order"), "skip": kue.Skip("paid before")}[kind]

    async with q.work():
        bug = await ended(await pay.enqueue("bug"))
        skipped = await ended(await pay.enqueue("skip"))

    assert bug.error is not None
    assert bug.error.summary == "KeyError: 'order'"
    assert skipped.history[-1].reason == "paid before"
    assert await q.circuits() == []


@pytest.mark.parametrize(("kind", "count"), [(TimeoutError, 1), (ProviderDown, 0)])
async def test_a_run_beyond_its_timeout_counts_as_a_timeout_error(
    q: Kue, kind: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second run need not read the circuit, which may take long.
    monkeypatch.setattr(circuit_monitor, "FRESH_SECONDS", AGES)

    @q.task(attempts=1, middleware=[breaker(on=kind)])
    async def pay(forever: bool) -> None:
        if forever:
            await asyncio.Event().wait()

    async with q.work():
        await ended(await pay.enqueue(False))
        job = await ended(await pay.options(timeout="100ms").enqueue(True))

    assert job.error is not None
    assert job.error.kind == "RunTimeout"
    circuits = await q.circuits()
    assert [one.failures for one in circuits] == [1] * count
    assert [one.last_error for one in circuits] == [job.error.summary] * count


async def test_tasks_share_a_circuit_by_its_name(q: Kue) -> None:
    @q.task(attempts=1, middleware=[breaker(failures=1)])
    async def pay() -> Never:
        raise ProviderDown("503")

    @q.task(middleware=[kue.circuit_breaker("stripe", on=OSError)])
    async def refund() -> None: ...

    @q.task(middleware=[kue.circuit_breaker("paypal", on=OSError)])
    async def other() -> str:
        return "ran"

    async with q.work():
        await ended(await pay.enqueue())
        waits = await released(await refund.enqueue())
        ran = await ended(await other.enqueue())

    assert "last ProviderDown: 503" in waits.history[-1].reason
    assert ran.result == "ran"


# -- half-open -----------------------------------------------------------------


async def test_one_of_many_jobs_in_many_workers_is_the_probe(q: Kue) -> None:
    started: list[int] = []
    may_end = asyncio.Event()

    @q.task(concurrency=10, middleware=[breaker()])
    async def pay(job: ActiveJob) -> None:
        started.append(job.id)
        await may_end.wait()

    jobs = [await pay.enqueue() for _ in range(20)]
    await half_open(q)
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(q.work())
        await until(lambda: bool(started))
        [probe] = started
        waiting = [await released(job) for job in jobs if job.id != probe]
        circuit = await circuit_of(q)
        assert started == [probe]
        assert (circuit.state, circuit.probe) == ("half-open", probe)
        may_end.set()
        for job in jobs:
            assert (await ended(job)).state is State.COMPLETE
        assert (await circuit_of(q)).state == "closed"

    assert {job.attempts for job in waiting} == {0}
    reason = f"circuit stripe is half-open: job {probe} is its probe; opened by hand"
    assert {job.history[0].reason for job in waiting} == {reason}


async def test_the_failure_of_the_probe_opens_it_again_for_longer(q: Kue) -> None:
    @q.task(attempts=1, middleware=[breaker()])
    async def pay() -> Never:
        raise ProviderDown("still 503")

    await half_open(q)
    async with q.work():
        await ended(await pay.enqueue())
        circuit = await circuit_of(q)

    assert (circuit.state, circuit.cause) == ("open", "its probe failed")
    assert circuit.last_error == "ProviderDown: still 503"
    assert circuit.until is not None
    assert circuit.opened_at is not None
    assert circuit.until - circuit.opened_at == 2 * 3_600_000


async def test_a_probe_that_fails_otherwise_was_answered_and_closes_it(q: Kue) -> None:
    @q.task(attempts=1, middleware=[breaker()])
    async def pay() -> Never:
        raise ValueError("card declined")

    await half_open(q)
    async with q.work():
        await ended(await pay.enqueue())

    assert (await circuit_of(q)).state == "closed"


async def test_a_circuit_around_the_queue_and_the_task_lets_its_probe_through(
    q: Kue,
) -> None:
    q.middleware(breaker())

    @q.task(middleware=[breaker()])
    async def pay() -> str:
        return "paid"

    await half_open(q)
    async with q.work():
        seen = await ended(await pay.enqueue())

    assert (seen.result, seen.releases) == ("paid", 0)
    assert (await circuit_of(q)).state == "closed"


async def test_a_probe_that_is_skipped_leaves_its_place_to_the_next(q: Kue) -> None:
    @q.task(middleware=[breaker()])
    async def pay(skip: bool) -> None:
        if skip:
            raise kue.Skip("paid before")

    await half_open(q)
    async with q.work():
        await ended(await pay.enqueue(True))
        circuit = await circuit_of(q)
        assert (circuit.state, circuit.probe) == ("half-open", None)
        assert (await ended(await pay.enqueue(False))).state is State.COMPLETE

    assert (await circuit_of(q)).state == "closed"


async def test_a_probe_that_is_cancelled_leaves_its_place_to_the_next(q: Kue) -> None:
    started = asyncio.Event()

    @q.task(middleware=[breaker()])
    async def pay(wait: bool) -> None:
        started.set()
        if wait:
            await asyncio.Event().wait()

    await half_open(q)
    async with q.work():
        job = await pay.enqueue(True)
        await started.wait()
        assert (await circuit_of(q)).probe == job.id
        await job.cancel()
        assert (await ended(job)).state is State.CANCELLED
        circuit = await circuit_of(q)
        assert (circuit.state, circuit.probe) == ("half-open", None)
        assert (await ended(await pay.enqueue(False))).state is State.COMPLETE


async def test_a_probe_that_no_longer_runs_is_replaced(q: Kue) -> None:
    """Its worker died before it could report."""

    @q.task(middleware=[breaker()])
    async def pay() -> None: ...

    await half_open(q)
    gone = await q.enqueue("gone")
    await CircuitRecords(q.store).change(
        "stripe",
        lambda record: _with_probe(record, CircuitRun(gone.id, 17)),
        await q.now(),
    )
    async with q.work():
        assert (await ended(await pay.enqueue())).state is State.COMPLETE

    assert (await circuit_of(q)).state == "closed"


def _with_probe(record: CircuitRecord, probe: CircuitRun) -> CircuitRecord:
    return replace(record, probe=probe)


# -- by hand -------------------------------------------------------------------


async def test_an_operator_opens_a_circuit_and_workers_learn_of_it(q: Kue) -> None:
    @q.task(middleware=[breaker()])
    async def pay() -> None: ...

    async def is_held() -> bool:
        job = await pay.enqueue()
        await eventually(lambda: _has_history(job))
        return bool((await job.refresh()).releases)

    async with q.work():
        assert not await is_held()
        opened = await q.open_circuit("stripe", for_="2h", reason="moves", by="ann")
        # Within about a second.
        await eventually(is_held)
        assert await q.close_circuit("stripe", by="bob")
        await eventually(lambda: _not(is_held()))

    assert (opened.state, opened.cause) == ("open", "opened by ann: moves")
    circuit = await circuit_of(q)
    assert (circuit.state, circuit.by, circuit.failures) == ("closed", "bob", 0)
    assert circuit.closed_at is not None
    assert not await q.close_circuit("stripe")


async def _not(answer: Any) -> bool:
    return not await answer


async def test_closing_a_circuit_that_nobody_knows_leaves_no_record(q: Kue) -> None:
    assert not await q.close_circuit("strype")
    assert await q.circuits() == []


def test_ordinary_code_sees_and_changes_circuits(plain_q: Kue) -> None:
    opened = plain_q.sync.open_circuit("stripe", for_="1h")

    assert plain_q.sync.circuits() == [opened]
    assert plain_q.sync.close_circuit("stripe")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("", {}, "circuit name must have 1 to 200 bytes"),
        ("..", {}, "circuit name must not be"),
        ("stripe", {"for_": 0}, "for_ must be longer than 0 and at most a year"),
        ("stripe", {"for_": "soon"}, "for_ 'soon' cannot be read"),
    ],
)
async def test_what_cannot_be_opened_is_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    async with Kue("memory://") as q:
        with pytest.raises(ValueError, match=message):
            await q.open_circuit(name, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "ProviderDown"}, "circuit_breaker takes classes of exceptions"),
        ({"on": ()}, "circuit_breaker takes classes of exceptions"),
        ({"on": kue.Skip}, "circuit_breaker is for errors, and Skip is how"),
        ({"on": OSError, "failures": 0}, "failures must be from 1 to 1,000"),
        ({"on": OSError, "within": "soon"}, "within 'soon' cannot be read"),
    ],
)
def test_a_circuit_that_makes_no_sense_is_refused_where_it_is_written(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        kue.circuit_breaker("stripe", **options)


# -- with the store ------------------------------------------------------------


async def test_runs_under_a_closed_circuit_make_no_calls_to_the_store(
    q: Kue, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the second is over before the jobs are.
    monkeypatch.setattr(circuit_monitor, "FRESH_SECONDS", AGES)

    @q.task(middleware=[breaker()])
    async def pay() -> None: ...

    jobs = [await pay.enqueue() for _ in range(50)]
    async with q.work():
        for job in jobs:
            await ended(job)

    # A worker reads other records, too.
    read = [args for verb, args, _ in wire.calls if verb == "kept"]
    assert [args for args in read if args[0] == ROOM] == [(ROOM, "stripe")]
    assert wire.times("keep") == 0


async def test_a_circuit_that_cannot_be_read_keeps_no_job_from_running(
    q: Kue,
    wire: Wire,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(throttled_log, "REPEAT_SECONDS", AGES)

    @q.task(attempts=1, middleware=[breaker()])
    async def pay(fails: bool) -> str:
        if fails:
            raise ProviderDown("503")
        return "ran"

    await q.open_circuit("stripe", for_="1h")
    wire.break_off("kept")
    with caplog.at_level(logging.WARNING, logger=circuit_monitor.__name__):
        async with q.work():
            ran = await ended(await pay.enqueue(False))
            failed = await ended(await pay.enqueue(True))
    wire.mend()

    assert (ran.result, failed.state) == ("ran", State.FAILED)
    assert failed.error is not None
    assert failed.error.summary == "ProviderDown: 503"
    messages = [one.message for one in caplog.records if "stripe" in one.message]
    assert messages == ["circuit stripe is taken for closed: the wire is cut"]


async def test_a_worker_logs_that_a_circuit_opened_and_closed(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    @q.task(attempts=1, middleware=[breaker(failures=1, open_for="1ms")])
    async def pay(fails: bool) -> None:
        if fails:
            raise ProviderDown("503")

    with caplog.at_level(logging.WARNING, logger=circuit_monitor.__name__):
        async with q.work():
            await ended(await pay.enqueue(True))
            await ended(await pay.enqueue(False))

    first, last = (one.message for one in caplog.records if "stripe" in one.message)
    assert first.startswith("circuit stripe is open until 20")
    assert last == "circuit stripe is closed again"


async def test_concurrent_changes_are_all_kept(q: Kue) -> None:
    def fail(number: int) -> Any:
        run = CircuitRun(number, number)
        return lambda record: after_failure(record, POLICY, "down", run, 1_000)

    now = await q.now()
    # One of those that write at once succeeds: the last needs as many tries.
    await asyncio.gather(
        *(
            CircuitRecords(q.store).change("stripe", fail(number), now)
            for number in range(TRIES)
        )
    )

    record = (await CircuitRecords(q.store).all())["stripe"]
    assert len(record.failures) == TRIES


async def test_a_change_that_others_beat_each_time_is_given_up(q: Kue) -> None:
    now = await q.now()
    rival = CircuitRecords(q.store)

    class Contended:
        """A store in which somebody else is always faster."""

        async def kept(self, room: str, name: str) -> str | None:
            return await q.store.kept(room, name)

        async def keep(self, request: KeepRequest) -> bool:
            await rival.change("stripe", _opened(now), now)
            return await q.store.keep(request)

    records = CircuitRecords(cast("Store", Contended()))
    with pytest.raises(kue.StoreUnavailable, match="too many workers are changing"):
        await records.change("stripe", _opened(now), now)


def _opened(now: int) -> Any:
    return lambda record: opened_by_hand(record, 1_000 + record.length, "", "", now)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"until":"noon"}'])
async def test_a_damaged_record_is_a_closed_circuit(q: Kue, text: str) -> None:
    await q.store.keep(KeepRequest(ROOM, "stripe", text))

    [circuit] = await q.circuits()
    assert (circuit.state, circuit.failures) == ("closed", 0)
    assert (await q.open_circuit("stripe")).state == "open"


async def test_a_circuit_is_forgotten_after_a_day(q: Kue, wire: Wire) -> None:
    opened = await q.open_circuit("stripe", for_="1h")

    assert opened.until is not None
    assert wire.last_request("keep").until == opened.until + 24 * 3_600_000


async def test_outside_of_a_worker_there_is_no_circuit() -> None:
    job = ActiveJob(cast("Job", None), cast("Any", None))

    async def handler(given: ActiveJob) -> str:
        return "ran"

    assert await breaker()(job, handler) == "ran"
