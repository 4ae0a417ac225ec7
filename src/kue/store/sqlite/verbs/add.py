"""Add jobs: drafts become rows, once per (producer, seq) and unique key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.events import Kind
from kue.model.job import Cancelled, Draft, State
from kue.store.codec import body_of, line_of, tail_of
from kue.store.sqlite import queue_cap, ranking, replacement, unique_keys
from kue.store.sqlite.verb_transaction import Transaction, as_json, entered
from kue.store.validation import InvalidCall
from kue.store.values import REFUSED, Added
from kue.store.waiting_order import LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAST = "SELECT seq, answer FROM producers WHERE name = ?"
_REMEMBER = """
INSERT INTO producers (name, seq, answer, at) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seq = excluded.seq, answer = excluded.answer, at = excluded.at
"""
_STATES = "SELECT id, state FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
_TYPES = "INSERT OR IGNORE INTO types (name) SELECT value FROM json_each(?)"
_LINKS = """
INSERT INTO links (parent, child) SELECT value->>0, value->>1 FROM json_each(?)
"""

#: Columns of a new row except id, body and rank, in the order of `_columns`.
_COLUMNS = (
    *("type", "state", "priority", "at", "story", "unique_key", "unique_for"),
    *("unique_until", "unique_at_most"),
    *("group_key", "limited_by", "ttl", "expires_at", "once", "after_any", "delay"),
    *("retention", "remove_on_complete", "retain_until", "created_at", "quiet"),
)
#: All jobs that differ only in their bodies: {id: body}.
_ADD = f"""
INSERT INTO jobs (id, body, rank, {", ".join(_COLUMNS)})
SELECT CAST(key AS INTEGER), value,
    {LEVEL} * ?{_COLUMNS.index("priority") + 1} + CAST(key AS INTEGER),
    {", ".join(f"?{n + 1}" for n in range(len(_COLUMNS)))}
