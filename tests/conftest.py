"""Fixtures for every test: servers of our own, and a store that no one else uses."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from kue.store.redis.wire import client, connecting
from tests.support.engines import ENGINES, SHARDS, Engine, engine_at
from tests.support.exploring import EXPLORES
from tests.support.servers import (
    PATIENCE_SECONDS,
    RedisCluster,
    RedisServer,
    free_port,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kue.store.contract import Store


#: Folders, and files, whose tests leave connections alone.
PATIENT = frozenset({"http", "store", "unit", "test_garbage_keys.py"})
MARKERS = (
    "damages: breaks the store on purpose; it is not checked afterwards",
    "long: takes long even alone, and is started before the others",
    "processes: starts processes, servers of its own or a browser (see processes.txt)",
)
#: Files and folders whose tests are marked as `processes`.
STARTING = (Path(__file__).parent / "processes.txt").read_text().split()


def pytest_configure(config: pytest.Config) -> None:
    # A shell has its background jobs ignore Ctrl-C, nohup a hangup, and so would all
    # that they start.
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    # How long something takes says nothing on a busy machine.
    hypothesis_settings.register_profile(
        "busy",
        deadline=None,
        derandomize=not EXPLORES,
        suppress_health_check=[HealthCheck.too_slow],
    )
    hypothesis_settings.load_profile("busy")
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(Path(__file__).parent).as_posix()
        if path.startswith(tuple(STARTING)):
            item.add_marker("processes")
    # Behind all others, a long one would keep one core busy and the rest waiting.
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(autouse=True)
def _patient_calls(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Wait for a busy Redis instead of sending the same call again.

    A call that is repeated may answer otherwise: a job that the first one removed is
    gone by the second.  Tests of faults need the product's own patience.
    """
    if PATIENT & {request.path.parent.name, request.path.name}:
        monkeypatch.setattr(client, "COMMAND_TIMEOUT_SECONDS", PATIENCE_SECONDS)
        monkeypatch.setattr(connecting, "CONNECT_TIMEOUT_SECONDS", PATIENCE_SECONDS)


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    """See to it that no test leaves a handler for the logs of all that follow."""
    yield
    root = logging.getLogger()
    left = [one for one in root.handlers if type(one) is logging.StreamHandler]
    for handler in left:
        root.removeHandler(handler)
    assert left == []


@pytest.fixture
def unused_tcp_port() -> int:
    """In place of that of pytest-asyncio, whose ports outgoing connections may take."""
    return free_port()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """
    One of the engines.  Servers are started by the first test that needs them.

    They are emptied after each: a check looks at all keys there are.
    """
    name: str = request.param
    if name == "sqlite":
        yield engine_at(name, f"sqlite:///{tmp_path / 'kue.db'}")
    elif name == "memory":
        yield engine_at(name, "memory://")
    elif name == "redis-cluster":
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        yield engine_at(name, cluster.url(shards=SHARDS), shards=SHARDS)
        cluster.empty()
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        shards = SHARDS if name == "redis-shards" else 1
        yield engine_at(name, f"{server.url}?shards={shards}", shards=shards)
        server.empty()


@pytest.fixture
async def store(engine: Engine, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A store of its own for each test; whatever the test did, it must be sound."""
    store = engine.new_store()
    try:
        yield store
        if request.node.get_closest_marker("damages") is None:
            report = await store.check()
            assert report.findings == ()
    finally:
        await store.close()


@pytest.fixture
async def other_store(engine: Engine, store: Store) -> AsyncIterator[Store]:
    """What another process would hold: a second store on the same jobs."""
    if not engine.is_shared:
        yield store
        return
    other = engine.new_store()
    yield other
    await other.close()
