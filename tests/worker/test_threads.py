"""Plain functions, which run in threads: interrupted, never in the worker's way."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Never

import pytest

from kue import ActiveJob, JobCancelled, JobFailed, Kue, State
from kue.worker import active_run as run_module
from kue.worker.pools.threads import Interrupted, WorkerThreads
from tests.support.patience import PATIENCE_SECONDS, until
from tests.worker.working import worked


def spin(until: threading.Event) -> None:
    """Run Python code until told; a thread in a long call to C hears of nothing."""
    while not until.is_set():
        time.sleep(0.001)


# -- the threads themselves --------------------------------------------------


async def test_a_function_runs_in_a_thread_with_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("v", default="")
    variable.set("ours")

    def look() -> tuple[str, bool]:
        return variable.get(), threading.current_thread() is threading.main_thread()

    assert await WorkerThreads().call(look) == ("ours", False)


async def test_idle_threads_are_used_again() -> None:
    threads = WorkerThreads()

    first = await threads.call(threading.get_ident)
    second = await threads.call(threading.get_ident)

    assert first == second
    threads.close()


@pytest.mark.parametrize("exc", [ValueError("oops"), SystemExit(1), Interrupted()])
async def test_whatever_is_raised_comes_back(exc: BaseException) -> None:
    def fail() -> Never:
        raise exc

    threads = WorkerThreads()
    with pytest.raises(type(exc)):
        await threads.call(fail)

    assert await threads.call(lambda: "alive") == "alive"


async def test_stop_iteration_does_not_get_lost() -> None:
    def fail() -> Never:
        raise StopIteration

    with pytest.raises(RuntimeError, match="the handler raised StopIteration"):
        await WorkerThreads().call(fail)


async def test_a_cancelled_caller_interrupts_the_function_and_waits_for_its_end() -> (
    None
):
    threads, entered, ended = WorkerThreads(), threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        try:
            spin(threading.Event())
        finally:
            ended.set()

    call = asyncio.create_task(threads.call(work))
    await until(entered.is_set)
    call.cancel()

    with pytest.raises(Interrupted):
        await call
    assert ended.is_set()
    assert await threads.call(lambda: "alive") == "alive"


async def test_an_interruption_that_comes_too_late_hits_nobody() -> None:
    threads = WorkerThreads()
    for _ in range(200):
        call = asyncio.create_task(threads.call(lambda: "done"))
        await asyncio.sleep(0)
        call.cancel()
        try:
            await call
        except (Interrupted, asyncio.CancelledError):
            continue

    assert await threads.call(lambda: "alive") == "alive"


# -- handlers in threads -----------------------------------------------------


async def test_a_plain_handler_does_not_block_the_loop(q: Kue) -> None:
    release = threading.Event()
    q.process("slow", 2, lambda job: release.wait(45))

    @q.process("quick")
    async def quick(job: ActiveJob) -> str:
        return "done"

    async with q.work():
        slow = await q.enqueue("slow")
        other = await q.enqueue("quick")
        assert await other.result(timeout=PATIENCE_SECONDS) == "done"
        release.set()
        assert await slow.result(timeout=PATIENCE_SECONDS) is True


async def test_process_blocking_runs_plain_functions_in_threads(q: Kue) -> None:
    @q.process_blocking("email", 3)
    def send(job: ActiveJob) -> str:
        return threading.current_thread().name

    assert await worked(q, await q.enqueue("email")) == "kue thread"


def test_process_blocking_refuses_coroutine_functions() -> None:
    async def send(job: ActiveJob) -> None: ...

    with pytest.raises(TypeError, match=r"which never blocks; use process\('email'"):
        Kue("memory://").process_blocking("email", send)


async def test_a_plain_handler_past_its_timeout_is_interrupted(q: Kue) -> None:
    q.process("email", lambda job: spin(threading.Event()))

    job = await q.enqueue("email", timeout=0.1)
    with pytest.raises(JobFailed, match="RunTimeout"):
        await worked(q, job)


async def test_a_cancelled_plain_handler_is_interrupted_and_can_tidy_up(q: Kue) -> None:
    entered, tidied = threading.Event(), threading.Event()

    @q.process("email")
    def send(job: ActiveJob) -> None:
        entered.set()
        try:
            spin(threading.Event())
        except Exception:
            pytest.fail("`except Exception` swallowed an interruption")
        finally:
            assert job.should_stop
            tidied.set()

    job = await q.enqueue("email")
    async with q.work():
        await until(entered.is_set)
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=PATIENCE_SECONDS)

    assert tidied.is_set()


async def test_a_handler_that_does_not_end_when_told_is_settled_without_it(
    q: Kue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its slot stays taken: the next job of the type must not run beside it."""
    monkeypatch.setattr(run_module, "PATIENCE_SECONDS", 0.1)
    release = threading.Event()
    started: list[int] = []

    @q.process("email", 1)
    def send(job: ActiveJob) -> None:
        started.append(job.id)
        if len(started) == 1:
            release.wait(20)

    first = await q.enqueue("email", timeout=0.1)
    second = await q.enqueue("email")
    async with q.work():
        with pytest.raises(JobFailed, match="RunTimeout"):
            await first.result(timeout=PATIENCE_SECONDS)
        assert (await second.refresh()).state is State.WAITING
        release.set()
        await second.result(timeout=PATIENCE_SECONDS)

    assert started == [first.id, second.id]
    assert "was interrupted 0.1 s ago and is still running" in caplog.text


