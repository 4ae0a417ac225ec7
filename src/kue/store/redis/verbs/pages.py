"""
Reading and listing jobs: pages by state, by type or of all, from any position.

Ids come from indexes, a bounded number of them per script; jobs are then read until the
page is full, by number or by bytes.  A page with a large offset is found by counting
instead of reading what is before it: see `IdsInState`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.errors import KueError
from kue.model.job import Job, State
from kue.model.names import unquote
from kue.store.contract import Store
from kue.store.redis import job_ids_of_type
from kue.store.redis.all_job_ids import in_order, live_ids
from kue.store.redis.job_ids_in_state import IdsInState, Key
from kue.store.redis.job_ids_of_type import ids_of, owned, size_of
from kue.store.redis.record import read_job
from kue.store.redis.sifting import sift
from kue.store.validation import InvalidCall, check_limit, read_cursor
from kue.store.values import MAX_BATCH, MAX_PAGE_BYTES, Page, PageRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from kue.store.redis.sharding import Shards


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
        ids = _unranked(live_ids(db, after, request.skip, descending=descending))
    elif state is None and type is not None:
        return await _page_of_type(db, request, type, after)
    elif state is State.ACTIVE:
        ids = _batches(await _active_ids(db, type), request, after)
    else:
        assert state is not None
        wanted = [type] if type is not None else await types(db)
        ids = IdsInState(db, state, wanted, descending).batches(place, request.skip)
    return await _collect(db, ids, request)


async def _collect(
    db: Shards, batches: AsyncIterator[list[Key]], request: PageRequest
) -> Page:
    """Read jobs in the order of their ids until a page is full."""
    if request.needles:
        return await _sifted(db, batches, request)
    jobs: list[Job] = []
    total = 0
    async for keys in batches:
        async for part in _get_in_parts(db, [job_id for _, job_id in keys]):
            for job, size in part:
                if not _is_asked_for(job, request):
                    continue
                if len(jobs) == request.limit or (
                    jobs and total + size > MAX_PAGE_BYTES
                ):
                    cursor = Store.cursor_after(jobs[-1], request.state)
                    return Page(jobs, cursor, len(jobs), total)
                jobs.append(job)
                total += size
    return Page(jobs, None, len(jobs), total)


async def _sifted(
    db: Shards, batches: AsyncIterator[list[Key]], request: PageRequest
) -> Page:
    """Look at jobs in order, and return those that may match: see `PageRequest`."""
    jobs: list[Job] = []
    numbers: list[int] = []
    looked_at, total = 0, 0
    async for batch in batches:
        keys = batch[: request.scan - looked_at]
        ids = [job_id for _, job_id in keys]
        kept, size = await sift(db, ids, request.needles)
        async for part in _get_in_parts(db, kept or ids[:1]):
            found = [job for job, _ in part if _is_asked_for(job, request)]
            jobs += found
            numbers += [looked_at + 1 + ids.index(job.id) for job in found]
        looked_at += len(ids)
        total += size
        if looked_at >= request.scan or total >= MAX_PAGE_BYTES:
            rank, job_id = keys[-1]
            return Page(jobs, f"{rank}:{job_id}", looked_at, total, numbers)
    return Page(jobs, None, looked_at, total, numbers)


def _is_asked_for(job: Job, request: PageRequest) -> bool:
    """Return whether a job has not moved since its id was read."""
    return request.state in (None, job.state) and request.type in (None, job.type)


async def _unranked(batches: AsyncIterator[list[int]]) -> AsyncIterator[list[Key]]:
    """Yield the keys of jobs that are ordered by id alone."""
    async for ids in batches:
        yield [(0, job_id) for job_id in ids]


# -- running jobs, and jobs of a type ------------------------------------------


async def _batches(
    ids: Iterable[int], request: PageRequest, after: int | None
) -> AsyncIterator[list[Key]]:
    ordered = in_order(ids, after, request.descending)
    for at in range(request.skip, len(ordered), MAX_BATCH):
        yield [(0, job_id) for job_id in ordered[at : at + MAX_BATCH]]


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


async def _page_of_type(
    db: Shards, request: PageRequest, job_type: str, after: int | None
) -> Page:
    """Return a page of a type, in any state: by id, which no index of it is."""
    few, many = job_ids_of_type.FEW, job_ids_of_type.MANY
    size = await size_of(db, job_type)
    if size > few and not (request.needles and size <= many):
        most = job_ids_of_type.MAX_PASSED
        if size <= many:
            most = job_ids_of_type.MAX_PASSED_FIRST
        page, is_whole = await _walk_type(db, request, job_type, after, most)
        if is_whole or size > many:
            return page
    ids = await ids_of(db, job_type, many)
    return await _collect(db, _batches(ids, request, after), request)


async def _walk_type(
    db: Shards, request: PageRequest, job_type: str, after: int | None, most: int
) -> tuple[Page, bool]:
    """
    Return a page of a type that has many jobs, and whether it is complete.

    Reads all ids of the shard and looks up in the type's indexes which belong to
    it.  After *most* ids the page ends early, unless some are to be skipped.
    """
    home = [db.home_of(job_type)]
    stopped_at: int | None = None

    async def own_ids() -> AsyncIterator[list[Key]]:
        nonlocal stopped_at
        passed, skip = 0, request.skip
        async for ids in live_ids(
            db, after, descending=request.descending, shards=home
        ):
            own = await owned(db, job_type, ids)
            if own[skip:]:
                yield [(0, job_id) for job_id in own[skip:]]
            skip = max(0, skip - len(own))
            passed += len(ids)
            if not request.skip and passed >= most:
                stopped_at = ids[-1]
                return

    page = await _collect(db, own_ids(), request)
    if page.cursor is None and stopped_at is not None:
        return msgspec.structs.replace(page, cursor=f"0:{stopped_at}"), False
    return page, True


def _read(job_id: int, reply: list[Any]) -> Job | None:
    if reply[1] == b"parked":
        return None
    try:
        return read_job(job_id, reply)
    except (ValueError, KueError, RecursionError):
        # The record is damaged: kue doctor reports it.
        return None
