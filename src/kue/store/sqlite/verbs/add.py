"""Add jobs: drafts become rows, once per (producer, seq) and unique key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.model.errors import StoreCorrupt
from kue.model.events import Kind
from kue.model.job import Cancelled, Draft, State
from kue.store.codec import body_of, line_of, tail_of
from kue.store.sqlite import queue_cap, ranking, replacement, unique_keys
from kue.store.sqlite.new_links import FREE, NewLinks, has_links
from kue.store.sqlite.verb_transaction import Transaction, as_json, entered
from kue.store.validation import IdNotReserved, InvalidCall
from kue.store.values import REFUSED, Added
from kue.store.waiting_order import LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAST = "SELECT seq, answer FROM producers WHERE name = ?"
_REMEMBER = """
INSERT INTO producers (name, seq, answer, at) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seq = excluded.seq, answer = excluded.answer, at = excluded.at
"""
_TYPES = "INSERT OR IGNORE INTO types (name) SELECT value FROM json_each(?)"

#: Columns of a new row except id, body and rank, in the order of `_columns`.
_COLUMNS = (
    *("type", "state", "priority", "at", "story", "unique_key", "unique_for"),
    *("unique_until", "unique_at_most"),
    *("group_key", "limited_by", "ttl", "expires_at", "once", "delay"),
    *("on_parent_failure", "flow", "retention", "remove_on_complete"),
    *("retain_until", "created_at", "quiet"),
)
#: All jobs that differ only in their bodies: {id: body}.
_ADD = f"""
INSERT INTO jobs (id, body, rank, {", ".join(_COLUMNS)})
SELECT CAST(key AS INTEGER), value,
    {LEVEL} * ?{_COLUMNS.index("priority") + 1} + CAST(key AS INTEGER),
    {", ".join(f"?{n + 1}" for n in range(len(_COLUMNS)))}
