"""Removal of jobs, with log, links and unique keys."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import State
from kue.store.sqlite import step_rows, unique_keys
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.sqlite.verbs import named_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.sqlite.rows import StateRow

_IDS = "IN (SELECT value FROM json_each(?))"
_JOBS = f"DELETE FROM jobs WHERE id {_IDS}"
_LOGS = f"DELETE FROM logs WHERE job_id {_IDS}"
_LINKS = f"DELETE FROM links WHERE child {_IDS}"

#: How a parent ended that was removed; other endings are named after states.
REMOVED = "removed"


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
        tx.ended.append((row.id, REMOVED))
        tx.publish(Kind.REMOVE, row.id, row.type, row.attempts)
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
    """Delete the rows of jobs: record, log, steps and links to parents."""
    ids = [row.id for row in rows]
    wanted = as_json(ids)
    tx.run(_JOBS, wanted)
    tx.run(_LOGS, wanted)
    if any(row.has_steps for row in rows):
        step_rows.forget(tx, ids)
    unlink(tx, ids)


def unlink(tx: Transaction, ids: Sequence[int]) -> None:
    """Delete the links to parents: the jobs no longer wait for any."""
    tx.run(_LINKS, as_json(ids))
