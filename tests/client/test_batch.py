"""Batches: many jobs with one progress, and callbacks when all have ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import kue
from kue import JobCancelled, JobFailed, Kue, State
from kue.client import batch as batch_module
from kue.client import flow_enqueue
from kue.store.values import MoveRequest
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS, eventually

#: A time that no test sees, Unix ms.
FAR = 4_000_000_000_000


class Import:
    """Tasks of an import, and what they were called with."""

    def __init__(self, q: Kue) -> None:
        self.calls: list[Any] = []
        self.broken: set[int] = set()
        self.go = asyncio.Event()

        @q.task(attempts=1)
        async def load(row: int) -> int:
            if row in self.broken:
                raise ValueError(f"row {row} is broken")
            self.calls.append(row)
            return row

        @q.task(attempts=1)
        async def slow(row: int) -> None:
            await self.go.wait()

        @q.task(attempts=1)
        async def note(what: str, number: int | None = None) -> None:
            self.calls.append((what, number))

        @q.task(attempts=1)
        async def told(number: int, what: str) -> None:
            self.calls.append((what, number))

        self.load, self.slow, self.note, self.told = load, slow, note, told


@pytest.fixture
async def data(q: Kue) -> Import:
    return Import(q)


async def ended(q: Kue, batch: kue.BatchHandle) -> Any:
    """Work until the batch and everything after it has ended."""
    async with q.work():
        try:
            return await batch.result(timeout=PATIENCE_SECONDS)
        finally:
            await everything_ended(q)


async def everything_ended(q: Kue) -> None:
    async def is_so() -> bool:
        counts = await q.counts()
        return not counts[State.ACTIVE] + counts[State.WAITING]

    await eventually(is_so)


async def has_complete(q: Kue, number: int) -> bool:
    return await q.count(State.COMPLETE) == number


async def test_callbacks_run_once_all_jobs_have_succeeded(q: Kue, data: Import) -> None:
    batch = (
        kue.batch("import")
        .then(data.told.s("then"))
        .catch(data.told.s("catch"))
        .finally_(data.told.s("finally"))
    )

    handle = await batch.enqueue(data.load.s(row) for row in range(3))

    assert await ended(q, handle) == {
        "total": 3,
        "complete": 3,
        "failed": 0,
        "cancelled": 0,
    }
    assert sorted(data.calls[:3]) == [0, 1, 2]
    assert sorted(data.calls[3:]) == [("finally", handle.id), ("then", handle.id)]


async def test_progress_counts_the_jobs_that_have_ended(q: Kue, data: Import) -> None:
    batch = kue.batch("import", allow_failures=True)
    handle = await batch.enqueue([data.load.s(1), data.load.s(2), data.slow.s(3)])
    before = await handle.progress()

    async with q.work(types=["load"]):
        await eventually(lambda: has_complete(q, 2))
    after = await handle.progress()

    assert (before.name, before.total, before.percent) == ("import", 3, 0)
    assert (after.state, after.complete, after.percent) == (State.BLOCKED, 2, 66)


async def test_the_first_failure_cancels_what_has_not_started(
    q: Kue, data: Import
) -> None:
    data.broken = {1}
    batch = kue.batch().then(data.told.s("then")).catch(data.told.s("catch"))
    batch.finally_(data.told.s("finally"))
    late = data.load.options(delay="1h")
    handle = await batch.enqueue([data.load.s(1), late.s(2), late.s(3)])

    with pytest.raises(JobFailed, match="1 of 3 jobs failed, 2 were cancelled"):
        await ended(q, handle)

    [failed] = (await q.page(State.FAILED, "load")).jobs
    assert sorted(data.calls) == [("catch", failed.id), ("finally", handle.id)]


async def test_a_batch_that_allows_failures_succeeds_with_some(
    q: Kue, data: Import
) -> None:
    data.broken = {1}
    batch = kue.batch(allow_failures=True).then(data.told.s("then"))
    batch.catch(data.note.si("catch"))
    handle = await batch.enqueue(data.load.s(row) for row in range(3))

    result = await ended(q, handle)

    assert (result["complete"], result["failed"]) == (2, 1)
    assert set(data.calls) == {0, 2, ("catch", None), ("then", handle.id)}


async def test_an_empty_batch_succeeds_at_once(q: Kue, data: Import) -> None:
    handle = await kue.batch().then(data.told.s("then")).enqueue([])

    assert (await ended(q, handle))["total"] == 0
    assert data.calls == [("then", handle.id)]


async def test_a_member_adds_further_ones(q: Kue, data: Import) -> None:
    @q.task
    async def split(job: kue.ActiveJob, rows: int) -> None:
        assert job.batch is not None
        await job.batch.add(data.load.s(row) for row in range(rows))

    handle = await kue.batch().then(data.told.s("then")).enqueue([split.s(4)])

    assert (await ended(q, handle))["total"] == 5
    assert data.calls[-1] == ("then", handle.id)


async def test_a_member_that_waits_for_what_follows_the_batch_is_refused(
    q: Kue, data: Import
) -> None:
    handle = await kue.batch().enqueue([data.slow.s(1)])
    next_one = await data.note.options(after=[handle.id]).enqueue("next")
    last = await data.note.options(after=[next_one]).enqueue("last")

    with pytest.raises(ValueError, match=f"job {handle.id} would wait for itself"):
        await handle.add([data.load.options(after=[last]).s(2)])

    assert (await handle.progress()).total == 1


async def test_an_ended_batch_takes_no_further_jobs(q: Kue, data: Import) -> None:
    handle = await kue.batch().enqueue([data.load.s(1)])
    await ended(q, handle)

    with pytest.raises(kue.InvalidTransition, match="is complete"):
        await handle.add([data.load.s(2)])


async def test_jobs_are_added_after_the_first_failure_where_failures_are_allowed(
    q: Kue, data: Import
) -> None:
    data.broken = {1}
    batch = kue.batch(allow_failures=True).catch(data.note.si("catch"))
    handle = await batch.enqueue([data.load.s(1), data.slow.s(2)])
    async with q.work(types=["load", "note"]):
        # The first failure, and then the callback.
        await eventually(lambda: has_complete(q, 2))

    await handle.add([data.load.s(3)])
    data.go.set()

    assert (await ended(q, handle))["total"] == 3


async def test_chains_in_a_batch_end_where_they_fail(q: Kue, data: Import) -> None:
    data.broken = {1}
    handle = await kue.batch(allow_failures=True).enqueue(
        [data.load.s(1) | data.load.s(), data.load.s(2) | data.load.s()]
    )

    assert await ended(q, handle) == {
        "total": 4,
        "complete": 2,
        "failed": 1,
        "cancelled": 1,
    }


async def test_a_catch_in_a_batch_that_had_nothing_to_catch_is_no_failure(
    q: Kue, data: Import
) -> None:
    chains = [
        (data.load.s(row) | data.load.s()).catch(data.note.si("caught"))
        for row in range(2)
    ]
    handle = await kue.batch().then(data.told.s("then")).enqueue(chains)

    assert await ended(q, handle) == {
        "total": 6,
        "complete": 4,
        "failed": 0,
        "cancelled": 2,
    }
    assert data.calls[-1] == ("then", handle.id)


async def test_a_batch_with_a_catch_fails_when_another_job_was_cancelled(
    q: Kue, data: Import
) -> None:
    chain = data.load.s(1).catch(data.note.si("caught"))
    handle = await kue.batch().enqueue([chain, data.load.options(delay="1h").s(2)])
    [_, _, late] = (await q.store.members(handle.id)).jobs
    await q.handle(late).cancel()

    with pytest.raises(JobFailed, match="0 of 3 jobs failed, 2 were cancelled"):
        await ended(q, handle)


async def test_chains_in_a_batch_are_retried_as_a_whole(q: Kue, data: Import) -> None:
    data.broken = {1}
    handle = await kue.batch().enqueue([data.load.s(1) | data.load.s() | data.load.s()])
    with pytest.raises(JobFailed):
        await ended(q, handle)
    data.broken = set()

    assert await handle.retry_failed() == 3

    assert (await ended(q, handle))["complete"] == 3


async def test_cancelling_ends_what_has_not_started(q: Kue, data: Import) -> None:
    batch = kue.batch().then(data.told.s("then")).finally_(data.told.s("finally"))
    handle = await batch.enqueue(data.load.s(row) for row in range(3))

    await handle.cancel("no longer needed")

    assert (await handle.progress()).is_cancelled
    assert await handle.add([data.load.s(9)]) == []
    with pytest.raises(JobCancelled, match="3 were cancelled"):
        await ended(q, handle)
    assert data.calls == [("finally", handle.id)]


@pytest.mark.parametrize("is_large", [False, True])
async def test_a_cancelled_batch_that_is_retried_runs_then(
    q: Kue, data: Import, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if is_large:
        monkeypatch.setattr(batch_module, "MAX_BATCH", 4)
        monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 4)
    batch = kue.batch().then(data.told.s("then")).catch(data.told.s("catch"))
    batch.finally_(data.told.s("finally"))
    handle = await batch.enqueue(data.load.s(row) for row in range(9))
    for _ in range(2):
        await handle.cancel()
        with pytest.raises(JobCancelled):
            await ended(q, handle)
        assert await handle.retry_failed() == 9

    assert (await ended(q, handle))["complete"] == 9
    assert await handle.retry_failed() == 0
    await everything_ended(q)

    callbacks = [call for call in data.calls if isinstance(call, tuple)]
    assert callbacks == [("finally", handle.id), ("then", handle.id)]


@pytest.mark.parametrize("had_ended", [False, True])
async def test_a_cancelled_batch_that_is_retried_catches_its_first_failure(
    q: Kue, data: Import, had_ended: bool
) -> None:
    data.broken = {1}
    batch = kue.batch().then(data.told.s("then")).catch(data.told.s("catch"))
    late = data.load.options(delay="1h")
    handle = await batch.enqueue([data.load.s(1), late.s(2)])
    await handle.cancel()
    if had_ended:
        with pytest.raises(JobCancelled):
            await ended(q, handle)

    assert await handle.retry_failed() == 2
    [failing, other] = (await q.store.members(handle.id)).jobs
    await q.store.move(MoveRequest([other.id], State.DELAYED, at=FAR))
    for _ in range(2):
        with pytest.raises(JobFailed, match="1 of 2 jobs failed, 1 were cancelled"):
            await ended(q, handle)
        assert data.calls == [("catch", failing.id)]
        await handle.retry_failed()
        await q.store.move(MoveRequest([other.id], State.DELAYED, at=FAR))

    await q.handle(other).promote()
    data.broken = set()
    async with q.work():
        await eventually(lambda: has_run(data, ("then", handle.id)))

    assert data.calls.count(("catch", failing.id)) == 1


async def has_run(data: Import, call: Any) -> bool:
    return call in data.calls


async def test_a_callback_that_was_cancelled_by_hand_stays_so(
    q: Kue, data: Import
) -> None:
    batch = kue.batch().then(data.told.s("then")).then(data.told.s("next"))
    handle = await batch.enqueue([data.load.s(1)])
    [first, _] = (await q.page(State.BLOCKED, "told")).jobs
    await q.handle(first).cancel()
    await handle.cancel()
    with pytest.raises(JobCancelled):
        await ended(q, handle)

    await handle.retry_failed()
    await ended(q, handle)

    what = first.data["what"] if isinstance(first.data, dict) else None
    [other] = {"then", "next"} - {what}
    assert data.calls == [1, (other, handle.id)]


async def test_failed_jobs_are_retried_and_the_batch_ends_again(
    q: Kue, data: Import
) -> None:
    data.broken = {1}
    handle = await kue.batch().then(data.told.s("then")).enqueue([data.load.s(1)])
    with pytest.raises(JobFailed):
        await ended(q, handle)
    data.broken = set()

    assert await handle.retry_failed() == 1

    assert (await ended(q, handle))["complete"] == 1
    assert data.calls == [1, ("then", handle.id)]


async def test_a_failure_after_a_retry_cancels_what_has_not_started(
    q: Kue, data: Import
) -> None:
    data.broken = {1}
    calls = [data.load.s(1), data.load.options(delay="1h").s(2)]
    handle = await kue.batch().catch(data.note.si("caught")).enqueue(calls)
    with pytest.raises(JobFailed):
        await ended(q, handle)

    assert await handle.retry_failed() == 2
    [_, second] = (await q.store.members(handle.id)).jobs
    await q.store.move(MoveRequest([second.id], State.DELAYED, at=FAR))

    with pytest.raises(JobFailed, match="1 of 2 jobs failed, 1 were cancelled"):
        await ended(q, handle)
    assert data.calls == [("caught", None)]


@pytest.mark.parametrize("allow_failures", [False, True])
@pytest.mark.parametrize("had_ended", [False, True])
async def test_a_member_that_is_retried_adds_further_ones(
    q: Kue, data: Import, allow_failures: bool, had_ended: bool
) -> None:
    @q.task(attempts=1)
    async def split(job: kue.ActiveJob) -> list[int]:
        if not data.go.is_set():
            raise ConnectionError("the file is not there yet")
        assert job.batch is not None
        ids = await job.batch.add(data.load.s(row) for row in range(3))
        added.set()
        return ids

    @q.task(attempts=1)
    async def wait() -> None:
        if not had_ended:
            await added.wait()

    added = asyncio.Event()
    batch = kue.batch(allow_failures=allow_failures).catch(data.note.si("caught"))
    handle = await batch.enqueue([split.s(), wait.s()])
    async with q.work():
        if had_ended:
            with suppress(JobFailed):
                await handle.result(timeout=PATIENCE_SECONDS)
        await eventually(lambda: has_failed(q))
        data.go.set()
        assert await handle.retry_failed() == 1
        await eventually(lambda: has_ended(handle, State.COMPLETE))

    assert (await handle.progress()).complete == 5
    assert sorted(row for row in data.calls if isinstance(row, int)) == [0, 1, 2]


@pytest.mark.parametrize("allow_failures", [False, True])
async def test_a_batch_is_open_again_before_a_job_of_it_is_retried(
    q: Kue, wire: Wire, data: Import, allow_failures: bool
) -> None:
    data.broken = {1}
    batch = kue.batch(allow_failures=allow_failures)
    handle = await batch.enqueue([data.load.s(1)])
    async with q.work():
        with suppress(JobFailed):
            await handle.result(timeout=PATIENCE_SECONDS)
    moves = len(wire.calls)

    await handle.retry_failed()

    moved = [args[0] for verb, args, _ in wire.calls[moves:] if verb == "move"]
    [member] = (await q.store.members(handle.id)).jobs
    assert [one.job_ids for one in moved] == [[handle.id], [member.id], [handle.id]]
    assert [one.to for one in moved] == [State.DELAYED, *2 * [State.WAITING]]


async def has_ended(handle: kue.BatchHandle, state: State) -> bool:
    progress = await handle.progress()
    return progress.state is state and progress.done == progress.total


async def test_a_batch_that_is_cancelled_while_it_is_added_takes_no_more(
    q: Kue, data: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "MAX_BATCH", 4)
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 4)
    real, parts = flow_enqueue.LinkedAdd.add, 0

    async def add(self: Any, drafts: Any) -> None:
        nonlocal parts
        parts += 1
        if parts == 3:
            [found] = (await q.batches()).batches
            await q.batch(found.id).cancel("wrong file")
        await real(self, drafts)

    monkeypatch.setattr(flow_enqueue.LinkedAdd, "add", add)
    handle = await kue.batch().enqueue(data.load.s(row) for row in range(40))

    with pytest.raises(JobCancelled):
        await ended(q, handle)
    assert (await handle.progress()).total < 12
    assert data.calls == []


async def test_the_gate_of_a_batch_stays_closed_for_as_long_as_it_is_added(
    q: Kue, data: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that waits for room, or reads slowly, is not taken for a dead one."""
    monkeypatch.setattr(batch_module, "MAX_BATCH", 4)
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 4)
    monkeypatch.setattr(flow_enqueue, "RENEW_SECONDS", 0.01)
    real, parts = flow_enqueue.LinkedAdd.add, 0

    async def due() -> int:
        [gate] = (await q.page(type="kue.gate")).jobs
        assert gate.promote_at is not None
        return gate.promote_at

    async def is_put_off(first: int) -> bool:
        return await due() > first

    async def add(self: Any, drafts: Any) -> None:
        nonlocal parts
        await real(self, drafts)
        parts += 1
        if parts == 3:
            first = await due()
            await eventually(lambda: is_put_off(first))

    monkeypatch.setattr(flow_enqueue.LinkedAdd, "add", add)
    handle = await kue.batch().enqueue(data.load.s(row) for row in range(20))

    assert (await ended(q, handle))["complete"] == 20


