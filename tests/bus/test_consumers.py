"""Consumers: pause, resume, fetch, buffers that run over, and leaving."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kue.bus import Consumer, EventBus, FailureKind, Handler, Message, RequestFailed
from tests.bus.hearing import Ear, failure_of, turns
from tests.support.patience import PATIENCE_SECONDS


def paused(
    bus: EventBus, handler: Handler | None, count: int, **options: Any
) -> Consumer:
    """Return a paused consumer of "news", after that many numbers were sent there."""
    consumer = bus.consumer("news", handler, **options)
    consumer.pause()
    for number in range(count):
        bus.send("news", number)
    return consumer


async def test_a_paused_consumer_gets_what_came_when_it_resumes(bus: EventBus) -> None:
    ear = Ear()
    consumer = paused(bus, ear, 3)
    await turns()
    assert ear.bodies == []

    consumer.resume()

    assert await ear.hears(3) == [0, 1, 2]


async def test_fetch_gives_that_many(bus: EventBus) -> None:
    ear = Ear()
    consumer = paused(bus, ear, 5)

    consumer.fetch(2)
    await turns()
    assert ear.bodies == [0, 1]

    consumer.fetch(1)
    consumer.fetch(1)
    await turns()
    assert ear.bodies == [0, 1, 2, 3]


async def test_fetch_before_there_is_something_is_remembered(bus: EventBus) -> None:
    ear = Ear()
    paused(bus, ear, 0).fetch(1)

    bus.send("news", 1)
    bus.send("news", 2)
    await turns()

    assert ear.bodies == [1]


async def test_a_handler_may_pause_its_consumer(bus: EventBus) -> None:
    heard: list[Any] = []

    def one_only(message: Message) -> None:
        heard.append(message.body)
        consumer.pause()

    consumer = bus.consumer("news", one_only)
    for number in range(3):
        bus.send("news", number)
    await turns()
    assert heard == [0]

    consumer.resume()
    await turns()
    assert heard == [0, 1]


async def test_a_full_buffer_discards_and_tells(
    bus: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    ear, lost = Ear(), Ear()
    consumer = bus.consumer("news", ear, buffer=3)
    consumer.on_discard = lost
    consumer.pause()

    with caplog.at_level(logging.WARNING):
        for number in range(6):
            bus.send("news", number)

    assert consumer.discarded == 3
    assert lost.bodies == [3, 4, 5]
    assert [record.getMessage() for record in caplog.records] == [
        "Discarding message as more than 3 buffered in paused consumer. address: news"
    ]
    consumer.resume()
    assert await ear.hears(3) == [0, 1, 2]


async def test_a_request_that_is_discarded_fails_at_once(bus: EventBus) -> None:
    paused(bus, Ear(), 1, buffer=1)

    failure = await failure_of(bus.request("news", "too much"))

    assert failure.kind is FailureKind.TIMEOUT
    assert failure.text.startswith("Discarded the request. address: __vertx.reply")
    assert failure.text.endswith(", repliedAddress: news")


async def test_a_flood_leaves_a_slow_consumer_bounded(bus: EventBus) -> None:
    """The others get all of it."""
    quick = Ear()
    done = asyncio.Event()

    async def slow(message: Message) -> None:
        await done.wait()

    bus.consumer("news", quick)
    consumer = bus.consumer("news", slow)

    for number in range(100_000):
        bus.publish("news", number)
        if number % 1000 == 0:
            await asyncio.sleep(0)
    await quick.hears(100_000)

    assert quick.bodies == list(range(100_000))
    assert consumer.waiting == 1000
    # One is being handled.
    assert consumer.discarded == 98_999
    done.set()


async def test_runs_of_an_async_handler_overlap_when_they_may(bus: EventBus) -> None:
    begun: list[Any] = []
    go_on = asyncio.Event()

    async def wait(message: Message) -> None:
        begun.append(message.body)
        await go_on.wait()
        message.reply(message.body)

    bus.consumer("work", wait, concurrency=3)
    asked = [asyncio.create_task(bus.request("work", n), name="ask") for n in range(5)]
    await turns(5)
    assert begun == [0, 1, 2]

    go_on.set()

    assert [(await each).body for each in asked] == [0, 1, 2, 3, 4]


async def test_a_consumer_that_resumes_uses_all_it_may(bus: EventBus) -> None:
    begun: list[Any] = []

    async def wait(message: Message) -> None:
        begun.append(message.body)
        await asyncio.Event().wait()

    consumer = paused(bus, wait, 5, concurrency=3)

    consumer.resume()
    await turns()

    assert begun == [0, 1, 2]


async def test_a_handler_whose_own_work_is_cancelled_gets_the_next_message(
    bus: EventBus,
) -> None:
    """Cancelled is what it awaited, not the consumer."""

    async def await_what_is_cancelled(message: Message) -> None:
        if message.body == "cancelled":
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        message.reply("done")

    bus.consumer("work", await_what_is_cancelled)

    with pytest.raises(RequestFailed, match="raised CancelledError"):
        await bus.request("work", "cancelled")
    assert (await bus.request("work", "next")).body == "done"


async def test_an_unregistered_consumer_hears_nothing_more(bus: EventBus) -> None:
    ear = Ear()
    ended: list[bool] = []
    consumer = bus.consumer("news", ear)
    consumer.on_end = lambda: ended.append(True)
    bus.send("news", 1)

    consumer.unregister()
    consumer.unregister()
    bus.send("news", 2)
    await turns()

    assert ear.bodies == []
    assert ended == [True]
    assert not consumer.is_registered
    assert bus.consumers() == {}


async def test_unregistering_fails_the_requests_that_wait(bus: EventBus) -> None:
    consumer = paused(bus, Ear(), 0)
    asked = asyncio.create_task(bus.request("news"), name="ask")
    await turns()

    consumer.unregister()

    with pytest.raises(RequestFailed, match="Discarded the request"):
        await asked


async def test_a_handler_may_unregister_its_consumer(bus: EventBus) -> None:
    heard: list[Any] = []

    def once(message: Message) -> None:
        heard.append(message.body)
        consumer.unregister()

    consumer = bus.consumer("news", once)
    bus.send("news", 1)
    bus.send("news", 2)
    await turns()

    assert heard == [1]
    assert bus.consumers() == {}


async def test_one_of_several_may_leave(bus: EventBus) -> None:
    stays, goes = Ear(), Ear()
    bus.consumer("news", stays)
    bus.consumer("news", goes).unregister()

    bus.send("news", 1)
    bus.send("news", 2)

    assert await stays.hears(2) == [1, 2]
    assert goes.bodies == []


async def test_a_consumer_can_be_read(bus: EventBus) -> None:
    consumer = bus.consumer("news")
    read: list[Any] = []

    async def read_all() -> None:
        async for message in consumer:
            read.append(message.body)

    reading = asyncio.create_task(read_all(), name="read")
    bus.send("news", 1)
    await turns()
    bus.send("news", 2)
    bus.send("news", 3)
    await turns()
    consumer.unregister()
    await reading

    assert read == [1, 2, 3]


async def test_reading_obeys_pause_and_fetch(bus: EventBus) -> None:
    consumer = paused(bus, None, 1)
    reading = asyncio.ensure_future(anext(consumer))
    await turns()
    assert not reading.done()

    consumer.fetch(1)

    assert (await reading).body == 0


async def test_a_consumer_that_nobody_reads_keeps_what_fits(bus: EventBus) -> None:
    consumer = bus.consumer("news", buffer=2)
    for number in range(3):
        bus.send("news", number)

    assert consumer.discarded == 1
    assert [(await anext(consumer)).body for _ in range(2)] == [0, 1]


async def test_a_reader_that_gives_up_loses_nothing(bus: EventBus) -> None:
    consumer = bus.consumer("news")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await anext(consumer)

    bus.send("news", 1)

    assert (await anext(consumer)).body == 1


async def test_a_consumer_with_a_handler_cannot_be_read(bus: EventBus) -> None:
    with pytest.raises(TypeError, match="with a handler cannot be read"):
        aiter(bus.consumer("news", Ear()))


async def test_a_hook_that_raises_is_logged(
    bus: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("on purpose")

    consumer = bus.consumer("news", Ear())
    consumer.on_end = broken

    consumer.unregister()

    assert "a consumer's hook failed" in caplog.text


@pytest.mark.parametrize("given", [{"buffer": 0}, {"concurrency": 0}])
async def test_a_consumer_needs_room(bus: EventBus, given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="1"):
        bus.consumer("news", Ear(), **given)  # type: ignore[arg-type]
    assert bus.consumers() == {}


async def test_fetching_nothing_is_a_mistake(bus: EventBus) -> None:
    with pytest.raises(ValueError, match="count must be at least 1"):
        bus.consumer("news").fetch(0)


async def test_a_handler_that_ends_as_a_message_comes_gets_it(bus: EventBus) -> None:
    """The task is over but not yet gone: the message must not wait for another."""
    ear = Ear()

    async def handler(message: Message) -> None:
        ear(message)
        if message.body == 1:
            # Sent in the last step of this task's life.
            asyncio.get_running_loop().call_soon(bus.send, "news", 2)

    bus.consumer("news", handler)
    bus.send("news", 1)

    assert await ear.hears(2) == [1, 2]


async def test_running_handlers_end_with_the_bus() -> None:
    bus = EventBus()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(message: Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    bus.consumer("work", forever)
    bus.send("work")
    await begun.wait()

    await bus.close()

    assert ended.is_set()


async def test_a_handler_may_close_the_bus() -> None:
    bus = EventBus()
    closed = asyncio.Event()

    async def close(message: Message) -> None:
        await bus.close()
        closed.set()

    bus.consumer("end", close)
    bus.send("end")

    async with asyncio.timeout(PATIENCE_SECONDS):
        await closed.wait()


async def test_ten_thousand_consumers_of_one_address_all_hear(bus: EventBus) -> None:
    ear = Ear()
    consumers = [bus.consumer("news", ear) for _ in range(10_000)]

    bus.publish("news", 1)
    await ear.hears(10_000)
    for consumer in consumers:
        consumer.unregister()

    assert bus.consumers() == {}
