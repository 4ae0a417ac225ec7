"""Removing jobs, with everything that belongs to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import State
from kue.store.sqlite import unique_keys
from kue.store.sqlite.transaction import Transaction, as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.sqlite.rows import StateRow

_IDS = "IN (SELECT value FROM json_each(?))"
_JOBS = f"DELETE FROM jobs WHERE id {_IDS}"
_LOGS = f"DELETE FROM logs WHERE job_id {_IDS}"
_LINKS = f"DELETE FROM links WHERE child {_IDS}"

#: How a parent ended that was removed; the other words are states.
REMOVED = "removed"


def remove(turn: Transaction, slips: Sequence[StateRow], *, free_keys: bool) -> None:
    """
    Remove jobs and tell whoever waited for them.

    With *free_keys* their unique keys are free at once; otherwise a ``unique_for``
    lasts beyond the job, which nobody asked to be rid of.
    """
    keyed = [slip for slip in slips if slip.unique_key is not None]
    if free_keys:
        unique_keys.free(turn, keyed)
    else:
        unique_keys.release(turn, keyed)
    for slip in slips:
        turn.count(slip.type, slip.state, -1, own=slip.retain_until is not None)
        turn.blame.take(slip.type, slip.fingerprint)
        turn.ended.append((slip.id, REMOVED))
        if slip.group_key is not None:
            turn.groups.add((slip.type, slip.group_key))
        if slip.state == State.ACTIVE:
            turn.freed.add(slip.type)
        turn.tell(Kind.REMOVE, slip.id, slip.type, slip.attempts)
    erase(turn, [slip.id for slip in slips])


def erase(turn: Transaction, ids: Sequence[int]) -> None:
    """Delete the rows of jobs: record, log and what they waited for."""
    wanted = as_json(ids)
    turn.run(_JOBS, wanted)
    turn.run(_LOGS, wanted)
    unlink(turn, ids)


def unlink(turn: Transaction, ids: Sequence[int]) -> None:
    """Let jobs wait for nobody any more."""
    turn.run(_LINKS, as_json(ids))
