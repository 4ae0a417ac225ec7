"""Statistics: counters per minute, added up per hour once minutes are full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.histogram import added
from kue.store.sqlite.verb_transaction import Transaction, as_json, read_meta
from kue.store.values import MINUTES_KEPT, MINUTES_PER_PASS, Stat, hourly

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from kue.model.histogram import Timing

_COLUMNS = "type, added, complete, failed, run_ms, waits, runs"
_MINUTES = f"""
SELECT minute, {_COLUMNS} FROM stats WHERE minute BETWEEN ? AND ?
ORDER BY minute, type
"""
#: The last minute that was added to its hour.
_ROLLED = "SELECT coalesce((SELECT value FROM meta WHERE name = 'rolled'), -1)"
#: One statement, so that no minute is seen both alone and in its hour.
_HOURS = f"""
SELECT hour * 60, {_COLUMNS} FROM hours WHERE hour BETWEEN ?1 AND ?2
UNION ALL
SELECT minute, {_COLUMNS} FROM stats
WHERE minute BETWEEN ?1 * 60 AND ?2 * 60 + 59 AND minute > ({_ROLLED})
"""
_HOUR = f"SELECT hour * 60, {_COLUMNS} FROM hours WHERE hour = ? AND type = ?"
_WRITE_HOUR = f"""
INSERT OR REPLACE INTO hours (hour, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_MEASURED = "SELECT waits, runs FROM stats WHERE minute = ? AND type = ?"
_MEASURE = """
INSERT INTO stats (minute, type, added, complete, failed, run_ms, waits, runs)
VALUES (?, ?, 0, 0, 0, 0, ?, ?)
ON CONFLICT DO UPDATE SET waits = excluded.waits, runs = excluded.runs
"""
#: The first minute that is left for the next pass.
_BEYOND = """
SELECT DISTINCT minute FROM stats WHERE minute BETWEEN ? AND ?
ORDER BY minute LIMIT 1 OFFSET ?
"""

_WORKED = "SELECT coalesce(sum(work_ms), 0) FROM stats WHERE minute BETWEEN ? AND ?"
#: One statement, so that no minute counts both alone and in the sum.
_WORK_TIME = f"""
SELECT coalesce((SELECT value FROM meta WHERE name = 'work_ms'), 0)
    + coalesce(sum(work_ms), 0) FROM stats WHERE minute > ({_ROLLED})
"""

_counts = msgspec.json.Decoder(dict[int, int]).decode


def measure(tx: Transaction, timings: Sequence[Timing]) -> None:
    minute = tx.now // 60_000
    for timing in timings:
        row = tx.db.execute(_MEASURED, (minute, timing.type)).fetchone()
        waits, runs = map(_counts, row or ("{}", "{}"))
        waits, runs = added([waits, timing.waits]), added([runs, timing.runs])
        tx.run(_MEASURE, minute, timing.type, as_json(waits), as_json(runs))


def roll_up(tx: Transaction) -> None:
    """Add full minutes to their hours, each once; a bounded number at a time."""
    full = tx.now // 60_000 - 1
    first = max(tx.one(_ROLLED) + 1, full - MINUTES_KEPT)
    if first > full:
        return
    values = (first, full, MINUTES_PER_PASS)
    beyond = tx.db.execute(_BEYOND, values).fetchone()
    last = full if beyond is None else beyond[0] - 1
    for stat in hourly(minutes(tx.db, first, last)):
        hour = stat.minute // 60
        known = map(_stat, tx.db.execute(_HOUR, (hour, stat.type)))
        [total] = hourly([*known, stat])
        _, *numbers, waits, runs = msgspec.structs.astuple(total)
        tx.run(_WRITE_HOUR, hour, *numbers, as_json(waits), as_json(runs))
    worked = tx.one(_WORKED, first, last)
    if worked:
        tx.write_meta("work_ms", read_meta(tx.db, "work_ms") + worked)
    tx.write_meta("rolled", last)


def minutes(db: sqlite3.Connection, since: int, until: int) -> list[Stat]:
    return [_stat(row) for row in db.execute(_MINUTES, (since, until))]


def hours(db: sqlite3.Connection, since: int, until: int) -> list[Stat]:
    """Return counters by hour and type, including minutes not yet in an hour."""
    return hourly(_stat(row) for row in db.execute(_HOURS, (since, until)))


def work_time(db: sqlite3.Connection) -> int:
    """Return how long all successful runs took, in ms."""
    return int(db.execute(_WORK_TIME).fetchone()[0])


def _stat(row: tuple[Any, ...]) -> Stat:
    minute, type, came, complete, failed, run_ms, waits, runs = row
    timings = (_counts(waits), _counts(runs))
    return Stat(minute, type, came, complete, failed, run_ms, *timings)
