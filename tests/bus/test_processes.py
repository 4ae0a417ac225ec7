"""Processes on one Redis: they talk, die, freeze, and Redis itself restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kue.bus import EventBus, FailureKind, RequestFailed
from tests.bus.hearing import failure_of
from tests.bus.nodes import Nodes, knows, listen_ready
from tests.faults.processes import Process
from tests.support.patience import until
from tests.support.servers import SLOTS, RedisCluster, RedisServer

PROGRAM = "tests.bus.program"


class Others(AsyncExitStack):
    """Nodes in processes of their own."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__()
        self._nodes = nodes
        self.processes: dict[str, Process] = {}

    async def start(self, count: int) -> list[str]:
        """Start some; return their node names."""
        where = (self._nodes.url, self._nodes.prefix)
        begun = [
            self.enter_async_context(Process("serve", *where, "n", program=PROGRAM))
            for _ in range(count)
        ]
        for process in await asyncio.gather(*begun):
            self.processes[await process.line()] = process
        return list(self.processes)

    async def join(self, count: int) -> tuple[EventBus, list[str]]:
        """Start some; return a bus here that knows them, and their node names."""
        names = await self.start(count)
        bus = await self._nodes.new()
        await joined(bus, count)
        return bus, names


@pytest.fixture
async def others(redis_nodes: Nodes) -> AsyncIterator[Others]:
    async with Others(redis_nodes) as others:
        yield others


async def lines(process: Process, count: int) -> list[str]:
    return [await process.line() for _ in range(count)]


async def joined(bus: EventBus, count: int) -> None:
    for address in ("who", "news", "work", "deaf"):
        await knows(bus, address, count)


async def test_processes_share_what_is_sent_and_all_hear_what_is_published(
    others: Others,
) -> None:
    bus, names = await others.join(3)

    replies = [(await bus.request("who")).body for _ in range(9)]
    for number in range(6):
        bus.publish("news", number)

    assert replies[:3] == replies[3:6] == replies[6:]
    assert sorted(replies[:3]) == sorted(names)
    for process in others.processes.values():
        assert await lines(process, 6) == [f"news {n}" for n in range(6)]


async def test_three_processes_and_their_consumers_take_exact_turns(
    redis_nodes: Nodes, others: Others
) -> None:
    """Two consumers in each: whoever had one gets the next when all others had one."""
    names = await others.start(3)
    bus = await redis_nodes.new()
    await knows(bus, "pair", 3)

    for number in range(60):
        bus.send("pair", number)

    firsts = []
    for name in names:
        said = [line.split() for line in await lines(others.processes[name], 20)]
        left, right = (
            [int(number) for who, number in said if who == side]
            for side in ("left", "right")
        )
        firsts.append(left[0])
        assert left == list(range(left[0], 60, 6))
        assert right == list(range(left[0] + 3, 60, 6))
    assert sorted(firsts) == [0, 1, 2]


async def test_processes_ask_each_other(others: Others) -> None:
    bus, [first, second] = await others.join(2)
    await bus.consumer("here", lambda message: message.reply("from here")).ready()

    assert (await bus.request("ask back", "here")).body == "from here"
    for name in (first, second):
        assert (await bus.request("ask back", f"who.{name}")).body == name


@pytest.mark.parametrize("nodes", ["redis", "redis-cluster"], indirect=True)
async def test_a_killed_node_is_noticed_and_its_requests_fail(nodes: Nodes) -> None:
    """Long before the 30 s of their timeout."""
    async with Others(nodes) as others:
        bus, [name] = await others.join(1)
        asked = asyncio.create_task(bus.request("deaf"), name="ask")
        process = others.processes[name]
        assert await process.line() == "asked"

        began = time.monotonic()
        process.kill()
        failure = await failure_of(asked, f"Node {name} left before")
        took = time.monotonic() - began

        assert failure.kind is FailureKind.ERROR
        assert bus.nodes == {bus.node}
        assert took < 25
        with pytest.raises(RequestFailed, match="No handlers for address who"):
            await bus.request("who")


