"""
The baseline for SQLite: one table, an index of waiting jobs, and two statements.

Write-ahead log, syncing and batches as in Kue, but no thread in between.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import msgspec

from benchmarks.delivery import check_count, check_once
from benchmarks.readings import stopwatch
from benchmarks.traffic import Quota, batches

if TYPE_CHECKING:
    from pathlib import Path

WAITING, ACTIVE, COMPLETE = 0, 1, 2

_TABLES = f"""
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY, state INTEGER NOT NULL, priority INTEGER NOT NULL,
    body TEXT NOT NULL, token TEXT, outcome TEXT
) STRICT;
CREATE INDEX waiting ON jobs (priority, id) WHERE state = {WAITING};
"""
_ADD = f"INSERT INTO jobs (state, priority, body) VALUES ({WAITING}, 0, ?)"
_CLAIM = f"""
UPDATE jobs SET state = {ACTIVE}, token = ? || ':' || id
WHERE id IN (SELECT id FROM jobs WHERE state = {WAITING} ORDER BY priority, id LIMIT ?)
RETURNING id, token, body
"""
_SETTLE = f"""
UPDATE jobs SET state = {COMPLETE}, token = NULL, outcome = ?
WHERE id = ? AND token = ? AND state = {ACTIVE}
"""
_COUNT_COMPLETE = f"SELECT count(*) FROM jobs WHERE state = {COMPLETE}"


class Body(msgspec.Struct):
    """A minimal job."""

    data: dict[str, int]
    max_attempts: int = 1


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Body).decode


def bodies(count: int) -> list[tuple[str]]:
    """Return encoded jobs, so that encoding is not measured."""
    return [(_encode(Body({"i": i}, 3)).decode(),) for i in range(count)]


class BareSqlite:
    """One connection to a new file, and the jobs that were added and ran so far."""

    def __init__(self, path: Path, prepared: list[tuple[str]]) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_TABLES)
        self._prepared = prepared
        self._added = self._calls = 0
        self._ran: list[int] = []

    def close(self) -> None:
        self._db.close()

    async def add(self, first: int, last: int) -> float:
        pieces = batches(self._prepared[first:last])
        with stopwatch() as watch:
            for piece in pieces:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany(_ADD, piece)
                self._db.execute("COMMIT")
        self._added += last - first
        return watch.seconds

    async def drain(self, jobs: int) -> float:
        quota = Quota(jobs)
        outcomes: list[tuple[str, int, str]] = []
        with stopwatch() as watch:
            while (take := quota.take()) or outcomes:
                taken = self._cycle(outcomes, take)
                self._ran += [_decode(body).data["i"] for _, _, body in taken]
                outcomes = [
                    (_encode({"at": 0, "result": None}).decode(), job_id, token)
                    for job_id, token, _ in taken
                ]
        return watch.seconds

    async def check_all_ran(self) -> None:
        check_once(range(self._added), self._ran, "bare SQL")
        complete = self._db.execute(_COUNT_COMPLETE).fetchone()[0]
        check_count(complete, self._added, "bare jobs complete")

    def _cycle(
        self, outcomes: list[tuple[str, int, str]], take: int
    ) -> list[tuple[int, str, str]]:
        """End runs and start others, in one transaction."""
        self._calls += 1
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_SETTLE, outcomes)
        claim = (f"run-{self._calls}", take)
        taken = self._db.execute(_CLAIM, claim).fetchall() if take else []
        self._db.execute("COMMIT")
        return taken
