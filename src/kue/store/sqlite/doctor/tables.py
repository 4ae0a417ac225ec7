"""Doctor, checks of whole tables: stray rows, and counts that are wrong."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.model.failure_rule import FailureRule
from kue.model.fingerprint import first_line
from kue.model.job import Error
from kue.model.named_limits import StoredLimit
from kue.model.parent_failure import REMOVED
from kue.store.sqlite.doctor.finding import Act, Repair, SqliteFinding, Values
from kue.store.sqlite.error_groups import FINGERPRINT
from kue.store.sqlite.rows import rows_of, shown
from kue.store.sqlite.verbs import limits, named_limits, schedules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.store.sqlite.verb_transaction import Transaction


class _Rule(NamedTuple):
    """A statement that selects damages, and how each is reported and repaired."""

    code: str
    #: Takes the values of a selected row, as the repair does.
    message: str
    select: str
    repair: str
    act: Act


_TRUE_COUNTS = """
SELECT type, state, retain_until IS NOT NULL AS own, count(*) AS n
FROM jobs GROUP BY type, state, own
"""
_TRUE_ERRORS = f"""
SELECT type, {FINGERPRINT} AS mark, count(*), min(at), max(at), max(id) FROM jobs
WHERE state = 'failed' AND mark <> '' GROUP BY type, mark
"""


#: Of members that exist; how many were removed is known from the counters alone.
_TRUE_FLOWS = """
SELECT flow AS id, 1 AS members, state = 'complete' AS complete,
    state = 'failed' AS failed, state = 'cancelled' AS cancelled
FROM jobs INDEXED BY jobs_flow WHERE flow IS NOT NULL
"""
_RECOUNT_FLOW = f"""
UPDATE flows SET (members, complete, failed, cancelled) = (
    SELECT count(*), coalesce(sum(complete), 0), coalesce(sum(failed), 0),
        coalesce(sum(cancelled), 0)
    FROM ({_TRUE_FLOWS} AND flow = :job_id))
WHERE id = :job_id
"""


def _recount(tx: Transaction, values: Values) -> None:
    tx.run("DELETE FROM counts")
    tx.run(f"INSERT INTO counts (type, state, own, n) {_TRUE_COUNTS}")


def _recount_errors(tx: Transaction, values: Values) -> None:
    found = tx.db.execute(_TRUE_ERRORS).fetchall()
    tx.run("DELETE FROM errors")
    for *counted, job_id in found:
        [row] = rows_of(tx.db, [job_id])
        error = shown(row).error or Error("Unknown", "")
        group = (*counted, job_id, error.kind, first_line(error.message))
        tx.run("INSERT OR REPLACE INTO errors VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *group)


def _recount_flow(tx: Transaction, values: Values) -> None:
    tx.run("INSERT OR IGNORE INTO flows (id) VALUES (?)", values["job_id"])
    tx.db.execute(_RECOUNT_FLOW, values)


_IS_STRAY_KEY = """
until IS NULL AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE id = uniques.job_id AND type = uniques.type
    AND unique_key = key AND state NOT IN ('complete', 'failed', 'cancelled'))
"""
_IS_STRAY_CHILD = """
NOT EXISTS (SELECT 1 FROM jobs WHERE id = child AND state = 'blocked')
AND child NOT IN (SELECT child FROM unlinked)
"""
#: References have no quotes; the JSON around them may be damaged.
_IS_STRAY_RUN = """
NOT EXISTS (SELECT 1 FROM jobs WHERE id = job_id AND state = 'active'
            AND instr(limited_by, json_quote(ref)))
