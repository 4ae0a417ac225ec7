"""What Vert.x's own tests hold of its bus, as far as no other file here does."""

from __future__ import annotations

import asyncio

from kue.bus import EventBus, FailureKind, Message, RequestFailed
from tests.bus.hearing import Ear, failure_of, turns
from tests.bus.nodes import Nodes, knows, listen_ready
from tests.support.servers import RedisServer


class Words:
    """A codec whose bodies arrive as something else when they cross nodes."""

    name = "words"

    def copy(self, body: str) -> str:
        return body

    def encode(self, body: str) -> bytes:
        return body.encode()

    def decode(self, encoded: bytes) -> list[str]:
        return encoded.decode().split()


class TooPoor(RequestFailed):
    """A failure of a user's own."""


async def test_an_address_can_be_listened_at_again(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    for number in range(3):
        ear = Ear()
        consumer = b.consumer("news", ear)
        await consumer.ready()
        await knows(a, "news", 1)
        a.send("news", number)
        assert await ear.hears(1) == [number]
        consumer.unregister()
        await knows(a, "news", 0)


async def test_a_node_may_send_to_itself(nodes: Nodes) -> None:
    [bus] = await nodes.several(1)
    ear = await listen_ready(bus, "news")

    bus.send("news", 1)
    bus.publish("news", 2)

    assert await ear.hears(2) == [1, 2]


async def test_a_handler_may_send_to_its_own_address(bus: EventBus) -> None:
    ear = Ear()

    def countdown(message: Message) -> None:
        ear(message)
        if message.body:
            bus.send("count", message.body - 1)

    bus.consumer("count", countdown)
    bus.send("count", 5)

    assert await ear.hears(6) == [5, 4, 3, 2, 1, 0]


async def test_whoever_is_asked_while_consumers_come_and_go_is_answered_somehow(
    nodes: Nodes,
) -> None:
    """With a reply, or with a failure that says that nobody was there."""
    a, b = await nodes.several(2)
    is_over = False

    async def come_and_go() -> None:
        while not is_over:
            consumer = b.consumer("ask", lambda message: message.reply("yes"))
            await consumer.ready()
            await turns()
            consumer.unregister()
            await b.flush()

    going = asyncio.create_task(come_and_go(), name="come and go")
    answers = [
        await asyncio.gather(
            *(a.request("ask", timeout=30) for _ in range(5)), return_exceptions=True
        )
        for _ in range(20)
    ]
    is_over = True
    await going

    for answer in (each for some in answers for each in some):
        if isinstance(answer, BaseException):
            assert isinstance(answer, RequestFailed)
            assert "Timed out" not in answer.text
            assert answer.kind in (FailureKind.NO_HANDLERS, FailureKind.TIMEOUT)
        else:
            assert answer.body == "yes"


async def test_a_reply_address_is_not_announced(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    a, b = await redis_nodes.several(2)
    ear = await listen_ready(b, "ask")
    asked = asyncio.create_task(a.request("ask"), name="ask")
    await ear.hears(1)

    with redis_server.client() as client:
        assert client.exists(f"{redis_nodes.root}:at:{a.node}") == 0
    ear.messages[0].reply("yes")

    assert (await asked).body == "yes"
    assert a.consumers() == {}


async def test_a_codec_may_make_something_else_of_a_body_on_the_wire(
    nodes: Nodes,
) -> None:
    a, b = await nodes.several(2)
    here, there = Ear(), Ear()
    for bus, ear in ((a, here), (b, there)):
        bus.codecs.register(Words())
        await bus.consumer("news", ear).ready()
    await knows(a, "news", 1)

    a.publish("news", "rain at noon", codec="words")

    assert await here.hears(1) == ["rain at noon"]
    assert await there.hears(1) == [["rain", "at", "noon"]]


async def test_a_failure_of_a_users_class_arrives_as_a_failure(nodes: Nodes) -> None:
    a, b = await nodes.several(2)

    async def raise_it(message: Message) -> None:
        raise TooPoor("no money", code=402)

    def reply_it(message: Message) -> None:
        message.reply(TooPoor("no money", code=402))

    await b.consumer("raise", raise_it).ready()
    await b.consumer("reply", reply_it).ready()

    for address in ("raise", "reply"):
        failure = await failure_of(a.request(address), "no money")
        assert failure.code == 402
        assert failure.kind is FailureKind.RECIPIENT_FAILURE


async def test_each_consumer_has_headers_of_its_own(bus: EventBus) -> None:
    ears = [Ear(), Ear()]

    def spoil(message: Message) -> None:
        message.headers["tag"] = "mine"
        ears[0](message)

    bus.consumer("news", spoil)
    bus.consumer("news", ears[1])
    bus.publish("news", 1, headers={"tag": "yours"})
    await ears[0].hears(1)
    await ears[1].hears(1)

    assert ears[1].messages[0].headers["tag"] == "yours"


async def test_bodies_can_be_read_alone(bus: EventBus) -> None:
    consumer = bus.consumer("news")
    for number in range(3):
        bus.send("news", number)

    read = []
    async for body in consumer.bodies():
        read.append(body)
        if len(read) == 3:
            consumer.unregister()

    assert read == [0, 1, 2]


async def test_a_request_fails_only_once_its_consumer_has_gone(bus: EventBus) -> None:
    """Those that were handled before are answered, those that wait are told at once."""
    consumer = bus.consumer("ask")
    asked = [
        asyncio.create_task(bus.request("ask", number), name="ask")
        for number in range(3)
    ]
    (await anext(consumer)).reply("yes")
    consumer.unregister()

    first, *rest = await asyncio.gather(*asked, return_exceptions=True)
    assert not isinstance(first, BaseException)
    assert first.body == "yes"
    for failure in rest:
        assert isinstance(failure, RequestFailed)
        assert failure.kind is FailureKind.TIMEOUT
        assert failure.text.startswith("Discarded the request.")
