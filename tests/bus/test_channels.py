"""A connection that listens: what it hears, and that it does not read ahead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio.client import PubSub

from kue.model.errors import StoreUnavailable
from kue.store.redis.wire import pubsub as module
from kue.store.redis.wire.client import RedisClient
from kue.store.redis.wire.url import read_url
from tests.bus.test_redis_cluster import spublish
from tests.support.patience import until
from tests.support.servers import RedisServer


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[RedisClient]:
    link = RedisClient(read_url(redis_server.url), budget_seconds=5)
    yield link
    await link.close()


async def test_messages_of_all_channels_come_in_order(
    link: RedisClient, redis_server: RedisServer
) -> None:
    with redis_server.client() as client:
        async with link.subscription("{x}", "{x}:a", "{x}:b") as message:
            for number in range(5):
                assert spublish(client, f"{{x}}:{'ab'[number % 2]}", b"%d" % number)

            assert [await message(20) for _ in range(5)] == [
                b"0",
                b"1",
                b"2",
                b"3",
                b"4",
            ]
            assert await message(0.01) is None


async def test_listening_needs_nothing_that_only_new_versions_of_redis_py_have(
    link: RedisClient, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-2: before 8.0 its asyncio client could not subscribe to sharded channels."""
    monkeypatch.delattr(PubSub, "ssubscribe", raising=False)
    with redis_server.client() as client:
        async with link.subscription("{x}", "{x}:a") as message:
            spublish(client, "{x}:a", b"1")

            assert await message(20) == b"1"


async def test_no_more_than_a_little_is_read_ahead(
    link: RedisClient, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not heard waits in Redis, which bounds it."""
    monkeypatch.setattr(module, "_MAX_BYTES", 10)
    size = 2_000_000
    with redis_server.client() as client:
        async with link.subscription("{x}", "{x}:a") as message:
            # More than sockets hold, and less than Redis cuts a subscriber off for.
            for _ in range(12):
                spublish(client, "{x}:a", bytes(size))
            await until(lambda: any(int(each["omem"]) for each in client.client_list()))
            heard = [await message(20) for _ in range(12)]

            assert [len(each or b"") for each in heard] == [size] * 12


async def test_a_lost_connection_is_told_after_what_was_heard_before(
    link: RedisClient, redis_server: RedisServer
) -> None:
    with redis_server.client() as client:
        async with link.subscription("{x}", "{x}:a") as message:
            spublish(client, "{x}:a", b"1")
            client.client_kill_filter(_type="pubsub")
            await asyncio.sleep(0)

            assert await message(20) == b"1"
            with pytest.raises(StoreUnavailable):
                await message(20)