async def test_a_coroutine_that_swallows_its_cancellation_is_settled_without_it(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "PATIENCE_SECONDS", 0.1)
    release = asyncio.Event()

    @q.process("email", 1)
    async def send(job: ActiveJob) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    job = await q.enqueue("email", timeout=0.1)
    async with q.work():
        with pytest.raises(JobFailed, match="RunTimeout"):
            await job.result(timeout=PATIENCE_SECONDS)
        release.set()


STUBBORN = """
import asyncio, threading
import kue
from kue.worker import active_run
active_run.PATIENCE_SECONDS = 0.1
q = kue.Kue("memory://")

@q.task(timeout=0.1, attempts=1)
def never() -> None:
    threading.Event().wait()

async def main():
    async with q, q.work(grace=0.1):
        job = await never.enqueue()
        try:
            await job.result()
        except kue.JobFailed:
            print("failed")

asyncio.run(main())
"""


def test_a_thread_that_never_returns_does_not_keep_its_worker_from_leaving() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUBBORN],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert (done.returncode, done.stdout) == (0, "failed\n")


# -- Kue's done --------------------------------------------------------------


def well(job: ActiveJob, done: Callable[..., None]) -> None:
    done(None, {"id": job.id})


def later(job: ActiveJob, done: Callable[..., None]) -> None:
    threading.Timer(0.01, done, [None, {"id": job.id}]).start()


async def awaited(job: ActiveJob, done: Callable[..., None]) -> None:
    await asyncio.sleep(0)
    done(None, {"id": job.id})
    done(ValueError("the first call counts"))


@pytest.mark.parametrize("handler", [well, later, awaited])
async def test_a_handler_may_end_by_calling_done(
    q: Kue, handler: Callable[..., Any]
) -> None:
    q.process("email", handler)

    job = await q.enqueue("email")
    assert await worked(q, job) == {"id": job.id}


def badly(job: ActiveJob, done: Callable[..., None]) -> None:
    done(ValueError("oops"))


def in_words(job: ActiveJob, done: Callable[..., None]) -> None:
    done("oops")


def by_raising(job: ActiveJob, done: Callable[..., None]) -> None:
    raise ValueError("oops")


@pytest.mark.parametrize("handler", [badly, in_words, by_raising])
async def test_done_with_an_error_fails_the_run(
    q: Kue, handler: Callable[..., Any]
) -> None:
    q.process("email", handler)

    with pytest.raises(JobFailed, match="oops"):
        await worked(q, await q.enqueue("email"))
