"""Events that Redis does not deliver: listeners get `lagged`."""

from __future__ import annotations

import pytest

from kue.model.draft import draft
from kue.model.errors import StoreUnavailable
from kue.model.events import Kind
from kue.store.contract import Store
from kue.store.redis.keys import Keys, root_of
from kue.store.redis.verbs import watch
from tests.faults.conftest import NewStore
from tests.support.listening import kinds, read_until
from tests.support.servers import RedisServer


@pytest.fixture
def store(redis_server: RedisServer, new_store: NewStore) -> Store:
    return new_store(redis_server.url)


async def add(store: Store, number: int) -> None:
    await store.add([draft("email")], producer="p", seq=number)


def lose_a_message(server: RedisServer, prefix: str) -> None:
    """Do what is left of a message that reached nobody: its number is taken."""
    server.client().hincrby(Keys(root_of(prefix, 0, 1)).of_shard("meta"), "told", 1)


async def test_a_message_that_did_not_come_is_noticed_by_the_next(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    async with store.watch() as events:
        await add(store, 1)
        await add(store, 2)
        lose_a_message(redis_server, prefix)
        await add(store, 3)
        received = await read_until(events, lambda event: event.kind is Kind.LAGGED)

    assert kinds(received) == [
        Kind.ENQUEUE,
        Kind.ENQUEUE,
        Kind.LAGGED,
    ]


async def test_a_last_message_that_did_not_come_is_noticed_after_a_while(
    store: Store,
    redis_server: RedisServer,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "_RENEW_SECONDS", 0.1)
    async with store.watch() as events:
        await add(store, 1)
        lose_a_message(redis_server, prefix)
        received = await read_until(events, lambda event: event.kind is Kind.LAGGED)

    assert kinds(received) == [Kind.ENQUEUE, Kind.LAGGED]
    assert received[1].at > 0


async def test_a_later_listener_misses_nothing_by_what_went_before(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    async with store.watch():
        await add(store, 1)
    lose_a_message(redis_server, prefix)

    async with store.watch() as events:
        await add(store, 2)
        await add(store, 3)
        received = await read_until(events, lambda event: event.job_id == 3)

    assert kinds(received) == [Kind.ENQUEUE, Kind.ENQUEUE]


def test_a_message_from_before_the_count_began_is_left_out() -> None:
    """Nobody knows whether those around it came."""
    counter = watch._MessageCounter(7)

    assert [counter.receive(number) for number in (5, 7, 8, 9)] == [
        False,
        False,
        True,
        True,
    ]
    with pytest.raises(StoreUnavailable):
        counter.receive(7)


def test_numbers_that_begin_again_are_a_gap() -> None:
    """Someone emptied Redis."""
    with pytest.raises(StoreUnavailable):
        watch._MessageCounter(7).compare(0)
