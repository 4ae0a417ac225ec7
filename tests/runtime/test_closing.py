"""A runtime that is closed leaves nothing behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from kue.bus import EventBus
from kue.runtime import Runtime, RuntimeClosed, Verticle
from tests.runtime.waiting import Lingering, Signal, SlowToStop
from tests.support.patience import PATIENCE_SECONDS, until


class Recorder(Verticle):
    def __init__(self, seen: list[str], name: str) -> None:
        self.seen = seen
        self.name = name

    async def stop(self) -> None:
        self.seen.append(self.name)


class RecordedBus(EventBus):
    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self.seen = seen

    async def start(self) -> None:
        self.seen.append("bus starts")

    async def close(self) -> None:
        self.seen.append("bus closes")


async def test_verticles_end_before_the_hooks_are_called_and_then_the_bus() -> None:
    seen: list[str] = []
    bus = RecordedBus(seen)
    async with Runtime(loops=2, bus=bus) as runtime:
        runtime.add_close_hook(lambda: seen.append("hook"))
        verticle = Recorder(seen, "first")
        await runtime.deploy(verticle)
        assert verticle.runtime.bus is bus
        await runtime.deploy(Recorder(seen, "second"), worker=True)

    assert seen == ["bus starts", "second", "first", "hook", "bus closes"]


async def test_one_that_fails_to_stop_keeps_no_other_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    class Stubborn(Verticle):
        async def stop(self) -> None:
            raise LookupError("no stop")

    async with Runtime(loops=1) as runtime:
        await runtime.deploy(Recorder(seen, "first"))
        await runtime.deploy(Stubborn)
        await runtime.deploy(Recorder(seen, "third"))

    assert seen == ["third", "first"]
    assert "no stop" in caplog.text


async def test_a_bus_that_fails_to_close_keeps_nothing_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(RecordedBus):
        async def close(self) -> None:
            raise LookupError("no close")

    async with Runtime(loops=1, bus=Broken([])) as runtime:
        pass

    assert runtime.is_closed
    assert "the bus could not be closed cleanly" in caplog.text


async def test_a_runtime_whose_bus_does_not_start_is_closed_again() -> None:
    class Broken(RecordedBus):
        async def start(self) -> None:
            raise LookupError("no start")

    runtime = Runtime(loops=1, bus=Broken([]))

    with pytest.raises(LookupError, match="no start"):
        await runtime.open()
    assert runtime.is_closed


async def test_a_second_close_waits_for_the_first(runtime: Runtime) -> None:
    seen: list[str] = []

    class Slow(Recorder):
        async def stop(self) -> None:
            await asyncio.sleep(0.01)
            await super().stop()

    await runtime.deploy(Slow(seen, "slow"))
    first = asyncio.create_task(runtime.close())
    await asyncio.sleep(0)
    await runtime.close()

    assert seen == ["slow"]
    await first
    await runtime.close()


async def test_who_waits_for_a_close_may_give_up(runtime: Runtime) -> None:
    slow = SlowToStop()
    await runtime.deploy(slow)
    first = asyncio.create_task(runtime.close())
    await slow.stopping.told()
    second = asyncio.create_task(runtime.close())
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    slow.go_on.tell()

    await first


async def test_all_threads_end() -> None:
    before = set(threading.enumerate())
    async with Runtime(loops=3) as runtime:
        await runtime.deploy(Verticle, worker=True, instances=3)
        await runtime.execute_blocking(print)

    def left() -> set[threading.Thread]:
        # Those of the loop's own executor may stay: they end with the loop.
        now = {it for it in threading.enumerate() if it.name.startswith("kue")}
        return now - before

    await until(lambda: not left())


async def test_what_runs_outside_of_verticles_is_cancelled(runtime: Runtime) -> None:
    linger = Lingering()

    runtime.run(linger)
    await linger.begun.told()
    await runtime.close()

    assert linger.ended.is_told


async def test_who_waits_for_a_call_is_told_that_the_runtime_was_closed(
    runtime: Runtime,
) -> None:
    linger = Lingering()

    call = asyncio.create_task(runtime.context().call(linger))
    await linger.begun.told()
    await runtime.close()

    with pytest.raises(RuntimeClosed):
        await call


async def test_a_deploy_on_its_way_is_undone(runtime: Runtime) -> None:
    seen: list[str] = []
    begun = Signal()

    class Slow(Verticle):
        async def start(self) -> None:
            self.context.add_close_hook(lambda: seen.append("closed"))
            begun.tell()
            await asyncio.Event().wait()

    deploy = asyncio.create_task(runtime.deploy(Slow))
    await begun.told()
    await runtime.close()

    assert seen == ["closed"]
    with pytest.raises(RuntimeClosed):
        await deploy


@pytest.mark.parametrize("worker", [False, True])
async def test_a_verticle_may_close_its_runtime(runtime: Runtime, worker: bool) -> None:
    seen: list[str] = []
    verticle = Recorder(seen, "it")
    await runtime.deploy(verticle, worker=worker)

    verticle.context.run(runtime.close)

    await until(lambda: runtime.is_closed)
    await runtime.close()
    assert seen == ["it"]


async def test_a_handler_outside_of_verticles_may_close_the_runtime(
    runtime: Runtime,
) -> None:
    runtime.run(runtime.close)

    await until(lambda: runtime.is_closed)
    await runtime.close()


async def test_a_close_that_is_cancelled_goes_on(runtime: Runtime) -> None:
    slow = SlowToStop()
    await runtime.deploy(slow)
    close = asyncio.create_task(runtime.close())
    await slow.stopping.told()
    close.cancel()
    slow.go_on.tell()
    await runtime.close()

    assert runtime.is_closed


async def test_closing_what_was_never_opened_does_nothing() -> None:
    await Runtime().close()


async def test_a_runtime_is_opened_once_and_calls_no_hook_that_was_removed() -> None:
    called = Signal()
    async with Runtime() as runtime:
        with pytest.raises(RuntimeClosed, match="once"):
            await runtime.open()
        runtime.add_close_hook(called.tell)
        runtime.remove_close_hook(called.tell)

    assert not called.is_told


async def test_several_runtimes_live_side_by_side() -> None:
    async with Runtime(loops=1) as one, Runtime(loops=1) as other:
        deployment_id = await one.deploy(Verticle)
        await other.deploy(Verticle)
        one.shared.local_map("colours")["sky"] = "blue"

        await one.close()

        assert deployment_id not in [item.id for item in other.deployments]
        assert len(other.deployments) == 1
        assert "sky" not in other.shared.local_map("colours")


def test_a_program_that_forgets_to_close_ends_all_the_same() -> None:
    program = """
import asyncio, threading
from kue.runtime import Runtime, Verticle

class Stuck(Verticle):
    async def start(self):
        self.context.run(threading.Event().wait)

async def main():
    runtime = await Runtime(loops=2).open()
    await runtime.deploy(Stuck, worker=True)

asyncio.run(main())
print("over")
"""

    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert (ended.returncode, ended.stdout) == (0, "over\n"), ended.stderr
