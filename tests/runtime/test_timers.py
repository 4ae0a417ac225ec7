"""Timers: once or again and again, in the context that set them."""

from __future__ import annotations

import asyncio
import time

import pytest

from kue.runtime import Runtime, Verticle, current_context
from tests.runtime.waiting import Signal, pass_time
from tests.support.patience import until


async def test_a_timer_calls_its_handler_once_with_its_id(runtime: Runtime) -> None:
    called = Signal()
    began = time.monotonic()

    timer_id = runtime.set_timer("20ms", called.tell)
    others = {runtime.set_timer("1h", print) for _ in range(2)}

    assert len(others - {timer_id}) == 2
    assert await called.told() == timer_id
    # Loops count in milliseconds.
    assert time.monotonic() - began >= 0.019
    assert not runtime.cancel_timer(timer_id)


async def test_a_periodic_timer_calls_its_handler_until_it_is_cancelled(
    runtime: Runtime,
) -> None:
    calls, fifth = list[int](), Signal()

    def count(timer_id: int) -> None:
        calls.append(timer_id)
        if len(calls) == 5:
            assert runtime.cancel_timer(timer_id)
            fifth.tell()

    timer_id = runtime.set_periodic(0.002, count)
    await fifth.told()
    # Any more would come before this one.
    await pass_time(runtime, 0.02)

    assert calls == [timer_id] * 5


async def test_a_timer_that_is_cancelled_does_not_call(runtime: Runtime) -> None:
    called = Signal()
    timer_id = runtime.set_timer(0.1, called.tell)

    assert runtime.cancel_timer(timer_id)
    await pass_time(runtime, 0.12)

    assert not called.is_told
    assert not runtime.cancel_timer(timer_id)
    assert not runtime.cancel_timer(12345)


@pytest.mark.parametrize("delay", [0, 0.0001, -1])
async def test_a_delay_is_at_least_a_millisecond(
    runtime: Runtime, delay: float
) -> None:
    with pytest.raises(ValueError, match="delay"):
        runtime.set_timer(delay, print)
    with pytest.raises(ValueError, match="delay"):
        runtime.set_periodic(delay, print)


@pytest.mark.parametrize("worker", [False, True])
async def test_a_handler_runs_in_the_context_that_set_the_timer(
    runtime: Runtime, worker: bool
) -> None:
    seen = Signal()

    class Waiting(Verticle):
        async def start(self) -> None:
            self.runtime.set_timer(0.001, self.look)

        async def look(self, timer_id: int) -> None:
            await asyncio.sleep(0)
            seen.tell(current_context() is self.context)

    await runtime.deploy(Waiting, worker=worker)

    assert await seen.told()


@pytest.mark.parametrize("worker", [False, True])
async def test_timers_are_cancelled_with_their_verticle(
    runtime: Runtime, worker: bool
) -> None:
    calls: list[int] = []
    ids: list[int] = []

    class Ticking(Verticle):
        async def start(self) -> None:
            ids.append(self.runtime.set_periodic(0.002, calls.append))
            ids.append(self.runtime.set_timer("1h", calls.append))

    deployment_id = await runtime.deploy(Ticking, worker=worker)
    await until(lambda: len(calls) >= 2)
    await runtime.undeploy(deployment_id)
    count = len(calls)
    await pass_time(runtime, 0.02)

    assert len(calls) == count
    assert not any(runtime.cancel_timer(timer_id) for timer_id in ids)


async def test_a_handler_that_fails_does_not_end_a_periodic_timer(
    runtime: Runtime,
) -> None:
    errors: list[BaseException] = []
    runtime.exception_handler = errors.append

    async def fail(timer_id: int) -> None:
        raise LookupError

    runtime.set_periodic(0.002, fail)

    await until(lambda: len(errors) >= 3)


@pytest.mark.parametrize("worker", [False, True])
async def test_a_handler_that_is_slower_than_its_timer_does_not_pile_up(
    runtime: Runtime, worker: bool
) -> None:
    verticle, calls, go_on = Verticle(), list[int](), Signal()
    await runtime.deploy(verticle, worker=worker)

    async def linger(timer_id: int) -> None:
        calls.append(timer_id)
        await go_on.told()

    async def set_it() -> None:
        runtime.set_periodic(0.002, linger)

    await verticle.context.call(set_it)
    await until(lambda: len(calls) == 1)
    await pass_time(runtime, 0.02)

    assert len(calls) == 1
    go_on.tell()
    await until(lambda: len(calls) >= 2)


async def test_a_late_timer_keeps_its_rate_and_makes_up_for_nothing() -> None:
    async with Runtime(limits=None) as runtime:
        calls: list[float] = []
        began = time.monotonic()
        runtime.set_periodic(0.05, lambda _: calls.append(time.monotonic()))

        # The loop is held on purpose: for three periods nothing can be called.
        time.sleep(0.17)  # noqa: ASYNC251
        await until(lambda: len(calls) >= 2)

    # Once for those that were missed, then on the beat.
    assert calls[1] - began >= 0.195


async def test_no_timer_outlives_its_runtime(runtime: Runtime) -> None:
    calls: list[int] = []
    timer_id = runtime.set_timer("1h", print)
    runtime.set_periodic(0.001, calls.append)
    await until(lambda: len(calls) >= 2)

    await runtime.close()
    count = len(calls)

    assert not runtime.cancel_timer(timer_id)
    # Many periods: what it must not do can only be waited for.
    await asyncio.sleep(0.02)
    assert len(calls) == count
