"""The cluster manager on Redis: lost connections, missed changes, repeated batches."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import redis

from kue.bus import EventBus, FailureKind
from kue.bus import frames as wire
from kue.bus.frames import Batch, Frame, pack
from kue.bus.redis import RedisCluster
from kue.bus.redis import outbox as outboxes
from kue.bus.redis.scripts import PACKAGE
from kue.model.errors import ConfigError, StoreRefused, StoreUnavailable
from kue.store.redis import scripts
from tests.bus.hearing import Ear, failure_of, listen
from tests.bus.nodes import Nodes, knows, listen_ready, redis_manager
from tests.support.patience import until
from tests.support.servers import RedisServer, free_port


def spublish(client: redis.Redis, channel: str, message: bytes) -> int:
    send: Any = client.execute_command
    return int(send("SPUBLISH", channel, message))


async def test_a_lost_subscription_is_taken_up_again(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    a, b = await redis_nodes.several(2)
    ear = await listen_ready(b, "news", known_to=a)

    with redis_server.client() as client:
        client.client_kill_filter(_type="pubsub")
    for number in range(10):
        a.send("news", number)

    # Sent while it did not listen, and kept until it did.
    assert await ear.hears(10) == list(range(10))
    assert len(a.nodes) == len(b.nodes) == 2


def listen_in_secret(client: redis.Redis, prefix: str) -> None:
    """Let a node that is not there listen somewhere, and tell nobody."""
    root = f"{{{prefix}:bus}}"
    # It will not beat: its last is yet to come.
    client.zadd(f"{root}:nodes", {"ghost": 1e15})
    client.sadd(f"{root}:at:ghost", "secret")
    client.incr(f"{root}:number")


async def test_a_change_that_was_missed_is_noticed(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    a, b = await redis_nodes.several(2)
    with redis_server.client() as client:
        listen_in_secret(client, redis_nodes.prefix)

    # Nobody told of it; the next change shows that something is missing.
    await b.consumer("news", Ear()).ready()

    await knows(a, "secret", 1)
    await knows(a, "news", 1)


async def test_a_last_change_that_was_missed_is_noticed_by_the_beat(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    a, _ = await redis_nodes.several(2)
    with redis_server.client() as client:
        listen_in_secret(client, redis_nodes.prefix)

    await knows(a, "secret", 1)


async def test_a_node_that_was_removed_joins_again(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    a, b = await redis_nodes.several(2)
    ear = await listen_ready(b, "news")
    root = redis_nodes.root
    with redis_server.client() as client:
        client.zrem(f"{root}:nodes", b.node)
        client.delete(f"{root}:at:{b.node}")
        await until(lambda: client.zcard(f"{root}:nodes") == 2)

    await knows(a, "news", 1)
    a.send("news", 1)
    assert await ear.hears(1) == [1]


async def test_a_batch_that_comes_twice_is_heard_once(
    redis_nodes: Nodes, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    bus = await redis_nodes.new()
    ear = listen(bus, "news")
    channel = f"{redis_nodes.root}:to:{bus.node}"

    def batch(number: int, stream: str = "s1") -> bytes:
        frame = Frame("news", b"%d" % number, "json", True)
        return pack(Batch("ghost", stream, number, [frame]))

    with redis_server.client() as client, caplog.at_level(logging.WARNING):
        for number in (1, 2, 1, 2, 3, 6):
            assert spublish(client, channel, batch(number)) == 1
        spublish(client, channel, batch(1, "s2"))
        await ear.hears(5)

    assert ear.bodies == [1, 2, 3, 6, 1]
    # Told, because nothing else would tell.
    assert redis_manager(bus).lost == 2
    assert "2 messages from node ghost are lost" in caplog.text


@pytest.mark.parametrize("junk", [b"", b"\xff\xff", b"7\tnot json", b"7", b"{}"])
async def test_what_cannot_be_read_is_logged_and_left(
    redis_nodes: Nodes,
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    junk: bytes,
) -> None:
    a, b = await redis_nodes.several(2)
    ear = Ear()
    root = redis_nodes.root

    with redis_server.client() as client:
        spublish(client, f"{root}:to:{b.node}", junk)
        spublish(client, f"{root}:changes", junk)
    await b.consumer("news", ear).ready()
    await knows(a, "news", 1)
    a.send("news", 1)

    assert await ear.hears(1) == [1]
    assert "the bus received an unreadable message" in caplog.text


async def test_a_message_that_breaks_takes_none_of_its_batch_with_it(
    redis_nodes: Nodes, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sent it asks for a reply where none can be sent."""
    bus = await redis_nodes.new()
    ear = listen(bus, "news")
    channel = f"{redis_nodes.root}:to:{bus.node}"
    frames = [
        Frame("nobody", b"1", "json", True, "x" * 2000),
        Frame("news", b"2", "json", True),
    ]

    with redis_server.client() as client:
        spublish(client, channel, pack(Batch("ghost", "s1", 1, frames)))

    assert await ear.hears(1) == [2]
    assert "the bus received an unreadable message" in caplog.text


