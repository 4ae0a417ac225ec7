"""Flows: the verbs `members`, `flow_counts` and `parents`, over all shards."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from kue.model.job import MAX_PARENTS
from kue.store.redis.verbs.pages import page_of, unranked
from kue.store.validation import check_batch, check_limit, read_cursor
from kue.store.values import FlowCounts, Page, PageRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.store.redis.sharding import Shards

_ENDS = ("complete", "failed", "cancelled")
_GONE = tuple(f"gone_{end}" for end in _ENDS)


async def members(
    db: Shards, flow: int, *, limit: int = 50, cursor: str | None = None
) -> Page:
    check_limit(limit)
    place = read_cursor(cursor)
    if not limit or not await _exist(db, [flow]):
        return Page([])
    ids = _ids(db, flow, place[1] if place else 0, limit + 1)
    return await page_of(db, unranked(ids), PageRequest(limit=limit))


async def _ids(
    db: Shards, flow: int, after: int, count: int
) -> AsyncIterator[list[int]]:
    """Yield the ids of members, in order, some from every shard at a time."""

    async def read(shard: int) -> list[int]:
        key = db.keys[shard].of_shard(f"members:{flow}")
        span = (f"({after}", "+inf", "BYSCORE", "LIMIT", 0, count)
        return [int(found) for found in await db.read(shard, "ZRANGE", key, *span)]

    while True:
        found = await db.on_all(read)
        ids = sorted(chain(*found))[:count]
        # Scores that are not ids, which is damage, would be found forever.
        if not ids or ids[-1] <= after:
            return
        yield ids
        after = ids[-1]


async def flow_counts(db: Shards, flows: Sequence[int]) -> list[FlowCounts]:
    check_batch(flows, "flows")
    known = await _exist(db, flows)
    asked = sorted(known)

    async def read(shard: int) -> list[FlowCounts]:
        keys = db.keys[shard]
        replies = await db.read_many(
            shard,
            [
                command
                for flow in asked
                for command in (
                    ("ZCARD", keys.of_shard(f"members:{flow}")),
                    ("HMGET", keys.of_shard(f"flow:{flow}"), *_ENDS, *_GONE),
                )
            ],
        )
        return [
            _counts(size, [int(number or 0) for number in numbers])
            for size, numbers in zip(replies[::2], replies[1::2], strict=True)
        ]

    parts = await db.on_all(read) if asked else []
    totals = {
        flow: FlowCounts(*map(sum, zip(*counts, strict=True)))
        for flow, *counts in zip(asked, *parts, strict=True)
    }
    return [totals.get(flow, FlowCounts()) for flow in flows]


def _counts(present: int, numbers: list[int]) -> FlowCounts:
    ends, gone = numbers[: len(_ENDS)], numbers[len(_ENDS) :]
    return FlowCounts(present + sum(gone), *ends)


async def parents(db: Shards, job_ids: Sequence[int]) -> list[list[int]]:
    check_batch(job_ids, "jobs")
    found: list[list[int]] = [[] for _ in job_ids]
    for shard, positions in db.by_shard(job_ids).items():
        keys = [db.keys[shard].job(f"{job_ids[at]}:after") for at in positions]
        asked = [("SRANDMEMBER", key, MAX_PARENTS) for key in keys]
        for at, ids in zip(positions, await db.read_many(shard, asked), strict=True):
            parents = {int(one) for one in ids if one.isdigit()}
            # One that waits for itself is held until all before it were added.
            found[at] = sorted(parents - {job_ids[at]})
    return found


async def _exist(db: Shards, flows: Sequence[int]) -> set[int]:
    """Return those whose jobs exist: elsewhere, an index may outlast its job."""
    found: set[int] = set()
    for shard, positions in db.by_shard(flows).items():
        chosen = [flows[position] for position in positions]
        commands = [("EXISTS", db.keys[shard].job(flow)) for flow in chosen]
        replies = await db.read_many(shard, list(commands))
        found |= {flow for flow, n in zip(chosen, replies, strict=True) if n}
    return found
