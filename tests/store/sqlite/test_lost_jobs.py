"""Which removed jobs had succeeded is known of so many ids, in so many bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from kue.model.job import State
from kue.store.sqlite.lost_jobs import CHUNK
from kue.store.sqlite.store import SqliteStore
from kue.store.values import REMEMBERED_IDS, RemoveRequest
from tests.support.jobs import T0, add_one, job_in, state_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kue.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.from_url(f"sqlite:///{path}")
    yield store
    assert (await store.check()).findings == ()
    await store.close()


def go_on_after(path: Path, last_id: int) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE name = 'ids'", (last_id,))


def chunks(path: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT chunk, length(bits) FROM lost_jobs").fetchall()


async def removed(store: SqliteStore, state: State) -> int:
    job_id = await job_in(store, state)
    await store.remove(RemoveRequest([job_id]), now=T0)
    return job_id


async def test_a_parent_that_was_removed_long_ago_counts_as_cancelled(
    store: SqliteStore, path: Path
) -> None:
    old, next_one = [await removed(store, State.COMPLETE) for _ in range(2)]
    go_on_after(path, old + REMEMBERED_IDS)

    children = [await add_one(store, "child", after=[one]) for one in (next_one, old)]

    assert [await state_of(store, child) for child in children] == [
        State.WAITING,
        State.CANCELLED,
    ]


async def test_ids_that_are_too_old_take_no_room(
    store: SqliteStore, path: Path
) -> None:
    await removed(store, State.FAILED)
    go_on_after(path, CHUNK)
    await removed(store, State.CANCELLED)
    assert chunks(path) == [(0, CHUNK // 8), (1, CHUNK // 8)]

    go_on_after(path, REMEMBERED_IDS + CHUNK)
    last = await removed(store, State.FAILED)

    assert chunks(path) == [(1, CHUNK // 8), (last // CHUNK, CHUNK // 8)]


async def test_jobs_that_succeeded_take_no_room(store: SqliteStore, path: Path) -> None:
    await removed(store, State.COMPLETE)

    assert chunks(path) == []
