"""
Replacement of a job that has not started by another draft with its unique key.

Id, creation time, log, dependants and history stay; all else is that of the new draft,
which has done no steps, received no signals and sent no chunks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import MAX_HISTORY, State
from kue.store.codec import body_of, line_of
from kue.store.sqlite import ranking, removal, step_rows, unique_keys
from kue.store.sqlite.rows import state_rows_of, story_of
from kue.store.sqlite.verb_transaction import Transaction, as_json, entered
from kue.store.sqlite.verbs import stream
from kue.store.waiting_order import LEVEL

if TYPE_CHECKING:
    from kue.model.job import Draft

_REPLACEABLE = (State.WAITING, State.DELAYED, State.BLOCKED)
_REPLACED = re.compile(r'{"run":"","at":\d+,"outcome":"replaced"')
_TAIL = '"outcome":"replaced"}'
_REPLACE = """
UPDATE jobs SET state = :state, at = :at, body = :body, story = :story,
    priority = :priority, rank = :rank, unique_for = :unique_for,
    unique_until = :unique_until,
    unique_at_most = :unique_at_most, group_key = :group, limited_by = :limited_by,
    ttl = :ttl,
    expires_at = :expires_at, once = :once, on_parent_failure = :on_parent_failure,
    delay = :delay,
    retention = :retention, remove_on_complete = :remove_on_complete,
    quiet = :quiet,
    attempts = 0, stalls = 0, held = 0, held_by = NULL, has_steps = 0, has_chunks = 0
WHERE id = :id
"""


def replace_job(tx: Transaction, job_id: int, draft: Draft) -> bool:
    """Replace a job, unless it has started or ended; return whether it was replaced."""
    row = state_rows_of(tx.db, [job_id]).get(job_id)
    if row is None or row.state not in _REPLACEABLE:
        return False
    due = _due(draft, row.created_at, tx.now)
    state = State.DELAYED if due > tx.now else State.WAITING
    rank = None
    if state is State.WAITING:
        ranks = ranking.Ranks(tx)
        rank = ranks.next(row.type, draft.priority, draft.group)
        ranks.write()
    removal.leave_states(tx, [row])
    removal.unlink(tx, [job_id])
    if row.has_steps:
        step_rows.forget(tx, [job_id])
    if row.has_chunks:
        stream.forget(tx, [job_id])
    values = {
        **_columns(draft, row.created_at, max(0, tx.now - row.created_at)),
        "id": job_id,
        "state": state,
        "rank": draft.priority * LEVEL + job_id if rank is None else rank,
        "at": due if state is State.DELAYED else None,
        "story": _story(tx, job_id, max(0, due - tx.now)),
    }
    tx.db.execute(_REPLACE, values)
    _take_key(tx, draft, job_id, row.created_at)
    tx.count(row.type, state, 1)
    if draft.spec.quiet:
        tx.note_quiet(job_id)
    tx.publish(Kind.UPDATE, job_id, row.type, 0, {"state": state, "replaced": True})
    entered(tx, row.type, state)
    return True


def _due(draft: Draft, created_at: int, now: int) -> int:
    due = now + draft.spec.delay if draft.at is None else draft.at
    return min(due, created_at + draft.debounce_max) if draft.debounce_max else due


def _columns(draft: Draft, created_at: int, age: int) -> dict[str, int | str | None]:
    """Return its columns; times since its creation are those of a job added now."""
    spec = draft.spec
    expires = created_at + age + draft.expires
    return {
        "body": body_of(spec).decode(),
        "priority": draft.priority,
        "unique_for": draft.unique_for + age if draft.unique_for else 0,
        "unique_until": draft.unique_until,
        "unique_at_most": draft.unique_at_most + age if draft.unique_at_most else 0,
        "group": draft.group,
        "limited_by": as_json(draft.limit_refs) if draft.limited_by else None,
        "ttl": draft.ttl,
        "expires_at": expires if draft.expires else None,
        "once": draft.once,
        "on_parent_failure": draft.on_parent_failure,
        "delay": spec.delay,
        "retention": spec.retention,
        "remove_on_complete": spec.remove_on_complete,
        "quiet": spec.quiet,
    }


def _story(tx: Transaction, job_id: int, delay: int) -> str:
    """Return its history with one more line; several replacements leave only one."""
    story = story_of(tx.db, job_id).decode(errors="replace")
    lines = story.split("\n") if story else []
    if lines and _REPLACED.match(lines[-1]):
        del lines[-1]
    tail = f'"outcome":"replaced","delay":{delay}}}' if delay else _TAIL
    line = line_of("", tx.now, tail.encode()).decode()
    return "\n".join([*lines[1 - MAX_HISTORY :], line])


def _take_key(tx: Transaction, draft: Draft, job_id: int, created_at: int) -> None:
    since = max(tx.now, created_at)
    until = unique_keys.until_of(since, draft.unique_at_most)
    assert draft.unique is not None
    unique_keys.take(tx, draft.type, draft.unique, job_id, until=until)
