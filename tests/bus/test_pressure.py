"""A bus under pressure: slow consumers, floods, large messages, nodes that vanish."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from zlib import crc32

import pytest
import redis

from kue.bus import EventBus, FailureKind, Message, RequestFailed
from kue.bus import consumer as consumers
from kue.bus.frames import LARGEST_SIZE
from kue.bus.redis import RedisCluster
from kue.bus.redis import outbox as outboxes
from tests.bus.hearing import Ear, failure_of, turns
from tests.bus.nodes import Nodes, knows, listen_ready
from tests.bus.program import LARGE, cluster, memory
from tests.bus.threads import Loop
from tests.faults.processes import Process
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer

PROGRAM = "tests.bus.program"
FLOOD = 100_000
#: Bytes by which a process may grow while 100,000 messages pass.
GROWTH = 120_000_000


@asynccontextmanager
async def process(
    role: str, url: str, prefix: str
) -> AsyncIterator[tuple[Process, str]]:
    """A node in a process of its own, and its name."""
    async with Process(role, url, prefix, "n", program=PROGRAM) as started:
        yield started, await started.line()


@asynccontextmanager
async def node(url: str, prefix: str) -> AsyncIterator[tuple[EventBus, RedisCluster]]:
    """A node in this process that takes nobody frozen for dead."""
    manager = cluster(url, prefix)
    async with EventBus(manager, max_size=LARGEST_SIZE) as bus:
        yield bus, manager


async def tally(bus: EventBus) -> dict[str, Any]:
    return dict((await bus.request("tally", timeout=60)).body)


def waiting_in_redis(client: redis.Redis) -> int:
    """Return the bytes that Redis holds for subscribers."""
    return sum(int(each["omem"]) for each in client.client_list())


# -- slow consumers -----------------------------------------------------------------


async def test_a_slow_consumer_is_told_of_what_it_misses_and_holds_up_nobody(
    nodes: Nodes,
) -> None:
    a, b = await nodes.several(2)
    go_on = asyncio.Event()
    handled: list[int] = []
    missed: list[int] = []

    async def dawdle(message: Message) -> None:
        await go_on.wait()
        handled.append(message.body)

    slow = b.consumer("slow", dawdle, buffer=100)
    slow.on_discard = lambda message: missed.append(message.body)
    await b.consumer("ping", lambda message: message.reply(message.body)).ready()
    await slow.ready()
    await knows(a, "slow", 1)

    # The sender is not held up: send waits for nothing.
    for number in range(5000):
        a.send("slow", number)
    assert (await a.request("ping", "meanwhile")).body == "meanwhile"
    await until(lambda: slow.waiting + slow.discarded == 4999)
    assert slow.waiting <= 100
    go_on.set()
    await until(lambda: len(handled) + len(missed) == 5000)

    assert sorted(handled + missed) == list(range(5000))
    assert slow.discarded == len(missed) >= 4899


async def test_a_consumer_that_is_always_behind_is_logged_once(
    bus: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = bus.consumer("slow", buffer=10)

    for number in range(200):
        bus.send("slow", number)
        if number % 2:
            await anext(consumer)

    assert consumer.discarded > 50
    assert caplog.text.count("Discarding message") == 1


async def test_an_async_handler_that_never_waits_lets_others_have_their_turn(
    bus: EventBus,
) -> None:
    handled: list[int] = []

    async def eager(message: Message) -> None:
        handled.append(message.body)

    bus.consumer("busy", eager, buffer=10_000)
    bus.consumer("ping", lambda message: message.reply(len(handled)))
    for number in range(10_000):
        bus.send("busy", number)

    assert (await bus.request("ping")).body < 10_000
    await until(lambda: len(handled) == 10_000)


async def test_what_one_turn_of_the_loop_sends_to_a_plain_function_is_bounded(
    bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "BACKLOG", 3000)
    ear = Ear()
    consumer = bus.consumer("flood", ear)

    for number in range(5000):
        bus.send("flood", number)

    assert consumer.waiting == 3000
    assert await ear.hears(3000) == list(range(3000))
    assert consumer.discarded == 2000


async def test_a_loop_that_is_blocked_is_kept_no_more_than_its_consumer_takes(
    bus: EventBus, other: Loop
) -> None:
    """What other threads send must not pile up in front of it."""
    blocked, go_on = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        go_on.wait(PATIENCE_SECONDS)

    async def listen() -> tuple[Any, list[int]]:
        heard: list[int] = []

        async def hear(message: Message) -> None:
            heard.append(message.body)

        return bus.consumer("flood", hear, buffer=100), heard

    consumer, heard = await other.run(listen)
    other.loop.call_soon_threadsafe(block)
    await asyncio.to_thread(blocked.wait, 60)
    for number in range(5000):
        bus.send("flood", number)
    failure = await failure_of(bus.request("flood", 5000), "Discarded the request")
    go_on.set()

    await until(lambda: len(heard) == 100)
    assert heard == list(range(100))
    assert failure.kind is FailureKind.TIMEOUT
    assert consumer.discarded == 4901


async def test_threads_that_outrun_the_loop_of_the_cluster_are_told(
    redis_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kue.bus.redis.cluster.MAX_FRAMES", 100)
    a, b = await redis_nodes.several(2)
    ear = await listen_ready(b, "flood", known_to=a)

    def flood() -> None:
        for number in range(1000):
            a.send("flood", number)

    # The loop waits for the thread, and so it takes nothing in meanwhile.
    thread = threading.Thread(target=flood)
    thread.start()
    thread.join()

    assert await ear.hears(100) == list(range(100))
    assert a.cluster is not None
    assert a.cluster.given_up == 900  # type: ignore[attr-defined]


# -- floods -------------------------------------------------------------------------


async def test_a_flood_within_a_process_is_delivered_or_told(bus: EventBus) -> None:
    before = memory()
    handled = most = 0
    pings = 0

    async def work(message: Message) -> None:
        nonlocal handled
        await asyncio.sleep(0)
        handled += 1

    consumer = bus.consumer("flood", work)
    bus.consumer("ping", lambda message: message.reply())
    for number in range(FLOOD):
        bus.send("flood", {"number": number, "text": "x" * 100})
        if number % 1000 == 0:
            most = max(most, consumer.waiting)
            await bus.request("ping")
            pings += 1
    await until(lambda: consumer.waiting == 0)
    await turns()

    assert handled + consumer.discarded == FLOOD
    assert most <= consumers.DEFAULT_BUFFER
    assert pings == 100
    assert memory() - before < GROWTH


async def test_a_flood_to_another_process_is_delivered_and_others_are_answered(
    redis_server: RedisServer, prefix: str
) -> None:
    url = redis_server.url
    async with (
        process("count", url, prefix) as (_, name),
        node(url, prefix) as (bus, manager),
    ):
        await until(lambda: name in bus.nodes)
        before, here = await tally(bus), memory()
        for number in range(FLOOD // 2):
            for address in ("flood", "slow"):
                bus.send(address, {"number": number, "text": "x" * 100})
            if number % 1000 == 0:
                assert (await bus.request("ping", number)).body == number
        await bus.flush()
        # Behind everything else that goes there.
        after = await tally(bus)

        assert manager.given_up == after["lost"] == 0
        assert after["heard"] == FLOOD // 2
        # One is in the hands of the handler.
        assert after["slow waiting"] == consumers.DEFAULT_BUFFER
        kept = after["slow waiting"] + 1
        assert kept + after["slow discarded"] == FLOOD // 2
        assert after["memory"] - before["memory"] < GROWTH
        assert memory() - here < GROWTH


async def test_a_node_that_does_not_keep_up_is_sent_a_window_and_no_more(
    redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it cannot take waits at the sender, up to a bound, and then is told."""
    monkeypatch.setattr(outboxes, "MAX_FRAMES", 10_000)
    count = 50_000
    url = redis_server.url
    async with (
        process("count", url, prefix) as (frozen, name),
        process("count", url, prefix) as (_, awake),
        node(url, prefix) as (bus, manager),
    ):
        await knows(bus, "flood", 2)
        await until(lambda: {name, awake} <= bus.nodes)
        before = memory()
        frozen.freeze()
        for number in range(count):
            bus.send("flood", number)
            if number % 1000 == 0:
                await bus.request(f"ping.{awake}", number)
        failure = await failure_of(bus.request(f"ping.{name}"), "the outbox for node")
        given_up = manager.given_up
        with redis_server.client() as client:
            held = waiting_in_redis(client)
        grown = memory() - before
        frozen.thaw()
        await bus.flush()
        # They are asked in turn, and what was sent before is heard before.
        tallies = [await tally(bus) for _ in range(2)]

        assert failure.kind is FailureKind.ERROR
        assert held <= 2 * outboxes.WINDOW_BYTES
        assert grown < GROWTH
        assert given_up > 1
        heard = sum(each["heard"] for each in tallies)
        # The request that was refused is among them.
        assert heard + given_up - 1 == count
        assert [each["lost"] for each in tallies] == [0, 0]


