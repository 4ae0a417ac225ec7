"""The threads of a file store: many callers, one transaction, and nobody is harmed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.errors import StoreFull, StoreRefused, StoreUnavailable
from kue.model.job import State
from kue.store.sqlite import connection
from kue.store.sqlite.store import SqliteStore
from kue.store.sqlite.verb_transaction import Transaction
from kue.store.values import PauseRequest
from tests.support.jobs import T0, add, add_many, add_one, count_of
from tests.support.patience import PATIENCE_SECONDS, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kue.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.from_url(f"sqlite:///{path}", budget=200)
    yield store
    await store.close()


class Gate:
    """Keeps the writer inside a transaction until it is opened."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self.is_reached = threading.Event()

    def __call__(self, turn: Transaction) -> None:
        self.is_reached.set()
        assert self._is_open.wait(PATIENCE_SECONDS)

    def open(self) -> None:
        self._is_open.set()


async def hold_the_writer(store: SqliteStore) -> tuple[Gate, asyncio.Future[None]]:
    gate = Gate()
    held = store._engine.write(gate, now=T0)
    await asyncio.to_thread(gate.is_reached.wait, 50)
    return gate, held


async def test_calls_that_come_together_share_a_transaction(
    store: SqliteStore,
) -> None:
    said: list[str] = []
    await store._engine.write(
        lambda turn: turn.db.set_trace_callback(said.append), now=T0
    )
    gate, held = await hold_the_writer(store)
    calls = [asyncio.ensure_future(add_one(store)) for _ in range(50)]
    writer = store._engine._writer
    assert writer is not None
    await until(lambda: writer._calls.qsize() == len(calls))
    gate.open()

    ids = await asyncio.gather(*calls)

    await held
    assert sorted(ids) == list(range(1, 51))
    # Two that set up the test, then the fifty: in a few parts on a slow machine.
    assert 3 <= said.count("COMMIT") < 10


async def test_a_call_that_fails_undoes_nothing_of_the_others(
    store: SqliteStore,
) -> None:
    def fail(turn: Transaction) -> None:
        turn.run("DELETE FROM jobs")
        raise RuntimeError("changed my mind")

    await add_one(store)
    gate, held = await hold_the_writer(store)
    calls: list[Any] = [
        asyncio.ensure_future(add_one(store)),
        store._engine.write(fail, now=T0),
        asyncio.ensure_future(add_one(store)),
    ]
    await asyncio.sleep(0)
    gate.open()

    first, failed, second = await asyncio.gather(*calls, return_exceptions=True)

    await held
    assert isinstance(failed, RuntimeError)
    assert (first, second) == (2, 3)
    assert await count_of(store) == {State.WAITING: 3}
    assert (await store.check()).findings == ()


async def test_a_caller_that_gives_up_harms_nobody(store: SqliteStore) -> None:
    await add_one(store)
    gate, held = await hold_the_writer(store)
    lost = asyncio.ensure_future(add_one(store))
    kept = asyncio.ensure_future(add_one(store))
    await asyncio.sleep(0)
    lost.cancel()
    await asyncio.sleep(0)
    gate.open()

    await asyncio.gather(lost, return_exceptions=True)

    assert lost.cancelled()
    assert await kept == 2
    held.cancel()
    assert await add_one(store) == 3


async def test_one_store_serves_several_event_loops(store: SqliteStore) -> None:
    async def work() -> list[int]:
        return [await add_one(store) for _ in range(20)]

    found = await asyncio.gather(
        *(asyncio.to_thread(asyncio.run, work()) for _ in range(4)), work()
    )

    ids = [job_id for part in found for job_id in part]
    assert sorted(ids) == list(range(1, 101))


async def test_a_file_held_by_someone_else_is_unavailable_in_bounded_time(
    store: SqliteStore, path: Path
) -> None:
    await add_one(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            await add_one(store)
        # Who only reads does not mind.
        assert await count_of(store) == {State.WAITING: 1}
        shell.execute("ROLLBACK")

    assert await add_one(store) == 2


async def test_a_full_file_is_reported_by_every_verb_that_finds_no_room(
    store: SqliteStore,
) -> None:
    [job_id] = await add_many(store, 1)

    def fill(turn: Transaction) -> None:
        pages = turn.one("PRAGMA page_count")
        turn.run(f"PRAGMA max_page_count = {pages}")

    def make_room(turn: Transaction) -> None:
        turn.run("PRAGMA max_page_count = 1000000")

    await store._engine.write(fill, now=T0)
    big = [draft("email", "x" * 200_000)]

    with pytest.raises(StoreFull, match="disk is full"):
        await add(store, big)
    with pytest.raises(StoreFull, match="disk is full"):
        await store.pause(PauseRequest("email", reason="x" * 200_000))

    await store._engine.write(make_room, now=T0)
    assert await add_one(store) == job_id + 1
    assert (await store.check()).findings == ()


async def test_a_durable_add_is_flushed_to_the_disk(store: SqliteStore) -> None:
    """What SQLite was told is seen from inside the transaction: 2 is FULL, 1 NORMAL."""
    levels: list[int] = []

    def note(turn: Transaction) -> None:
        levels.append(turn.one("PRAGMA synchronous"))

    await store._engine.write(note, now=T0, is_durable=True)
    await store._engine.write(note, now=T0)

    assert levels == [2, 1]


async def test_a_child_process_is_told_to_make_a_store_of_its_own(
    store: SqliteStore,
) -> None:
    await add_one(store)
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()

    child = os.fork()
    if child == 0:
        # The parent's loop cannot run here, and need not: it is refused before.
        said = "nothing"
        try:
            store._engine.write(lambda turn: None, now=T0)
        except StoreRefused as exc:
            said = str(exc)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    said = (await loop.run_in_executor(None, os.read, reading, 4096)).decode()
    os.close(reading)
    await loop.run_in_executor(None, os.waitpid, child, 0)

    assert f"cannot be used by its child {child}" in said
    assert await add_one(store) == 2


async def test_threads_that_wait_for_a_file_together_try_less_often_each(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten workers of one process took half of its time to try in vain."""
    pauses = [0.0]

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    def wait() -> None:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
            connection.begin(db, PATIENCE_SECONDS)

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr(connection, "time", clock)
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        waits = [asyncio.create_task(asyncio.to_thread(wait)) for _ in range(4)]
        # One alone pauses for 2 ms at most.
        await until(lambda: max(pauses) > 0.005)
        holder.execute("ROLLBACK")
        await asyncio.gather(*waits)
    assert max(pauses) <= 4 * 0.002
