"""What a node that dies, a Redis that goes back in time, or a loss must not break."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from kue.bus import Message
from kue.bus.node_table import NodeChange
from tests.bus.hearing import Ear, turns
from tests.bus.nodes import Nodes, knows, listen_ready, redis_manager
from tests.support.patience import until
from tests.support.servers import RedisServer


async def test_a_request_that_comes_home_from_a_dead_node_is_answered(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    """It went to a node that never saw it, and then to a consumer of the asker's."""
    a, b = await redis_nodes.several(2)
    await b.consumer("ask", Ear()).ready()
    await knows(a, "ask", 1)
    come, go = asyncio.Event(), asyncio.Event()

    async def reply_later(message: Message) -> None:
        come.set()
        await go.wait()
        message.reply("from home")

    # b hears nothing any more, and nobody knows.
    cluster = redis_manager(b)
    for task in cluster._background._tasks:
        task.cancel()
    root = redis_nodes.root
    with redis_server.client() as client:
        send: Any = client.execute_command
        channel = f"{root}:to:{b.node}"
        await until(lambda: send("PUBSUB", "SHARDNUMSUB", channel)[1] == 0)
        asked = asyncio.create_task(a.request("ask"), name="ask")
        await until(lambda: a.waiting == 1)
        a.consumer("ask", reply_later)
        client.zadd(f"{root}:nodes", {b.node: 0})

    await asyncio.wait_for(come.wait(), 50)
    await until(lambda: b.node not in a.nodes)
    go.set()

    assert (await asked).body == "from home"


async def test_a_redis_that_forgot_the_last_changes_is_followed_again(
    own_nodes: Nodes, own_redis: RedisServer
) -> None:
    """It comes back with an older dump, and numbers that everyone has seen before."""
    a, b = await own_nodes.several(2)
    with own_redis.client() as client:
        client.save()
    for number in range(30):
        await b.consumer(f"at-{number}", Ear()).ready()
    await knows(a, "at-29", 1)

    own_redis.kill()
    await asyncio.to_thread(own_redis.restart)
    await b.consumer("late", Ear()).ready()

    await knows(a, "late", 1)
    await knows(a, "at-29", 1)


async def test_an_answer_that_is_older_than_what_is_known_changes_nothing(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    """A consumer went while the cluster was asked about its address."""
    a, b = await redis_nodes.several(2)
    cluster = redis_manager(a)
    with redis_server.client() as client:
        client.sadd(f"{redis_nodes.root}:at:{b.node}", "gone")
    # As if the change that took it away had been heard before the answer.
    cluster._table.number += 1

    assert list(await cluster.look_up("gone")) == []


async def test_a_node_that_was_forgotten_and_goes_on_has_lost_nothing(
    redis_nodes: Nodes, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = await redis_nodes.several(2)
    ear = await listen_ready(a, "news", known_to=b)
    for number in range(3):
        b.send("news", number)
        await b.flush()
    await ear.hears(3)
    nodes = f"{redis_nodes.root}:nodes"

    def has_left() -> bool:
        """Return whether the others noticed; its own heartbeat may be faster."""
        is_noticed = f"node {b.node} left the bus" in caplog.text
        if not is_noticed and client.zscore(nodes, b.node):
            client.zadd(nodes, {b.node: 0}, xx=True)
        return is_noticed

    with redis_server.client() as client:
        await until(has_left)
    await until(lambda: b.node in a.nodes and a.node in b.nodes)
    await knows(b, "news", 1)
    b.send("news", 3)

    assert await ear.hears(4) == [0, 1, 2, 3]
    assert redis_manager(a).lost == 0


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_a_node_that_is_back_answers_what_it_is_asked_while_its_old_batch_is_sent(
    redis_nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    """A slow Redis keeps the batch under way until after the node's return."""
    a, b = await redis_nodes.several(2)
    await b.consumer("ask", lambda message: message.reply("from b")).ready()
    await knows(a, "ask", 1)
    cluster = redis_manager(a)
    publish, go_on = cluster._outboxes._send, asyncio.Event()

    async def publish_late(node: str, batch: bytes) -> int:
        await go_on.wait()
        return await publish(node, batch)

    cluster._outboxes._send = publish_late
    a.send("ask", "under way")
    await turns()
    change = NodeChange(b.node, left=True)
    await cluster._run("node_leave", b.node, msgspec.json.encode(change))
    await until(lambda: f"node {b.node} left the bus" in caplog.text)
    # It is told as well, and registers again.
    await knows(a, "ask", 1)
    asked = asyncio.create_task(a.request("ask"), name="ask")
    await until(lambda: a.waiting == 1)
    go_on.set()

    assert (await asked).body == "from b"
