"""A cluster is looked at by someone who is no node of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from kue.bus import RequestFailed
from kue.bus.redis import ClusterInspector, inspect, node_status
from kue.bus.redis.inspector import ClusterNode
from kue.bus.stats import AddressStats, BusStats, MessageSample, NodeStats, sums
from kue.model.errors import StoreUnavailable
from tests.bus.nodes import LEASE, Nodes, listen_ready
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisCluster, RedisServer, free_port


@pytest.fixture
async def inspector(redis_nodes: Nodes) -> AsyncIterator[ClusterInspector]:
    async with inspect(redis_nodes.url, redis_nodes.prefix) as inspector:
        yield inspector


async def nodes_when(
    inspector: ClusterInspector, is_so: Callable[[list[NodeStats]], bool]
) -> list[ClusterNode]:
    """Return the nodes once all have told of themselves what is waited for."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            nodes = await inspector.nodes()
            facts = [node.facts for node in nodes if node.facts is not None]
            if len(facts) == len(nodes) and is_so(facts):
                return nodes
            await asyncio.sleep(0.02)


async def test_nodes_tell_what_they_are_and_what_passes_them(
    redis_nodes: Nodes, inspector: ClusterInspector
) -> None:
    a, b = await redis_nodes.several(2)
    ear = await listen_ready(b, "news", known_to=a)
    for number in range(5):
        a.send("news", number)
    await ear.hears(5)
    with pytest.raises(RequestFailed):
        await a.request("nobody")

    def is_told(facts: list[NodeStats]) -> bool:
        totals = [one.bus.total for one in facts]
        sent = sum(total.sent for total in totals)
        return (sent, sum(total.received for total in totals)) == (6, 5)

    nodes = await nodes_when(inspector, is_told)

    assert [node.name for node in nodes] == sorted([a.node, b.node])
    by_name = {node.name: node for node in nodes}
    here, there = by_name[a.node].facts, by_name[b.node].facts
    assert here is not None
    assert there is not None
    assert here.pid == there.pid == os.getpid()
    assert here.host
    assert here.since > 0
    assert here.bytes_out > 0
    assert there.bytes_in > 0
    assert by_name[a.node].silent_ms < LEASE * 1000
    news, *_ = sums((node.name, node.facts.bus) for node in nodes if node.facts)
    assert (news.address, news.nodes, news.consumers) == ("news", [b.node], 1)
    assert (news.sent, news.received) == (5, 5)
    assert news.send_rate > 0


async def test_looking_joins_nothing(
    redis_nodes: Nodes, inspector: ClusterInspector
) -> None:
    assert await inspector.nodes() == []

    bus = await redis_nodes.new()
    await nodes_when(inspector, lambda told: len(told) == 1)

    assert bus.nodes == {bus.node}


async def test_a_node_that_left_is_not_shown(
    redis_nodes: Nodes, inspector: ClusterInspector
) -> None:
    a, b = await redis_nodes.several(2)
    await nodes_when(inspector, lambda told: len(told) == 2)

    await b.close()

    assert [node.name for node in await inspector.nodes()] == [a.node]


async def test_facts_are_forgotten_after_a_lease(
    redis_nodes: Nodes, redis_server: RedisServer, inspector: ClusterInspector
) -> None:
    bus = await redis_nodes.new()
    await nodes_when(inspector, lambda told: len(told) == 1)

    with redis_server.client() as client:
        left = client.pttl(f"{redis_nodes.root}:facts:{bus.node}")

    assert 0 < left <= LEASE * 1000


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"bus": 7}', "\ud800".encode("utf-8", "surrogatepass")]
)
async def test_a_node_that_tells_nonsense_is_shown_all_the_same(
    redis_nodes: Nodes,
    redis_server: RedisServer,
    inspector: ClusterInspector,
    text: str | bytes,
) -> None:
    root = redis_nodes.root
    with redis_server.client() as client:
        client.zadd(f"{root}:nodes", {"odd": 1.0})
        client.set(f"{root}:facts:odd", text)

    [node] = await inspector.nodes()

    assert (node.name, node.facts) == ("odd", None)


async def test_nothing_is_shown_of_messages_until_someone_looks(
    redis_nodes: Nodes, inspector: ClusterInspector
) -> None:
    bus = await redis_nodes.new()
    await nodes_when(inspector, lambda told: len(told) == 1)
    assert bus.outbound.links == ()

    await inspector.look(60)
    await until(lambda: bus.outbound.links != ())


async def test_whoever_looks_sees_some_messages(
    redis_nodes: Nodes, inspector: ClusterInspector
) -> None:
    bus = await redis_nodes.new()
    await inspector.look(60)
    seen: list[MessageSample] = []
    async with inspector.samples() as heard, asyncio.timeout(PATIENCE_SECONDS):
        while not seen:
            bus.send("news", {"n": 1})
            seen += await heard(0.05)

    assert (seen[0].node, seen[0].address) == (bus.node, "news")
    assert seen[0].body == {"n": 1}


async def test_nodes_show_nothing_more_once_nobody_looks(
    redis_nodes: Nodes, inspector: ClusterInspector
) -> None:
    bus = await redis_nodes.new()
    await inspector.look(60)
    await until(lambda: bus.outbound.links != ())

    await inspector.look(0.001)

    # Between two beats it is taken out for a moment as well.
    gone = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while gone < 20:
            gone = gone + 1 if bus.outbound.links == () else 0
            await asyncio.sleep(0.01)


async def test_what_is_no_sample_is_not_heard(
    redis_nodes: Nodes, redis_server: RedisServer, inspector: ClusterInspector
) -> None:
    channel = f"{redis_nodes.root}:samples"
    good = b'[{"at": 1, "address": "news", "kind": "send"}]'
    async with inspector.samples() as heard:
        with redis_server.client() as client:
            deep = b'[{"at":1,"address":"a","kind":"send","body":' + b"[" * 100_000
            for message in (b"{", b'[{"at": 1}]', deep, good):
                client.execute_command("SPUBLISH", channel, message)
        found: list[MessageSample] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not found:
                found = await heard(1)

    assert [one.address for one in found] == ["news"]


async def test_a_redis_cluster_is_looked_at(
    redis_cluster: RedisCluster, prefix: str
) -> None:
    async with (
        Nodes(redis_cluster.url(shards=1), prefix) as nodes,
        inspect(nodes.url, prefix) as inspector,
    ):
        bus = await nodes.new()
        await inspector.look(60)
        await nodes_when(inspector, lambda told: len(told) == 1)
        await until(lambda: bus.outbound.links != ())


async def test_a_redis_that_is_away_is_told_of() -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    async with inspect(url, budget=0.1) as inspector:
        with pytest.raises(StoreUnavailable):
            await inspector.nodes()
        with pytest.raises(StoreUnavailable):
            async with inspector.samples():
                pass


def test_what_is_written_down_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_status, "MAX_BYTES", 5_000)
    many = [AddressStats(f"a{n}" + "x" * 500) for n in range(100)]
    facts = NodeStats(bus=BusStats(AddressStats(""), many))

    text = node_status.encode_status(facts)

    kept = msgspec.json.decode(text, type=NodeStats).bus
    assert len(text) <= 5_000
    assert 0 < len(kept.addresses) < 100
    assert len(kept.addresses) + kept.rest == 100
