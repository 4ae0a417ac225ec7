"""Failures: rules about jobs that fail for good, and those to be reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.alerts import RESERVED
from kue.model.failure_rule import FailureRule
from kue.store.sqlite.verb_transaction import as_json
from kue.store.values import MAX_BATCH, Failure

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from kue.store.sqlite.rows import StateRow
    from kue.store.sqlite.verb_transaction import Transaction

_WRITE = "REPLACE INTO failure_rules (type, rule) VALUES (?, ?)"
_DELETE = "DELETE FROM failure_rules WHERE type = ?"
_RULES = "SELECT type, rule FROM failure_rules"
_RULED = "SELECT type FROM failure_rules"
_ADD = "INSERT OR IGNORE INTO failures (job_id, type, at, token) VALUES (?, ?, ?, ?)"
_OLDEST = """
SELECT job_id, type, at, token FROM failures ORDER BY at, job_id LIMIT ? OFFSET ?
"""
#: Jobs of a task that wait in another queue.
_WITH_TASK = """
SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?))
AND json_valid(body) AND body->>'$.task' IS NOT NULL
"""
_FORGET = "DELETE FROM failures WHERE at = ? AND job_id = ? AND token = ?"

_decode = msgspec.json.Decoder(FailureRule).decode


def set_failure_rule(
    tx: Transaction, type: str | None, rule: FailureRule | None
) -> None:
    if rule is None or rule.is_empty:
        tx.run(_DELETE, type or "")
    else:
        tx.run(_WRITE, type or "", as_json(rule))


def failure_rules(db: sqlite3.Connection) -> dict[str | None, FailureRule]:
    return {type or None: _decode(text) for type, text in db.execute(_RULES).fetchall()}


def failures(
    db: sqlite3.Connection, *, limit: int = MAX_BATCH, skip: int = 0
) -> list[Failure]:
    return [Failure(*row) for row in db.execute(_OLDEST, (limit, skip)).fetchall()]


def forget_failures(tx: Transaction, failures: Sequence[Failure]) -> None:
    rows = [(one.at, one.job_id, one.token) for one in failures]
    tx.db.executemany(_FORGET, rows)


def report(tx: Transaction, rows: Iterable[StateRow]) -> None:
    """Note jobs that fail now and are to be reported."""
    ruled = {type for (type,) in tx.db.execute(_RULED).fetchall()}
    if not ruled:
        return
    own = [row for row in rows if not row.type.startswith(RESERVED)]
    noted = [row for row in own if "" in ruled or row.type in ruled]
    if len(noted) < len(own):
        # There may be a rule of their task.
        others = [row.id for row in own if row.type not in ruled]
        found = {id for (id,) in tx.db.execute(_WITH_TASK, (as_json(others),))}
        noted += [row for row in own if row.id in found]
    tx.db.executemany(
        _ADD,
        [
            (row.id, row.type, tx.now, row.token if row.began is not None else "")
            for row in noted
        ],
    )


def has_any(tx: Transaction) -> bool:
    """Return whether some are to be reported."""
    return tx.one("SELECT 1 FROM failures LIMIT 1") is not None
