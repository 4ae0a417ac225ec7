"""Durable adds: confirmed by a replica, or honest about it, at any load (R-5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.errors import DurabilityUnknown
from kue.model.job import State
from kue.store.contract import Store
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.sentinels import Replicated, info_of
from tests.support.jobs import count_of
from tests.support.patience import until
from tests.support.servers import RedisServer

MANY = 100
#: More than anything here takes: a call within it has not waited for it.
PATIENT = "120s"


async def add_durably(store: Store, producer: str) -> str:
    """Add a job; return how that ended."""
    try:
        await store.add([draft("email")], producer=producer, seq=1, durable=True)
    except DurabilityUnknown as exc:
        return f"unknown {len(exc.job_ids)}"
    except Exception as exc:
        return repr(exc)
    return "confirmed"


async def add_many(store: Store) -> set[str]:
    """Make many durable adds at once; return how they ended, each kind once."""
    adds = (add_durably(store, f"p{number}") for number in range(MANY))
    return set(await asyncio.gather(*adds))


def calls_of(server: RedisServer, command: str) -> int:
    stats: dict[str, Any] = info_of(server, "commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


def has_no_replica(server: RedisServer) -> bool:
    return bool(info_of(server, "replication")["connected_slaves"] == 0)


def someone_waits(server: RedisServer) -> bool:
    return bool(info_of(server, "clients")["blocked_clients"] > 0)


@pytest.mark.usefixtures("patient")
async def test_adds_at_the_same_time_share_a_wait(
    pair: Replicated, new_store: NewStore
) -> None:
    """R-5: one WAIT confirms all that was added over its connection before."""
    store = new_store(pair.master.url, budget=PATIENT)

    assert await add_many(store) == {"confirmed"}

    assert 1 <= calls_of(pair.master, "wait") < MANY / 2
    assert await count_of(store) == {State.WAITING: MANY}
    await assert_sound(store)


async def test_without_a_replica_nobody_waits_for_one(
    pair: Replicated, new_store: NewStore
) -> None:
    """R-5: no add is reported as failed that was stored, and none waits."""
    store = new_store(pair.master.url, budget=PATIENT)
    await store.open()
    pair.replica.kill()
    await until(lambda: has_no_replica(pair.master))

    assert await add_many(store) == {"unknown 1"}

    assert calls_of(pair.master, "wait") == 0
    assert await count_of(store) == {State.WAITING: MANY}


@pytest.mark.usefixtures("patient")
async def test_a_frozen_replica_delays_nothing_but_confirmations(
    pair: Replicated, new_store: NewStore
) -> None:
    """R-5: other calls of the process do not queue up behind those that wait."""
    store = new_store(pair.master.url, budget=PATIENT)
    await store.open()

    with pair.replica.frozen():
        adding = asyncio.create_task(add_many(store))
        await until(lambda: someone_waits(pair.master))
        for _ in range(10):
            await store.get([1])
            await store.count()
        # Behind them, nobody would have been answered before the replica is back.
        assert someone_waits(pair.master)
        assert not adding.done()
    assert await adding == {"confirmed"}

    assert calls_of(pair.master, "wait") <= 10
    assert await count_of(store) == {State.WAITING: MANY}


async def test_adds_that_a_frozen_replica_does_not_confirm_are_stored_and_say_so(
    pair: Replicated, new_store: NewStore
) -> None:
    store = new_store(pair.master.url, budget=PATIENT)

    with pair.replica.frozen():
        assert await add_many(store) == {"unknown 1"}

    assert 1 <= calls_of(pair.master, "wait") <= 10
    assert await count_of(store) == {State.WAITING: MANY}


@pytest.mark.usefixtures("patient")
async def test_a_budget_that_is_shorter_than_the_wait_fails_no_add(
    pair: Replicated, new_store: NewStore
) -> None:
    """R-5: once the script is answered, an add is stored, whatever the time."""
    store = new_store(pair.master.url, budget="3s")
    await store.open()

    with pair.replica.frozen():
        assert await add_durably(store, "p") == "unknown 1"
        # It was the budget that ended, not the wait.
        assert someone_waits(pair.master)

    assert await count_of(store) == {State.WAITING: 1}


@pytest.mark.usefixtures("patient")
async def test_a_connection_that_is_lost_while_it_waits_fails_no_add(
    pair: Replicated, new_store: NewStore
) -> None:
    store = new_store(pair.master.url, budget=PATIENT)
    await store.open()

    with pair.replica.frozen():
        adding = asyncio.create_task(add_durably(store, "p"))
        # It waits only when its job is stored.
        await until(lambda: someone_waits(pair.master))
        assert await count_of(store) == {State.WAITING: 1}
        pair.master.send("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert await adding == "unknown 1"

    assert await count_of(store) == {State.WAITING: 1}
