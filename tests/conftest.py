"""Fixtures for every test: servers of our own, and a store that no one else uses."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from kue import Kue
from kue.aio import loop_thread
from kue.client import failover_connection
from kue.client.connections import configure
from kue.model.connections import VARIABLE, connections
from kue.store.contract import Store
from kue.store.redis.wire import client, connecting
from kue.worker import heartbeat
from tests.support.command_line import CommandLine
from tests.support.engines import ENGINES, SHARDS, Engine, engine_at
from tests.support.exploring import EXPLORES
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers import (
    RedisCluster,
    RedisServer,
    free_port,
)

TESTS = Path(__file__).parent
#: Folders, and files, whose tests leave connections alone.
PATIENT = frozenset(
    {
        *("aio", "cli", "client", "http", "model", "project", "store", "supervisor"),
        *("testing", "worker", "test_garbage_keys.py", "test_pressure.py"),
    }
)
#: A worker that gets no core for seconds keeps its jobs, and a test can outwait it …
LEASE = "5s"
#: … and yet heartbeats come every third of a second.
HEARTBEATS_PER_LEASE = 15
#: A façade speaks to a store in one way; shards and clusters are the contract's matter,
#: and so is a SQLite store without a file, whose verbs are those of one with a file.
PLACES = ("sqlite", "redis")
MARKERS = (
    "damages: breaks the store on purpose; it is not checked afterwards",
    "long: takes long even alone, and is started before the others",
    "processes: starts processes, servers of its own or a browser (see processes.txt)",
)
#: A file system in memory.  No test cuts the power, and so none needs a real disk.
MEMORY = Path("/dev/shm")
#: What all tests together need there, with room to spare.
MEMORY_BYTES = 4 * 1024**3
#: Files and folders whose tests are marked as `processes`, and after a "!", others.
_LISTED = (TESTS / "processes.txt").read_text().split()
STARTING = tuple(name for name in _LISTED if not name.startswith("!"))
STARTING_NONE = tuple(name[1:] for name in _LISTED if name.startswith("!"))


def pytest_configure(config: pytest.Config) -> None:
    # A shell has its background jobs ignore Ctrl-C, nohup a hangup, and so would all
    # that they start.
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    # Where pytest has its temporary folders, unless a developer chose a place.
    if _has_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
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


def _has_memory() -> bool:
    is_there = os.access(MEMORY, os.W_OK)
    return is_there and shutil.disk_usage(MEMORY).free > MEMORY_BYTES


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among thousands of tests, neither now nor later."""
    gc.disable()
    done = yield
    gc.freeze()
    gc.enable()
    return done


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no file of which ``-m processes`` takes no test: most have none."""
    is_wanted = config.option.markexpr != "processes" or collection_path.is_dir()
    return None if is_wanted or _name_of(collection_path).startswith(STARTING) else True


@cache
def _name_of(path: Path) -> str:
    """Return the name of a file as processes.txt has it."""
    return path.relative_to(TESTS).as_posix()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    # Before -m selects by markers …
    for item in items:
        path = _name_of(item.path)
        if path.startswith(STARTING) and not path.startswith(STARTING_NONE):
            item.add_marker("processes")
        elif item.get_closest_marker("processes"):
            assert path.startswith(STARTING), f"list {path} in processes.txt"
    yield
    # … and after the order was drawn.
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
    folder = _name_of(request.path).partition("/")[0]
    if PATIENT & {folder, request.path.name}:
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


@pytest.fixture(autouse=True)
def _background_loops() -> Iterator[None]:
    """See to it that no test leaves a thread of a blocking queue to all that follow."""
    before = set(loop_thread._open)
    yield
    left = set(loop_thread._open) - before
    for loop in left:
        loop.close()
    assert left == set()


@pytest.fixture
def no_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No connections but those of the test; one that is down is soon tried again."""
    monkeypatch.setattr(failover_connection, "PROBE_SECONDS", 0.01)
    monkeypatch.delenv(VARIABLE, raising=False)
    configure(**dict.fromkeys(connections.definitions()))
    yield
    monkeypatch.delenv(VARIABLE, raising=False)
    configure(**dict.fromkeys(connections.definitions()))


@pytest.fixture
def unused_tcp_port() -> int:
    """In place of that of pytest-asyncio, whose ports outgoing connections may take."""
    return free_port()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """
    One of the engines.  Servers are started by the first test that needs them.

    They are emptied after each: a check looks at all keys there are.
    """
    name: str = request.param
    if name == "sqlite":
        yield _file(request)
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


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from placed(request)


def placed(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Yield the engine that a fixture was asked for."""
    name: str = request.param
    if name == "sqlite":
        yield _file(request)
    elif name == "memory":
        yield engine_at(name, "memory://")
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        yield engine_at(name, server.url)
        server.empty()


def _file(request: pytest.FixtureRequest) -> Engine:
    # Not an argument of the fixtures: most tests need no folder.
    folder: Path = request.getfixturevalue("tmp_path")
    return engine_at("sqlite", f"sqlite:///{folder / 'kue.db'}")


@pytest.fixture
def _quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEATS_PER_LEASE", HEARTBEATS_PER_LEASE)


@pytest.fixture
async def wire(place: Engine) -> AsyncIterator[Wire]:
    """A store whose calls can be counted and cut; it must be sound in the end."""
    store = place.new_store()
    wire = Wire(store)
    try:
        yield wire
        report = await store.check()
        assert report.findings == ()
    finally:
        await store.close()


@pytest.fixture
def kue_store(wire: Wire) -> Store:
    """The store beneath `q`, for what only a store can do."""
    return wire.store


@pytest.fixture
async def q(wire: Wire, place: Engine, _quick_heartbeats: None) -> AsyncIterator[Kue]:
    """A queue of its own for each test."""
    async with new_queue(wire, place) as q:
        yield q


@pytest.fixture
def plain_q(place: Engine, _quick_heartbeats: None) -> Iterator[Kue]:
    """A queue for tests that do not await; its store must be sound in the end."""
    q = Kue(place.settings.url, prefix=place.settings.prefix, lease=LEASE)
    yield q
    asyncio.run(_close(q))


async def _close(q: Kue) -> None:
    async with q:
        report = await q._connection.store.check()
        assert report.findings == ()


def new_queue(wire: Wire, place: Engine) -> Kue:
    return Kue(
        place.settings.url, prefix=place.settings.prefix, store=wire.store, lease=LEASE
    )


@pytest.fixture(params=["sqlite", "redis"])
def kue(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """The command line on a store of its own."""
    if request.param == "sqlite":
        engine = engine_at("sqlite", f"sqlite:///{tmp_path / 'kue.db'}")
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        engine = engine_at("redis", server.url)
    return CommandLine(engine, capsys, monkeypatch)
