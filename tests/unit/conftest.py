"""Queues on real stores, each in a place of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kue import Kue
from kue.worker import heartbeat
from tests.support.command_line import CommandLine
from tests.support.engines import Engine, engine_at
from tests.unit.flaky import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from kue.store.contract import Store
    from tests.support.servers import RedisServer

#: A worker that gets no core for seconds keeps its jobs, and a test can outwait it …
LEASE = "5s"
#: … and yet heartbeats come every third of a second.
HEARTBEATS_PER_LEASE = 15
#: A façade speaks to a store in one way; shards and clusters are the contract's matter.
PLACES = ("sqlite", "memory", "redis")


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    name: str = request.param
    if name == "sqlite":
        yield engine_at(name, f"sqlite:///{tmp_path / 'kue.db'}")
    elif name == "memory":
        yield engine_at(name, "memory://")
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        yield engine_at(name, server.url)
        server.empty()


@pytest.fixture
def _quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEATS_PER_LEASE", HEARTBEATS_PER_LEASE)


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
        report = await q._session.store.check()
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
