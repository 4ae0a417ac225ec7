"""The watch tells which thread is blocked, for how long, by whom and where."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import time
from collections.abc import AsyncIterator

import pytest

from kue.runtime import MonitorLimits, Runtime, Verticle
from tests.runtime.waiting import Signal
from tests.support.patience import until

#: As the catalogue has it, in hundredths.
LIMITS = MonitorLimits(interval=0.02, loop=0.1, worker=0.2, stack=0.4)

MESSAGE = re.compile(
    r"Thread (\S+) has been blocked for (\d+) ms, time limit is (\d+) ms"
)


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, logger="kue.runtime.blocked_monitor")
    return caplog


@contextlib.asynccontextmanager
async def blocked(runtime: Runtime, *, worker: bool = False) -> AsyncIterator[Verticle]:
    """A verticle that holds its thread until this ends."""
    verticle, begun, go_on = Verticle(), Signal(), threading.Event()
    await runtime.deploy(verticle, worker=worker)

    def hold_on() -> None:
        begun.tell()
        go_on.wait()

    verticle.context.run(hold_on)
    await begun.told()
    yield verticle
    go_on.set()


def test_the_limits_are_those_of_the_catalogue() -> None:
    assert MonitorLimits() == MonitorLimits(
        interval=1.0, loop=2.0, worker=60.0, stack=5.0
    )


async def test_a_blocked_loop_is_told_with_thread_time_limit_verticle_and_line(
    told: pytest.LogCaptureFixture,
) -> None:
    async with Runtime(loops=1, limits=LIMITS) as runtime, blocked(runtime) as verticle:
        await until(lambda: "hold_on" in told.text)

    [record, *_] = [one for one in told.records if "hold_on" in one.getMessage()]
    found = MESSAGE.match(record.getMessage())
    assert found is not None
    assert found[1] == "kue-loop-0"
    assert int(found[2]) >= 100
    assert found[3] == "100"
    whose = f" by Verticle {verticle.deployment_id} at "
    assert f"{whose}{__file__}:" in record.getMessage()


async def test_it_is_told_again_with_the_stack_when_it_takes_longer(
    told: pytest.LogCaptureFixture,
) -> None:
    async with Runtime(loops=1, limits=LIMITS) as runtime, blocked(runtime):
        await until(lambda: "go_on.wait()" in told.text)

    messages = [one.getMessage() for one in told.records if "hold_on" in one.message]
    times = [int(found[2]) for found in map(MESSAGE.match, messages) if found]
    assert len(times) >= 2
    assert times == sorted(times)
    for message, ms in zip(messages, times, strict=True):
        assert ("go_on.wait()" in message) == (ms >= 400)
    # Of the runtime and the loop beneath it nothing is shown.
    assert "kue/runtime" not in messages[-1]


async def test_the_loop_that_opened_the_runtime_is_watched_too(
    told: pytest.LogCaptureFixture,
) -> None:
    async with Runtime(limits=LIMITS):
        # Holding the loop is what is tried here.
        time.sleep(0.3)  # noqa: ASYNC251
        await until(lambda: MESSAGE.search(told.text) is not None)

    assert threading.current_thread().name in told.text


@pytest.mark.parametrize("kind", ["worker verticle", "blocking code"])
async def test_a_blocked_worker_has_a_limit_of_its_own(
    told: pytest.LogCaptureFixture, kind: str
) -> None:
    async with Runtime(limits=LIMITS) as runtime:
        if kind == "worker verticle":
            async with blocked(runtime, worker=True):
                await until(lambda: "hold_on" in told.text)
        else:
            go_on = Signal()
            call = asyncio.create_task(runtime.execute_blocking(go_on.wait))
            await until(lambda: "Thread kue-worker-0" in told.text)
            go_on.tell()
            await call

    messages = [one.getMessage() for one in told.records]
    found = MESSAGE.match(next(one for one in messages if "kue-worker-0" in one))
    assert found is not None
    assert int(found[2]) >= 200
    assert found[3] == "200"


async def test_a_pool_may_have_its_own_limit(told: pytest.LogCaptureFixture) -> None:
    async with Runtime(limits=LIMITS) as runtime:
        executor = runtime.worker_executor("slow", limit=0.05)
        go_on = Signal()
        call = asyncio.create_task(executor.execute_blocking(go_on.wait))
        await until(lambda: "time limit is 50 ms" in told.text)
        go_on.tell()
        await call


async def test_threads_that_are_idle_or_take_short_steps_are_not_blocked(
    told: pytest.LogCaptureFixture,
) -> None:
    limits = MonitorLimits(interval=0.02, loop=0.1, worker=1.0)
    async with Runtime(loops=2, limits=limits) as runtime:
        verticle = Verticle()
        await runtime.deploy(verticle, worker=True)
        for _ in range(30):
            await verticle.context.call(asyncio.sleep, 0.01)

    # A machine that is busy with others may stop anyone for longer than the limit.
    assert not [one for one in told.records if "kue-worker" in one.getMessage()]


async def test_nobody_watches_without_limits() -> None:
    before = set(threading.enumerate())

    async with Runtime(limits=None):
        assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("name", ["interval", "loop", "worker"])
def test_a_limit_is_more_than_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be more than 0"):
        MonitorLimits(**{name: 0})
