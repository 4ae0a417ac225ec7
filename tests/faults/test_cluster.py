"""A node of a Redis Cluster is lost or comes back: its shards go on by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.store.values import Claim, ClaimRequest, Outcome, Result
from tests.faults.clusters import Cluster
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.load import TYPE, Load
from tests.support.jobs import count_of
from tests.support.patience import until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.stop()


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, replicas=True)
    yield cluster
    cluster.stop()


async def test_a_node_that_is_killed_and_comes_back_loses_nothing(
    cluster: Cluster, new_store: NewStore, prefix: str
) -> None:
    store = new_store(cluster.url, budget="2s")
    owner = cluster.owner_of(prefix, TYPE)
    async with Load(store) as load:
        for _ in range(2):
            await load.reach(500)
            owner.kill()
            await asyncio.to_thread(owner.restart)
        await load.reach(200)

    await assert_sound(new_store(cluster.url, budget="20s"))


async def test_other_shards_do_not_notice_a_node_that_is_away(
    cluster: Cluster, new_store: NewStore, prefix: str
) -> None:
    """Each type lives on one node; losing another one does not concern it."""
    store = new_store(cluster.url, budget="2s")
    away = cluster.owner_of(prefix, TYPE)
    other = next(
        name
        for name in map(str, range(100))
        if cluster.owner_of(prefix, name) is not away
    )
    await store.open()

    away.kill()
    [added] = await store.add([draft(other)], producer="p", seq=1)
    claimed = await store.claim(
        ClaimRequest([other], 1, worker="w1", claim=Claim("a", 1))
    )

    assert [job.id for job in claimed.jobs] == [added.id]
    await asyncio.to_thread(away.restart)
    # A node that comes back waits for the others before it serves anyone.
    await assert_sound(new_store(cluster.url, budget="20s"))


async def test_a_node_that_became_a_replica_is_no_reason_to_refuse_the_store(
    replicated: Cluster, new_store: NewStore, prefix: str
) -> None:
    """INFO has no key, and so nobody redirects it to the node that took over."""
    store = new_store(replicated.url, budget="20s")
    await store.verify()

    owner = replicated.owner_of(prefix, TYPE)
    await asyncio.to_thread(replicated.fail_over, owner)
    # The node itself learns of it last.
    await until(lambda: owner not in replicated.masters)

    await store.verify()


@pytest.mark.usefixtures("patient")
async def test_a_replica_takes_over_for_a_node_that_is_lost(
    replicated: Cluster, new_store: NewStore, prefix: str
) -> None:
    store = new_store(replicated.url, budget="30s")
    owner = replicated.owner_of(prefix, TYPE)
    await store.add([draft(TYPE)] * 20, producer="p", seq=1)
    claimed = await store.claim(
        ClaimRequest([TYPE], 10, worker="w1", claim=Claim("a", 1))
    )
    before = claimed.jobs
    # A confirmed add says that all before it has arrived, too.
    await store.add([draft(TYPE)], producer="p", seq=2, durable=True)

    owner.kill()
    await store.add([draft(TYPE)], producer="p", seq=3)
    claimed = await store.claim(
        ClaimRequest([TYPE], 10, worker="w1", claim=Claim("a", 2))
    )
    words = await store.settle([Outcome(job, Completed(None)) for job in before])

    fences = [job.fence for job in before + claimed.jobs]
    assert fences == sorted(set(fences))
    assert set(words) == {Result.DONE}
    assert await count_of(store, TYPE) == {
        State.WAITING: 2,
        State.ACTIVE: 10,
        State.COMPLETE: 10,
    }
    await assert_sound(store)
