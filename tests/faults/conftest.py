"""Fixtures for faults: stores on one set of jobs, seen directly or through a proxy."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pytest
import redis

from kue.model import settings
from kue.store import store_for
from kue.store.contract import Store
from kue.store.redis import add_script
from kue.store.redis.keys import Keys, root_of
from kue.store.redis.wire import client as wire_client
from tests.faults.forgetful import Forgetful, ForgetfulFile, ForgetfulRedis
from tests.faults.sentinels import Replicated
from tests.faults.supervised import Shift
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer


class NewStore(Protocol):
    """Makes a store on the test's jobs; it is closed when the test is over."""

    def __call__(self, url: str, **options: Any) -> Store: ...


class NewServer(Protocol):
    """Starts a redis-server for one test; it is stopped when the test is over."""

    def __call__(self, **config: str) -> RedisServer: ...


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """What all keys of one test begin with; a file has no use for one."""
    is_file = "url" in request.fixturenames and _is_file(request.getfixturevalue("url"))
    return settings.DEFAULT_PREFIX if is_file else f"fault-{uuid.uuid4().hex[:12]}"


def _is_file(url: str) -> bool:
    return url.startswith("sqlite:")


@pytest.fixture
def swift(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one, for files that no power cut threatens."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(prefix="kue-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
async def new_store(prefix: str) -> AsyncIterator[NewStore]:
    stores: list[Store] = []

    def make(url: str, **options: Any) -> Store:
        given = {
            "prefix": settings.DEFAULT_PREFIX if _is_file(url) else prefix,
            **options,
        }
        stores.append(store_for(settings.load(environ={}, url=url, **given)))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'kue.db'}"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


@pytest.fixture
def store_options() -> dict[str, Any]:
    """Settings of `store`, for modules that need others."""
    return {}


@pytest.fixture
async def store(
    url: str,
    store_options: dict[str, Any],
    new_store: NewStore,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Store]:
    """A store on the test's jobs; whatever happens to them, they must be sound."""
    store = new_store(url, **store_options)
    yield store
    if request.node.get_closest_marker("damages") is None:
        await assert_sound(store)


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """An operator's client of the Redis that the tests share."""
    with closing(redis_server.client()) as client:
        yield client


@pytest.fixture
def keys(prefix: str) -> Keys:
    return Keys(root_of(prefix, 0, 1))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Replicated]:
    pair = Replicated(tmp_path)
    yield pair
    pair.stop()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[NewServer]:
    servers: list[RedisServer] = []

    def start(**config: str) -> RedisServer:
        directory = tmp_path / f"redis-{len(servers)}"
        directory.mkdir()
        named = {name.replace("_", "-"): value for name, value in config.items()}
        servers.append(RedisServer(directory, config=named))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(params=["redis", "sqlite"])
def forgetful(
    request: pytest.FixtureRequest, tmp_path: Path, new_server: NewServer
) -> Forgetful:
    if request.param == "redis":
        return ForgetfulRedis(new_server())
    return ForgetfulFile(tmp_path)


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[Proxy]:
    async with Proxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
async def proxied(proxy: Proxy, new_store: NewStore, quick: None) -> Store:
    """A store behind the proxy that has time for many repetitions."""
    store = new_store(proxy.url, budget="20s")
    await store.open()
    return store


@pytest.fixture
async def direct(
    redis_server: RedisServer, new_store: NewStore, request: pytest.FixtureRequest
) -> AsyncIterator[Store]:
    """The same jobs, past the proxy; whatever happened there, they must be sound."""
    store = new_store(redis_server.url)
    yield store
    if request.node.get_closest_marker("damages") is None:
        await assert_sound(store)


@pytest.fixture
def shift(url: str, prefix: str, store: Store, tmp_path: Path) -> Shift:
    """Jobs for supervised workers; whatever becomes of those, they must be sound."""
    return Shift(url, prefix, store, tmp_path)


@pytest.fixture
def lone(tmp_path: Path, new_store: NewStore) -> Shift:
    """The same on one engine, for what does not depend on it."""
    url = f"sqlite:///{tmp_path / 'kue.db'}"
    return Shift(url, "kue", new_store(url), tmp_path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on an answer after a moment, so that many lost ones can be tested."""
    monkeypatch.setattr(wire_client, "COMMAND_TIMEOUT_SECONDS", 0.2)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a replica for as long as a busy machine, or a test, needs."""
    monkeypatch.setattr(add_script, "DURABLE_WAIT_MS", 100_000)


async def assert_sound(store: Store) -> None:
    report = await store.check()
    assert report.findings == ()