"""
_HAS_NO_JOB = "NOT EXISTS (SELECT 1 FROM jobs WHERE id = job_id)"
_RULES = (
    _Rule(
        "ids-behind",
        "job {job_id} has a higher id than the last one given, {last}",
        """
        SELECT coalesce((SELECT max(id) FROM jobs), 0) AS job_id,
            (SELECT value FROM meta WHERE name = 'ids') AS last
        WHERE last IS NULL OR job_id > last
        """,
        "raise the last id",
        """
        INSERT INTO meta (name, value) VALUES ('ids', :job_id)
        ON CONFLICT DO UPDATE SET value = max(value, excluded.value)
        """,
    ),
    _Rule(
        "unique-drift",
        "the unique key {key!r} of {type!r} is held by no unfinished job",
        f"SELECT type, key, job_id FROM uniques WHERE {_IS_STRAY_KEY}",
        "free the key",
        f"DELETE FROM uniques WHERE type = :type AND key = :key AND {_IS_STRAY_KEY}",
    ),
    _Rule(
        "stray-link",
        "it is listed as waiting for job {parent} and is not blocked",
        f"SELECT parent, child AS job_id FROM links WHERE {_IS_STRAY_CHILD}",
        "drop the entry",
        f"""
        DELETE FROM links WHERE parent = :parent AND child = :job_id
        AND {_IS_STRAY_CHILD}
        """,
    ),
    # Parents that ended without notifying their dependants, and how they ended.
    _Rule(
        "stray-link",
        "it is {how}, and jobs still wait for it",
        f"""
        SELECT DISTINCT parent AS job_id, coalesce(ended.state, '{REMOVED}') AS how
        FROM links JOIN jobs AS waits ON waits.id = child
        LEFT JOIN jobs AS ended ON ended.id = parent
        WHERE parent NOT IN (SELECT parent FROM endings)
        AND (ended.id IS NULL OR ended.state IN ('complete', 'cancelled')
             OR (ended.state = 'failed' AND waits.on_parent_failure <> 'block'))
        """,
        "notify them with the next maintenance pass",
        "INSERT OR IGNORE INTO endings (parent, how) VALUES (:job_id, :how)",
    ),
    _Rule(
        "stray-log",
        "its log exists, but the job does not",
        f"SELECT DISTINCT job_id FROM logs WHERE {_HAS_NO_JOB}",
        "delete the log",
        f"DELETE FROM logs WHERE job_id = :job_id AND {_HAS_NO_JOB}",
    ),
    _Rule(
        "stray-log",
        "its steps exist, but the job does not",
        f"SELECT DISTINCT job_id FROM steps WHERE {_HAS_NO_JOB}",
        "delete the steps",
        f"DELETE FROM steps WHERE job_id = :job_id AND {_HAS_NO_JOB}",
    ),
    _Rule(
        "stray-log",
        "its steps would be left behind when it is removed",
        "SELECT id AS job_id FROM jobs WHERE NOT has_steps"
        " AND EXISTS (SELECT 1 FROM steps WHERE job_id = jobs.id)",
        "remove them with it",
        "UPDATE jobs SET has_steps = 1 WHERE id = :job_id",
    ),
    _Rule(
        "stray-log",
        "its stream exists, but the job does not",
        f"SELECT DISTINCT job_id FROM chunks WHERE {_HAS_NO_JOB}",
        "delete the stream",
        f"DELETE FROM chunks WHERE job_id = :job_id AND {_HAS_NO_JOB}",
    ),
    _Rule(
        "stray-log",
        "its stream would be left behind when it is removed",
        "SELECT id AS job_id FROM jobs WHERE NOT has_chunks"
        " AND EXISTS (SELECT 1 FROM chunks WHERE job_id = jobs.id)",
        "remove it with the job",
        "UPDATE jobs SET has_chunks = 1 WHERE id = :job_id",
    ),
    _Rule(
        "limit-drift",
        "limit {ref!r} counts it, and it does not run under that",
        f"SELECT ref, job_id FROM limit_runs WHERE {_IS_STRAY_RUN}",
        "do not count it",
        f"""
        DELETE FROM limit_runs WHERE ref = :ref AND job_id = :job_id
        AND {_IS_STRAY_RUN}
        """,
    ),
    _Rule(
        "count-drift",
        "{actual} jobs of {type!r} are {state}, and {recorded} are counted",
        f"""
        SELECT type, state, sum(n) AS actual, sum(counted) AS recorded FROM (
            SELECT *, 0 AS counted FROM ({_TRUE_COUNTS})
            UNION ALL SELECT type, state, own, 0, n FROM counts)
        GROUP BY type, state, own HAVING actual <> recorded
        """,
        "count again",
        _recount,
    ),
    _Rule(
        "flow-drift",
        "its flow has other members than are counted",
        f"""
        SELECT id AS job_id FROM ({_TRUE_FLOWS}
            UNION ALL SELECT id, -members, -complete, -failed, -cancelled FROM flows)
        WHERE id IN (SELECT id FROM jobs) GROUP BY id
        HAVING sum(members) OR sum(complete) OR sum(failed) OR sum(cancelled)
        """,
        "count again",
        _recount_flow,
    ),
    _Rule(
        "error-drift",
        "{actual} jobs of {type!r} failed with {mark}, and {recorded} are counted",
        f"""
        SELECT type, mark, sum(n) AS actual, sum(counted) AS recorded FROM (
            SELECT type, {FINGERPRINT} AS mark, 1 AS n, 0 AS counted FROM jobs
            WHERE state = 'failed' AND mark <> ''
            UNION ALL SELECT type, fingerprint, 0, n FROM errors)
        GROUP BY type, mark HAVING actual <> recorded
        """,
        "count again",
        _recount_errors,
    ),
)

_HELD_GROUPS = """
SELECT type, group_key, min(id) FROM jobs INDEXED BY jobs_held_in_group
WHERE state = 'waiting' AND held = 1 GROUP BY type, group_key
"""
_HELD_BY_LIMITS = """
SELECT type, held_by, min(id) FROM jobs INDEXED BY jobs_held_by
WHERE state = 'waiting' AND held = 2 GROUP BY held_by, type
"""
_HAS_OPENING = "SELECT EXISTS (SELECT 1 FROM limit_openings WHERE type = ? AND ref = ?)"
#: Of those that run, or could.
_HAS_MEMBER = """
SELECT EXISTS (SELECT 1 FROM limit_runs WHERE ref = :ref),
    EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_ready
            WHERE state = 'waiting' AND held = 0
            AND instr(limited_by, json_quote(:ref)))