async def test_a_large_batch_is_added_in_parts(
    q: Kue, data: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "MAX_BATCH", 4)
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 4)
    batch = kue.batch().then(data.told.s("then"))

    handle = await batch.enqueue(data.load.s(row) for row in range(20))

    assert (await ended(q, handle))["complete"] == 20
    assert data.calls[-1] == ("then", handle.id)


@pytest.mark.parametrize("allow_failures", [False, True])
async def test_a_job_may_fail_while_others_are_added(
    q: Kue, data: Import, monkeypatch: pytest.MonkeyPatch, allow_failures: bool
) -> None:
    """The rest is added where failures are allowed, and not where they are not."""
    monkeypatch.setattr(batch_module, "MAX_BATCH", 4)
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 4)
    data.broken = {0}
    real, parts = flow_enqueue.LinkedAdd.add, 0

    async def add(self: Any, drafts: Any) -> None:
        nonlocal parts
        await real(self, drafts)
        parts += 1
        if parts == 3:
            await eventually(lambda: has_failed(q))

    monkeypatch.setattr(flow_enqueue.LinkedAdd, "add", add)
    batch = kue.batch(allow_failures=allow_failures).catch(data.note.si("catch"))
    async with q.work():
        handle = await batch.enqueue(data.load.s(row) for row in range(20))
        with suppress(JobFailed):
            await handle.result(timeout=PATIENCE_SECONDS)

    progress = await handle.progress()
    assert progress.failed == 1
    assert (progress.total == 20) is allow_failures
    assert progress.state is (State.COMPLETE if allow_failures else State.FAILED)


