"""
Dependencies: jobs that wait for others, and are released or cancelled when those end.

A link is one row, parent and child.  A blocked job whose last link is deleted is
released.  A verb that ends a parent notes it in its transaction.  At its end the
dependants are notified, at most `CASCADE` of them; maintenance notifies the rest.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import MAX_PARENTS, Cancelled, State
from kue.model.parent_failure import NONE_FAILED, Effect, effect_of, reason_of
from kue.store.sqlite import ranking, removal, transitions
from kue.store.sqlite.rows import state_rows_of
from kue.store.sqlite.verb_transaction import Transaction, as_json, entered
from kue.store.sqlite.verbs import limits

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

#: The most dependants that one transaction notifies.
CASCADE = 1000
#: How long a call that is stored in parts may take; then its producer is gone.
MAX_HOLD_MS = 3_600_000
_ANY = "SELECT EXISTS (SELECT 1 FROM links)"
_PARENTS_OF = """
SELECT parent FROM links JOIN jobs ON id = child
WHERE child = ? AND parent <> child AND state = 'blocked'
AND typeof(parent) = 'integer' ORDER BY parent LIMIT ?
"""
#: With how those ended before whose dependants were not all notified.
_PARENTS = """
SELECT DISTINCT parent, endings.how FROM links LEFT JOIN endings USING (parent)
WHERE parent IN (SELECT value FROM json_each(?))
"""
#: A failed parent may yet be retried: dependants that wait for that are left alone.
_CHILDREN = """
SELECT child, coalesce(on_parent_failure, 'run')
FROM links LEFT JOIN jobs ON jobs.id = child
WHERE parent = :parent AND (
    :how <> 'failed' OR coalesce(on_parent_failure, 'run') IN ('cancel', 'run', 'only'))
