"""Soft timeouts: a handler that takes too long is asked to stop, and may clean up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from kue import JobFailed, Kue, SoftTimeout
from kue.worker.pools.processes import PoolProcess
from tests.worker import child_tasks
from tests.worker.working import worked

#: Long enough for a test to end before it, on any machine.
HARD = "60s"
#: No matter of the store.
pytestmark = pytest.mark.parametrize("place", ["memory"], indirect=True)


async def test_a_coroutine_is_cancelled_and_may_return_what_it_has(q: Kue) -> None:
    @q.task(soft_timeout=0.05, timeout=HARD)
    async def crawl() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "half"
        return "all"

    assert await worked(q, await crawl.enqueue()) == "half"


async def test_a_coroutine_that_ends_by_it_failed_with_a_soft_timeout(q: Kue) -> None:
    tidied = False

    @q.task(soft_timeout=0.05, timeout=HARD, attempts=1)
    async def crawl() -> None:
        nonlocal tidied
        try:
            await asyncio.sleep(3600)
        finally:
            tidied = True

    with pytest.raises(JobFailed, match="SoftTimeout"):
        await worked(q, await crawl.enqueue())
    assert tidied


async def test_a_coroutine_that_goes_on_meets_the_hard_timeout(q: Kue) -> None:
    @q.task(soft_timeout=0.05, timeout=0.2, attempts=1)
    async def crawl() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)

    with pytest.raises(JobFailed, match="RunTimeout"):
        await worked(q, await crawl.enqueue())


async def test_it_is_raised_in_a_plain_function_which_may_clean_up(q: Kue) -> None:
    @q.task(soft_timeout=0.05, timeout=HARD)
    def crawl() -> str:
        try:
            while True:
                time.sleep(0.001)
        except SoftTimeout:
            return threading.current_thread().name

    assert await worked(q, await crawl.enqueue()) == "kue thread"


async def test_a_plain_function_that_goes_on_is_interrupted(q: Kue) -> None:
    @q.task(soft_timeout=0.05, timeout=0.2, attempts=1)
    def crawl() -> None:
        while True:
            with contextlib.suppress(Exception):
                while True:
                    time.sleep(0.001)

    with pytest.raises(JobFailed, match="RunTimeout"):
        await worked(q, await crawl.enqueue())


async def test_a_run_that_ends_in_time_is_not_asked(q: Kue) -> None:
    @q.task(soft_timeout=HARD)
    async def crawl() -> str:
        return "all"

    assert await worked(q, await crawl.enqueue()) == "all"


async def test_the_start_of_a_process_does_not_count(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = PoolProcess.start

    async def start_slowly(child: PoolProcess) -> None:
        # Longer than the soft timeout.
        await asyncio.sleep(0.2)
        await start(child)

    monkeypatch.setattr(PoolProcess, "start", start_slowly)
    crawl = q.task(execution="process", soft_timeout=0.1, timeout=HARD, attempts=1)(
        child_tasks.outstay
    )

    assert await worked(q, await crawl.enqueue(True)) == "tidied"