async def has_failed(q: Kue) -> bool:
    jobs = (await q.page(State.COMPLETE, "kue.first-failure")).jobs
    return bool(jobs)


async def test_a_batch_that_was_not_added_as_a_whole_fails(
    q: Kue, data: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(batch_module, "MAX_BATCH", 4)
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 4)
    monkeypatch.setattr(batch_module, "open_gate", die)
    with pytest.raises(RuntimeError, match="killed"):
        await kue.batch().enqueue(data.load.s(row) for row in range(20))
    [gate] = (await q.page(type="kue.gate")).jobs
    [stored] = (await q.batches()).batches

    # As if the hour had passed.
    await q.handle(gate).promote()

    with pytest.raises(JobFailed, match="stopped before it was complete"):
        await ended(q, q.batch(stored.id))


async def test_a_batch_of_drafts_has_the_queue_of_any_other_job(
    q: Kue, data: Import
) -> None:
    drafts = [data.load.draft(1), data.load.draft(2)]

    with pytest.raises(ValueError, match="a batch of drafts alone does not know its"):
        await kue.batch().enqueue(drafts)
    handle = await kue.batch().enqueue([*drafts, data.load.s(3)])

    assert (await ended(q, handle))["complete"] == 3


async def test_a_job_or_callback_of_another_queue_is_refused(
    q: Kue, data: Import
) -> None:
    """It would be added to the store of this one, where no worker knows its task."""
    other = Import(Kue("memory://"))
    with pytest.raises(ValueError, match="one queue, <Signature of 'load'> is of"):
        await kue.batch().then(other.told.s("then")).enqueue([data.load.s(1)])
    with pytest.raises(ValueError, match="one queue, <Signature of 'load'> is of"):
        await kue.batch().enqueue([data.load.s(1), other.load.s(2)])

    assert sum((await q.counts()).values()) == 0


