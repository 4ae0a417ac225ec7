"""The blocked-loop watch names the line that holds the loop."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable

import pytest

from kue import Kue
from kue.aio.loop_monitor import BlockedLoop, LoopMonitor
from tests.support.engines import Engine
from tests.support.patience import PATIENCE_SECONDS, until


async def watched(told: list[BlockedLoop]) -> LoopMonitor:
    watch = LoopMonitor(told.append, limit=0.1)
    watch.start()
    await asyncio.sleep(0)
    return watch


def hold_by_sleeping() -> None:
    time.sleep(1)


def hold_the_interpreter() -> None:
    # Exponential in the number of letters; about half a second to a few.
    re.match(r"(a+)+$", "a" * 24 + "b")


@pytest.mark.parametrize("hold", [hold_by_sleeping, hold_the_interpreter])
async def test_who_holds_the_loop_is_told_once_with_the_line(
    hold: Callable[[], None],
) -> None:
    told: list[BlockedLoop] = []
    watch = await watched(told)

    hold()
    await until(lambda: hold.__name__ in [item.function for item in told])
    watch.stop()

    [blockage] = [item for item in told if item.function == hold.__name__]
    assert blockage.file == __file__
    assert blockage.where.endswith(f" in {hold.__name__}")
    assert blockage.seconds >= 0.1
    assert watch.count == len(told)


async def test_a_loop_that_is_idle_or_busy_with_short_steps_is_not_blocked() -> None:
    told: list[BlockedLoop] = []
    watch = await watched(told)

    for _ in range(30):
        await asyncio.sleep(0.01)
    watch.stop()

    # A machine that is busy with others may stop anyone for longer than the limit.
    assert not [item for item in told if item.file == __file__]


async def test_each_time_is_told() -> None:
    told: list[BlockedLoop] = []
    watch = await watched(told)

    for number in (1, 2):
        end = time.monotonic() + 45
        # The watch may have to wait for its turn on a busy machine.
        while len(told) < number and time.monotonic() < end:
            hold_by_sleeping()
        assert len(told) >= number
        await until(lambda: not watch.is_blocked)
    watch.stop()

    assert watch.count >= 2


async def test_a_worker_names_the_job_and_shows_the_line(
    place: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with Kue(place.settings.url, prefix=place.settings.prefix, blocked=0.3) as q:

        @q.task
        async def block() -> None:
            hold_by_sleeping()

        job = await block.enqueue()
        with caplog.at_level(logging.WARNING):
            async with q.work() as worker:
                await job.result(timeout=PATIENCE_SECONDS)
                named = f"by job {job.id} of type block at {__file__}:"
                await until(lambda: named in caplog.text)
                assert worker.status()["blocked"] >= 1

        shown = worker.status()["blocked_at"]

    record = next(item for item in caplog.records if named in item.message)
    assert "in hold_by_sleeping" in record.message
    assert "asyncio" not in record.message
    assert shown.startswith(f"{__file__}:")


async def test_the_watch_can_be_switched_off() -> None:
    async with Kue("memory://", blocked=0) as q:
        q.process("email", print)
        before = set(threading.enumerate())
        async with q.work() as worker:
            await until(lambda: worker.name in [w.name for w in q.working])
            new = {thread.name for thread in set(threading.enumerate()) - before}
            assert "kue blocked-loop watch" not in new
            assert "blocked" not in worker.status()
