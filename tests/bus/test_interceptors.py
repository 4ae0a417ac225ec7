"""Interceptors: what every message passes."""

from __future__ import annotations

import pytest

from kue.bus import EventBus, Message, Proceed, RequestFailed
from tests.bus.hearing import Ear, turns


async def test_interceptors_see_messages_in_the_order_they_were_added(
    bus: EventBus,
) -> None:
    seen: list[str] = []
    ear = Ear()
    bus.consumer("news", ear)
    for name in ("first", "second"):

        def note(message: Message, proceed: Proceed, name: str = name) -> None:
            seen.append(name)
            proceed()

        bus.outbound.add(note)

    bus.send("news", 1)
    await ear.hears(1)

    assert seen == ["first", "second"]


@pytest.mark.parametrize("way", ["outbound", "inbound"])
async def test_an_interceptor_may_drop_a_message(bus: EventBus, way: str) -> None:
    ear = Ear()
    bus.consumer("news", ear)

    def drop_odd(message: Message, proceed: Proceed) -> None:
        if message.body % 2 == 0:
            proceed()

    getattr(bus, way).add(drop_odd)

    for number in range(5):
        bus.publish("news", number)

    assert await ear.hears(3) == [0, 2, 4]


@pytest.mark.parametrize("way", ["outbound", "inbound"])
async def test_an_interceptor_may_add_headers(bus: EventBus, way: str) -> None:
    ear = Ear()
    bus.consumer("news", ear)

    def sign(message: Message, proceed: Proceed) -> None:
        message.headers.add("signed", "yes")
        proceed()

    getattr(bus, way).add(sign)

    bus.publish("news", 1)
    await ear.hears(1)

    assert ear.messages[0].headers["signed"] == "yes"


@pytest.mark.parametrize("way", ["outbound", "inbound"])
async def test_replies_pass_as_well(bus: EventBus, way: str) -> None:
    seen: list[object] = []
    bus.consumer("ask", lambda message: message.reply("answer"))

    def note(message: Message, proceed: Proceed) -> None:
        seen.append(message.body)
        proceed()

    getattr(bus, way).add(note)

    await bus.request("ask", "question")

    assert seen == ["question", "answer"]


async def test_a_request_that_is_dropped_times_out(bus: EventBus) -> None:
    bus.consumer("ask", lambda message: message.reply("answer"))
    bus.outbound.add(lambda message, proceed: None)

    with pytest.raises(RequestFailed, match="Timed out"):
        await bus.request("ask", timeout=0.01)


async def test_inbound_interceptors_see_each_delivery(bus: EventBus) -> None:
    seen: list[str] = []
    ears = [Ear(), Ear()]
    for ear in ears:
        bus.consumer("news", ear)

    def note(message: Message, proceed: Proceed) -> None:
        seen.append(message.address)
        proceed()

    bus.inbound.add(note)

    bus.publish("news")
    await turns()

    assert seen == ["news", "news"]


@pytest.mark.parametrize("way", ["outbound", "inbound"])
async def test_an_interceptor_that_raises_drops_the_message_and_is_logged(
    bus: EventBus, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear()
    bus.consumer("news", ear)

    def broken(message: Message, proceed: Proceed) -> None:
        raise RuntimeError("on purpose")

    chain = getattr(bus, way)
    chain.add(broken)
    bus.publish("news", 1)
    await turns()
    chain.remove(broken)
    chain.remove(broken)
    bus.publish("news", 2)

    assert await ear.hears(1) == [2]
    assert "an interceptor failed for news" in caplog.text