async def test_two_nodes_that_flood_each_other_both_go_on(redis_nodes: Nodes) -> None:
    a, b = await redis_nodes.several(2)
    ears = [Ear(), Ear()]
    for bus, ear in zip((a, b), ears, strict=True):
        await bus.consumer(f"flood.{bus.node}", ear).ready()
    await knows(a, f"flood.{b.node}", 1)
    await knows(b, f"flood.{a.node}", 1)

    count = outboxes.WINDOW_FRAMES + 2000
    for number in range(count):
        a.send(f"flood.{b.node}", number)
        b.send(f"flood.{a.node}", number)

    for ear in ears:
        assert await ear.hears(count) == list(range(count))


# -- Redis cuts a node off ----------------------------------------------------------


async def test_a_node_that_redis_cuts_off_comes_back_and_is_told_what_it_missed(
    own_redis: RedisServer, prefix: str
) -> None:
    url = own_redis.url
    with own_redis.client() as client:
        client.config_set("client-output-buffer-limit", "pubsub 1mb 0 0")
    async with (
        process("count", url, prefix) as (frozen, name),
        node(url, prefix) as (bus, manager),
    ):
        await knows(bus, "flood", 1)
        for number in range(5):
            bus.send("flood", number)
        assert (await tally(bus))["heard"] == 5
        frozen.freeze()
        # More than the sockets between them hold.
        for _ in range(2):
            bus.send("flood", bytes(30_000_000))
        await until(lambda: name not in bus.nodes)
        frozen.thaw()
        await knows(bus, "flood", 1)
        for number in range(5):
            bus.send("flood", number)
        told = await tally(bus)

        assert told["heard"] == 10
        # The second was not sent any more, and no other node could have had it.
        assert told["lost"] == 1
        assert manager.given_up == 0


