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
from kue.store.redis import type_ids
from kue.store.redis.live_ids import live_ids
from kue.store.redis.record import read_job
from kue.store.redis.type_ids import IDS_PER_CALL, ids_of, owned, size_of
from kue.store.validation import InvalidCall, check_batch, check_limit, read_cursor
from kue.store.values import MAX_BATCH, MAX_PAGE_BYTES, Page, PageRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.store.redis.sharding import Shards

#: Pages with a larger offset are found by counting.
_FAR = 500
#: Greater than every id.
_NO_ID = 2**53


async def get(db: Shards, job_ids: Sequence[int]) -> list[Job | None]:
    check_batch(job_ids, "jobs")
    jobs: list[Job | None] = [None] * len(job_ids)
    for shard, positions in db.by_shard(job_ids).items():
        while positions:
            ids = [job_ids[position] for position in positions]
            # It stops after as many as it may read at once: see get.lua.
            replies = await db.run(shard, "get", *ids)
            for position, reply in zip(positions, replies, strict=False):
                jobs[position] = _read(job_ids[position], reply) if reply else None
            positions = positions[len(replies) :]
    return jobs


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
    async def read(shard: int) -> list[bytes]:
        key = db.keys[shard].of_shard("types")
        [names] = await db.read_many(shard, [("SMEMBERS", key)])
        return list(names)

    replies = await db.on_all(read)
    return sorted(unquote(name.decode()) for names in replies for name in names)


async def page(db: Shards, request: PageRequest) -> Page:
    state, type, limit = request.state, request.type, request.limit
    skip, descending = request.skip, request.descending
    check_limit(limit, least=1)
    if skip < 0:
        raise InvalidCall(f"skip must not be negative, but is {skip}")
    place = read_cursor(request.cursor)
    after = place[1] if place else None
    if state is None and type is None:
        ids = live_ids(db, after, skip, descending=descending)
    elif state is None and type is not None:
        if await size_of(db, type) > type_ids.FEW:
            return await _page_of_large(db, type, after, limit, skip, descending)
        ids = _without(ids_of(db, type, after, descending), skip)
    elif state is State.ACTIVE:
        ids = _without(_active_ids(db, type, after, descending), skip)
    else:
        assert state is not None
        ids = _ids_in(db, state, type, place, skip, descending)
    return await _collect(db, ids, state, type, limit)


async def _collect(
    db: Shards,
    batches: AsyncIterator[list[int]],
    state: State | None,
    job_type: str | None,
    limit: int,
) -> Page:
    """Read jobs in the order of their ids until a page is full."""
    jobs: list[Job] = []
    total = 0
    async for ids in batches:
        async for part in _get_in_parts(db, ids):
            for job, size in part:
                # It may have moved since its id was read.
                if (state is not None and job.state is not state) or (
                    job_type is not None and job.type != job_type
                ):
                    continue
                total += size
                if len(jobs) == limit or (jobs and total > MAX_PAGE_BYTES):
                    return Page(jobs, Store.cursor_after(jobs[-1], state))
                jobs.append(job)
    return Page(jobs, None)


# -- jobs of a state ---------------------------------------------------------


async def _ids_in(
    db: Shards,
    state: State,
    job_type: str | None,
    place: tuple[int, int] | None,
    skip: int,
    descending: bool,
) -> AsyncIterator[list[int]]:
    """Yield ids of a state that has sorted sets, merged over types and shards."""
    wanted = [job_type] if job_type is not None else await types(db)
    after = None
    if place is not None:
        after = _score(db, state, *place), place[1]
    elif skip > _FAR:
        after, skip = await _seek(db, state, wanted, skip, descending)
        if after is None:
            return
    size = 100
    while True:
        want = min(skip + size, MAX_BATCH)
        found = await _merged(db, state, wanted, after, want, descending)
        part = found[skip:want]
        if part:
            yield [job_id for _, job_id in part]
        if len(found) < want:
            return
        after = _score(db, state, *found[-1]), found[-1][1]
        skip, size = max(0, skip - want), MAX_BATCH


async def _seek(
    db: Shards, state: State, types: list[str], skip: int, descending: bool
) -> tuple[tuple[int, int] | None, int]:
    """
    Return a position before entry number *skip*, and how many lie between.

    Counting the entries below a score is cheap, however many there are.  So the
    entry's score is found by bisection; only entries of the same score lie between.
    """
    keys = await _filled(db, state, types)
    if skip >= await _count(db, keys, "-inf", "+inf"):
        return None, 0

    async def passed(score: int) -> int:
        """Count the entries that come before those of *score*."""
        span = (f"({score}", "+inf") if descending else ("-inf", f"({score}")
        return await _count(db, keys, *span)

    low, high = await _ends(db, keys)
    # It is the last score, in this order, with *skip* or fewer entries before it.
    while low < high:
        if descending:
            middle = (low + high) // 2
            is_reached = await passed(middle) <= skip
            low, high = (low, middle) if is_reached else (middle + 1, high)
        else:
            middle = (low + high + 1) // 2
            is_reached = await passed(middle) <= skip
            low, high = (middle, high) if is_reached else (low, middle - 1)
    return (low, _NO_ID if descending else 0), skip - await passed(low)


