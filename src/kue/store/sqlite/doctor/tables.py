"""Doctor, checks of whole tables: stray rows, and counts that are wrong."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from kue.model.fingerprint import first_line
from kue.model.job import Error
from kue.store.sqlite.doctor.finding import SqliteFinding, statement
from kue.store.sqlite.error_groups import FINGERPRINT
from kue.store.sqlite.removal import REMOVED
from kue.store.sqlite.rows import rows_of, shown
from kue.store.sqlite.verbs import limits, schedules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.store.sqlite.transaction import Transaction

_IS_STRAY_KEY = """
until IS NULL AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE id = uniques.job_id AND type = uniques.type
    AND unique_key = key AND state NOT IN ('complete', 'failed', 'cancelled'))
"""
_STRAY_KEYS = f"SELECT type, key, job_id FROM uniques WHERE {_IS_STRAY_KEY}"
_DROP_KEY = f"DELETE FROM uniques WHERE type = ? AND key = ? AND {_IS_STRAY_KEY}"

_IS_STRAY_CHILD = """
NOT EXISTS (SELECT 1 FROM jobs WHERE id = child AND state = 'blocked')
"""
_STRAY_CHILDREN = f"SELECT parent, child FROM links WHERE {_IS_STRAY_CHILD}"
_DROP_LINK = f"DELETE FROM links WHERE parent = ? AND child = ? AND {_IS_STRAY_CHILD}"

#: Parents that ended without notifying their dependants, and how they ended.
_UNNOTIFIED_PARENTS = f"""
SELECT DISTINCT parent, coalesce(ended.state, '{REMOVED}') FROM links
JOIN jobs AS waits ON waits.id = child
LEFT JOIN jobs AS ended ON ended.id = parent
WHERE parent NOT IN (SELECT parent FROM endings)
AND (ended.id IS NULL OR ended.state IN ('complete', 'cancelled')
     OR (ended.state = 'failed' AND waits.after_any))
"""
_NOTIFY_LATER = "INSERT OR IGNORE INTO endings (parent, how) VALUES (?, ?)"

_STRAY_LOGS = """
SELECT DISTINCT job_id FROM logs
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE id = job_id)
"""
_DROP_LOG = """
DELETE FROM logs WHERE job_id = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = ?1)
"""

_TRUE_COUNTS = """
SELECT type, state, retain_until IS NOT NULL AS own, count(*) AS n
FROM jobs GROUP BY type, state, own
"""
_RECOUNT = f"INSERT INTO counts (type, state, own, n) {_TRUE_COUNTS}"

_TRUE_ERRORS = f"""
SELECT type, {FINGERPRINT} AS mark, count(*), min(at), max(at), max(id) FROM jobs
WHERE state = 'failed' AND mark <> '' GROUP BY type, mark
"""
_COUNTED_ERRORS = "SELECT type, fingerprint, n FROM errors"
_SET_ERROR = "INSERT OR REPLACE INTO errors VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

_HELD_GROUPS = """
SELECT type, group_key, min(id) FROM jobs INDEXED BY jobs_held_in_group
WHERE state = 'waiting' AND held = 1 GROUP BY type, group_key
"""
_ACTIVE_IN_GROUP = """
SELECT count(*) FROM jobs INDEXED BY jobs_active_in_group
WHERE state = 'active' AND group_key IS NOT NULL AND type = ? AND group_key = ?
"""
_READY_IN_GROUP = """
SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_ready
    WHERE state = 'waiting' AND held = 0 AND type = ? AND group_key = ?)
