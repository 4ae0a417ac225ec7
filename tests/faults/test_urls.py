"""Every form of URL, and a client, leads to the Redis that it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from kue import Kue
from kue.model.errors import StoreError
from kue.model.job import State
from tests.faults.conftest import NewServer, NewStore
from tests.faults.sentinels import Replicated, Sentinels
from tests.support.jobs import add_many, count_of
from tests.support.servers import RedisCluster

SECRET = "hunter2"


@pytest.fixture
def sentinels(tmp_path: Path, pair: Replicated) -> Iterator[Sentinels]:
    sentinels = Sentinels(tmp_path, pair.master)
    yield sentinels
    sentinels.stop()


async def test_a_store_is_named_by_a_url_of_any_kind_or_by_a_client(
    new_server: NewServer,
    new_store: NewStore,
    prefix: str,
    pair: Replicated,
    sentinels: Sentinels,
    redis_cluster: RedisCluster,
    tmp_path: Path,
) -> None:
    path = tmp_path / "redis.sock"
    server = new_server(unixsocket=str(path))
    server.send("CONFIG", "SET", "requirepass", SECRET)
    by_port = new_store(f"redis://:{SECRET}@{server.address}/3")
    await add_many(by_port, 3)
    by_socket = new_store(f"unix://:{SECRET}@{path}?db=3")
    assert await count_of(by_socket) == {State.WAITING: 3}
    with closing(redis.Redis(port=server.port, password=SECRET, db=3)) as client:
        async with Kue(client, prefix=prefix) as by_client:
            assert await by_client.count(State.WAITING) == 3
    other_database = new_store(f"redis://:{SECRET}@{server.address}/4")
    assert await count_of(other_database) == {}
    with pytest.raises(StoreError):
        await new_store(f"redis://{server.address}/3", budget="100ms").open()

    await add_many(new_store(sentinels.url), 2)
    assert await count_of(new_store(pair.master.url)) == {State.WAITING: 2}

    clustered = new_store(redis_cluster.url(shards=4))
    await add_many(clustered, 1)
    assert await count_of(clustered) == {State.WAITING: 1}
    redis_cluster.empty()