FROM json_each(?{len(_COLUMNS) + 1})
"""
_EXISTS = "SELECT 1 FROM jobs WHERE id = ?"
_RETAIN_UNTIL = _COLUMNS.index("retain_until")
_Columns = tuple[str, State, *tuple[int | str | None, ...]]

_answer = msgspec.json.Decoder(list[Added]).decode


class CallPart(NamedTuple):
    """A part of a call that is too large for one transaction, or all of it."""

    #: Those of the whole call.
    drafts: Sequence[Draft]
    #: What the parts before have added.
    earlier: Sequence[Added]
    size: int

    @classmethod
    def of(cls, drafts: Sequence[Draft]) -> CallPart:
        """Return a whole call."""
        return cls(drafts, (), len(drafts))


def reserve(tx: Transaction, types: Sequence[str]) -> list[int]:
    last: int = tx.one("SELECT value FROM meta WHERE name = 'ids'")
    if last < 0:
        raise StoreCorrupt(
            f"the last id is {last}, which no job has; run kue doctor for details"
        )
    tx.run("UPDATE meta SET value = ? WHERE name = 'ids'", last + len(types))
    return list(range(last + 1, last + 1 + len(types)))


def add(tx: Transaction, part: CallPart, producer: str, seq: int) -> list[Added]:
    """Store drafts; a repeated call returns the same result and adds nothing."""
    row = tx.db.execute(_LAST, (producer,)).fetchone()
    if row is not None and seq == row[0]:
        return _answer(row[1])
    if row is not None and seq < row[0]:
        raise InvalidCall(
            f"producer {producer!r} is at call {row[0]} and cannot go back to {seq}; "
            "a producer has one call in flight, with a higher number each time"
        )
    answer = store(tx, part)
    tx.run(_REMEMBER, producer, seq, as_json(answer), tx.now)
    return answer


def store(tx: Transaction, part: CallPart) -> list[Added]:
    """Store drafts without a check for repeated calls."""
    start = len(part.earlier)
    drafts = part.drafts[start : start + part.size]
    batch = _Batch(tx, part)
    for draft in drafts:
        batch.added.append(batch.add(draft))
    batch.write()
    batch.finish()
    for type in {draft.type for draft in drafts}:
        queue_cap.drop_oldest(tx, type)
    return batch.added[start:]


class _Batch:
    """Drafts that are written to the tables together."""

    def __init__(self, tx: Transaction, part: CallPart) -> None:
        self._tx = tx
        self._size = len(part.drafts)
        #: The results so far, those of earlier parts included.
        self.added = list(part.earlier)
        self._last_id: int = tx.one("SELECT value FROM meta WHERE name = 'ids'")
        self._links: NewLinks | None = None
        if any(map(has_links, part.drafts)):
            self._links = NewLinks(tx, part.drafts, self.added, self._last_id)
        #: A reserved id is not greater.
        self._first_id = self._last_id
        self._bodies: dict[_Columns, dict[int, str]] = {}
        self._ranks = ranking.Ranks(tx)
        #: Types without a cap and an order of their own: most of them.
        self._plain: set[str] = set()
        #: Ranks that do not follow from priority and id.
        self._ranked: dict[int, int] = {}
        self._room = queue_cap.Room(tx)

    def add(self, given: Draft) -> Added:
        draft = given
        job_id = self._last_id + 1 if given.id is None else self._reserved(given.id)
        if self._links is not None:
            resolved = self._links.resolve(given, job_id)
            if resolved is None:
                return REFUSED
            draft = resolved
        if draft.unique is not None:
            held = unique_keys.holder_of(self._tx, draft.type, draft.unique)
            if held is not None:
                return self._replace(draft, held) or held
        if not self._insert(draft, job_id):
            return REFUSED
        if given.id is None:
            self._last_id = job_id
        return Added(job_id, True, self._tx.now)

    def _reserved(self, job_id: int) -> int:
        is_used = self._is_unwritten(job_id) or self._tx.one(_EXISTS, job_id)
        if is_used or not 0 < job_id <= self._first_id:
            raise IdNotReserved(job_id)
        return job_id

    def _is_unwritten(self, job_id: int) -> bool:
        return any(job_id in bodies for bodies in self._bodies.values())

    def _insert(self, draft: Draft, job_id: int) -> bool:
        """Insert a job; return whether there is room for it."""
        now = self._tx.now
        state, at, story = State.WAITING, None, ""
        due = now + draft.spec.delay if draft.at is None else draft.at
        if due > now:
            state, at = State.DELAYED, due
        standing = FREE if self._links is None else self._links.standing(draft)
        if standing.state is State.CANCELLED:
            state, at = State.CANCELLED, now
            story = line_of("", now, tail_of(Cancelled(standing.reason))).decode()
        elif standing.state is State.BLOCKED:
            # A delay counts from when it is released; an absolute time stays.
            state, at = State.BLOCKED, draft.at
        is_plain = state is not State.WAITING or draft.type in self._plain
        if not is_plain and not self._may_wait(draft, job_id):
            return False
        columns = _columns(draft, state, at, story, now)
        self._bodies.setdefault(columns, {})[job_id] = body_of(draft.spec).decode()
        self._take_key(draft, job_id, state)
        if draft.spec.quiet:
            self._tx.note_quiet(job_id)
        if self._tx.has_subscribers:
            self._tx.publish(Kind.ENQUEUE, job_id, draft.type, 0, {"state": state})
        if self._links is not None:
            self._links.add(draft, job_id, state, standing.parents)
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
        if self._is_unwritten(held.id):
            self.write()
        # The replaced job takes its turn after those before it.
        self._ranks.write()
        if not replacement.replace_job(self._tx, held.id, draft):
            return None
        if self._links is not None:
            self._links.replaced(held.id)
        return held._replace(replaced=True)

    def write(self) -> None:
        tx = self._tx
        self._ranks.write()
        if not self._bodies:
            return
        tx.run(_TYPES, as_json(list({type for type, *_ in self._bodies})))
        for columns, bodies in self._bodies.items():
            tx.run(_ADD, *columns, as_json(bodies))
            self._count(columns, len(bodies))
        if self._ranked:
            ranking.write_ranks(tx, self._ranked)
        if self._links is not None:
            self._links.write()
        tx.run("UPDATE meta SET value = ? WHERE name = 'ids'", self._last_id)
        self._bodies.clear()
        self._ranked.clear()

    def _count(self, columns: _Columns, n: int) -> None:
        """Count *n* new jobs with these columns."""
        tx = self._tx
        type, state, *_ = columns
        tx.count(type, state, n, own=columns[_RETAIN_UNTIL] is not None)
        tx.stats[type].added += n
        entered(tx, type, state)

    def finish(self) -> None:
        """Pass on what the new jobs mean for others."""
        if self._links is not None:
            self._links.pass_on(is_last=len(self.added) == self._size)


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
        spec.delay,
        draft.on_parent_failure,
        draft.flow,
        spec.retention,
        spec.remove_on_complete,
        now + (spec.retention or 0) if ends else None,
        now,
        spec.quiet,
    )
