"""A Redis that is not fit to keep jobs is refused at once, with advice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kue.model.errors import StoreError, StoreRefused, StoreUnavailable
from kue.model.job import State
from kue.store.redis.wire import server_check
from tests.faults.conftest import NewServer, NewStore, assert_sound
from tests.support.jobs import add_many, count_of
from tests.support.servers import HOST, RedisServer

SECRET = "hunter2"


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_redis_that_evicts_is_refused(
    new_server: NewServer, new_store: NewStore, policy: str
) -> None:
    store = new_store(new_server(maxmemory_policy=policy).url)

    with pytest.raises(StoreRefused, match=r"maxmemory-policy noeviction.*KUE_ALLOW"):
        await store.open()


async def test_a_redis_that_evicts_is_taken_when_allowed(
    new_server: NewServer, new_store: NewStore
) -> None:
    server = new_server(maxmemory_policy="allkeys-lru")
    store = new_store(server.url, allow_eviction=True)

    await add_many(store, 3)

    assert await count_of(store) == {State.WAITING: 3}
    await assert_sound(store)


async def test_a_replica_is_refused(new_server: NewServer, new_store: NewStore) -> None:
    master, replica = new_server(), new_server()
    replica.send("REPLICAOF", HOST, str(master.port))

    with pytest.raises(StoreRefused, match=r"is a replica.*master's address"):
        await new_store(replica.url).open()


@pytest.mark.parametrize("given", ["", ":wrong@", "someone:wrong@"])
async def test_a_wrong_password_is_refused_and_not_shown(
    new_server: NewServer, new_store: NewStore, given: str
) -> None:
    server = new_server()
    server.send("CONFIG", "SET", "requirepass", SECRET)
    store = new_store(f"redis://{given}{server.address}/0")

    with pytest.raises(StoreRefused, match="check user, password and ACL") as caught:
        await store.open()

    assert "wrong" not in str(caught.value).replace("WRONGPASS", "")
    assert SECRET not in str(caught.value)


async def test_the_right_password_is_enough(
    new_server: NewServer, new_store: NewStore
) -> None:
    server = new_server()
    server.send("ACL", "SETUSER", "kue", "on", f">{SECRET}", "~*", "&*", "+@all")
    server.send("CONFIG", "SET", "requirepass", "another")
    store = new_store(f"redis://kue:{SECRET}@{server.address}/0")

    await add_many(store, 3)

    assert SECRET not in store.name
    await assert_sound(store)


async def test_a_user_who_may_not_run_scripts_is_refused(
    new_server: NewServer, new_store: NewStore
) -> None:
    server = new_server()
    server.send("ACL", "SETUSER", "kue", "on", f">{SECRET}", "~*", "+@all", "-eval")
    server.send("ACL", "SETUSER", "kue", "-evalsha")
    store = new_store(f"redis://kue:{SECRET}@{server.address}/0")

    with pytest.raises(StoreRefused, match="check user, password and ACL") as caught:
        await store.open()

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("version", ["6.2.14", "5.0.7", "2.8"])
def test_an_old_redis_is_refused(version: str) -> None:
    info = {"redis_version": version, "role": "master"}

    with pytest.raises(StoreRefused, match=f"{version}.*needs Redis 7.0 or newer"):
        server_check.check(info, allow_eviction=False)


@pytest.mark.parametrize(
    "info",
    [
        {"redis_version": "7.0.0"},
        {"redis_version": "7.2.4", "valkey_version": "8.0.1"},
        {"redis_version": "8.2.1", "maxmemory_policy": "noeviction"},
        {"redis_version": "7.4.0-rc1"},
    ],
)
def test_a_newer_redis_is_taken(info: dict[str, str]) -> None:
    server_check.check({"role": "master", **info}, allow_eviction=False)


@pytest.mark.parametrize(("written", "given"), [(1, 4), (4, 1), (4, 2), (2, 4)])
async def test_a_wrong_number_of_shards_is_refused_and_does_no_harm(
    redis_server: RedisServer, new_store: NewStore, written: int, given: int
) -> None:
    right = f"{redis_server.url}?shards={written}"
    await add_many(new_store(right), 10)

    wrong = new_store(f"{redis_server.url}?shards={given}")
    with pytest.raises(StoreRefused, match=rf"\?shards={written}"):
        await wrong.open()

    again = new_store(right)
    await again.open()
    assert await count_of(again) == {State.WAITING: 10}
    await assert_sound(again)


async def test_jobs_of_a_newer_kue_are_refused(
    redis_server: RedisServer, new_store: NewStore, prefix: str
) -> None:
    await add_many(new_store(redis_server.url), 1)
    redis_server.send("HSET", f"{{{prefix}}}:meta", "schema", "99")

    with pytest.raises(StoreRefused, match=r"newer Kue.*upgrade Kue"):
        await new_store(redis_server.url).open()


async def test_a_service_that_is_not_a_redis_is_recognised(new_store: NewStore) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP ready\r\n")
        await reader.read(100)
        writer.write(b"500 unrecognized command\r\n")
        writer.close()

    async with await asyncio.start_server(greet, HOST, 0) as service:
        port = service.sockets[0].getsockname()[1]
        store = new_store(f"redis://:{SECRET}@{HOST}:{port}/0", budget="500ms")

        with pytest.raises(StoreError, match=rf"{HOST}:{port}.*URL") as caught:
            await store.open()

    assert SECRET not in str(caught.value)


async def test_a_unix_socket_is_as_good_as_a_port(
    new_server: NewServer, new_store: NewStore, tmp_path: Path
) -> None:
    path = tmp_path / "redis.sock"
    new_server(unixsocket=str(path))
    store = new_store(f"unix://{path}")

    await add_many(store, 3)

    assert await count_of(store) == {State.WAITING: 3}
    assert str(path) in store.name
    await assert_sound(store)


async def test_a_unix_socket_that_is_not_there_says_so(
    new_store: NewStore, tmp_path: Path
) -> None:
    store = new_store(f"unix://{tmp_path / 'no.sock'}", budget="300ms")

    with pytest.raises(StoreUnavailable, match=r"no\.sock.*is it running"):
        await store.open()
