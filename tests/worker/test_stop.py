"""Stopping a worker: what runs may end, what does not is handed back, none is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from typing import Any

import pytest

from kue import ActiveJob, JobHandle, Kue, State
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS, until


class Gate:
    """A handler that waits until it is let through."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, job: ActiveJob) -> str:
        self.entered.set()
        await self.open.wait()
        return "through"


@pytest.fixture
def gate(q: Kue) -> Gate:
    gate = Gate()
    q.process("email", gate)
    return gate


async def assert_handed_back(handle: JobHandle[Any]) -> None:
    job = await handle.refresh()
    assert (job.state, job.attempts) == (State.WAITING, 0)
    assert [entry.outcome for entry in job.history] == ["released"]
    assert job.history[0].reason == "the worker stopped"


async def test_what_runs_may_end_and_nothing_more_is_begun(
    q: Kue, wire: Wire, gate: Gate
) -> None:
    first, second = await q.enqueue_many("email", range(2))
    running = asyncio.create_task(q.run(grace=PATIENCE_SECONDS))
    await gate.entered.wait()

    q.stop()
    # It still renews its lease, and so has not ended.
    renewals = wire.times("renew")
    await until(lambda: running.done() or wire.times("renew") > renewals)
    assert (await first.refresh()).state is State.ACTIVE
    gate.open.set()
    await running

    assert await first.result(timeout=PATIENCE_SECONDS) == "through"
    assert (await second.refresh()).state is State.WAITING


async def test_what_outlasts_the_grace_is_handed_back(q: Kue, gate: Gate) -> None:
    """D-39: a worker that stops abandons no running job; see below for claims."""
    handle = await q.enqueue("email")

    async with q.work(grace=0.05):
        await gate.entered.wait()

    await assert_handed_back(handle)


async def test_a_job_delivered_at_most_once_is_not_handed_back_once_begun(
    q: Kue, gate: Gate
) -> None:
    handle = await q.enqueue("email", delivery="at-most-once", attempts=3)

    async with q.work(grace=0.05):
        await gate.entered.wait()

    job = await handle.refresh()
    assert job.state is State.FAILED
    assert job.error is not None
    assert job.error.kind == "WorkerStopped"


async def test_stopping_twice_hands_back_at_once(q: Kue, gate: Gate) -> None:
    handle = await q.enqueue("email")

    async with q.work(grace=3600) as worker:
        await gate.entered.wait()
        worker.stop()
        worker.stop()

    await assert_handed_back(handle)


async def test_a_store_that_is_away_does_not_keep_a_worker_that_is_to_hurry(
    q: Kue, gate: Gate, wire: Wire
) -> None:
    """Past its lease the store takes everything back by itself."""
    await q.enqueue("email")
    running = asyncio.create_task(q.run(grace="1h"))
    await gate.entered.wait()
    wire.is_cut = True

    q.stop()
    q.stop()
    await asyncio.wait_for(running, 50)

    wire.is_cut = False


async def test_cancelling_hands_back_at_once(q: Kue, gate: Gate) -> None:
    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=3600))
    await gate.entered.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    await assert_handed_back(handle)


async def test_closing_the_queue_stops_its_workers_first(q: Kue, gate: Gate) -> None:
    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=10))
    await gate.entered.wait()

    closing = asyncio.create_task(q.close())
    gate.open.set()
    await closing

    assert running.done()
    assert handle.id > 0


async def test_a_claim_on_its_way_when_we_stop_is_handed_back(
    q: Kue, gate: Gate, wire: Wire
) -> None:
    """D-39: it is not abandoned with a job that nobody runs."""
    answer = wire.hold("cycle")
    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=10))
    await wire.until_called("cycle")

    q.stop()
    answer.set()
    await running

    assert not gate.entered.is_set()
    await assert_handed_back(handle)


