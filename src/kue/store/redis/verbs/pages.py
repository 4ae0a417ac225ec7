"""
Reading and listing jobs: pages by state, by type or of all, from any position.

Ids come from indexes, a bounded number of them per script; jobs are then read until the
page is full, by number or by bytes.  A page with a large offset is found by counting
instead of reading what is before it: see `_seek`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kue.model.errors import KueError
from kue.model.job import Job, State
from kue.model.names import quote, unquote
from kue.store.contract import Store
from kue.store.redis import job_ids_of_type
from kue.store.redis.all_job_ids import in_order, live_ids
from kue.store.redis.job_ids_of_type import IDS_PER_CALL, ids_of, owned, size_of
from kue.store.redis.record import read_job
from kue.store.validation import InvalidCall, check_limit, read_cursor
from kue.store.values import MAX_BATCH, MAX_PAGE_BYTES, Page, PageRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from kue.store.redis.sharding import Shards

#: Pages with a larger offset are found by counting.
_FAR = 500
#: Greater than every id.
_NO_ID = 2**53


async def get(db: Shards, job_ids: Sequence[int]) -> list[Job | None]:
    found: dict[int, Job] = {}
    async for part in _get_in_parts(db, list(dict.fromkeys(job_ids))):
        found.update((job.id, job) for job, _ in part)
    return [found.get(job_id) for job_id in job_ids]


async def _get_in_parts(
    db: Shards, job_ids: list[int]
) -> AsyncIterator[list[tuple[Job, int]]]:
    """Yield jobs with their sizes, in order, as many as scripts read at once."""
    known: dict[int, tuple[Job, int] | None] = {}
    start = 0
    while start < len(job_ids):
        missing = [job_id for job_id in job_ids[start:] if job_id not in known]
        for shard, positions in db.by_shard(missing).items():
            ids = [missing[position] for position in positions]
            # It stops after as many as it may read at once: see get.lua.
            replies = await db.run(shard, "get", *ids)
            for job_id, reply in zip(ids, replies, strict=False):
                job = _read(job_id, reply) if reply else None
                known[job_id] = (job, len(reply[0])) if job else None
        part: list[tuple[Job, int]] = []
        while start < len(job_ids) and job_ids[start] in known:
            found = known.pop(job_ids[start])
            part += [found] if found else []
            start += 1
        yield part


async def types(db: Shards) -> list[str]:
    replies = await db.read_all("SMEMBERS", "types")
    return sorted(unquote(name.decode()) for names in replies for name in names)


async def page(db: Shards, request: PageRequest) -> Page:
    state, type, descending = request.state, request.type, request.descending
    check_limit(request.limit, least=1)
    if request.skip < 0:
        raise InvalidCall(f"skip must not be negative, but is {request.skip}")
    place = read_cursor(request.cursor)
    after = place[1] if place else None
    if state is None and type is None:
        ids = live_ids(db, after, request.skip, descending=descending)
    elif state is None and type is not None:
        if await size_of(db, type) > job_ids_of_type.FEW:
            return await _page_of_large(db, request, type, after)
        ids = _batches(await ids_of(db, type), request, after)
    elif state is State.ACTIVE:
        ids = _batches(await _active_ids(db, type), request, after)
    else:
        assert state is not None
        wanted = [type] if type is not None else await types(db)
        ids = _StateIds(db, state, wanted, descending).batches(place, request.skip)
    return await page_of(db, ids, request)


async def page_of(
    db: Shards, batches: AsyncIterator[list[int]], request: PageRequest
) -> Page:
    """Read jobs in the order of their ids until a page is full."""
    jobs: list[Job] = []
    total = 0
    async for ids in batches:
        async for part in _get_in_parts(db, ids):
            for job, size in part:
                # It may have moved since its id was read.
                if request.state not in (None, job.state) or (
                    request.type not in (None, job.type)
                ):
                    continue
                total += size
                if len(jobs) == request.limit or (jobs and total > MAX_PAGE_BYTES):
                    return Page(jobs, Store.cursor_after(jobs[-1], request.state))
                jobs.append(job)
    return Page(jobs, None)


class _StateIds:
    """Ids of a state that has sorted sets, merged over types and shards."""

    def __init__(
        self, db: Shards, state: State, types: list[str], descending: bool
    ) -> None:
        self._db = db
        self._state = state
        self._types = types
        self._descending = descending
        #: The non-empty keys, by shard, once they are needed.
        self._filled: dict[int, list[str]] = {}

    async def batches(
        self, place: tuple[int, int] | None, skip: int
    ) -> AsyncIterator[list[int]]:
        after = None
        if place is not None:
            after = self._position(*place)
        elif skip > _FAR:
            after, skip = await self._seek(skip)
            if after is None:
                return
        size = 100
        while True:
            want = min(skip + size, MAX_BATCH)
            found = await self._merged(after, want)
            part = found[skip:want]
            if part:
                yield [job_id for _, job_id in part]
            if len(found) < want:
                return
            after = self._position(*found[-1])
            skip, size = max(0, skip - want), MAX_BATCH

    async def _seek(self, skip: int) -> tuple[tuple[int, int] | None, int]:
        """
        Return a position before entry number *skip*, and how many lie between.

        Counting the entries below a score is cheap, however many there are.  So the
        entry's score is found by bisection; only entries of the same score lie between.
        """
        await self._find_filled()
        if skip >= await self._count("-inf", "+inf"):
            return None, 0
        low, high = await self._ends()
        # It is the last score, in this order, with *skip* or fewer entries before it.
        while low < high:
            middle = (low + high + (not self._descending)) // 2
            is_reached = await self._passed(middle) <= skip
            if self._descending:
                low, high = (low, middle) if is_reached else (middle + 1, high)
            else:
                low, high = (middle, high) if is_reached else (low, middle - 1)
        position = (low, _NO_ID if self._descending else 0)
        return position, skip - await self._passed(low)

    async def _find_filled(self) -> None:
        state = self._state
        names = ("waiting", "held") if state is State.WAITING else (state.value,)
        for shard, homes in self._db.homes(self._types).items():
            of_type = self._db.keys[shard].of_type
            keys = [of_type(job_type, name) for job_type in homes for name in names]
            sizes = await self._db.read_many(shard, [("ZCARD", key) for key in keys])
            filled = [key for key, n in zip(keys, sizes, strict=True) if n]
            if filled:
                self._filled[shard] = filled

    async def _passed(self, score: int) -> int:
        """Count the entries that come before those of *score*."""
        if self._descending:
            return await self._count(f"({score}", "+inf")
        return await self._count("-inf", f"({score}")

    async def _count(self, low: str, high: str) -> int:
        """Return how many entries have a score from *low* to *high*."""
        total = 0
        for shard, names in self._filled.items():
            asked = [("ZCOUNT", name, low, high) for name in names]
            total += sum(await self._db.read_many(shard, asked))
        return total

    async def _ends(self) -> tuple[int, int]:
        """Return the lowest and the highest score; there must be an entry."""
        scores: list[int] = []
        for shard, names in self._filled.items():
            ends = [(name, end, end) for name in names for end in (0, -1)]
            asked = [("ZRANGE", *end, "WITHSCORES") for end in ends]
            for entry in await self._db.read_many(shard, asked):
                scores += [int(float(entry[1]))] if entry else []
        return min(scores, default=0), max(scores, default=0)

    async def _merged(
        self, after: tuple[int, int] | None, limit: int
    ) -> list[tuple[int, int]]:
        """Return the next entries of all types, in order: sort key and id."""
        at_once = max(1, IDS_PER_CALL // limit)
        calls = [
            self._range(shard, names[at : at + at_once], after, limit)
            for shard, names in self._db.homes(self._types).items()
            for at in range(0, len(names), at_once)
        ]
        found = [entry for part in await asyncio.gather(*calls) for entry in part]
        found.sort(reverse=self._descending)
        return found[:limit]

    async def _range(
        self, shard: int, types: list[str], after: tuple[int, int] | None, limit: int
    ) -> list[tuple[int, int]]:
        position = ("", "") if after is None else after
        order = "desc" if self._descending else "asc"
        args = (self._state.value, *position, limit, order, *map(quote, types))
        reply = await self._db.run(shard, "range", *args)
        return [
            (self._key(int(score)), int(job_id))
            for score, job_id in zip(reply[::3], reply[1::3], strict=True)
        ]

    def _position(self, key: int, job_id: int) -> tuple[int, int]:
        """Return a position of a page: a score in its sorted set, and an id."""
        return (job_id if self._state is State.BLOCKED else key), job_id

    def _key(self, score: int) -> int:
        """Return what pages are ordered by before the id: see `sort_key`."""
        return 0 if self._state is State.BLOCKED else score


# -- running jobs, and jobs of a type ------------------------------------------


async def _batches(
    ids: Iterable[int], request: PageRequest, after: int | None
) -> AsyncIterator[list[int]]:
    ordered = in_order(ids, after, request.descending)
    for at in range(request.skip, len(ordered), MAX_BATCH):
        yield ordered[at : at + MAX_BATCH]


async def _active_ids(db: Shards, job_type: str | None) -> list[int]:
    """Return ids of running jobs; there are never more than workers have slots."""
    wanted = [job_type] if job_type is not None else await types(db)
    ids: list[int] = []
    for shard, names in db.homes(wanted).items():
        keys = db.keys[shard]
        replies = await db.read_many(
            shard, [("HKEYS", keys.of_type(name, "active")) for name in names]
        )
        ids += [int(job_id) for reply in replies for job_id in reply]
    return ids


async def _page_of_large(
    db: Shards, request: PageRequest, job_type: str, after: int | None
) -> Page:
    """
    Return a page of a type that has many jobs, in any state.

    Reads all ids of the shard and looks up in the type's indexes which belong to
    it.  After very many that do not, the page ends early, unless some are to be
    skipped.
    """
    home = [db.home_of(job_type)]
    stopped_at: int | None = None

    async def own_ids() -> AsyncIterator[list[int]]:
        nonlocal stopped_at
        passed, skip = 0, request.skip
        async for ids in live_ids(
            db, after, descending=request.descending, shards=home
        ):
            own = await owned(db, job_type, ids)
            yield own[skip:]
            skip = max(0, skip - len(own))
            passed += len(ids)
            if not request.skip and passed >= job_ids_of_type.MAX_PASSED:
                stopped_at = ids[-1]
                return

    page = await page_of(db, own_ids(), request)
    if page.cursor is None and stopped_at is not None:
        return Page(page.jobs, f"0:{stopped_at}")
    return page


def _read(job_id: int, reply: list[Any]) -> Job | None:
    if reply[1] == b"parked":
        return None
    try:
        return read_job(job_id, reply)
    except (ValueError, KueError, RecursionError):
        # The record is damaged: kue doctor reports it.
        return None
