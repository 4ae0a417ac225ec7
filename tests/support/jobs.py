"""
Short ways to bring jobs into being and through their lives.

Tests own the clock: everything happens at T0 unless a test says otherwise; with
``now=None`` it happens by the store's own clock.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from kue.model.draft import draft
from kue.model.job import Cancelled, Completed, Draft, Ending, Error, Failed, Job, State
from kue.model.payload import JSON
from kue.model.settings import LEASE_MS
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    Added,
    Claim,
    Claimed,
    ClaimRequest,
    Outcome,
    Page,
    PageRequest,
    Result,
)

T0 = 1_800_000_000_000
SECOND = 1_000
MINUTE = 60_000
HOUR = 3_600_000
DAY = 86_400_000

OOPS = Error("ValueError", "oops")

_numbers = itertools.count(1)


def count_again() -> None:
    """Name producers and lanes from 1 on, for stores that are always the same."""
    global _numbers
    _numbers = itertools.count(1)


async def add(
    store: Store, drafts: Iterable[Draft], *, now: int | None = T0
) -> list[Added]:
    """Add drafts as a producer that has not been seen before."""
    producer = f"producer-{next(_numbers)}"
    return await store.add(list(drafts), producer=producer, seq=1, now=now)


async def add_one(
    store: Store,
    type: str = "email",
    data: JSON = None,
    *,
    now: int | None = T0,
    **options: Any,
) -> int:
    """Add one job, described as users describe it, and return its id."""
    [added] = await add(store, [draft(type, data, **options)], now=now)
    assert added.new
    return added.id


async def add_many(
    store: Store,
    count: int,
    type: str = "email",
    *,
    now: int | None = T0,
    **options: Any,
) -> list[int]:
    """Add *count* jobs whose data says which they are, and return their ids."""
    drafts = [draft(type, {"i": number}, **options) for number in range(count)]
    ids: list[int] = []
    for start in range(0, count, MAX_BATCH):
        batch = await add(store, drafts[start : start + MAX_BATCH], now=now)
        ids.extend(added.id for added in batch)
    return ids


async def take(
    store: Store,
    *types: str,
    limit: int = 10,
    worker: str = "w1",
    lease: int = LEASE_MS,
    now: int | None = T0,
) -> Claimed:
    """Claim in a lane that has not been seen before."""
    return await store.claim(
        ClaimRequest(
            types or ("email",),
            limit,
            worker=worker,
            claim=Claim(f"lane-{next(_numbers)}", 1),
            lease=lease,
        ),
        now=now,
    )


async def claim(store: Store, *types: str, **options: Any) -> list[Job]:
    """Claim as `take` does and return only the jobs."""
    return (await take(store, *types, **options)).jobs


async def claim_ids(store: Store, *types: str, **options: Any) -> list[int]:
    return [job.id for job in await claim(store, *types, **options)]


async def claim_one(store: Store, type: str = "email", **options: Any) -> Job:
    """Claim the best job of a type; there must be one."""
    [job] = await claim(store, type, limit=1, **options)
    return job


async def start_one(
    store: Store,
    type: str = "email",
    data: JSON = None,
    *,
    worker: str = "w1",
    now: int = T0,
    **options: Any,
) -> Job:
    """Add a job of a type that has no other waiting, and start it."""
    job_id = await add_one(store, type, data, now=now, **options)
    job = await claim_one(store, type, worker=worker, now=now)
    assert job.id == job_id
    return job


async def end(store: Store, job: Job, ending: Ending, *, now: int = T0) -> Result:
    """End one run."""
    [word] = await store.settle([Outcome(job, ending)], now=now)
    return word


async def job_in(
    store: Store, state: State, type: str = "email", *, now: int = T0, **options: Any
) -> int:
    """Bring a job into *state* and return its id."""
    match state:
        case State.WAITING:
            return await add_one(store, type, now=now, **options)
        case State.DELAYED:
            return await add_one(store, type, now=now, **{"delay": "1h"} | options)
        case State.BLOCKED:
            parent = await add_one(store, "parent", now=now, delay="30d")
            return await add_one(store, type, now=now, after=[parent], **options)
    job = await start_one(store, type, now=now, **options)
    endings: dict[State, Ending] = {
        State.COMPLETE: Completed("fine"),
        State.FAILED: Failed(OOPS),
        State.CANCELLED: Cancelled("not wanted"),
    }
    if state is not State.ACTIVE:
        await end(store, job, endings[state], now=now)
    return job.id


async def get_one(store: Store, job_id: int) -> Job:
    """Return a job that must exist."""
    [job] = await store.get([job_id])
    assert job is not None, f"job {job_id} is gone"
    return job


async def get_many(store: Store, ids: list[int]) -> list[Job]:
    """Return jobs that must all exist, however many there are."""
    jobs: list[Job] = []
    for at in range(0, len(ids), MAX_BATCH):
        jobs += [job for job in await store.get(ids[at : at + MAX_BATCH]) if job]
    assert [job.id for job in jobs] == ids, "jobs were lost"
    return jobs


def outcomes(job: Job) -> list[str]:
    """Return how the runs of a job ended."""
    return [past.outcome for past in job.history]


async def until_ended(store: Store, job_id: int, *, seconds: float = 50) -> Job:
    """Return the job once it has ended."""
    async with asyncio.timeout(seconds), store.watch([job_id]) as events:
        while not (job := await get_one(store, job_id)).state.is_final:
            await anext(events)
    return job


async def state_of(store: Store, job_id: int) -> State | None:
    [job] = await store.get([job_id])
    return job.state if job else None


async def count_of(store: Store, type: str = "email") -> dict[State, int]:
    """Return how many jobs of a type are in each state that has any."""
    counts = (await store.count()).get(type, {})
    return {state: number for state, number in counts.items() if number}


async def all_pages(store: Store, request: PageRequest) -> list[Page]:
    """Turn page by page, and return all pages."""
    pages = [await store.page(request)]
    while (cursor := pages[-1].cursor) is not None:
        following = msgspec.structs.replace(request, cursor=cursor, skip=0)
        pages.append(await store.page(following))
    return pages


async def all_ids(store: Store, request: PageRequest) -> list[int]:
    """Turn page by page, and return all ids, in order."""
    pages = await all_pages(store, request)
    return [job.id for page in pages for job in page.jobs]