"""

_RAISE_IDS = "UPDATE meta SET value = max(value, ?) WHERE name = 'ids'"


def check_file(db: sqlite3.Connection) -> list[SqliteFinding]:
    """Let SQLite check the file itself; damage there needs a person."""
    try:
        found = [row[0] for row in db.execute("PRAGMA quick_check(10)")]
    except sqlite3.DatabaseError as exc:
        found = [str(exc)]
    return [SqliteFinding("damaged-file", line) for line in found if line != "ok"]


def check_tables(db: sqlite3.Connection) -> list[SqliteFinding]:
    """Check everything but single jobs, on one snapshot."""
    return [
        *_check_ids(db),
        *_check_keys(db),
        *_check_links(db),
        *_check_logs(db),
        *_check_counts(db),
        *_check_errors(db),
        *_check_groups(db),
        *_check_schedules(db),
    ]


def _check_ids(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    last = db.execute("SELECT value FROM meta WHERE name = 'ids'").fetchone()[0]
    highest = db.execute("SELECT coalesce(max(id), 0) FROM jobs").fetchone()[0]
    if highest > last:
        yield SqliteFinding(
            "ids-behind",
            f"job {highest} has a higher id than the last one given, {last}",
            highest,
            "raise the last id",
            statement(_RAISE_IDS, highest),
        )


def _check_keys(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    for type, key, job_id in db.execute(_STRAY_KEYS):
        yield SqliteFinding(
            "unique-drift",
            f"the unique key {key!r} of {type!r} is held by no unfinished job",
            job_id,
            "free the key",
            statement(_DROP_KEY, type, key),
        )


def _check_links(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    for parent, child in db.execute(_STRAY_CHILDREN):
        yield SqliteFinding(
            "stray-link",
            f"it is listed as waiting for job {parent} and is not blocked",
            child,
            "drop the entry",
            statement(_DROP_LINK, parent, child),
        )
    for parent, how in db.execute(_UNNOTIFIED_PARENTS):
        yield SqliteFinding(
            "stray-link",
            f"it is {how}, and jobs still wait for it",
            parent,
            "notify them with the next maintenance pass",
            statement(_NOTIFY_LATER, parent, how),
        )


def _check_logs(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    for (job_id,) in db.execute(_STRAY_LOGS):
        message = "its log exists, but the job does not"
        drop = statement(_DROP_LOG, job_id)
        yield SqliteFinding("stray-log", message, job_id, "delete the log", drop)


def _check_counts(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    found = {row[:3]: row[3] for row in db.execute(_TRUE_COUNTS)}
    counted = {row[:3]: row[3] for row in db.execute("SELECT * FROM counts")}
    for key in sorted(found.keys() | counted.keys()):
        true, recorded = found.get(key, 0), counted.get(key, 0)
        if true != recorded:
            message = (
                f"{true} jobs of {key[0]!r} are {key[1]}, and {recorded} are counted"
            )
            yield SqliteFinding("count-drift", message, None, "count again", _recount)


def _recount(tx: Transaction) -> None:
    tx.run("DELETE FROM counts")
    tx.run(_RECOUNT)


def _check_errors(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    found = {row[:2]: row[2] for row in db.execute(_TRUE_ERRORS)}
    counted = {row[:2]: row[2] for row in db.execute(_COUNTED_ERRORS)}
    for key in sorted(found.keys() | counted.keys()):
        true, recorded = found.get(key, 0), counted.get(key, 0)
        if true != recorded:
            message = f"{true} jobs of {key[0]!r} failed with {key[1]}, "
            message += f"and {recorded} are counted"
            yield SqliteFinding(
                "error-drift", message, None, "count again", _recount_errors
            )


def _recount_errors(tx: Transaction) -> None:
    found = tx.db.execute(_TRUE_ERRORS).fetchall()
    tx.run("DELETE FROM errors")
    for *counted, job_id in found:
        [row] = rows_of(tx.db, [job_id])
        error = shown(row).error or Error("Unknown", "")
        message = first_line(error.message)
        tx.run(_SET_ERROR, *counted, job_id, error.kind, message)


def _check_groups(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    rules = limits.limits(db)
    for type, group, job_id in db.execute(_HELD_GROUPS).fetchall():
        rule = rules.get(type)
        per_key = None if rule is None else rule.per_key
        if group is None or _is_rightly_held(db, type, group, per_key):
            continue
        yield SqliteFinding(
            "held-drift",
            f"jobs of group {group!r} are held back, and none of them runs or is ready",
            job_id,
            "release the best of them",
            partial(_refill, type, group),
        )


def _is_rightly_held(
    db: sqlite3.Connection, type: str, group: str, per_key: int | None
) -> bool:
    if per_key is None:
        return False
    active = db.execute(_ACTIVE_IN_GROUP, (type, group)).fetchone()[0]
    if active >= per_key:
        return True
    return bool(db.execute(_READY_IN_GROUP, (type, group)).fetchone()[0])


def _refill(type: str, group: str, tx: Transaction) -> None:
    rule = limits.limits(tx.db).get(type)
    if rule is None or rule.per_key is None:
        limits.release_held(tx, type)
    else:
        tx.groups.add((type, group))


def _check_schedules(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    for name in schedules.damaged(db):
        yield SqliteFinding("bad-record", f"the schedule {name!r} cannot be read")
