"""Listeners of a file store: what could not be heard is said to be missing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kue.model.events import Kind
from kue.store.sqlite import store as sqlite_store
from kue.store.sqlite.store import SqliteStore
from tests.support.jobs import T0, add_one
from tests.support.listening import kinds, read_until


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.from_url(f"sqlite:///{tmp_path}/kue.db")
    yield store
    await store.close()


async def do(store: SqliteStore, statement: str) -> None:
    changed = await store._engine.write(lambda turn: turn.run(statement), now=T0)
    assert changed


async def test_events_that_were_pruned_unread_are_counted(store: SqliteStore) -> None:
    async with store.watch() as events:
        first = await add_one(store)
        await read_until(events, lambda event: event.job_id == first)
        await do(store, "UPDATE sqlite_sequence SET seq = seq + 5")
        last = await add_one(store)
        heard = await read_until(events, lambda event: event.job_id == last)

    assert kinds(heard) == [Kind.LAGGED, Kind.ENQUEUE]
    assert heard[0].detail == {"missed": 5}


async def test_a_listener_that_was_forgotten_says_that_it_missed_something(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a night with the lid closed: nobody wrote events for it meanwhile."""
    monkeypatch.setattr(sqlite_store, "WATCH_MS", 30)
    async with store.watch() as events:
        await do(store, "DELETE FROM listeners")
        [lagged] = await read_until(events, lambda event: event.kind is Kind.LAGGED)
        job_id = await add_one(store)
        heard = await read_until(events, lambda event: event.job_id == job_id)

    assert lagged.detail["missed"] >= 1
    assert kinds(heard) == [Kind.ENQUEUE]


async def test_who_leaves_is_forgotten(store: SqliteStore) -> None:
    job_id = await add_one(store)
    async with store.watch(), store.watch([job_id]):
        pass

    await add_one(store)

    rows = await store._engine.read(
        lambda db: db.execute(
            "SELECT (SELECT count(*) FROM listeners), (SELECT count(*) FROM watched), "
            "(SELECT count(*) FROM events)"
        ).fetchone()
    )
    assert rows == (0, 0, 0)
