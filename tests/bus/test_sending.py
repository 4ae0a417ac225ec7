"""Publish and send, within one process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Any

import pytest

from kue.bus import BusClosed, EventBus, Message
from tests.bus.hearing import Ear, listen, turns


async def test_messages_are_published_to_all_sent_to_one_and_answered(
    bus: EventBus,
) -> None:
    ears = [Ear() for _ in range(2)]
    for ear in ears:
        bus.consumer("news", ear)
    bus.consumer("double", lambda message: message.reply(2 * message.body))

    bus.publish("news", "to all")
    bus.send("news", "to one")
    reply = await bus.request("double", 21, timeout=5)

    assert [ear.bodies for ear in ears] == [["to all", "to one"], ["to all"]]
    assert reply.body == 42


async def test_what_is_published_reaches_every_consumer(bus: EventBus) -> None:
    ears = [Ear() for _ in range(3)]
    for ear in ears:
        bus.consumer("news", ear)

    bus.publish("news", "rain")

    for ear in ears:
        assert await ear.hears(1) == ["rain"]


async def test_what_is_sent_reaches_consumers_in_turn(bus: EventBus) -> None:
    ears = [Ear() for _ in range(3)]
    for ear in ears:
        bus.consumer("work", ear)

    for number in range(9):
        bus.send("work", number)

    assert await ears[0].hears(3) == [0, 3, 6]
    assert await ears[1].hears(3) == [1, 4, 7]
    assert await ears[2].hears(3) == [2, 5, 8]


async def test_a_message_says_how_it_was_sent(bus: EventBus) -> None:
    ear = listen(bus, "news")

    bus.send("news")
    bus.publish("news")
    await ear.hears(2)

    sent, published = ear.messages
    assert (sent.address, sent.body, sent.is_send) == ("news", None, True)
    assert not published.is_send
    assert sent.reply_address is None


async def test_other_addresses_hear_nothing(bus: EventBus) -> None:
    ear, other = Ear(), Ear()
    bus.consumer("news", ear)
    bus.consumer("news.local", other)

    bus.publish("news", 1)
    await ear.hears(1)

    assert other.bodies == []


async def test_nobody_there_is_no_error(bus: EventBus) -> None:
    bus.send("nobody", 1)
    bus.publish("nobody", 1)


async def test_order_is_kept_for_each_consumer(bus: EventBus) -> None:
    """Longer than a turn of the loop, so that order survives the break as well."""
    plain, later = Ear(), Ear()

    async def slow(message: Message) -> None:
        await asyncio.sleep(0)
        later(message)

    bus.consumer("news", plain)
    bus.consumer("news", slow)

    for number in range(500):
        bus.publish("news", number)

    assert await plain.hears(500) == list(range(500))
    assert await later.hears(500) == list(range(500))


async def test_no_handler_runs_before_the_sender_has_gone_on(bus: EventBus) -> None:
    ear = listen(bus, "news")

    bus.send("news", 1)

    assert ear.bodies == []
    await ear.hears(1)


@pytest.mark.parametrize(
    "body",
    [
        None,
        True,
        0,
        -(2**70),
        1.5,
        "",
        "žluť",
        b"",
        b"\x00\xff",
        {},
        [],
        {"a": [1, {}]},
    ],
    ids=repr,
)
async def test_a_body_comes_as_it_was_sent(bus: EventBus, body: object) -> None:
    ear = listen(bus, "news")

    bus.send("news", body)

    assert await ear.hears(1) == [body]


async def test_each_consumer_has_its_own_copy(bus: EventBus) -> None:
    seen: list[Any] = []

    def change(message: Message) -> None:
        seen.append(message.body["tags"][:])
        message.body["tags"].append("changed")
        message.headers.add("by", "me")
        seen.append(message.headers.all("by"))

    for _ in range(2):
        bus.consumer("news", change)
    body = {"tags": ["new"]}

    bus.publish("news", body)
    body["tags"].append("after")
    await turns()

    assert seen == [["new"], ["me"], ["new"], ["me"]]
    assert body == {"tags": ["new", "after"]}


async def test_a_consumer_that_raises_harms_nobody_else(
    bus: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(message: Message) -> None:
        raise RuntimeError("on purpose")

    async def broken_later(message: Message) -> None:
        raise RuntimeError("on purpose, later")

    ear = Ear()
    for handler in (broken, broken_later, ear):
        bus.consumer("news", handler)

    with caplog.at_level(logging.ERROR):
        bus.publish("news", 1)
        bus.publish("news", 2)
        assert await ear.hears(2) == [1, 2]
        await turns()

    assert [record.getMessage() for record in caplog.records] == [
        "the consumer of news failed"
    ] * 4


async def test_a_handler_sees_the_variables_of_its_registration(bus: EventBus) -> None:
    """And not those of whoever happens to send."""
    who = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []
    who.set("consumer")

    async def later(message: Message) -> None:
        seen.append(who.get())

    bus.consumer("news", lambda message: seen.append(who.get()))
    bus.consumer("news", later)
    who.set("sender")

    bus.publish("news")
    await turns()

    assert seen == ["consumer", "consumer"]


@pytest.mark.parametrize("address", ["", "x" * 1001, None, 7])
async def test_an_address_is_text_of_bounded_length(
    bus: EventBus, address: Any
) -> None:
    with pytest.raises(ValueError, match="text of 1 to 1000 characters"):
        bus.send(address)
    with pytest.raises(ValueError, match="an address must be text"):
        bus.consumer(address)


async def test_a_closed_bus_takes_nothing() -> None:
    bus = EventBus()
    ear = Ear()
    consumer = bus.consumer("news", ear)
    await bus.close()
    await bus.close()

    assert not consumer.is_registered
    with pytest.raises(BusClosed, match="the bus is not open"):
        bus.send("news")
    with pytest.raises(BusClosed):
        bus.consumer("news", ear)
    with pytest.raises(BusClosed):
        await bus.request("news")


async def test_local_messages_and_consumers_need_no_cluster(bus: EventBus) -> None:
    ear = Ear()
    bus.consumer("news", ear, local=True)

    bus.send("news", 1, local=True)
    bus.publish("news", 2)

    assert await ear.hears(2) == [1, 2]


async def test_the_bus_tells_who_listens_where(bus: EventBus) -> None:
    bus.consumer("a", Ear())
    bus.consumer("b", Ear())
    gone = bus.consumer("b", Ear())

    assert bus.consumers() == {"a": 1, "b": 2}
    gone.unregister()

    assert bus.consumers() == {"a": 1, "b": 1}


async def test_buses_of_one_process_do_not_hear_each_other(bus: EventBus) -> None:
    ear, other_ear = Ear(), Ear()
    bus.consumer("news", ear)
    async with EventBus() as other:
        other.consumer("news", other_ear)
        other.publish("news", 1)
        await other_ear.hears(1)

    assert ear.bodies == []


async def test_a_bus_knows_whether_it_is_heard(bus: EventBus) -> None:
    assert not bus.is_heard("here")
    consumer = bus.consumer("here", Ear())
    assert bus.is_heard("here")

    consumer.unregister()

    assert not bus.is_heard("here")
