"""
Dependencies: jobs that wait for others, and what they hear when those end.

A link is one row, parent and child.  A blocked job whose last link goes is released.
Whoever ends a parent notes it in its turn; the dependants are told at the end of the
turn, at most `CASCADE` of them, and `tend` tells the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import Cancelled, State
from kue.store.sqlite import transitions
from kue.store.sqlite.removal import REMOVED
from kue.store.sqlite.rows import slips_of
from kue.store.sqlite.transaction import Transaction, as_json, entered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Dependants one transaction tells at most.
CASCADE = 1000

_ANY = "SELECT EXISTS (SELECT 1 FROM links)"
_PARENTS = """
SELECT DISTINCT parent FROM links WHERE parent IN (SELECT value FROM json_each(?))
"""
#: A failed parent may yet be retried: only who does not mind how it ends hears of it.
_CHILDREN = """
SELECT child, coalesce(after_any, 1) FROM links LEFT JOIN jobs ON jobs.id = child
WHERE parent = :parent AND (:how <> 'failed' OR coalesce(after_any, 1))
ORDER BY child LIMIT :limit
"""
_CUT = """
DELETE FROM links WHERE parent = ? AND child IN (SELECT value FROM json_each(?))
"""
#: Its delay counts from now on; a moment it was given stays that moment.
_FREE = """
SELECT id, type, coalesce(at, ? + delay) FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'blocked'
AND NOT EXISTS (SELECT 1 FROM links WHERE child = id)
"""
_RELEASE = """
UPDATE jobs SET state = new.value->>1, at = new.value->>2
FROM json_each(?) AS new WHERE jobs.id = new.value->>0 AND state = 'blocked'
"""
#: That a parent failed may be outdated by now; any other end is told as it came.
_LEAVE = """
INSERT INTO endings (parent, how) VALUES (?, ?)
ON CONFLICT DO UPDATE SET how = excluded.how WHERE how = 'failed'
"""
_LEFT = "SELECT parent, how FROM endings ORDER BY parent LIMIT ?"
_TOLD = "DELETE FROM endings WHERE parent = ?"


def tell_dependants(turn: Transaction) -> None:
    """Let go or cancel the jobs that waited for those which ended in this turn."""
    if not turn.ended or not turn.one(_ANY):
        turn.ended.clear()
        return
    while turn.ended:
        for parent, how in _with_children(turn).items():
            told, is_all = _tell(turn, parent, how, CASCADE - turn.dependants)
            turn.dependants += told
            if not is_all:
                turn.run(_LEAVE, parent, how)


def tell_left(turn: Transaction, limit: int) -> tuple[int, bool]:
    """
    Tell dependants that an earlier turn left for later.

    Returns how many were told, and whether there are more.
    """
    told = 0
    for parent, how in turn.db.execute(_LEFT, (limit,)).fetchall():
        if told >= limit:
            return told, True
        here, is_all = _tell(turn, parent, how, limit - told)
        told += here
        if is_all:
            turn.run(_TOLD, parent)
    return told, turn.one("SELECT 1 FROM endings LIMIT 1") is not None


def release(turn: Transaction, ids: Iterable[int]) -> None:
    """Make those jobs ready, or delayed, that are blocked and wait for nobody."""
    free = turn.db.execute(_FREE, (turn.now, as_json(list(ids)))).fetchall()
    rows: list[tuple[int, State, int | None]] = []
    for job_id, type, at in free:
        to = State.DELAYED if at > turn.now else State.WAITING
        rows.append((job_id, to, at if to is State.DELAYED else None))
        turn.moved(type, State.BLOCKED, to)
        turn.tell(Kind.PROMOTION, job_id, type, 0)
        entered(turn, type, to)
    if rows:
        turn.run(_RELEASE, as_json(rows))


def _with_children(turn: Transaction) -> dict[int, str]:
    """Take what ended out of the turn, and return those that someone waits for."""
    how_of = dict(turn.ended)
    turn.ended.clear()
    waited_for = turn.db.execute(_PARENTS, (as_json(list(how_of)),)).fetchall()
    return {parent: how_of[parent] for (parent,) in waited_for}


def _tell(turn: Transaction, parent: int, how: str, limit: int) -> tuple[int, bool]:
    """Tell up to *limit* dependants; return how many, and whether that was all."""
    if limit <= 0:
        return 0, False
    values = {"parent": parent, "how": how, "limit": limit + 1}
    children = turn.db.execute(_CHILDREN, values).fetchall()
    told = children[:limit]
    ends_all = how in (State.CANCELLED, REMOVED)
    dropped = [child for child, after_any in told if ends_all and not after_any]
    freed = [child for child, after_any in told if not ends_all or after_any]
    turn.run(_CUT, parent, as_json([child for child, _ in told]))
    release(turn, freed)
    _drop(turn, dropped, parent, how)
    return len(told), len(children) <= limit


def _drop(turn: Transaction, ids: Sequence[int], parent: int, how: str) -> None:
    """Cancel dependants of a job that will never end well."""
    if not ids:
        return
    ending = Cancelled(f"job {parent}, which it waited for, was {how}")
    slips = slips_of(turn.db, ids).values()
    blocked = [slip for slip in slips if slip.state == State.BLOCKED]
    transitions.end(turn, [(slip, ending) for slip in blocked])
