"""Batches: callbacks before the first job, and while jobs end."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

import kue
from kue import JobCancelled, JobFailed, Kue, State
from kue.client import batch as batch_module
from kue.client import flow_enqueue
from kue.worker import batch_progress
from tests.client.test_batch import Import, ended
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS, eventually


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_progress, "FIRST_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(batch_progress, "MAX_LOOK_SECONDS", 0.05)


class Callbacks(Import):
    """Tasks that note which figures they see."""

    def __init__(self, q: Kue) -> None:
        super().__init__(q)
        self.is_ready = True

        @q.task(attempts=1)
        async def prepare(batch_id: int) -> None:
            seen = await q.batch(batch_id).progress()
            self.calls.append(("before", seen.total, seen.done))
            if not self.is_ready:
                raise ConnectionError("the file is not there yet")

        @q.task(attempts=1)
        async def show(batch_id: int, what: str = "progress") -> None:
            seen = await q.batch(batch_id).progress()
            self.calls.append((what, seen.done, seen.total))

        self.prepare, self.show = prepare, show

    @property
    def shown(self) -> list[int]:
        return [call[1] for call in self.calls if isinstance(call, tuple)]


@pytest.fixture
async def data(q: Kue) -> Callbacks:
    return Callbacks(q)


async def histories(q: Kue) -> str:
    """Return what became of each job, for the message of a test that fails."""
    jobs = (await q.page(limit=100)).jobs
    return "\n".join(f"{job.id} {job.type} {job.state}: {job.history}" for job in jobs)


def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have calls of four jobs."""
    monkeypatch.setattr(batch_module, "MAX_BATCH", 4)
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 4)


async def test_each_callback_is_called_when_it_is_its_turn(
    q: Kue, data: Callbacks
) -> None:
    batch = kue.batch().before(data.prepare.s()).progress(data.show.s())
    batch = batch.then(data.told.s("then")).finally_(data.told.s("finally"))
    handle = await batch.enqueue(data.load.s(row) for row in range(3))

    await q.run(burst=True, signals=False)

    assert data.calls[0] == ("before", 3, 0)
    # An earlier report may have been read as late as the last one.
    assert ("progress", 3, 3) in data.calls, await histories(q)
    for call in (("then", handle.id), ("finally", handle.id)):
        assert data.calls.count(call) == 1


# -- before --------------------------------------------------------------------