# -- large messages -----------------------------------------------------------------


async def test_ten_megabytes_hold_up_nobody_for_good(redis_nodes: Nodes) -> None:
    a, b, c = await redis_nodes.several(3)
    await b.consumer("size", lambda message: message.reply(len(message.body))).ready()
    await b.consumer("ping", lambda message: message.reply(message.body)).ready()
    for bus in (a, c):
        await knows(bus, "size", 1)
        await knows(bus, "ping", 1)

    large = [
        asyncio.create_task(bus.request("size", bytes(10_000_000)), name="large")
        for bus in (a, c)
    ]
    small = [bus.request("ping", n) for n in range(50) for bus in (a, c)]

    assert [m.body for m in await asyncio.gather(*small)] == sorted([*range(50)] * 2)
    assert [m.body for m in await asyncio.gather(*large)] == [10_000_000] * 2


async def test_the_size_of_a_message_is_a_setting(redis_nodes: Nodes) -> None:
    b = await redis_nodes.new()
    await b.consumer("size", lambda message: message.reply(len(message.body))).ready()
    async with EventBus(redis_nodes.manager(), max_size=1000) as a:
        with pytest.raises(ValueError, match="is 1,001 bytes, and the limit is 1,000"):
            await a.request("size", bytes(1001))
        with pytest.raises(ValueError, match="is 1,003 bytes"):
            await a.request("size", bytes(1000), headers={"a": "é"})

        assert (await a.request("size", bytes(1000))).body == 1000


@pytest.mark.parametrize("size", [0, LARGEST_SIZE + 1])
def test_the_size_of_a_message_has_bounds(size: int) -> None:
    with pytest.raises(ValueError, match="max_size must be 1 to"):
        EventBus(max_size=size)


async def test_a_reply_that_is_too_large_fails_its_request(redis_nodes: Nodes) -> None:
    a = await redis_nodes.new()
    async with EventBus(redis_nodes.manager(), max_size=1000) as b:
        await b.consumer("big", lambda message: message.reply(bytes(1001))).ready()

        failure = await failure_of(a.request("big"), "raised ValueError")

        assert failure.kind is FailureKind.ERROR


# -- nodes that vanish --------------------------------------------------------------


async def test_a_node_killed_while_it_sends_leaves_no_half_message(
    redis_server: RedisServer, prefix: str
) -> None:
    url = redis_server.url
    async with (
        node(url, prefix) as (bus, manager),
        process("count", url, prefix) as (_, awake),
    ):
        whole: list[bool] = []
        several = asyncio.Event()

        def hear(message: Message) -> None:
            body = message.body
            is_whole = len(body) == LARGE and str(crc32(body)) == message.headers["sum"]
            whole.append(is_whole)
            if len(whole) == 3:
                several.set()

        await bus.consumer("flood", hear).ready()
        async with process("spray", url, prefix) as (sender, name):
            await asyncio.wait_for(several.wait(), 40)
            sender.kill()
            await until(lambda: name not in bus.nodes)
        assert (await bus.request(f"ping.{awake}", 1)).body == 1

        assert all(whole)
        assert manager.lost == 0


async def test_a_node_killed_while_it_receives_fails_what_was_asked_of_it(
    redis_server: RedisServer, prefix: str
) -> None:
    url = redis_server.url
    async with (
        process("count", url, prefix) as (_, awake),
        node(url, prefix) as (bus, _),
    ):
        async with process("count", url, prefix) as (victim, name):
            await knows(bus, f"ping.{name}", 1)
            # It cannot be done with the first before it is killed.
            victim.freeze()
            asked = [
                asyncio.create_task(
                    bus.request(f"ping.{name}", bytes(LARGE)), name="ask"
                )
                for _ in range(4)
            ]
            await until(lambda: bus.waiting == 4)
            victim.kill()
            failures = await asyncio.gather(*asked, return_exceptions=True)

        for failure in failures:
            assert isinstance(failure, RequestFailed)
            # The first left with the node; nobody else listens for the others.
            assert failure.kind in (FailureKind.ERROR, FailureKind.NO_HANDLERS)
        assert bus.waiting == 0
        assert (await bus.request(f"ping.{awake}", 1)).body == 1