ORDER BY child LIMIT :limit
"""
_CUT = """
DELETE FROM links WHERE parent = ? AND child IN (SELECT value FROM json_each(?))
"""
#: A delay counts from now; an absolute time (``at``) stays.
_DUE = """
SELECT id, type, coalesce(at, ? + delay) FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'blocked'
"""
_UNLINKED = """
SELECT id, on_parent_failure = 'only' FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'blocked'
AND NOT EXISTS (SELECT 1 FROM links WHERE child = id)
"""
_RELEASE = """
UPDATE jobs SET state = new.value->>1, at = new.value->>2
FROM json_each(?) AS new WHERE jobs.id = new.value->>0 AND state = 'blocked'
"""
_HOLD = """
INSERT OR IGNORE INTO links (parent, child) SELECT id, id FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'blocked'
"""
_END_HOLDS = """
DELETE FROM links WHERE parent = child AND child IN (SELECT value FROM json_each(?))
"""
_OLD_HOLDS = """
SELECT child FROM links INDEXED BY links_held JOIN jobs ON id = child
WHERE parent = child AND created_at <= ? LIMIT 1000
"""
#: A recorded failure may be outdated by now; any other ending is not overwritten.
_POSTPONE = """
INSERT INTO endings (parent, how) VALUES (?, ?)
ON CONFLICT DO UPDATE SET how = excluded.how WHERE how = 'failed'
"""
_POSTPONED = "SELECT parent, how FROM endings ORDER BY parent LIMIT ?"
_NOTIFIED = "DELETE FROM endings WHERE parent = ?"


def apply_side_effects(tx: Transaction) -> None:
    """
    Notify dependants, reuse freed slots, and write what was noted.

    In this order: dependants that are cancelled free slots and are counted themselves.
    """
    notify_dependants(tx)
    limits.refill(tx)
    tx.write()


def notify_dependants(tx: Transaction) -> None:
    """Release or cancel the dependants of jobs that ended in this transaction."""
    if not tx.ended or not tx.one(_ANY):
        tx.ended.clear()
        return
    while tx.ended:
        how_of = dict(tx.ended)
        tx.ended.clear()
        parents = tx.db.execute(_PARENTS, (as_json(list(how_of)),)).fetchall()
        for parent, before in parents:
            how = how_of[parent] if before in (None, State.FAILED) else before
            notified, is_all = _notify(tx, parent, how, CASCADE - tx.dependants)
            tx.dependants += notified
            if not is_all:
                tx.run(_POSTPONE, parent, how)


def parents(db: sqlite3.Connection, job_ids: Sequence[int]) -> list[list[int]]:
    """Return for each job, if it is blocked, the jobs that it waits for."""
    return [
        [parent for (parent,) in db.execute(_PARENTS_OF, (job_id, MAX_PARENTS))]
        for job_id in job_ids
    ]


def notify_postponed(tx: Transaction, limit: int) -> tuple[int, bool]:
    """
    Notify dependants that an earlier transaction left for later.

    Returns how many, and whether there are more.
    """
    notified = 0
    for parent, how in tx.db.execute(_POSTPONED, (limit,)).fetchall():
        if notified >= limit:
            return notified, True
        here, is_all = _notify(tx, parent, how, limit - notified)
        notified += here
        if is_all:
            tx.run(_NOTIFIED, parent)
    return notified, tx.one("SELECT 1 FROM endings LIMIT 1") is not None


def release(tx: Transaction, ids: Iterable[int]) -> None:
    """Release blocked jobs that have no parent left; cancel those for failures only."""
    free = tx.db.execute(_UNLINKED, (as_json(list(ids)),)).fetchall()
    _release(tx, [job_id for job_id, is_only in free if not is_only])
    _cancel(tx, [job_id for job_id, is_only in free if is_only], NONE_FAILED)


def hold(tx: Transaction, ids: Sequence[int]) -> None:
    """Have blocked jobs wait for themselves, until all jobs before them are added."""
    tx.run(_HOLD, as_json(ids))


def end_holds(tx: Transaction, ids: Sequence[int]) -> None:
    """Let jobs no longer wait for themselves."""
    tx.run(_END_HOLDS, as_json(ids))
    release(tx, ids)


def end_old_holds(tx: Transaction) -> None:
    """Release jobs that a call left behind which was never completed."""
    old = tx.db.execute(_OLD_HOLDS, (tx.now - MAX_HOLD_MS,)).fetchall()
    if old:
        end_holds(tx, [job_id for (job_id,) in old])


def _release(tx: Transaction, ids: Sequence[int]) -> None:
    """Make blocked jobs waiting, or delayed."""
    free = tx.db.execute(_DUE, (tx.now, as_json(ids))).fetchall() if ids else []
    rows: list[tuple[int, State, int | None]] = []
    for job_id, type, at in free:
        to = State.DELAYED if at > tx.now else State.WAITING
        rows.append((job_id, to, at if to is State.DELAYED else None))
        tx.moved(type, State.BLOCKED, to)
        tx.publish(Kind.PROMOTION, job_id, type, 0)
        entered(tx, type, to)
    for type in {type for _, type, at in free if at <= tx.now}:
        ready = [job_id for job_id, kind, at in free if kind == type and at <= tx.now]
        ranking.enter(tx, type, ready)
    if rows:
        tx.run(_RELEASE, as_json(rows))


def _notify(tx: Transaction, parent: int, how: str, limit: int) -> tuple[int, bool]:
    """Notify up to *limit* dependants; return how many, and whether that was all."""
    if limit <= 0:
        return 0, False
    values = {"parent": parent, "how": how, "limit": limit + 1}
    children = tx.db.execute(_CHILDREN, values).fetchall()
    notified = children[:limit]
    by_effect: defaultdict[Effect, list[int]] = defaultdict(list)
    for child, policy in notified:
        by_effect[effect_of(how, policy)].append(child)
    tx.run(_CUT, parent, as_json([child for child, _ in notified]))
    release(tx, by_effect["less"])
    if released := by_effect["release"]:
        removal.unlink(tx, released)
        _release(tx, released)
    _cancel(tx, by_effect["cancel"], reason_of(parent, how))
    return len(notified), len(children) <= limit


def _cancel(tx: Transaction, ids: Sequence[int], reason: str) -> None:
    """Cancel blocked jobs that will never run."""
    if not ids:
        return
    ending = Cancelled(reason)
    rows = state_rows_of(tx.db, ids).values()
    blocked = [row for row in rows if row.state == State.BLOCKED]
    transitions.end(tx, [(row, ending) for row in blocked])