@pytest.mark.parametrize("is_large", [False, True])
async def test_before_runs_when_all_is_stored_and_no_job_has_started(
    q: Kue, data: Callbacks, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if is_large:
        in_parts(monkeypatch)
    batch = kue.batch().before(data.prepare.s()).then(data.told.s("then"))

    async with q.work():
        handle = await batch.enqueue(data.load.s(row) for row in range(9))
    await ended(q, handle)

    assert data.calls[0] == ("before", 9, 0)
    assert sorted(data.calls[1:-1]) == list(range(9))
    assert data.calls[-1] == ("then", handle.id)


async def test_the_jobs_wait_for_every_callback_before_them(
    q: Kue, data: Callbacks
) -> None:
    batch = kue.batch().before(data.prepare.s()).before(data.slow.si(1))
    handle = await batch.enqueue([data.load.s(1) | data.load.s(), data.load.s(2)])

    async with q.work():
        await eventually(lambda: seen(data, ("before", 3, 0)))
        states = [job.state for job in (await q.page(type="load")).jobs]
        data.go.set()
        await handle.result(timeout=PATIENCE_SECONDS)

    assert states == [State.BLOCKED] * 3
    assert sorted(data.calls[1:]) == [1, 1, 2]


async def seen(data: Callbacks, call: Any) -> bool:
    return call in data.calls


async def test_jobs_that_are_added_later_wait_for_it_too(
    q: Kue, data: Callbacks
) -> None:
    handle = await kue.batch().before(data.slow.si(1)).enqueue([data.load.s(1)])
    await handle.add([data.load.s(2)])
    states = [job.state for job in (await q.page(type="load")).jobs]
    data.go.set()

    assert states == [State.BLOCKED] * 2
    assert (await ended(q, handle))["complete"] == 2


@pytest.mark.parametrize("allow_failures", [False, True])
async def test_when_it_fails_no_job_runs_and_the_batch_fails(
    q: Kue, data: Callbacks, allow_failures: bool
) -> None:
    data.is_ready = False
    batch = kue.batch(allow_failures=allow_failures).before(data.prepare.s())
    batch.catch(data.told.s("catch")).finally_(data.told.s("finally"))
    handle = await batch.enqueue([data.load.s(1) | data.load.s(), data.load.s(2)])

    with pytest.raises(JobFailed, match="which was to run before it, failed"):
        await ended(q, handle)

    [failed] = (await q.page(State.FAILED, "prepare")).jobs
    assert sorted(data.calls[1:]) == [("catch", failed.id), ("finally", handle.id)]
    assert (await handle.progress()).cancelled == 3


async def test_a_retry_of_the_batch_runs_it_again(q: Kue, data: Callbacks) -> None:
    data.is_ready = False
    batch = kue.batch().before(data.prepare.s()).then(data.told.s("then"))
    handle = await batch.enqueue([data.load.s(1) | data.load.s(), data.load.s(2)])
    with pytest.raises(JobFailed):
        await ended(q, handle)
    data.is_ready = True

    assert await handle.retry_failed() == 3

    assert (await ended(q, handle))["complete"] == 3
    assert data.calls.count(("before", 3, 0)) + data.calls.count(("before", 3, 3)) == 2
    assert data.calls[-1] == ("then", handle.id)


async def test_it_does_not_run_for_a_batch_that_was_not_added_as_a_whole(
    q: Kue, data: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(batch_module, "open_gate", die)
    batch = kue.batch().before(data.prepare.s()).progress(data.show.s())
    with pytest.raises(RuntimeError, match="killed"):
        await batch.enqueue([data.load.s(1)])
    [gate] = (await q.page(type="kue.gate")).jobs
    [stored] = (await q.batches()).batches

    # As if the hour had passed.
    await q.handle(gate).promote()

    with pytest.raises(JobFailed, match="stopped before it was complete"):
        await ended(q, q.batch(stored.id))
    assert data.calls == []
    assert await q.count(State.CANCELLED, "kue.progress") == 1


async def test_cancelling_a_batch_cancels_it(q: Kue, data: Callbacks) -> None:
    handle = await kue.batch().before(data.prepare.s()).enqueue([data.load.s(1)])

    await handle.cancel()

    with pytest.raises(JobCancelled):
        await ended(q, handle)
    assert data.calls == []


@pytest.mark.parametrize("is_ready", [True, False])
async def test_a_cancelled_batch_that_is_retried_begins_with_it(
    q: Kue, data: Callbacks, is_ready: bool
) -> None:
    batch = kue.batch().before(data.prepare.s()).then(data.told.s("then"))
    batch.catch(data.told.s("catch")).finally_(data.told.s("finally"))
    handle = await batch.enqueue([data.load.s(1)])
    await handle.cancel()
    with pytest.raises(JobCancelled):
        await ended(q, handle)
    data.is_ready = is_ready

    assert await handle.retry_failed() == 1
    with nullcontext() if is_ready else pytest.raises(JobFailed):
        await ended(q, handle)

    [before] = (await q.page(type="prepare")).jobs
    after = [1, ("then", handle.id)] if is_ready else [("catch", before.id)]
    assert data.calls in (
        [("finally", handle.id), ("before", 1, done), *after] for done in (0, 1)
    )


async def test_a_job_that_would_not_wait_for_its_success_is_refused(
    q: Kue, data: Callbacks
) -> None:
    first = await data.load.enqueue(1)
    draft = data.load.options(after=[first], on_parent_failure="run").draft(2)

    with pytest.raises(ValueError, match="cannot wait for others with"):
        await kue.batch().before(data.prepare.s()).enqueue([draft])

    assert await q.count(State.WAITING, "prepare") == 0


async def test_a_link_that_would_run_when_it_has_failed_is_refused(
    q: Kue, data: Callbacks
) -> None:
    whatever = data.load.options(on_parent_failure="run")

    with pytest.raises(ValueError, match="cannot wait for others with"):
        await (
            kue.batch()
            .before(data.prepare.s())
            .enqueue([data.load.s(1) | whatever.si(2)])
        )

    assert await q.count(State.WAITING, "prepare") == 0


async def test_a_catch_in_a_batch_does_not_run_when_it_has_failed(
    q: Kue, data: Callbacks
) -> None:
    data.is_ready = False
    chain = (data.load.s(1) | data.load.s()).catch(data.note.si("caught"))
    handle = await kue.batch().before(data.prepare.s()).enqueue([chain])

    with pytest.raises(JobFailed):
        await ended(q, handle)

    assert data.calls == [("before", 3, 0)]


# -- progress ------------------------------------------------------------------


async def test_progress_is_reported_while_jobs_end_and_in_the_end(
    q: Kue, data: Callbacks
) -> None:
    batch = kue.batch(allow_failures=True).progress(data.show.s("shown"))
    handle = await batch.enqueue([data.load.s(1), data.load.s(2), data.slow.s(3)])

    async with q.work():
        await eventually(lambda: seen(data, ("shown", 2, 3)))
        data.go.set()
        await handle.result(timeout=PATIENCE_SECONDS)
        await eventually(lambda: seen(data, ("shown", 3, 3)))
        await eventually(lambda: has_ended(q, "kue.progress"))

    # No more than one for each job that ended.
    assert len(data.shown) <= 3


async def has_ended(q: Kue, type: str) -> bool:
    return await q.count(State.COMPLETE, type) == 1


async def test_the_last_figures_are_reported_however_quickly_a_batch_ends(
    q: Kue, data: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the batch itself wakes it.
    monkeypatch.setattr(batch_progress, "FIRST_LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(batch_progress, "MAX_LOOK_SECONDS", 3600.0)
    batch = kue.batch().progress(data.show.s()).progress(data.told.s("other"))
    handle = await batch.enqueue(data.load.s(row) for row in range(5))

    await q.run(burst=True, signals=False)

    # The first look may come when some have ended, and its report be read at the end.
    assert ("progress", 5, 5) in data.calls
    assert 1 <= data.calls.count(("other", handle.id)) <= 2
    assert await q.count(State.COMPLETE, "kue.progress") == 1


async def test_the_last_figures_are_reported_if_the_batch_ends_during_a_look(
    q: Kue, wire: Wire, data: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_progress, "FIRST_LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(batch_progress, "MAX_LOOK_SECONDS", 3600.0)
    handle = await kue.batch().progress(data.show.s()).enqueue([data.slow.s(1)])
    noted = wire.hold("update")
    updates, moves = wire.times("update"), wire.times("move")

    async with q.work():
        # It has read the figures, and is to end with an hour's pause.
        await wire.until_called("update", updates + 1)
        data.go.set()
        # The batch wakes it.
        await wire.until_answered("move", moves + 1)
        noted.set()
        await handle.result(timeout=PATIENCE_SECONDS)
        await eventually(lambda: seen(data, ("progress", 1, 1)))


async def test_the_last_figures_are_reported_although_a_look_at_them_fails(
    q: Kue, wire: Wire, data: Callbacks
) -> None:
    handle = await kue.batch().progress(data.show.s()).enqueue([data.load.s(1)])
    moves = wire.times("move")
    wire.break_off("add")

    async with asyncio.TaskGroup() as group:
        group.create_task(q.run(burst=True, signals=False))
        # The batch wakes it.
        await wire.until_answered("move", moves + 1)
        # The next look is due long after the burst.
        await wire.until_answered("add", wire.times("add") + 1)
        wire.mend()

    assert ("progress", 1, 1) in data.calls, await histories(q)
    assert await q.count(State.COMPLETE, "kue.progress") == 1
    assert (await handle.progress()).complete == 1


async def test_reports_that_have_not_started_are_one(q: Kue, data: Callbacks) -> None:
    batch = kue.batch().progress(data.show.s())
    handle = await batch.enqueue([data.load.s(1), data.slow.s(2)])

    async with q.work(types=["load", "slow"]):
        await eventually(lambda: is_waiting(q, "show"))
        data.go.set()
        await handle.result(timeout=PATIENCE_SECONDS)
        await eventually(lambda: has_ended(q, "kue.progress"))

    assert await q.count(State.WAITING, "show") == 1


async def is_waiting(q: Kue, type: str) -> bool:
    return await q.count(State.WAITING, type) == 1


async def test_a_retried_batch_reports_again(q: Kue, data: Callbacks) -> None:
    data.broken = {1}
    handle = await kue.batch().progress(data.show.s()).enqueue([data.load.s(1)])
    with pytest.raises(JobFailed):
        await ended(q, handle)
    await q.run(burst=True, signals=False)
    data.broken = set()
    before = len(data.shown)

    await handle.retry_failed()
    await ended(q, handle)
    await q.run(burst=True, signals=False)

    assert before >= 1
    assert len(data.shown) > before
    assert (await handle.progress()).complete == 1


async def test_progress_of_a_batch_that_was_removed_ends(
    q: Kue, data: Callbacks
) -> None:
    handle = await kue.batch().progress(data.show.s()).enqueue([data.slow.s(1)])
    await (await q.get(handle.id)).remove()

    async with q.work(types=["load"]):
        await eventually(lambda: is_cancelled(q, "kue.progress"))


async def is_cancelled(q: Kue, type: str) -> bool:
    return await q.count(State.CANCELLED, type) == 1


async def test_a_batch_without_these_callbacks_has_no_job_for_them(
    q: Kue, data: Callbacks
) -> None:
    await kue.batch().then(data.told.s("then")).enqueue([data.load.s(1)])

    types = [job.type for job in (await q.page()).jobs]

    assert sorted(types) == ["kue.batch", "kue.first-failure", "load", "told"]


async def test_a_callback_that_makes_no_sense_is_refused_before_anything_is_added(
    q: Kue, data: Callbacks
) -> None:
    @q.task(unique=True)
    async def only(batch_id: int) -> None: ...

    for batch in (kue.batch().before(only.s()), kue.batch().progress(only.s())):
        with pytest.raises(ValueError, match="is unique by its arguments"):
            await batch.enqueue([data.load.s(1)])

    assert sum((await q.counts()).values()) == 0


def test_ordinary_code_gives_them_too() -> None:
    q = Kue("memory://")
    calls: list[Any] = []

    @q.task
    def load(row: int) -> None:
        calls.append(row)

    @q.task
    def note(batch_id: int, what: str) -> None:
        calls.append(what)

    batch = kue.batch().before(note.s("before")).progress(note.s("progress"))
    batch.delay(load.s(row) for row in range(2))
    q.sync.run(burst=True)

    assert calls[0] == "before"
    assert {0, 1, "progress"} == set(calls[1:])
    q.sync.close()
