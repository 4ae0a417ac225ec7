"""`Store.open`: a store that is not fit to keep jobs is refused, with advice."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kue.model.errors import StoreCorrupt, StoreRefused
from kue.model.settings import load
from kue.store import store_for
from tests.support.engines import SHARDS, engine_at
from tests.support.jobs import add_one
from tests.support.servers import HOST, RedisServer


@pytest.fixture
def evicting(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that is used as a cache."""
    config = {"maxmemory": "50mb", "maxmemory-policy": "allkeys-lru"}
    server = RedisServer(tmp_path, config=config)
    yield server
    server.stop()


@pytest.fixture
def replica(tmp_path: Path, redis_server: RedisServer) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    with closing(server.client()) as client:
        client.replicaof(HOST, redis_server.port)
    yield server
    server.stop()


async def refusal(url: str, error: type[Exception] = StoreRefused) -> str:
    """Open a store that must be refused and return what the error says."""
    store = store_for(load(environ={}, url=url, budget="1s"))
    try:
        with pytest.raises(error) as caught:
            await store.open()
    finally:
        await store.close()
    return str(caught.value)


async def test_a_redis_that_evicts_keys_is_refused(evicting: RedisServer) -> None:
    assert "noeviction" in await refusal(evicting.url)


async def test_a_redis_that_evicts_keys_is_taken_when_someone_insists(
    evicting: RedisServer,
) -> None:
    settings = load(environ={}, url=evicting.url, allow_eviction=True)
    store = store_for(settings)

    assert await store.open()
    await store.close()


async def test_a_replica_is_refused(replica: RedisServer) -> None:
    assert "replica" in await refusal(replica.url)


async def test_another_number_of_shards_is_refused(redis_server: RedisServer) -> None:
    """Ids say their shard: with another number no job would be found any more."""
    engine = engine_at("redis-shards", f"{redis_server.url}?shards={SHARDS}")
    store = engine.new_store()
    await add_one(store)
    await store.close()
    other = store_for(
        load(
            environ={},
            url=f"{redis_server.url}?shards={SHARDS + 1}",
            prefix=engine.settings.prefix,
        )
    )

    with pytest.raises(StoreRefused, match="shards"):
        await other.open()
    await other.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kue.db"
    path.write_bytes(b"Dear diary, " * 1000)

    assert str(path) in await refusal(f"sqlite:///{path}", StoreCorrupt)
    assert path.read_bytes().startswith(b"Dear diary")


async def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "accounts.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE accounts (id)")

    assert await refusal(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("accounts",)]


async def test_a_file_that_another_process_is_making_is_not_taken_for_a_strangers(
    tmp_path: Path,
) -> None:
    """The race is short: it takes many new files to meet it."""
    for number in range(60):
        engine = engine_at("sqlite", f"sqlite:///{tmp_path / f'{number}.db'}")
        stores = [engine.new_store() for _ in range(10)]
        try:
            await asyncio.gather(
                *(store.open() for store in stores[::2]),
                *(add_one(store) for store in stores[1::2]),
            )
        finally:
            for store in stores:
                await store.close()


async def test_a_file_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kue.db"
    url = f"sqlite:///{path}"
    store = store_for(load(environ={}, url=url))
    await add_one(store)
    await store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 9999")

    assert "newer" in await refusal(url)
