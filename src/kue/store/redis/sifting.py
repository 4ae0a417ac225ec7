"""Sifting: leaves out jobs that cannot match a search, see ``lua/sift.lua``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.search_text import ESCAPES, FOLDED_TO_ASCII, LOG_LINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.redis.sharding import Shards

_DOUBTS = (*FOLDED_TO_ASCII, *ESCAPES)


async def sift(
    db: Shards, job_ids: Sequence[int], needles: Sequence[str]
) -> tuple[list[int], int]:
    """Return those of *job_ids* that may match, in order, and the bytes of all."""
    given = (LOG_LINES, len(needles), len(_DOUBTS), *needles, *_DOUBTS)
    kept: set[int] = set()
    total = 0
    for shard, positions in db.by_shard(job_ids).items():
        left = [job_ids[position] for position in positions]
        while left:
            came_to, size, *found = await db.run(shard, "sift", *given, *left)
            kept.update(map(int, found))
            total += size
            left = left[came_to:]
    return [job_id for job_id in job_ids if job_id in kept], total