FROM json_each(?{len(_COLUMNS) + 1})
"""
_Columns = tuple[int | str | None, ...]

_answer = msgspec.json.Decoder(list[Added]).decode


def add(
    tx: Transaction, drafts: Sequence[Draft], producer: str, seq: int
) -> list[Added]:
    """Store drafts; a repeated call returns the same result and adds nothing."""
    row = tx.db.execute(_LAST, (producer,)).fetchone()
    if row is not None and seq == row[0]:
        return _answer(row[1])
    if row is not None and seq < row[0]:
        raise InvalidCall(
            f"producer {producer!r} is at call {row[0]} and cannot go back to {seq}; "
            "a producer has one call in flight, with a higher number each time"
        )
    answer = store(tx, drafts)
    tx.run(_REMEMBER, producer, seq, as_json(answer), tx.now)
    return answer


def store(tx: Transaction, drafts: Sequence[Draft]) -> list[Added]:
    """Store drafts without a check for repeated calls."""
    batch = _Batch(tx, drafts)
    answer = [batch.add(draft) for draft in drafts]
    batch.write()
    for type in {draft.type for draft in drafts}:
        queue_cap.drop_oldest(tx, type)
    return answer


class _Batch:
    """Drafts that are written to the tables together."""

    def __init__(self, tx: Transaction, drafts: Sequence[Draft]) -> None:
        self._tx = tx
        parents = list({id for draft in drafts for id in draft.spec.after})
        self._state_of: dict[int, str] = {}
        if parents:
            found = tx.db.execute(_STATES, (as_json(parents),)).fetchall()
            self._state_of.update(found)
        self._last_id: int = tx.one("SELECT value FROM meta WHERE name = 'ids'")
        self._written_id = self._last_id
        self._bodies: dict[_Columns, dict[int, str]] = {}
        self._links: list[tuple[int, int]] = []
        self._types: set[str] = set()
        self._ranks = ranking.Ranks(tx)
        #: Types without a cap and an order of their own: most of them.
        self._plain: set[str] = set()
        #: Ranks that do not follow from priority and id.
        self._ranked: dict[int, int] = {}
        self._room = queue_cap.Room(tx)

    def add(self, draft: Draft) -> Added:
        if draft.unique is not None:
            held = unique_keys.holder_of(self._tx, draft.type, draft.unique)
            if held is not None:
                return self._replace(draft, held) or held
        if not self._insert(draft, self._last_id + 1):
            return REFUSED
        self._last_id += 1
        return Added(self._last_id, True, self._tx.now)

    def _insert(self, draft: Draft, job_id: int) -> bool:
        """Insert a job; return whether there is room for it."""
        now = self._tx.now
        state, at, story = State.WAITING, None, ""
        due = now + draft.spec.delay if draft.at is None else draft.at
        if due > now:
            state, at = State.DELAYED, due
        if draft.spec.after:
            lost, open_ = self._check_parents(draft)
            if lost:
                state, at = State.CANCELLED, now
                story = line_of("", now, tail_of(Cancelled(lost))).decode()
            elif open_:
                # A delay counts from when it is released; an absolute time stays.
                state, at = State.BLOCKED, draft.at
                self._links.extend((parent, job_id) for parent in open_)
        is_plain = state is not State.WAITING or draft.type in self._plain
        if not is_plain and not self._may_wait(draft, job_id):
            return False
        columns = _columns(draft, state, at, story, now)
        self._bodies.setdefault(columns, {})[job_id] = body_of(draft.spec).decode()
        self._types.add(draft.type)
        self._take_key(draft, job_id, state)
        self._note(draft, job_id, state)
        return True

    def _may_wait(self, draft: Draft, job_id: int) -> bool:
        """Give a job its place among those that wait; return whether there is room."""
        if ranking.rule_of(self._tx, draft.type) is None:
            self._plain.add(draft.type)
            return True
        if not self._room.take(draft.type):
            return False
        rank = self._ranks.next(draft.type, draft.priority, draft.group)
        if rank is not None:
            self._ranked[job_id] = rank
        return True

    def _check_parents(self, draft: Draft) -> tuple[str, list[int]]:
        """Return why it can never run ("" if it can), and the parents it waits for."""
        open_ = []
        for parent in draft.spec.after:
            state = self._state_of.get(parent)
            if state is None or state == State.CANCELLED:
                if not draft.after_any:
                    was = "was removed" if state is None else "was cancelled"
                    return f"job {parent}, which it waited for, {was}", []
            elif state != State.COMPLETE and not (
                draft.after_any and state == State.FAILED
            ):
                open_.append(parent)
        return "", open_

    def _take_key(self, draft: Draft, job_id: int, state: State) -> None:
        if draft.unique is None:
            return
        now = self._tx.now
        until = unique_keys.until_of(now, draft.unique_at_most)
        if state.is_final:
            until = now + draft.unique_for
        if until is None or until > now:
            unique_keys.take(self._tx, draft.type, draft.unique, job_id, until=until)

    def _replace(self, draft: Draft, held: Added) -> Added | None:
        """Replace the holder of its key, if it has not started; None if it has."""
        if draft.on_conflict != "replace":
            return None
        if held.id > self._written_id:
            self.write()
        # The replaced job takes its turn after those before it.
        self._ranks.write()
        if not replacement.replace_job(self._tx, held.id, draft):
            return None
        return held._replace(replaced=True)

    def _note(self, draft: Draft, job_id: int, state: State) -> None:
        tx = self._tx
        own = state.is_final and draft.spec.retention is not None
        tx.count(draft.type, state, 1, own=own)
        tx.stats[draft.type].added += 1
        if draft.spec.quiet:
            tx.note_quiet(job_id)
        tx.publish(Kind.ENQUEUE, job_id, draft.type, 0, {"state": state})
        entered(tx, draft.type, state)

    def write(self) -> None:
        tx = self._tx
        self._ranks.write()
        if not self._bodies:
            return
        tx.run(_TYPES, as_json(list(self._types)))
        for columns, bodies in self._bodies.items():
            tx.run(_ADD, *columns, as_json(bodies))
        if self._ranked:
            ranking.write_ranks(tx, self._ranked)
        if self._links:
            tx.run(_LINKS, as_json(self._links))
        tx.run("UPDATE meta SET value = ? WHERE name = 'ids'", self._last_id)
        self._written_id = self._last_id
        for written in (self._bodies, self._links, self._types, self._ranked):
            written.clear()


def _columns(
    draft: Draft, state: State, at: int | None, story: str, now: int
) -> _Columns:
    spec = draft.spec
    ends = state.is_final and spec.retention is not None
    return (
        draft.type,
        state,
        draft.priority,
        at,
        story,
        draft.unique,
        draft.unique_for,
        draft.unique_until,
        draft.unique_at_most,
        draft.group,
        as_json(draft.limit_refs) if draft.limited_by else None,
        draft.ttl,
        now + draft.expires if draft.expires else None,
        draft.once,
        draft.after_any,
        spec.delay,
        spec.retention,
        spec.remove_on_complete,
        now + (spec.retention or 0) if ends else None,
        now,
        spec.quiet,
    )
