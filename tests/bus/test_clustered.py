"""A bus of several nodes: what holds for every kind of cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from kue.bus import BusClosed, EventBus, FailureKind, Message, RequestFailed
from tests.bus.hearing import Ear, failure_of
from tests.bus.nodes import Nodes, knows, listen_ready
from tests.support.patience import until


@dataclass
class Point:
    x: int
    y: int


async def test_nodes_know_each_other(nodes: Nodes) -> None:
    a, b, c = await nodes.several(3)

    assert a.nodes == b.nodes == c.nodes == {a.node, b.node, c.node}


async def test_what_is_published_reaches_each_consumer_of_each_node_once(
    nodes: Nodes,
) -> None:
    buses = await nodes.several(3)
    ears = [Ear() for _ in range(6)]
    for number, ear in enumerate(ears):
        await buses[number % 3].consumer("news", ear).ready()
    await knows(buses[0], "news", 2)

    for number in range(20):
        buses[0].publish("news", {"n": number})
    buses[0].publish("news", "end")

    for ear in ears:
        assert await ear.hears(21) == [*({"n": n} for n in range(20)), "end"]


async def test_what_is_sent_reaches_nodes_in_turn(nodes: Nodes) -> None:
    """A node counts once, however many of its consumers listen."""
    buses = await nodes.several(3)
    ears = [Ear() for _ in range(3)]
    for bus, ear in zip(buses, ears, strict=True):
        await bus.consumer("work", ear).ready()
    await buses[2].consumer("work", ears[2]).ready()
    await knows(buses[0], "work", 2)

    for number in range(30):
        buses[0].send("work", number)

    for ear in ears:
        assert len(await ear.hears(10)) == 10
    assert sorted(n for ear in ears for n in ear.bodies) == list(range(30))


async def test_order_is_kept_between_nodes(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    ear = await listen_ready(b, "news", known_to=a)

    for number in range(5000):
        a.send("news", number)

    assert await ear.hears(5000) == list(range(5000))


async def test_a_request_crosses_nodes_and_so_does_its_reply(nodes: Nodes) -> None:
    a, b = await nodes.several(2)

    async def double(message: Message) -> None:
        message.reply(2 * message.body, headers={"by": b.node})

    await b.consumer("double", double).ready()

    reply = await a.request("double", 21)

    assert (reply.body, reply.headers["by"]) == (42, b.node)


async def test_a_request_right_after_a_registration_finds_it(nodes: Nodes) -> None:
    """Whatever the asking node has heard by then."""
    a, b = await nodes.several(2)
    for number in range(20):
        address = f"service-{number}"
        await b.consumer(address, lambda message: message.reply("yes")).ready()

        assert (await a.request(address)).body == "yes"


async def test_a_reply_from_another_node_can_be_replied_to(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    said: list[object] = []

    async def talk(message: Message) -> None:
        answer = await message.reply_and_request("sure?")
        said.append(answer.body)
        answer.reply("done")

    await b.consumer("talk", talk).ready()

    question = await a.request("talk", "do it")
    end = await question.reply_and_request("yes")

    assert (question.body, said, end.body) == ("sure?", ["yes"], "done")


async def test_failures_cross_nodes_with_kind_code_and_text(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    await b.consumer("pay", lambda message: message.fail(402, "no money")).ready()

    failure = await failure_of(a.request("pay"), "no money")

    assert (failure.kind, failure.code) == (FailureKind.RECIPIENT_FAILURE, 402)


async def test_nobody_on_any_node_is_no_handlers(nodes: Nodes) -> None:
    a, _ = await nodes.several(2)

    failure = await failure_of(a.request("nobody"), "No handlers for address nobody")

    assert failure.kind is FailureKind.NO_HANDLERS


async def test_a_node_that_hears_nobody_there_any_more_says_so(nodes: Nodes) -> None:
    """The asker has not heard yet that the last consumer went."""
    a, b = await nodes.several(2)
    consumer = b.consumer("ask", lambda message: message.reply(1))
    await consumer.ready()
    await knows(a, "ask", 1)

    asked = asyncio.create_task(a.request("ask", timeout=45), name="ask")
    # The consumer goes before the message can come.
    consumer.unregister()

    with pytest.raises(RequestFailed, match="No handlers for address ask"):
        await asked


async def test_a_local_consumer_hears_nothing_from_other_nodes(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    hidden, open_ = Ear(), Ear()
    b.consumer("news", hidden, local=True)
    await b.consumer("news", open_).ready()
    await knows(a, "news", 1)

    a.publish("news", 1)
    a.send("news", 2)
    await open_.hears(2)
    b.publish("news", 3)

    assert await hidden.hears(1) == [3]


async def test_a_local_consumer_is_not_announced(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    b.consumer("ask", lambda message: message.reply(1), local=True)

    with pytest.raises(RequestFailed, match="No handlers"):
        await a.request("ask")
    assert (await b.request("ask")).body == 1


async def test_a_local_message_stays_on_its_node(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    here, there = Ear(), Ear()
    await b.consumer("news", there).ready()
    await knows(a, "news", 1)
    a.send("news", 1, local=True)
    a.consumer("news", here)

    a.publish("news", 2, local=True)
    a.publish("news", 3)

    assert await here.hears(2) == [2, 3]
    assert await there.hears(1) == [3]


async def test_the_last_consumer_to_go_takes_the_address_with_it(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    first, second = b.consumer("news", Ear()), b.consumer("news", Ear())
    await second.ready()
    await knows(a, "news", 1)

    first.unregister()
    await b.flush()
    # What b told before is known once it answers.
    await b.consumer("sync", lambda message: message.reply(1)).ready()
    assert (await a.request("sync")).body == 1
    await knows(a, "news", 1)

    second.unregister()
    await knows(a, "news", 0)


async def test_addresses_come_and_go_quickly_and_end_as_they_should(
    nodes: Nodes,
) -> None:
    a, b = await nodes.several(2)
    for _ in range(50):
        b.consumer("news", Ear()).unregister()
    ear = await listen_ready(b, "news", known_to=a)

    a.send("news", 1)

    assert await ear.hears(1) == [1]


async def test_a_user_class_crosses_nodes_that_both_know_it(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    ear = Ear()
    for bus in (a, b):
        bus.codecs.register_default(Point)
    await b.consumer("news", ear).ready()
    await knows(a, "news", 1)

    a.send("news", Point(1, 2))

    assert await ear.hears(1) == [Point(1, 2)]


async def test_a_class_that_the_other_node_does_not_know_is_an_error(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = await nodes.several(2)
    a.codecs.register_default(Point)
    await b.consumer("ask", Ear()).ready()

    with pytest.raises(
        RequestFailed, match="there is no codec named 'Point'"
    ) as failed:
        await a.request("ask", Point(1, 2))

    assert failed.value.kind is FailureKind.ERROR
    assert "a message to ask cannot be read" in caplog.text


async def test_headers_and_bytes_cross_nodes(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    ear = await listen_ready(b, "news", known_to=a)

    a.send("news", b"\x00\xff", headers={"Tag": ["a", "b"]})

    assert await ear.hears(1) == [b"\x00\xff"]
    assert ear.messages[0].headers.all("tag") == ["a", "b"]


async def test_ten_megabytes_cross_nodes(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    body = bytes(10_000_000)
    await b.consumer("size", lambda message: message.reply(len(message.body))).ready()

    assert (await a.request("size", body)).body == 10_000_000


async def test_a_node_that_leaves_is_asked_no_more(nodes: Nodes) -> None:
    a, b, c = await nodes.several(3)
    for bus in (b, c):
        await bus.consumer("who", lambda m, bus=bus: m.reply(bus.node)).ready()  # type: ignore[misc]
    await knows(a, "who", 2)

    await b.close()
    await knows(a, "who", 1)

    assert {(await a.request("who")).body for _ in range(4)} == {c.node}
    await until(lambda: a.nodes == {a.node, c.node})


async def test_requests_to_a_node_that_leaves_fail_at_once(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    ear = await listen_ready(b, "deaf")
    asked = asyncio.create_task(a.request("deaf"), name="ask")
    await ear.hears(1)

    await b.close()

    failure = await failure_of(asked, f"Node {b.node} left before")
    assert failure.kind is FailureKind.ERROR


async def test_a_clustered_bus_is_closed_until_it_is_started(nodes: Nodes) -> None:
    bus = EventBus(nodes.manager())

    with pytest.raises(BusClosed):
        bus.send("news")


async def test_a_thousand_addresses_are_known_everywhere(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    consumers = [b.consumer(f"at-{n}", Ear()) for n in range(2500)]
    await consumers[-1].ready()

    await knows(a, "at-0", 1)
    await knows(a, "at-2499", 1)
    late = await nodes.new()
    await knows(late, "at-2499", 1)
    for consumer in consumers:
        consumer.unregister()
    await knows(a, "at-0", 0)
    await knows(late, "at-2499", 0)


async def test_turns_are_forgotten_before_they_are_too_many(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kue.bus.bus._MAX_TURNS", 2)
    a, b = await nodes.several(2)
    ear = Ear()
    for number in range(5):
        await b.consumer(f"at-{number}", ear).ready()
        await knows(a, f"at-{number}", 1)

    for number in range(5):
        a.send(f"at-{number}", number)

    assert await ear.hears(5) == [0, 1, 2, 3, 4]
    assert len(a._turns) <= 2


async def test_a_reply_to_a_node_that_is_gone_goes_nowhere(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    ear = await listen_ready(b, "ask")
    asked = asyncio.create_task(a.request("ask"), name="ask")
    await ear.hears(1)
    [message] = ear.messages

    await a.close()
    with pytest.raises(RequestFailed, match="The bus was closed"):
        await asked
    await until(lambda: b.nodes == {b.node})
    message.reply("too late")

    with pytest.raises(RequestFailed, match="No handlers for address __vertx"):
        await message.reply_and_request("too late")


async def test_a_node_knows_whether_another_listens(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    consumer = b.consumer("there", Ear())
    b.consumer("its own", Ear(), local=True)
    await knows(a, "there", 1)

    assert a.is_heard("there")
    assert not a.is_heard("its own")
    consumer.unregister()
    await knows(a, "there", 0)
    assert not a.is_heard("there")
