"""Durable steps of jobs, and signals to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.names import quote
from kue.model.steps import MAX_SIGNALS, MAX_STEPS, JobSteps, Signal, Step
from kue.store.codec import encode_json
from kue.store.redis.verbs.changes import reply_of
from kue.store.redis.wire.client import pairs
from kue.store.step_record import field_of, read_step, read_steps
from kue.store.values import Reply, Result

if TYPE_CHECKING:
    from msgspec import Raw

    from kue.model.job import Job
    from kue.store.redis.sharding import Shards

#: Entries read at once; a result may have 64 KiB.
_ENTRIES = 50


async def steps(db: Shards, job_id: int) -> JobSteps:
    shard = db.shard_of(job_id)
    key = db.keys[shard].job(f"{job_id}:steps")
    fields: list[tuple[Any, Any]] = []
    cursor = b"0"
    while True:
        cursor, found = await db.read(shard, "HSCAN", key, cursor, "COUNT", _ENTRIES)
        fields += pairs(found)
        if cursor == b"0":
            return read_steps(job_id, fields)


async def record_step(
    db: Shards,
    job: Job,
    name: str,
    result: Raw,
    *,
    duration: int,
    now: int | None = None,
) -> Result:
    field = field_of("step", name)
    word = await db.run(
        db.shard_of(job.id),
        "record_step",
        *(job.id, job.token, field, MAX_STEPS, duration, bytes(result)),
        now=now,
    )
    return Result(word.decode())


async def receive(
    db: Shards, job: Job, signal: str, number: int, *, now: int | None = None
) -> Step | Result | None:
    word, *wait = await db.run(
        db.shard_of(job.id),
        "receive_signal",
        *(job.id, job.token, quote(signal), number),
        now=now,
    )
    if not wait:
        return Result(word.decode())
    value, data = wait
    if not value:
        return None
    return read_step(field_of("wait", signal, number), value.decode(), data.decode())


async def signal(
    db: Shards,
    job_id: int,
    signal: Signal,
    *,
    created_at: int | None = None,
    now: int | None = None,
) -> Reply:
    created = "" if created_at is None else created_at
    word, detail = await db.run(
        db.shard_of(job_id),
        "signal",
        *(job_id, created, quote(signal.name), signal.id, MAX_SIGNALS),
        encode_json(signal.data),
        now=now,
    )
    return reply_of(word, detail)
