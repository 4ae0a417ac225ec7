"""Removal of jobs, with log, links and unique keys."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import State
from kue.model.parent_failure import REMOVED
from kue.store.sqlite import lost_jobs, step_rows, unique_keys
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.sqlite.verbs import named_limits, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.sqlite.rows import StateRow

_IDS = "IN (SELECT value FROM json_each(?))"
_JOBS = f"DELETE FROM jobs WHERE id {_IDS}"
_LOGS = f"DELETE FROM logs WHERE job_id {_IDS}"
_LINKS = f"""
DELETE FROM links WHERE (parent, child) IN (
    SELECT parent, child FROM links WHERE child {_IDS} LIMIT ?)
"""
_POSTPONE = f"""
INSERT OR IGNORE INTO unlinked (child)
SELECT DISTINCT child FROM links WHERE child {_IDS}
"""
_POSTPONED = "SELECT child FROM unlinked LIMIT ?"
_UNLINKED = f"DELETE FROM unlinked WHERE child {_IDS}"

#: The most links of jobs that one statement deletes; maintenance deletes the rest.
MAX_UNLINKED = 1000


def remove(tx: Transaction, rows: Sequence[StateRow], *, free_keys: bool) -> None:
    """
    Remove jobs and notify their dependants.

    With *free_keys* their unique keys are free at once.  Otherwise a ``unique_for``
    outlasts the job, whose removal nobody requested.
    """
    keyed = [row for row in rows if row.unique_key is not None]
    if free_keys:
        unique_keys.free(tx, keyed)
    else:
        unique_keys.release(tx, keyed)
    leave_states(tx, rows)
    for row in rows:
        tx.error_changes.remove(row.type, row.fingerprint)
        succeeded = row.state == State.COMPLETE
        tx.ended.append((row.id, State.COMPLETE if succeeded else REMOVED))
        tx.publish(Kind.REMOVE, row.id, row.type, row.attempts)
    lost_jobs.note(tx, [row.id for row in rows if row.state != State.COMPLETE])
    tx.flow_changes.remove(rows)
    erase(tx, rows)


def leave_states(tx: Transaction, rows: Sequence[StateRow]) -> None:
    """Note that jobs leave their states: counts, and the slots of type and group."""
    before = Counter((s.type, s.state, s.retain_until is not None) for s in rows)
    for (type, state, own), n in before.items():
        tx.count(type, state, -n, own=own)
        if state == State.ACTIVE:
            tx.freed.add(type)
    for row in rows:
        if row.group_key is not None:
            tx.groups.add((row.type, row.group_key))
    limited = [row for row in rows if row.limited_by is not None]
    if limited:
        named_limits.leave(tx, limited)


def erase(tx: Transaction, rows: Sequence[StateRow]) -> None:
    """Delete the rows of jobs: record, log, steps, stream and links to parents."""
    ids = [row.id for row in rows]
    wanted = as_json(ids)
    tx.run(_JOBS, wanted)
    tx.run(_LOGS, wanted)
    if any(row.has_steps for row in rows):
        step_rows.forget(tx, ids)
    if any(row.has_chunks for row in rows):
        stream.forget(tx, ids)
    unlink(tx, ids)


def unlink(tx: Transaction, ids: Sequence[int]) -> None:
    """
    Delete the links to parents, of jobs that no longer wait for any.

    Links that are left do nothing: only a blocked job is released or cancelled.
    """
    wanted = as_json(ids)
    if tx.run(_LINKS, wanted, MAX_UNLINKED) == MAX_UNLINKED:
        tx.run(_POSTPONE, wanted)


def unlink_postponed(tx: Transaction) -> bool:
    """Delete links that an earlier transaction left; return whether there are more."""
    wanted = as_json([row[0] for row in tx.db.execute(_POSTPONED, (MAX_UNLINKED,))])
    is_full = tx.run(_LINKS, wanted, MAX_UNLINKED) == MAX_UNLINKED
    if not is_full:
        tx.run(_UNLINKED, wanted)
    return is_full
