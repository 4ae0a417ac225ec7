"""Consumers in several event loops: each runs in its own, whoever sends."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from kue.bus import EventBus, Message
from tests.bus.hearing import Ear, listen
from tests.bus.nodes import Nodes, listen_ready
from tests.bus.threads import Loop


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
    ear = listen(bus, "news")

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
    ear = listen(bus, "news")

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
    ear = listen(bus, "news")

    bus.publish("news", 1)

    assert await ear.hears(1) == [1]


async def test_any_loop_may_use_a_bus_of_many_nodes(nodes: Nodes, other: Loop) -> None:
    a, b = await nodes.several(2)
    ear = await listen_ready(a, "here", known_to=b)

    async def elsewhere() -> Any:
        await b.consumer("there", lambda message: message.reply("yes")).ready()
        b.send("here", 1)
        await b.flush()
        return (await b.request("there", local=True)).body

    async def ask() -> Any:
        return (await b.request("not yet known")).body

    assert await other.run(elsewhere) == "yes"
    assert await ear.hears(1) == [1]
    assert (await a.request("there")).body == "yes"
    await a.consumer("not yet known", lambda message: message.reply("known")).ready()
    assert await other.run(ask) == "known"
