"""
Reading and listing jobs: by id, and pages of a state in order, from any position.

Each state and type has one or two indexes in the order of its pages.  A page is a merge
of as many of them as it needs, read only as far as the page goes.
"""

from __future__ import annotations

import heapq
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.model.job import Job, State
from kue.store.sqlite.rows import JobRow, read_within, rows_of, shown
from kue.store.sqlite.sifting import Key, Sifted, sift
from kue.store.sqlite.verbs import limits, named_limits
from kue.store.values import MAX_PAGE_BYTES, Page, PageRequest, held_by, held_by_group

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence


class PageSource(NamedTuple):
    """An index that has some jobs in order."""

    #: The column that pages are ordered by, before the id; empty for none.
    rank: str
    condition: str
    source: str

    def read(
        self,
        db: sqlite3.Connection,
        type: str | None,
        after: Key | None,
        descending: bool = False,
    ) -> sqlite3.Cursor:
        """Read the keys of jobs of *type*, beginning behind *after*."""
        order, than = ("DESC", "<") if descending else ("ASC", ">")
        terms = [self.condition]
        if type is not None:
            terms.append("type = :type")
        if after is not None:
            position = f"({self.rank}, id)" if self.rank else "id"
            values = "(:rank, :id)" if self.rank else ":id"
            terms.append(f"{position} {than} {values}")
        by = f"{self.rank} {order}, id" if self.rank else "id"
        rank, job_id = after or (0, 0)
        return db.execute(
            f"SELECT {self.rank or 0}, id FROM jobs {self.source} "
            f"WHERE {' AND '.join(terms)} ORDER BY {by} {order}",
            {"type": type, "rank": rank, "id": job_id},
        )


def _by(rank: str, condition: str, index: str) -> PageSource:
    return PageSource(rank, condition, f"INDEXED BY {index}")


def _ended(state: State) -> tuple[PageSource, PageSource]:
    is_ended = f"state = '{state}' AND retain_until"
    return (
        _by("at", f"{is_ended} IS NULL", f"jobs_{state}"),
        _by("at", f"{is_ended} IS NOT NULL", "jobs_retained"),
    )


_SOURCES: dict[State, tuple[PageSource, ...]] = {
    State.WAITING: (
        _by("rank", "state = 'waiting' AND held = 0", "jobs_ready"),
        _by("rank", "state = 'waiting' AND held = 1", "jobs_held"),
        _by("rank", "state = 'waiting' AND held = 2", "jobs_limited"),
    ),
    State.DELAYED: (_by("at", "state = 'delayed'", "jobs_delayed"),),
    State.BLOCKED: (_by("", "state = 'blocked'", "jobs_blocked"),),
    # Few: they are sorted, without an index that every start and end would update.
    State.ACTIVE: (_by("", "state = 'active'", "jobs_active"),),
    State.COMPLETE: _ended(State.COMPLETE),
    State.FAILED: _ended(State.FAILED),
    State.CANCELLED: _ended(State.CANCELLED),
}
_OF_TYPE = _by("", "true", "jobs_by_type")
_ALL = PageSource("", "true", "NOT INDEXED")
_TYPES = "SELECT name FROM types"
#: A flow is that of a job: its members are listed while it exists.
_MEMBERS = """
SELECT 0, id FROM jobs INDEXED BY jobs_flow
WHERE flow = ?1 AND id > ?2 AND EXISTS (SELECT 1 FROM jobs WHERE id = ?1)
ORDER BY id LIMIT ?3
"""


def get(
    db: sqlite3.Connection, job_ids: Sequence[int], *, now: int
) -> list[Job | None]:
    rows = rows_of(db, dict.fromkeys(job_ids))
    jobs = {job.id: job for job in _jobs(db, rows, now)}
    return [jobs.get(job_id) for job_id in job_ids]


