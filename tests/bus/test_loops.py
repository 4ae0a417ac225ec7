"""Consumers in several event loops: each runs in its own, whoever sends."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.bus.hearing import Ear

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kue.bus import EventBus, Message


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    async def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Run a coroutine function there."""

        async def run() -> Any:
            return await call()

        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(run(), self.loop)
        )

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def other() -> Iterator[Loop]:
    other = Loop()
    yield other
    if not other.loop.is_closed():
        other.stop()


async def test_a_handler_runs_in_the_loop_it_was_registered_in(
    bus: EventBus, other: Loop
) -> None:
    async def register() -> None:
        async def where(message: Message) -> None:
            message.reply(threading.get_ident())

        bus.consumer("async", where)
        bus.consumer("plain", lambda message: message.reply(threading.get_ident()))

    await other.run(register)

    async def ident() -> int:
        return threading.get_ident()

    there = await other.run(ident)
    assert (await bus.request("async")).body == there
    assert (await bus.request("plain")).body == there
    assert there != threading.get_ident()


async def test_order_is_kept_between_loops(bus: EventBus, other: Loop) -> None:
    ear = Ear()
    bus.consumer("news", ear)

    async def send() -> None:
        for number in range(1000):
            bus.send("news", number)

    await other.run(send)

    assert await ear.hears(1000) == list(range(1000))


async def test_two_loops_ask_each_other(bus: EventBus, other: Loop) -> None:
    bus.consumer("here", lambda message: message.reply(message.body + 1))

    async def serve() -> None:
        async def there(message: Message) -> None:
            message.reply((await bus.request("here", message.body)).body + 1)

        bus.consumer("there", there)

    await other.run(serve)

    assert [(await bus.request("there", n)).body for n in range(20)] == list(
        range(2, 22)
    )


async def test_a_thread_without_a_loop_can_send(bus: EventBus) -> None:
    ear = Ear()
    bus.consumer("news", ear)

    await asyncio.to_thread(bus.send, "news", 1)

    assert await ear.hears(1) == [1]


async def test_a_consumer_can_be_unregistered_from_elsewhere(
    bus: EventBus, other: Loop
) -> None:
    ended = threading.Event()

    async def register() -> Any:
        consumer = bus.consumer("news", Ear())
        consumer.on_end = ended.set
        return consumer

    consumer = await other.run(register)
    consumer.unregister()

    assert await asyncio.to_thread(ended.wait, 20)
    assert bus.consumers() == {}


async def test_a_loop_that_is_gone_stops_nobody(bus: EventBus, other: Loop) -> None:
    async def register() -> None:
        bus.consumer("news", Ear())

    await other.run(register)
    other.stop()
    ear = Ear()
    bus.consumer("news", ear)

    bus.publish("news", 1)

    assert await ear.hears(1) == [1]