async def test_a_killed_node_is_removed_by_one_survivor(
    redis_nodes: Nodes, others: Others, redis_server: RedisServer
) -> None:
    [name] = await others.start(1)
    survivors = [await redis_nodes.new() for _ in range(3)]
    for bus in survivors:
        await until(lambda bus=bus: len(bus.nodes) == 4)  # type: ignore[misc]
    root = redis_nodes.root
    with redis_server.client() as client:
        before = int(client.get(f"{root}:number") or 0)

        others.processes[name].kill()
        for bus in survivors:
            await until(lambda bus=bus: name not in bus.nodes)  # type: ignore[misc]

        # One change: it left.  Had two removed it, there would be two.
        assert int(client.get(f"{root}:number") or 0) == before + 1
        assert client.exists(f"{root}:at:{name}") == 0
        assert client.zcard(f"{root}:nodes") == 3


async def test_what_is_sent_to_a_node_that_is_dead_goes_to_another(
    others: Others,
) -> None:
    """Nobody has noticed yet, and nothing is lost all the same."""
    bus, names = await others.join(3)
    dead = others.processes.pop(names[0])

    dead.kill()
    await dead.ended()
    for number in range(90):
        bus.send("work", number)
    replies = await asyncio.gather(*(bus.request("who") for _ in range(30)))

    assert {reply.body for reply in replies} == set(names[1:])
    heard: list[str] = []
    for process in others.processes.values():
        heard += await lines(process, 30)
    while len(heard) < 90:
        reading = [
            asyncio.create_task(process.line(), name="read")
            for process in others.processes.values()
        ]
        done, rest = await asyncio.wait(reading, return_when="FIRST_COMPLETED")
        heard += [task.result() for task in done]
        for task in rest:
            task.cancel()
    assert sorted(heard) == sorted(f"work {n}" for n in range(90))


async def test_live_nodes_miss_nothing_while_another_dies(others: Others) -> None:
    bus, names = await others.join(3)
    dead = others.processes.pop(names[0])

    for number in range(2000):
        bus.publish("news", number)
        if number == 700:
            dead.kill()
        if number % 20 == 0:
            await bus.flush()

    for process in others.processes.values():
        assert await lines(process, 2000) == [f"news {n}" for n in range(2000)]


async def test_a_frozen_node_is_given_up_and_comes_back_by_itself(
    others: Others,
) -> None:
    bus, [name] = await others.join(1)
    process = others.processes[name]

    process.freeze()
    await until(lambda: name not in bus.nodes)
    process.thaw()
    await joined(bus, 1)

    assert (await bus.request("who")).body == name


async def test_a_restart_of_redis_brings_everyone_back(
    own_nodes: Nodes, own_redis: RedisServer
) -> None:
    """It keeps nothing on disk: all there was is gone, and written down anew."""
    async with Others(own_nodes) as others:
        names = await others.start(2)
        bus = await own_nodes.new()
        await listen_ready(bus, "here")
        await joined(bus, 2)

        own_redis.kill()
        await asyncio.to_thread(own_redis.restart)

        replies = [(await bus.request("who")).body for _ in range(4)]
        assert sorted(set(replies)) == sorted(names)
        bus.publish("news", 1)
        for process in others.processes.values():
            assert await process.line() == "news 1"
        with own_redis.client() as client:
            await until(lambda: client.zcard(f"{own_nodes.root}:nodes") == 3)
            for name in (*names, bus.node):
                assert client.exists(f"{own_nodes.root}:at:{name}") == 1


async def test_a_request_survives_a_restart_of_redis(
    own_nodes: Nodes, own_redis: RedisServer
) -> None:
    """Asked before, answered after: who asks is not told that the other is gone."""
    a, b = await own_nodes.several(2)
    ear = await listen_ready(b, "slow")
    asked = asyncio.create_task(a.request("slow"), name="ask")
    await ear.hears(1)

    own_redis.kill()
    await asyncio.to_thread(own_redis.restart)
    ear.messages[0].reply("here you are")

    assert (await asked).body == "here you are"


async def test_a_redis_cluster_that_loses_the_node_of_the_bus_finds_it_again(
    tmp_path: Path, prefix: str
) -> None:
    cluster = RedisCluster(tmp_path)
    nodes = Nodes(cluster.url(shards=1), prefix)
    try:
        a, b = await nodes.several(2)
        await b.consumer("ask", lambda message: message.reply("yes")).ready()
        await knows(a, "ask", 1)
        with cluster.servers[0].client() as client:
            slot = int(client.cluster("KEYSLOT", f"{{{prefix}:bus}}"))
        owner = cluster.servers[slot * len(cluster.servers) // SLOTS]

        owner.kill()
        await asyncio.to_thread(owner.restart)

        assert (await a.request("ask")).body == "yes"
    finally:
        await nodes.close()
        cluster.stop()
