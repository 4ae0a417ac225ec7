"""A Redis that lost its jobs, or may, is reported by running workers (R-13)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kue import Kue
from kue.model.errors import StoreRefused
from kue.worker import maintenance
from tests.faults.conftest import NewServer, NewStore
from tests.support.jobs import add_one
from tests.support.patience import PATIENCE_SECONDS, eventually


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the store all the time instead of each minute."""
    monkeypatch.setattr(maintenance, "CHECK_SECONDS", 0.05)


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Kue]:
    """A queue with a worker that takes jobs of type "note"."""
    async with Kue(url, budget="20s", lease="6s") as q:

        @q.task(name="note")
        async def note(number: int) -> int:
            return number

        async with q.work():
            yield q


async def troubles(q: Kue, text: str) -> None:
    """Wait until the worker is shown with that trouble; empty for none."""

    async def is_shown() -> bool:
        # The heartbeat carries it; there is no event to wait for.
        shown = [worker.trouble or "" for worker in await q.workers()]
        return bool(shown) and all(text in it if text else not it for it in shown)

    await eventually(is_shown)


@pytest.mark.usefixtures("often")
async def test_a_redis_that_was_emptied_is_reported(
    new_server: NewServer, caplog: pytest.LogCaptureFixture
) -> None:
    """R-13: FLUSHALL under a running worker, which goes on with what comes."""
    server = new_server()
    async with working(server.url) as q:
        await q.enqueue("note", {"number": 1})
        server.send("FLUSHALL")

        await troubles(q, "was emptied or replaced")
        job = await q.enqueue("note", {"number": 2})
        assert await job.result(timeout=PATIENCE_SECONDS) == 2

    errors = [it for it in caplog.records if it.levelno == logging.ERROR]
    assert any("restore a backup" in it.getMessage() for it in errors)


async def test_a_redis_that_came_back_empty_is_reported_at_once(
    new_server: NewServer,
) -> None:
    """R-13: no minute passes when the connection was lost."""
    server = new_server()
    async with working(server.url) as q:
        await q.enqueue("note", {"number": 1})
        server.kill()
        server.restart()

        await troubles(q, "was emptied or replaced")


@pytest.mark.usefixtures("often")
async def test_a_redis_that_evicts_by_now_is_reported_while_it_does(
    new_server: NewServer,
) -> None:
    """R-13: CONFIG SET maxmemory-policy under a running worker, and back."""
    server = new_server()
    async with working(server.url) as q:
        await q.enqueue("note", {"number": 1})
        server.send("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        await troubles(q, "config set maxmemory-policy noeviction")

        server.send("CONFIG", "SET", "maxmemory-policy", "noeviction")
        await troubles(q, "")


async def test_another_store_under_the_same_name_is_noticed(
    new_server: NewServer, new_store: NewStore
) -> None:
    """R-13: someone else opened the emptied Redis, which wrote a new id."""
    server = new_server()
    store = new_store(server.url)
    await add_one(store)
    await store.verify()

    server.send("FLUSHALL")
    await new_store(server.url).open()

    with pytest.raises(StoreRefused, match="emptied or replaced"):
        await store.verify()
