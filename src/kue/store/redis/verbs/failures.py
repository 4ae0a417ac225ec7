"""Failures: rules about jobs that fail for good, and those to be reported."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

import msgspec

from kue.model.failure_rule import FailureRule
from kue.model.names import quote, unquote
from kue.store.codec import encode_json
from kue.store.redis.wire.client import pairs
from kue.store.values import MAX_BATCH, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.redis.sharding import Shards

_decode = msgspec.json.Decoder(FailureRule).decode


async def set_failure_rule(
    db: Shards, type: str | None, rule: FailureRule | None, *, now: int | None = None
) -> None:
    text = b"" if rule is None or rule.is_empty else encode_json(rule)
    # On each shard: jobs of a task may wait in any queue.
    for shard in range(db.count):
        await db.run(shard, "failure_rule", quote(type or ""), text, now=now)


async def failure_rules(db: Shards) -> dict[str | None, FailureRule]:
    found: dict[str | None, FailureRule] = {}
    for fields in await db.read_all("HGETALL", "failure_rules"):
        for name, text in pairs(fields):
            found[unquote(name.decode()) or None] = _decode(text)
    return found


async def failures(
    db: Shards, *, limit: int = MAX_BATCH, skip: int = 0
) -> list[Failure]:
    if not limit:
        return []
    # They may all be of one shard.
    replies = await db.on_all(lambda shard: _failures(db, shard, skip + limit))
    return [*merge(*replies, key=lambda failure: failure.at)][skip : skip + limit]


async def _failures(db: Shards, shard: int, limit: int) -> list[Failure]:
    key = db.keys[shard].of_shard("failures")
    entries = await db.read(shard, "ZRANGE", key, 0, limit - 1)
    return [failure for entry in entries if (failure := _read(entry))]


async def forget_failures(
    db: Shards, failures: Sequence[Failure], *, now: int | None = None
) -> None:
    for shard, positions in db.by_shard([one.job_id for one in failures]).items():
        entries = [_entry(failures[position]) for position in positions]
        await db.run(shard, "forget_failures", *entries, now=now)


def _entry(failure: Failure) -> str:
    """Return a failure as ``lib/failures.lua`` writes it."""
    parts = (failure.job_id, quote(failure.type), failure.at, failure.token)
    return ":".join(map(str, parts))


def _read(entry: bytes) -> Failure | None:
    """Read a failure; None if it is damaged, so that others are still reported."""
    try:
        job_id, job_type, at, token = entry.decode().split(":", 3)
        return Failure(int(job_id), unquote(job_type), int(at), token)
    except ValueError:
        return None
