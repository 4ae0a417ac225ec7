"""Consumers in verticles: they run where the verticle runs, and end with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kue.bus import (
    EventBus,
    FailureKind,
    Handler,
    LocalCluster,
    Message,
    RequestFailed,
)
from kue.runtime import Runtime, RuntimeClosed, Verticle, current_context
from tests.runtime.waiting import Signal, SlowToStop, thread
from tests.support.patience import until


@pytest.fixture(params=[0, 2], ids=["here", "threads"])
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    async with Runtime(loops=request.param, bus=EventBus()) as runtime:
        yield runtime


def bus_of(runtime: Runtime) -> EventBus:
    assert runtime.bus is not None
    return runtime.bus


class Echo(Verticle):
    async def start(self) -> None:
        self.consumer("echo", self.answer)

    async def answer(self, message: Message) -> None:
        await asyncio.sleep(0)
        assert current_context() is self.context
        message.reply(message.body)


class PlainEcho(Verticle):
    async def start(self) -> None:
        self.consumer("echo", self.answer)

    def answer(self, message: Message) -> None:
        assert current_context() is self.context
        message.reply(message.body)


class Consuming(Verticle):
    """Has a function as the consumer of an address."""

    def __init__(self, address: str, handler: Handler) -> None:
        self.address, self.handler = address, handler

    async def start(self) -> None:
        self.consumer(self.address, self.handler)


class Counted(Verticle):
    """Answers which instance it is, and in which thread."""

    async def start(self) -> None:
        self.consumer("who", lambda message: message.reply([id(self), thread()]))


class Failing(Verticle):
    def __init__(self, told: Signal) -> None:
        self.told = told

    async def start(self) -> None:
        self.context.exception_handler = lambda exc: self.told.tell((exc, thread()))
        self.consumer("fails", self.fail)
        self.consumer("fails later", self.fail_later)

    def fail(self, message: Message) -> None:
        raise LookupError("no answer")

    async def fail_later(self, message: Message) -> None:
        await asyncio.sleep(0)
        self.fail(message)


@pytest.mark.parametrize("kind", [Echo, PlainEcho])
@pytest.mark.parametrize("worker", [False, True])
async def test_handlers_run_in_the_context_of_their_verticle(
    runtime: Runtime, kind: type[Verticle], worker: bool
) -> None:
    await runtime.deploy(kind, worker=worker)

    reply = await bus_of(runtime).request("echo", {"n": 1})

    assert reply.body == {"n": 1}


async def test_a_handler_runs_on_the_loop_of_its_verticle() -> None:
    async with Runtime(loops=2, bus=EventBus()) as runtime:
        await runtime.deploy(Counted, instances=2)

        threads = {(await bus_of(runtime).request("who")).body[1] for _ in range(4)}

    assert threads == {"kue-loop-0", "kue-loop-1"}


@pytest.mark.parametrize("worker", [False, True])
async def test_instances_take_turns(runtime: Runtime, worker: bool) -> None:
    await runtime.deploy(Counted, instances=3, worker=worker)

    asked = [(await bus_of(runtime).request("who")).body[0] for _ in range(9)]

    assert len(set(asked[:3])) == 3
    assert asked[:3] == asked[3:6] == asked[6:]


async def test_a_workers_handler_may_block(runtime: Runtime) -> None:
    go_on = Signal()

    def answer(message: Message) -> None:
        go_on.wait()
        message.reply(thread())

    await runtime.deploy(Consuming("slow", answer), worker=True, pool="mine")
    asked = asyncio.create_task(bus_of(runtime).request("slow"))
    await asyncio.sleep(0)
    go_on.tell()

    assert (await asked).body == "mine-0"


async def test_a_worker_handles_one_message_at_a_time_in_order(
    runtime: Runtime,
) -> None:
    seen: list[Any] = []
    running = threading.Lock()
    ended = Signal()

    class Careful(Verticle):
        async def start(self) -> None:
            self.consumer("one", self.handle)
            self.consumer("two", self.handle_later, concurrency=4)

        def handle(self, message: Message) -> None:
            with running:
                seen.append(message.body)
            if len(seen) == 200:
                ended.tell()

        async def handle_later(self, message: Message) -> None:
            assert running.acquire(blocking=False)
            await asyncio.sleep(0)
            running.release()
            self.handle(message)

    await runtime.deploy(Careful, worker=True)
    for number in range(100):
        bus_of(runtime).send("one", ["one", number])
        bus_of(runtime).send("two", ["two", number])
    await ended.told()

    for address in ("one", "two"):
        assert [n for at, n in seen if at == address] == list(range(100))


async def test_a_workers_plain_handler_may_start_a_loop(runtime: Runtime) -> None:
    def nest(message: Message) -> None:
        message.reply(asyncio.run(asyncio.sleep(0, "done")))

    await runtime.deploy(Consuming("nested", nest), worker=True)

    assert (await bus_of(runtime).request("nested")).body == "done"


@pytest.mark.parametrize("address", ["fails", "fails later"])
@pytest.mark.parametrize("worker", [False, True])
async def test_what_a_handler_raises_is_told_to_the_exception_handler(
    runtime: Runtime, address: str, worker: bool
) -> None:
    told = Signal()
    await runtime.deploy(Failing(told), worker=worker)
    await runtime.deploy(Echo)

    with pytest.raises(RequestFailed, match="raised LookupError") as failed:
        await bus_of(runtime).request(address)

    error, where = await told.told()
    assert failed.value.kind is FailureKind.ERROR
    assert str(error) == "no answer"
    assert where.startswith("kue-worker") is worker
    assert (await bus_of(runtime).request("echo", 1)).body == 1


async def test_a_workers_wish_to_exit_ends_nothing(runtime: Runtime) -> None:
    def leave(message: Message) -> None:
        raise SystemExit(1)

    runtime.exception_handler = lambda exc: None
    await runtime.deploy(Consuming("leave", leave), worker=True)

    for _ in range(2):
        with pytest.raises(RequestFailed, match="raised RuntimeError"):
            await bus_of(runtime).request("leave")


@pytest.mark.parametrize("worker", [False, True])
async def test_undeploying_ends_the_consumers(runtime: Runtime, worker: bool) -> None:
    deployment = await runtime.deploy(Echo, worker=worker)
    await runtime.undeploy(deployment)

    with pytest.raises(RequestFailed) as failed:
        await bus_of(runtime).request("echo")

    assert failed.value.kind is FailureKind.NO_HANDLERS
    assert bus_of(runtime).consumers() == {}


@pytest.mark.parametrize("worker", [False, True])
async def test_one_that_fails_to_start_leaves_no_consumer(
    runtime: Runtime, worker: bool
) -> None:
    class Half(Echo):
        async def start(self) -> None:
            await super().start()
            raise LookupError("no start")

    with pytest.raises(LookupError):
        await runtime.deploy(Half, worker=worker)

    assert bus_of(runtime).consumers() == {}


async def test_messages_that_wait_when_a_verticle_is_stopped_are_told(
    runtime: Runtime,
) -> None:
    """Nothing is handled once it is stopped, and who asked need not wait."""
    busy = Signal()
    seen: list[Any] = []

    async def handle(message: Message) -> None:
        seen.append(message.body)
        busy.tell()
        await asyncio.Event().wait()

    class Slow(Consuming):
        async def stop(self) -> None:
            seen.append("stop")

    deployment = await runtime.deploy(Slow("slow", handle))
    bus = bus_of(runtime)
    bus.send("slow", "first")
    await busy.told()
    asked = [asyncio.create_task(bus.request("slow", "waits")) for _ in range(3)]
    await until(lambda: bus.waiting == 3)
    await runtime.undeploy(deployment)

    for each in asked:
        with pytest.raises(RequestFailed, match="Discarded the request"):
            await each
    assert seen == ["first", "stop"]


async def test_a_workers_message_in_line_behind_its_stop_is_refused(
    runtime: Runtime,
) -> None:
    seen: list[Any] = []

    class Slow(SlowToStop):
        async def start(self) -> None:
            self.consumer("slow", lambda message: seen.append(message.body))

    slow, blocked, release = Slow(), Signal(), Signal()
    deployment = await runtime.deploy(slow, worker=True)

    def hold() -> None:
        blocked.tell()
        release.wait()

    slow.context.run(hold)
    await blocked.told()
    undeploying = asyncio.create_task(runtime.undeploy(deployment))
    # The line now holds the stop; the message comes in behind it.
    await until(lambda: len(slow.context._ordered._calls) == 1)  # type: ignore[attr-defined]
    asked = asyncio.create_task(bus_of(runtime).request("slow", 1))
    await until(lambda: len(slow.context._ordered._calls) == 2)  # type: ignore[attr-defined]
    release.tell()
    await slow.stopping.told()
    slow.go_on.tell()
    await undeploying

    with pytest.raises(RequestFailed, match="Discarded the request"):
        await asked
    assert seen == []


async def test_handlers_that_run_are_cancelled_after_the_stop(runtime: Runtime) -> None:
    seen: list[str] = []
    busy = Signal()

    async def handle(message: Message) -> None:
        busy.tell()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    class Endless(Consuming):
        async def stop(self) -> None:
            seen.append("stop")

    deployment = await runtime.deploy(Endless("endless", handle))
    bus_of(runtime).send("endless")
    await busy.told()
    await runtime.undeploy(deployment)

    assert seen == ["stop", "cancelled"]


async def test_a_handler_may_undeploy_its_own_verticle(runtime: Runtime) -> None:
    class Mortal(Verticle):
        async def start(self) -> None:
            self.consumer("end", self.end)

        async def end(self, message: Message) -> None:
            assert self.deployment_id is not None
            await self.runtime.undeploy(self.deployment_id)
            message.reply("ended")

    await runtime.deploy(Mortal)

    assert (await bus_of(runtime).request("end")).body == "ended"
    assert runtime.deployments == ()


async def test_children_reach_their_parent_until_they_have_ended(
    runtime: Runtime,
) -> None:
    replies: list[Any] = []

    class Child(Verticle):
        async def stop(self) -> None:
            bus = bus_of(self.runtime)
            replies.append((await bus.request("echo", "good bye")).body)

    class Parent(Echo):
        async def start(self) -> None:
            await super().start()
            await self.runtime.deploy(Child)

    deployment = await runtime.deploy(Parent)
    await runtime.undeploy(deployment)

    assert replies == ["good bye"]


async def test_a_consumer_may_be_paused_by_a_worker(runtime: Runtime) -> None:
    seen: list[Any] = []
    both = Signal()

    class Pausing(Verticle):
        async def start(self) -> None:
            self.fetching = self.consumer("some", self.handle)
            self.fetching.pause()
            self.fetching.fetch(1)

        def handle(self, message: Message) -> None:
            seen.append(message.body)
            if len(seen) < 3:
                self.fetching.fetch(1)
            else:
                both.tell()

    await runtime.deploy(Pausing, worker=True)
    for number in range(4):
        bus_of(runtime).send("some", number)
    await both.told()

    assert seen == [0, 1, 2]


async def test_a_verticle_may_read_its_consumer(runtime: Runtime) -> None:
    class Reader(Verticle):
        async def start(self) -> None:
            self.messages = self.consumer("read")
            self.runtime.run(self.read)

        async def read(self) -> None:
            async for message in self.messages:
                message.reply(message.body)

    await runtime.deploy(Reader)

    assert (await bus_of(runtime).request("read", 7)).body == 7


async def test_a_worker_cannot_read_its_consumer(runtime: Runtime) -> None:
    class Reader(Verticle):
        async def start(self) -> None:
            self.consumer("read")

    with pytest.raises(TypeError, match="give a handler"):
        await runtime.deploy(Reader, worker=True)


async def test_a_consumer_outside_of_a_verticle_ends_with_the_runtime() -> None:
    bus = EventBus()
    async with Runtime(loops=1, bus=bus) as runtime:
        runtime.consumer("who", lambda message: message.reply(thread()))

        assert (await bus.request("who")).body == "kue-loop-0"
        await runtime._hooks.close()
        assert bus.consumers() == {}


async def test_one_that_is_unregistered_leaves_nothing_behind(runtime: Runtime) -> None:
    hooks = len(runtime._hooks._hooks)

    for _ in range(10):
        runtime.consumer("who", lambda message: None).unregister()

    assert len(runtime._hooks._hooks) == hooks


async def test_deploy_waits_for_what_start_waited_for() -> None:
    """Every node of the cluster knows where it listens when it is deployed."""

    class Ready(Echo):
        async def start(self) -> None:
            await self.consumer("ready", self.answer).ready()

    cluster = LocalCluster()
    async with EventBus(cluster.manager()) as other:
        node = EventBus(cluster.manager())
        async with Runtime(loops=1, bus=node) as runtime:
            await runtime.deploy(Ready, worker=True)

            assert (await other.request("ready", 1)).body == 1


async def test_without_a_bus_there_is_no_consumer() -> None:
    async with Runtime() as runtime:
        with pytest.raises(ValueError, match="has no bus"):
            await runtime.deploy(Echo)


async def test_a_verticle_that_has_ended_makes_no_consumer(runtime: Runtime) -> None:
    verticle = Echo()
    await runtime.undeploy(await runtime.deploy(verticle))

    with pytest.raises(RuntimeClosed):
        verticle.consumer("late", verticle.answer)