async def test_what_cannot_be_a_job_is_refused_before_anything_is_added(
    q: Kue, data: Import
) -> None:
    with pytest.raises(TypeError, match="made of signatures"):
        await kue.batch().enqueue([data.load])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="at least one job"):
        await kue.batch().enqueue([])
    job = await data.load.enqueue(1)
    with pytest.raises(ValueError, match="is not a batch"):
        await q.batch(job.id).progress()

    assert sum((await q.counts()).values()) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (5, "the name of a batch must be text, not 5"),
        ("two\nlines", "must not contain control characters"),
        ("x" * 201, "must have 1 to 200 bytes"),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused(name: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kue.batch(name)


def test_what_cannot_be_part_of_a_batch_is_refused_at_once(data: Import) -> None:
    with pytest.raises(TypeError, match="allow_failures must be True or False, not 1"):
        kue.batch(allow_failures=1)  # type: ignore[arg-type]
    batch = kue.batch()
    for add in (batch.before, batch.progress, batch.then, batch.catch, batch.finally_):
        with pytest.raises(TypeError, match=r"takes one call such as task\.s"):
            add(data.load)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"finally_ takes one call .* <Chain of 2>"):
        batch.finally_(data.load.s(1) | data.load.si(2))  # type: ignore[arg-type]


async def test_one_call_is_not_taken_for_a_list_of_calls(q: Kue, data: Import) -> None:
    with pytest.raises(TypeError, match=r"a list of calls .* not <Signature"):
        await kue.batch().enqueue(data.load.s(1))  # type: ignore[arg-type]
    batch = await kue.batch().enqueue([data.slow.s(1)])
    with pytest.raises(TypeError, match=r"a list of calls .* not <Signature"):
        await batch.add(data.load.s(1))  # type: ignore[arg-type]


def test_ordinary_code_makes_batches() -> None:
    q = Kue("memory://")

    @q.task
    def load(row: int) -> int:
        return row

    handle = kue.batch("import").delay(load.s(row) for row in range(3))
    handle.add([load.s(3)])
    with q.sync.work():
        assert handle.result(timeout=PATIENCE_SECONDS)["complete"] == 4

    [found] = q.sync.batches().batches
    assert (found.id, found.percent) == (handle.id, 100)
    assert q.sync.batch(handle.id).progress() == found
    q.sync.close()
