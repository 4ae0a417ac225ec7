"""Streams of jobs: chunks are appended by runs, and read from any position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.stream import BEGINNING, Chunk, Position, SentChunks
from kue.store.redis.record import chunk_at
from kue.store.values import MAX_BATCH, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.redis.sharding import Shards


async def append_chunks(
    db: Shards, sent: Sequence[SentChunks], *, now: int | None = None
) -> list[Result]:
    words = [Result.DONE] * len(sent)
    places = db.by_shard([one.job.id for one in sent])
    for shard, positions in places.items():
        args: list[Any] = []
        for position in positions:
            job, start, values = sent[position]
            has_values = 1 if job.spec.remove_on_complete else 0
            args += (job.id, job.token, start, has_values, len(values))
            args += map(bytes, values)
        reply = await db.run(shard, "append_chunks", *args, now=now)
        for position, word in zip(positions, reply, strict=True):
            words[position] = Result(word.decode())
    return words


async def chunks(
    db: Shards, job_id: int, after: Position = BEGINNING, *, limit: int = MAX_BATCH
) -> list[Chunk]:
    start, *found = await db.run(
        db.shard_of(job_id), "read_chunks", job_id, after.run, after.start, limit
    )
    return [chunk_at(index, text) for index, text in enumerate(found, int(start))]
