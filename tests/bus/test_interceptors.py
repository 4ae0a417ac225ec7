"""Interceptors: what every message passes."""

from __future__ import annotations

import pytest

from kue.bus import EventBus, Interceptor, Message, Proceed, RequestFailed
from kue.bus.interceptors import InterceptorChain as Chain
from tests.bus.hearing import listen, turns


@pytest.fixture(params=["outbound", "inbound"])
def chain(request: pytest.FixtureRequest, bus: EventBus) -> Chain:
    chain: Chain = getattr(bus, request.param)
    return chain


def noting(seen: list[object], name: object = None) -> Interceptor:
    """Return an interceptor that writes down its name, or else the body."""

    def note(message: Message, proceed: Proceed) -> None:
        seen.append(name or message.body)
        proceed()

    return note


async def test_interceptors_see_messages_in_the_order_they_were_added(
    bus: EventBus,
) -> None:
    seen: list[object] = []
    ear = listen(bus, "news")
    for name in ("first", "second"):
        bus.outbound.add(noting(seen, name))

    bus.send("news", 1)
    await ear.hears(1)

    assert seen == ["first", "second"]


async def test_an_interceptor_may_drop_a_message(bus: EventBus, chain: Chain) -> None:
    ear = listen(bus, "news")

    def drop_odd(message: Message, proceed: Proceed) -> None:
        if message.body % 2 == 0:
            proceed()

    chain.add(drop_odd)

    for number in range(5):
        bus.publish("news", number)

    assert await ear.hears(3) == [0, 2, 4]


async def test_an_interceptor_may_add_headers(bus: EventBus, chain: Chain) -> None:
    ear = listen(bus, "news")

    def sign(message: Message, proceed: Proceed) -> None:
        message.headers.add("signed", "yes")
        proceed()

    chain.add(sign)

    bus.publish("news", 1)
    await ear.hears(1)

    assert ear.messages[0].headers["signed"] == "yes"


async def test_replies_pass_as_well(bus: EventBus, chain: Chain) -> None:
    seen: list[object] = []
    bus.consumer("ask", lambda message: message.reply("answer"))
    chain.add(noting(seen))

    await bus.request("ask", "question")

    assert seen == ["question", "answer"]


async def test_a_request_that_is_dropped_times_out(bus: EventBus) -> None:
    bus.consumer("ask", lambda message: message.reply("answer"))
    bus.outbound.add(lambda message, proceed: None)

    with pytest.raises(RequestFailed, match="Timed out"):
        await bus.request("ask", timeout=0.01)


async def test_inbound_interceptors_see_each_delivery(bus: EventBus) -> None:
    seen: list[object] = []
    for _ in range(2):
        listen(bus, "news")
    bus.inbound.add(noting(seen))

    bus.publish("news", 1)
    await turns()

    assert seen == [1, 1]


async def test_an_interceptor_that_raises_drops_the_message_and_is_logged(
    bus: EventBus, chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    ear = listen(bus, "news")

    def broken(message: Message, proceed: Proceed) -> None:
        raise RuntimeError("on purpose")

    chain.add(broken)
    bus.publish("news", 1)
    await turns()
    chain.remove(broken)
    chain.remove(broken)
    bus.publish("news", 2)

    assert await ear.hears(1) == [2]
    assert "an interceptor failed for news" in caplog.text


async def test_an_interceptor_that_was_removed_sees_nothing_more(bus: EventBus) -> None:
    seen: list[object] = []
    watch = noting(seen)
    bus.outbound.add(watch)
    bus.inbound.add(watch)
    ear = listen(bus, "news")
    bus.send("news", 1)
    await ear.hears(1)
    bus.outbound.remove(watch)
    bus.inbound.remove(watch)
    bus.send("news", 2)

    assert await ear.hears(2) == [1, 2]
    assert seen == [1, 1]
