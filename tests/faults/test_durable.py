"""Durable adds: confirmed by a replica, or honest about it, at any load (R-5)."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kue.draft import draft
from kue.errors import DurabilityUnknown
from kue.job import State
from tests.faults.conftest import assert_sound
from tests.faults.sentinels import Replicated, info_of, say
from tests.support.jobs import count_of
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kue.store.base import Store
    from tests.faults.conftest import NewStore
    from tests.support.servers import RedisServer

MANY = 100


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Replicated]:
    pair = Replicated(tmp_path)
    yield pair
    pair.stop()


async def add_durably(store: Store, number: int) -> str:
    """Add a job of a producer of its own; return how that ended."""
    try:
        await store.add([draft("email")], producer=f"p{number}", seq=1, durable=True)
    except DurabilityUnknown as exc:
        return f"unknown {len(exc.job_ids)}"
    except Exception as exc:
        return repr(exc)
    return "confirmed"


async def add_many(store: Store) -> set[str]:
    """Make many durable adds at once; return how they ended, each kind once."""
    return set(await asyncio.gather(*(add_durably(store, n) for n in range(MANY))))


def calls_of(server: RedisServer, command: str) -> int:
    stats: dict[str, Any] = info_of(server, "commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


@contextmanager
def frozen(server: RedisServer) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def has_no_replica(server: RedisServer) -> bool:
    return bool(info_of(server, "replication")["connected_slaves"] == 0)


async def test_adds_at_the_same_time_share_a_wait(
    pair: Replicated, new_store: NewStore
) -> None:
    """R-5: one WAIT confirms all that was added over its connection before."""
    store = new_store(pair.master.url)

    assert await add_many(store) == {"confirmed"}

    assert 1 <= calls_of(pair.master, "wait") < MANY / 2
    assert await count_of(store) == {State.WAITING: MANY}
    await assert_sound(store)


async def test_without_a_replica_nobody_waits_for_one(
    pair: Replicated, new_store: NewStore
) -> None:
    """R-5: no add is reported as failed that was stored, and none waits."""
    store = new_store(pair.master.url)
    await store.open()
    pair.replica.kill()
    await asyncio.to_thread(
        wait_until, lambda: has_no_replica(pair.master), "the replica is missed"
    )

    assert await add_many(store) == {"unknown 1"}

    assert calls_of(pair.master, "wait") == 0
    assert await count_of(store) == {State.WAITING: MANY}


async def test_a_frozen_replica_delays_nothing_but_confirmations(
    pair: Replicated, new_store: NewStore
) -> None:
    """R-5: other calls of the process do not queue up behind those that wait."""
    store = new_store(pair.master.url, budget="30s")
    await store.open()

    with frozen(pair.replica):
        adding = asyncio.create_task(add_many(store))
        others = 0
        while not adding.done():
            await store.get([1])
            await store.count()
            others += 1
        assert await adding == {"unknown 1"}

    # WAIT takes 2 s; behind it, there would have been a handful.
    assert others > 10
    assert calls_of(pair.master, "wait") <= 10
    assert await count_of(store) == {State.WAITING: MANY}


async def test_a_budget_that_is_shorter_than_the_wait_fails_no_add(
    pair: Replicated, new_store: NewStore
) -> None:
    """R-5: once the script is answered, an add is stored, whatever the time."""
    store = new_store(pair.master.url, budget="1s")
    await store.open()

    with frozen(pair.replica):
        assert await add_durably(store, 1) == "unknown 1"

    assert await count_of(store) == {State.WAITING: 1}


async def test_a_connection_that_is_lost_while_it_waits_fails_no_add(
    pair: Replicated, new_store: NewStore
) -> None:
    store = new_store(pair.master.url, budget="30s")
    await store.open()

    with frozen(pair.replica):
        adding = asyncio.create_task(add_durably(store, 1))
        await asyncio.to_thread(
            wait_until, lambda: calls_of(pair.master, "info") > 0, "it is stored"
        )
        await asyncio.to_thread(wait_until, lambda: waits(pair.master), "it waits")
        say(pair.master, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert await adding == "unknown 1"

    assert await count_of(store) == {State.WAITING: 1}


def waits(server: RedisServer) -> bool:
    return bool(info_of(server, "clients")["blocked_clients"] > 0)