async def test_a_node_that_is_deaf_does_not_join_before_it_listens(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    """It would be taken for dead again at once."""
    bus = await redis_nodes.new()
    root = redis_nodes.root
    with redis_server.client() as client:
        ask: Any = client.execute_command
        beat = ("EVAL", scripts.load("node_heartbeat", PACKAGE).source, 1, root)

        assert ask(*beat, "deaf", 1000, 300) == b"DEAF"
        client.zrem(f"{root}:nodes", bus.node)
        assert ask(*beat, bus.node, 1000, 300) in (
            b"GONE",
            client.get(f"{root}:number"),
        )


async def test_what_finds_no_room_is_given_up_and_told(
    redis_nodes: Nodes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(outboxes, "MAX_FRAMES", 10)
    a, b = await redis_nodes.several(2)
    ear = await listen_ready(b, "news", known_to=a)

    for number in range(10):
        a.send("news", number)
    with pytest.raises(Exception, match="the outbox for node"):
        await a.request("news", 10)
    a.send("news", 11)

    assert await ear.hears(10) == list(range(10))
    assert redis_manager(a).given_up == 2
    assert caplog.text.count("messages are lost, the first to news") == 1


async def test_a_flood_to_another_node_arrives(redis_nodes: Nodes) -> None:
    a, b = await redis_nodes.several(2)
    ear = await listen_ready(b, "news", known_to=a)

    for number in range(100_000):
        a.send("news", number)

    await ear.hears(100_000)
    assert ear.bodies == list(range(100_000))


async def test_clusters_of_other_prefixes_are_others(
    redis_nodes: Nodes, redis_server: RedisServer
) -> None:
    a = await redis_nodes.new()
    stranger = RedisCluster(redis_server.url, prefix=f"{redis_nodes.prefix}-2")
    async with EventBus(stranger) as other:
        assert other.nodes == {other.node}
        assert a.nodes == {a.node}


async def test_a_redis_that_is_not_there_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kue.bus.redis.cluster._BUDGET_SECONDS", 0.3)
    bus = EventBus(RedisCluster(f"redis://127.0.0.1:{free_port()}/0"))

    with pytest.raises(StoreUnavailable, match="could not subscribe to"):
        await bus.start()


async def test_a_password_that_is_wrong_is_told_of(redis_server: RedisServer) -> None:
    url = redis_server.url.replace("redis://", "redis://nobody:wrong@")
    bus = EventBus(RedisCluster(url))

    with pytest.raises(StoreRefused, match="check user, password and ACL"):
        await bus.start()


@pytest.mark.parametrize("own_redis", [{"maxmemory": "1"}], indirect=True)
async def test_a_redis_that_is_full_still_carries_the_bus(own_nodes: Nodes) -> None:
    a, b = await own_nodes.several(2)
    await b.consumer("ask", lambda message: message.reply("yes")).ready()

    assert (await a.request("ask")).body == "yes"


async def test_an_outage_is_told_when_it_begins_and_when_it_ends(
    own_nodes: Nodes, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    bus = await own_nodes.new()
    own_redis.kill()
    await until(lambda: "the bus lost its cluster" in caplog.text)
    await asyncio.to_thread(own_redis.restart)
    await until(lambda: "the bus rejoined its cluster after" in caplog.text)
    assert caplog.text.count("the bus lost its cluster") == 1
    assert bus.nodes == {bus.node}


async def test_a_request_while_redis_is_away_fails_in_time(
    own_nodes: Nodes, own_redis: RedisServer
) -> None:
    """To an address that is known, and to one that would have to be asked about."""
    a, b = await own_nodes.several(2)
    await b.consumer("ask", lambda message: message.reply("yes")).ready()
    await knows(a, "ask", 1)
    own_redis.kill()

    for address in ("ask", "unknown"):
        failure = await failure_of(a.request(address, timeout=0.2))
        assert failure.kind is FailureKind.TIMEOUT
    assert a.waiting == 0


def test_a_beat_is_shorter_than_the_lease() -> None:
    with pytest.raises(ValueError, match="must be shorter than lease"):
        RedisCluster("redis://localhost", heartbeat=5, lease=5)


def test_a_url_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError):
        RedisCluster("redis://localhost:99999")


async def test_a_message_that_is_too_large_is_refused_where_it_is_sent(
    redis_nodes: Nodes,
) -> None:
    a, b = await redis_nodes.several(2)
    await b.consumer("news", Ear()).ready()

    with pytest.raises(ValueError, match="keep large things elsewhere"):
        await a.request("news", bytes(wire.MAX_SIZE + 1))
    assert a.waiting == 0


@pytest.mark.parametrize("name", scripts.names(PACKAGE))
def test_every_script_states_its_contract(name: str) -> None:
    _, _, source = scripts.load(name, PACKAGE).source.partition("\n")
    header = source[: source.index("]]")]

    assert header.startswith(f"--[[\n  {name}: ")
    for section in ("KEYS", "ARGV", "Returns", "Events"):
        assert section in header