def page(
    db: sqlite3.Connection, request: PageRequest, after: Key | None, now: int
) -> Page:
    with _reading(db, request, after) as keys:
        if request.needles:
            return _sifted(db, sift(db, keys, request), now)
        found = list(islice(keys, request.skip, request.skip + request.limit + 1))
    return _page(db, found, request.limit, now)


def members(
    db: sqlite3.Connection, flow: int, limit: int, after: Key | None, now: int
) -> Page:
    last = 0 if after is None else after[1]
    keys = db.execute(_MEMBERS, (flow, last, limit + 1)).fetchall()
    return _page(db, keys, limit, now)


def _page(db: sqlite3.Connection, found: Sequence[Key], limit: int, now: int) -> Page:
    """Return the jobs of the first *limit* keys, as far as they fit."""
    ids = [job_id for _, job_id in found[:limit]]
    rows, read = read_within(
        MAX_PAGE_BYTES, len(ids), lambda start, stop: rows_of(db, ids[start:stop])
    )
    cursor = None
    if read and len(found) > read:
        rank, job_id = found[read - 1]
        cursor = f"{rank}:{job_id}"
    size = sum(len(row.body) + len(row.story) for row in rows)
    return Page(_jobs(db, rows, now), cursor, len(rows), size)


def _sifted(db: sqlite3.Connection, found: Sifted, now: int) -> Page:
    rows = rows_of(db, found.numbers)
    cursor = None if found.last is None else "{}:{}".format(*found.last)
    return Page(
        _jobs(db, rows, now),
        cursor,
        found.looked_at,
        found.looked_bytes,
        [found.numbers[row.id] for row in rows],
    )


def _jobs(db: sqlite3.Connection, rows: Iterable[JobRow], now: int) -> list[Job]:
    found = [(row, shown(row)) for row in rows]
    waiting = {row.type for row, job in found if job.state is State.WAITING}
    if not waiting:
        return [job for _, job in found]
    by_type = {each.type: each for each in limits.type_limits_of(db, waiting, now)}
    return [
        _held(db, row, job, by_type[row.type]) if job.state is State.WAITING else job
        for row, job in found
    ]


def _held(
    db: sqlite3.Connection, row: JobRow, job: Job, type_limits: limits.TypeLimits
) -> Job:
    """Return a waiting job with the reason why it is held back, if it is."""
    until: int | None = None
    if row.held_by is not None:
        reason, until = named_limits.hold_of(db, row.type, row.held_by, type_limits.now)
    elif row.held:
        reason = held_by_group(row.group_key)
    elif type_limits.pause is not None:
        reason = held_by(type_limits.pause)
    else:
        return job
    return msgspec.structs.replace(job, held=reason, held_until=until)


def first_ids(
    db: sqlite3.Connection, state: State, type: str | None, limit: int
) -> list[int]:
    """Return the ids of the first *limit* jobs in *state*."""
    with _reading(db, PageRequest(state, type)) as keys:
        return [job_id for _, job_id in islice(keys, limit)]


@contextmanager
def _reading(
    db: sqlite3.Connection, request: PageRequest, after: Key | None = None
) -> Iterator[Iterator[Key]]:
    """Read the keys of jobs in the order of a page, from *after* on."""
    types = [request.type]
    if request.state is None:
        sources: tuple[PageSource, ...] = (_ALL if request.type is None else _OF_TYPE,)
    else:
        sources = _SOURCES[request.state]
        if request.type is None:
            types = [row[0] for row in db.execute(_TYPES).fetchall()]
    # Cursors are closed here, in the thread that opened them, also when a read fails.
    with ExitStack() as stack:
        cursors = [
            stack.enter_context(
                closing(source.read(db, type, after, request.descending))
            )
            for source in sources
            for type in types
        ]
        # A merge closes the cursor it is in, so it must not outlive them either.
        merged = heapq.merge(*cursors, reverse=request.descending)
        yield stack.enter_context(closing(merged))