async def _filled(db: Shards, state: State, types: list[str]) -> dict[int, list[str]]:
    """Return the non-empty keys of *state*, by shard."""
    names = ("waiting", "held") if state is State.WAITING else (state.value,)
    filled: dict[int, list[str]] = {}
    for shard, homes in db.homes(types).items():
        of_type = db.keys[shard].of_type
        keys = [of_type(job_type, name) for job_type in homes for name in names]
        sizes = await db.read_many(shard, [("ZCARD", key) for key in keys])
        filled[shard] = [key for key, n in zip(keys, sizes, strict=True) if n]
    return filled


async def _count(db: Shards, keys: dict[int, list[str]], low: str, high: str) -> int:
    """Return how many entries have a score from *low* to *high*."""
    total = 0
    for shard, names in keys.items():
        asked = [("ZCOUNT", name, low, high) for name in names]
        total += sum(await db.read_many(shard, asked)) if asked else 0
    return total


async def _ends(db: Shards, keys: dict[int, list[str]]) -> tuple[int, int]:
    """Return the lowest and the highest score; there must be an entry."""
    scores: list[int] = []
    for shard, names in keys.items():
        asked = [
            ("ZRANGE", name, end, end, "WITHSCORES")
            for name in names
            for end in (0, -1)
        ]
        for entry in await db.read_many(shard, asked) if asked else ():
            scores += [int(float(entry[1]))] if entry else []
    return min(scores, default=0), max(scores, default=0)


async def _merged(
    db: Shards,
    state: State,
    types: list[str],
    after: tuple[int, int] | None,
    limit: int,
    descending: bool,
) -> list[tuple[int, int]]:
    """Return the next entries of all types, in order: sort key and id."""
    at_once = max(1, IDS_PER_CALL // limit)
    calls = [
        _range(db, shard, state, names[at : at + at_once], after, limit, descending)
        for shard, names in db.homes(types).items()
        for at in range(0, len(names), at_once)
    ]
    found = [entry for part in await asyncio.gather(*calls) for entry in part]
    found.sort(reverse=descending)
    return found[:limit]


async def _range(
    db: Shards,
    shard: int,
    state: State,
    types: list[str],
    after: tuple[int, int] | None,
    limit: int,
    descending: bool,
) -> list[tuple[int, int]]:
    score, job_id = ("", "") if after is None else (str(after[0]), str(after[1]))
    reply = await db.run(
        shard,
        "range",
        state.value,
        score,
        job_id,
        limit,
        "desc" if descending else "asc",
        *map(quote, types),
    )
    return [
        (_key(db, state, int(reply[index])), int(reply[index + 1]))
        for index in range(0, len(reply), 3)
    ]


def _score(db: Shards, state: State, key: int, job_id: int) -> int:
    """Return the score of a position of a page in its sorted set."""
    if state is State.WAITING:
        return key * 2**41 + job_id // db.count
    return job_id if state is State.BLOCKED else key


def _key(db: Shards, state: State, score: int) -> int:
    if state is State.WAITING:
        return score >> 41
    return 0 if state is State.BLOCKED else score


# -- running jobs, and jobs of a type ------------------------------------------


async def _active_ids(
    db: Shards, job_type: str | None, after: int | None, descending: bool
) -> AsyncIterator[list[int]]:
    """Yield ids of running jobs; there are never more than workers have slots."""
    wanted = [job_type] if job_type is not None else await types(db)
    ids: list[int] = []
    for shard, names in db.homes(wanted).items():
        keys = db.keys[shard]
        replies = await db.read_many(
            shard, [("HKEYS", keys.of_type(name, "active")) for name in names]
        )
        ids += [int(job_id) for reply in replies for job_id in reply]
    for part in type_ids.in_order(ids, after, descending):
        yield part


async def _page_of_large(
    db: Shards,
    job_type: str,
    after: int | None,
    limit: int,
    skip: int,
    descending: bool,
) -> Page:
    """
    Return a page of a type that has many jobs, in any state.

    Reads all ids of the shard and looks up in the type's indexes which belong to
    it.  After very many that do not, the page ends early, unless some are to be
    skipped.
    """
    walk = type_ids.Walk(None if skip else type_ids.MAX_PASSED)
    ids = live_ids(db, after, descending=descending, shards=[db.home_of(job_type)])
    own = _without(owned(db, job_type, walk.along(ids)), skip)
    page = await _collect(db, own, None, job_type, limit)
    if page.cursor is None and walk.stopped_at is not None:
        return Page(page.jobs, f"0:{walk.stopped_at}")
    return page


async def _without(
    batches: AsyncIterator[list[int]], skip: int
) -> AsyncIterator[list[int]]:
    """Yield *batches* without the first *skip* ids."""
    async for ids in batches:
        passed = min(skip, len(ids))
        skip -= passed
        yield ids[passed:]


def _read(job_id: int, reply: list[Any]) -> Job | None:
    record, place, where, tries, progress, cancelling, pause = reply
    if place == b"parked":
        return None
    try:
        return read_job(
            job_id,
            record,
            place.decode(),
            where,
            tries=tries,
            progress=progress,
            cancelling=bool(cancelling),
            pause=pause,
        )
    except (ValueError, KueError, RecursionError):
        # The record is damaged: kue doctor reports it.
        return None
