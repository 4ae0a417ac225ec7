"""
The sink for the effects of jobs: a database outside of Kue that checks fencing tokens.

It accepts an effect once per fencing token, and rejects effects of runs older than the
newest that had its effect.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

NAME = "effects.db"
#: A process that is stopped in the middle of a write makes others wait.
PATIENCE_SECONDS = 30.0

_SCHEMA = """
CREATE TABLE effect (
    job INTEGER, fence INTEGER, attempt INTEGER, pid INTEGER, at INTEGER, key TEXT
);
CREATE INDEX effect_by_key ON effect (key, fence);
CREATE TABLE refused (job INTEGER, fence INTEGER);
"""
_TAKE = """
INSERT INTO effect
SELECT :job, :fence, :attempt, :pid, :at, :key
WHERE NOT EXISTS (SELECT 1 FROM effect WHERE key = :key AND fence > :fence)
"""


class Effect(NamedTuple):
    """An effect of a run that was accepted."""

    job: int
    fence: int
    attempt: int
    pid: int
    at: int
    #: Identifies the job, whose id may be assigned again after a loss.
    key: str = ""


class Sink:
    """The database, in one process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def create(self) -> None:
        with closing(self._connect()) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(_SCHEMA)

    def take(self, effect: Effect) -> None:
        """Store *effect*, unless a newer run has had its effect."""
        with closing(self._connect()) as database, database:
            taken = database.execute(_TAKE, effect._asdict()).rowcount
            if not taken:
                database.execute(
                    "INSERT INTO refused VALUES (?, ?)", (effect.job, effect.fence)
                )

    def effects(self) -> tuple[Effect, ...]:
        with closing(self._connect()) as database:
            rows = database.execute("SELECT * FROM effect ORDER BY rowid").fetchall()
        return tuple(Effect(*row) for row in rows)

    def refusals(self) -> int:
        with closing(self._connect()) as database:
            [[count]] = database.execute("SELECT count(*) FROM refused").fetchall()
        return int(count)

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=PATIENCE_SECONDS)
        # It must survive every process of a run, but not the machine.
        database.execute("PRAGMA synchronous = OFF")
        return database