"""
_OPEN_NOW = "REPLACE INTO limit_openings (type, ref, at) VALUES (:type, :ref, 0)"
_READY_IN_GROUP = """
SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_ready
    WHERE state = 'waiting' AND held = 0 AND type = ? AND group_key = ?)
"""


def check_file(db: sqlite3.Connection) -> list[SqliteFinding]:
    """Let SQLite check the file itself; damage there needs a person."""
    try:
        found = [row[0] for row in db.execute("PRAGMA quick_check(10)")]
    except sqlite3.DatabaseError as exc:
        found = [str(exc)]
    return [SqliteFinding("damaged-file", line) for line in found if line != "ok"]


def check_tables(db: sqlite3.Connection) -> list[SqliteFinding]:
    """Check everything but single jobs, on one snapshot."""
    found = [finding for rule in _RULES for finding in _check_rule(db, rule)]
    found += _check_failure_rules(db)
    return [*found, *_check_groups(db), *_check_limits(db), *_check_schedules(db)]


def _check_rule(db: sqlite3.Connection, rule: _Rule) -> Iterator[SqliteFinding]:
    rows = db.execute(rule.select)
    names = [column[0] for column in rows.description]
    for row in rows:
        values = dict(zip(names, row, strict=True))
        message = rule.message.format(**values)
        yield SqliteFinding(rule.code, message, Repair(rule.repair, rule.act), values)


def _check_groups(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    per_key = limits.group_limits(db)
    for type, group, job_id in db.execute(_HELD_GROUPS).fetchall():
        if group is None or _is_rightly_held(db, type, group, per_key.get(type)):
            continue
        yield SqliteFinding(
            "held-drift",
            f"jobs of group {group!r} are held back, and none of them runs or is ready",
            Repair("release the best of them", _refill),
            {"type": type, "group": group, "job_id": job_id},
        )


def _check_failure_rules(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    for type, text in db.execute("SELECT type, rule FROM failure_rules"):
        try:
            msgspec.json.decode(text, type=FailureRule)
        except (ValueError, TypeError):
            yield SqliteFinding(
                "bad-record", f"the failure rule of {type!r} cannot be read"
            )


def _check_limits(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    for name, text in db.execute("SELECT name, definition FROM named_limits"):
        try:
            StoredLimit.read(text)
        except (ValueError, TypeError):
            yield SqliteFinding("bad-record", f"the limit {name!r} cannot be read")
    for type, ref, job_id in db.execute(_HELD_BY_LIMITS).fetchall():
        if not _can_be_released(db, type, ref):
            yield SqliteFinding(
                "held-drift",
                f"jobs of {type!r} are held by limit {ref!r}, which will release none",
                Repair("have it release what it can", _OPEN_NOW),
                {"type": type, "ref": ref, "job_id": job_id},
            )


def _can_be_released(db: sqlite3.Connection, type: str, ref: str) -> bool:
    """Return whether a run that ends, or the time, will release jobs of a limit."""
    rule = named_limits.read_level(db, ref, 0).rule
    if rule is None:
        return False
    if rule.rate is not None:
        return bool(db.execute(_HAS_OPENING, (type, ref)).fetchone()[0])
    return any(db.execute(_HAS_MEMBER, {"ref": ref}).fetchone())


def _is_rightly_held(
    db: sqlite3.Connection, type: str, group: str, per_key: int | None
) -> bool:
    if per_key is None:
        return False
    is_ready: int = db.execute(_READY_IN_GROUP, (type, group)).fetchone()[0]
    return bool(is_ready) or limits.active_in_group(db, type, group) >= per_key


def _refill(tx: Transaction, values: Values) -> None:
    type = values["type"]
    if type in limits.group_limits(tx.db):
        tx.groups.add((type, values["group"]))
    else:
        limits.release_held(tx, type)


def _check_schedules(db: sqlite3.Connection) -> Iterator[SqliteFinding]:
    times = dict(db.execute("SELECT name, next_at FROM schedules").fetchall())
    for name, schedule in schedules.read_schedules(db):
        if schedule is None:
            yield SqliteFinding("bad-record", f"the schedule {name!r} cannot be read")
        elif times[name] != schedule.next_at:
            yield SqliteFinding(
                "schedule-drift",
                f"the schedule {name!r} is to fire at {times[name]}, but its next "
                f"time is {schedule.next_at}",
                Repair("write its next time", _set_next_time),
                {"name": name, "next_at": schedule.next_at},
            )


def _set_next_time(tx: Transaction, values: Values) -> None:
    sql = "UPDATE schedules SET next_at = ? WHERE name = ?"
    tx.run(sql, values["next_at"], values["name"])
