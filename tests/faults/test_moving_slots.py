"""A slot of a Redis Cluster moves to another node: running clients follow (R-19)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from kue import Kue
from kue.bus.redis.scripts import root_of as bus_root_of
from kue.model.draft import draft
from kue.model.errors import StoreUnavailable
from kue.model.events import Kind
from kue.runtime.shared.redis import RedisShared
from kue.store.redis.keys import root_of, shard_of_type
from kue.store.values import Claim, ClaimRequest
from tests.bus.hearing import Ear
from tests.bus.nodes import Nodes, knows
from tests.faults.clusters import SHARDS, Cluster
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.load import TYPE, Load
from tests.support.listening import read_until
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


def root_of_jobs(prefix: str) -> str:
    return root_of(prefix, shard_of_type(TYPE, SHARDS), SHARDS)


async def test_adds_and_cycles_go_on_after_a_slot_moved(
    cluster: Cluster, new_store: NewStore, prefix: str
) -> None:
    """R-19: every job that was acknowledged ran once, at whichever node."""
    store = new_store(cluster.url, budget="2s")
    async with Load(store) as load:
        # Three moves bring the slot back to where it began.
        for _ in range(3):
            await load.reach(300)
            await asyncio.to_thread(cluster.move_slot, root_of_jobs(prefix))
        await load.reach(300)

    await assert_sound(store)


async def test_a_worker_and_results_go_on_after_a_slot_moved(
    cluster: Cluster, prefix: str
) -> None:
    """R-19: an idle worker and a caller that awaits results follow the slot."""
    ran: list[int] = []
    async with Kue(cluster.url, prefix=prefix, budget="20s") as q:

        @q.task(name=TYPE)
        async def note(number: int) -> int:
            ran.append(number)
            return number

        async with q.work():
            assert await (await note.enqueue(0)).result(timeout=PATIENCE_SECONDS) == 0
            for number in (1, 2, 3):
                await asyncio.to_thread(cluster.move_slot, root_of_jobs(prefix))
                job = await note.enqueue(number)
                assert await job.result(timeout=PATIENCE_SECONDS) == number

    assert ran == [0, 1, 2, 3]


async def test_events_are_received_after_a_slot_moved(
    cluster: Cluster, new_store: NewStore, prefix: str
) -> None:
    """R-19: the node that loses the slot ends the subscription without a word."""
    store = new_store(cluster.url, budget="20s")
    async with store.watch() as events:
        await asyncio.to_thread(cluster.move_slot, root_of_jobs(prefix))
        await read_until(events, lambda event: event.kind is Kind.LAGGED)
        received = asyncio.create_task(
            read_until(events, lambda event: event.kind is Kind.ENQUEUE)
        )
        seq = 0
        while not received.done():
            # Until the new subscription stands, events are lost; the lag said so.
            seq += 1
            await store.add([draft(TYPE)], producer="p", seq=seq)
            await asyncio.sleep(0.05)
        await received


async def test_a_blocking_wait_goes_on_after_a_slot_moved(
    cluster: Cluster, new_store: NewStore, prefix: str
) -> None:
    """R-19: a claim that stands by is answered by the new node."""
    store = new_store(cluster.url, budget="20s")
    await store.add([draft("other")], producer="p", seq=1)
    waiting = asyncio.create_task(store.wait([TYPE], timeout=5))
    await asyncio.to_thread(cluster.move_slot, root_of_jobs(prefix))
    # It ends early, or with nothing: both mean that the caller asks again.
    await asyncio.gather(waiting, return_exceptions=True)

    asking = asyncio.create_task(
        store.stand_by(
            ClaimRequest([TYPE], 1, worker="w1", claim=Claim("a", 1)), timeout=5
        )
    )
    [added] = await store.add([draft(TYPE)], producer="p", seq=2)

    assert [job.id for job in (await asking).jobs] == [added.id]


async def test_a_slot_that_no_node_has_is_waited_for(
    cluster: Cluster, new_store: NewStore, prefix: str
) -> None:
    """R-19: nodes that learn late of a move show nobody for the slot."""
    root = root_of_jobs(prefix)
    with cluster.without_slot(root):
        with pytest.raises(StoreUnavailable):
            await new_store(cluster.url, budget="0.2s").add(
                [draft(TYPE)], producer="p", seq=1
            )
        patient = new_store(cluster.url, budget="50s")
        adding = asyncio.create_task(patient.add([draft(TYPE)], producer="q", seq=1))
        while not (patient.losses or adding.done()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not adding.done()

    [added] = await adding
    assert added.new


async def test_the_bus_goes_on_after_its_slot_moved(
    cluster: Cluster, prefix: str
) -> None:
    """R-19: nodes of the bus find each other at the new node."""
    nodes = Nodes(cluster.url, prefix)
    try:
        a, b = await nodes.several(2)
        ear = Ear()
        await b.consumer("news", ear).ready()
        await knows(a, "news", 1)

        await asyncio.to_thread(cluster.move_slot, bus_root_of(prefix))
        for number in range(10):
            a.send("news", number)

        assert await ear.hears(10) == list(range(10))
    finally:
        await nodes.close()


async def test_shared_data_goes_on_after_its_slot_moved(cluster: Cluster) -> None:
    """R-19: counters and locks follow their slots."""
    prefix = uuid.uuid4().hex
    async with RedisShared(cluster.url, prefix=prefix) as shared:
        counter = await shared.counter("orders")
        lock = await shared.lock("door")
        assert await counter.increment_and_get() == 1
        await asyncio.to_thread(
            cluster.move_slot, shared._opened().calls.root("orders")
        )
        await asyncio.to_thread(cluster.move_slot, f"{{{prefix}:locks}}")

        assert await counter.increment_and_get() == 2
        waiting = asyncio.create_task(shared.lock("door", timeout=20))
        await lock.release()
        await (await waiting).release()