async def test_a_claim_on_its_way_is_run_by_a_worker_that_finishes(
    q: Kue, gate: Gate, wire: Wire
) -> None:
    """It has all the time in the world: a process that is no longer needed."""
    answer = wire.hold("cycle")
    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=3600))
    await wire.until_called("cycle")

    [worker] = q.working
    worker.finish()
    answer.set()
    await gate.entered.wait()
    gate.open.set()
    await running

    assert await handle.result(timeout=PATIENCE_SECONDS) == "through"
    assert [past.outcome for past in (await handle.refresh()).history] == ["complete"]


async def test_a_worker_that_finishes_can_be_stopped_at_once(
    q: Kue, gate: Gate
) -> None:
    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=3600))
    await gate.entered.wait()

    [worker] = q.working
    worker.finish()
    worker.finish()
    worker.stop()
    await running

    await assert_handed_back(handle)


async def test_what_a_last_call_got_is_handed_back_also_in_a_hurry(
    q: Kue, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may still answer a call that was given up."""
    monkeypatch.setattr("kue.worker.worker.IDLE_GRACE_SECONDS", 20)
    gate = Gate()
    q.process("email", 2, gate)
    await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=3600))
    await gate.entered.wait()
    await wire.until_called("stand_by")
    answer = wire.hold("claim")

    q.stop()
    gate.open.set()
    await wire.until_called("claim")
    await wire.until_answered("settle")
    late = await q.enqueue("email")
    asked = wire.last_request("stand_by")
    await wire.unseen.claim(asked._replace(types=["email"], limit=1))
    q.stop()
    await until(lambda: all(worker._stopping_now.is_set() for worker in q.working))
    answer.set()
    await running

    await assert_handed_back(late)


async def test_a_stopped_worker_takes_its_leave(q: Kue, gate: Gate, wire: Wire) -> None:
    async with q.work():
        await wire.until_called("renew", 2)

    assert wire.times("leave") == 1
    assert not any(status.alive for status in await q.workers())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_gracefully(
    q: Kue, gate: Gate, number: signal.Signals
) -> None:
    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=10))
    await gate.entered.wait()

    os.kill(os.getpid(), number)
    await until(lambda: any(worker.is_stopping for worker in q.working))
    gate.open.set()
    await running

    assert await handle.result(timeout=PATIENCE_SECONDS) == "through"


async def test_a_second_signal_hands_back_at_once(q: Kue, gate: Gate) -> None:
    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=3600))
    await gate.entered.wait()

    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: any(worker.is_stopping for worker in q.working))
    os.kill(os.getpid(), signal.SIGTERM)
    await running

    await assert_handed_back(handle)


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    q = Kue("memory://")
    done: list[str] = []

    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        done.append(job.type)
        q.stop()

    async def main() -> None:
        async with q:
            await q.enqueue("email")
            await q.run()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(PATIENCE_SECONDS)

    assert done == ["email"]


async def test_signals_can_be_left_to_the_program(q: Kue, gate: Gate) -> None:
    before = signal.getsignal(signal.SIGTERM)
    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(signals=False))
    await gate.entered.wait()

    assert signal.getsignal(signal.SIGTERM) is before

    gate.open.set()
    assert await handle.result() == "through"
    q.stop()
    await running


async def test_no_task_is_left_behind(q: Kue, gate: Gate) -> None:
    before = asyncio.all_tasks()
    await q.enqueue_many("email", range(3))

    async with q.work(grace=0.05):
        await gate.entered.wait()

    left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not any(name.startswith("kue ") for name in left)


async def test_a_handler_that_ignores_its_cancellation_does_not_keep_the_worker(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can end it but the end of the process; its job is left to its lease."""
    entered, release = asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[object]] = []

    @q.process("email")
    async def stubborn(job: ActiveJob) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        entered.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    handle = await q.enqueue("email")
    async with q.work(grace=0):
        await entered.wait()

    assert "leaves 1 jobs running" in caplog.text
    assert (await handle.refresh()).state is State.ACTIVE
    release.set()
    await asyncio.wait(tasks)
