"""Maintenance: the verb `tend` requeues jobs of dead workers, prunes …"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import msgspec
from redis.exceptions import ResponseError

from kue.model import retry_policy
from kue.model.job import with_progress
from kue.model.settings import LEASE_MS, Keep
from kue.store.redis.verbs.add import link_to_parent
from kue.store.redis.verbs.pages import get
from kue.store.redis.verbs.runs import EXPIRED_TAIL, log, settle
from kue.store.redis.verbs.schedules import fire_due
from kue.store.redis.wire.client import pairs
from kue.store.values import (
    HOURS_KEPT,
    MAX_BATCH,
    MINUTES_KEPT,
    MINUTES_PER_PASS,
    STACKS_MS,
    MaintenanceResult,
    Outcome,
    Result,
    error_line_of,
    grace_gap,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.model.job import Ending, Job
    from kue.store.redis.sharding import Shards


async def tend(
    db: Shards,
    *,
    limit: int = MAX_BATCH,
    keep: Keep | None = None,
    lease: int = LEASE_MS,
    now: int | None = None,
) -> MaintenanceResult:
    passes = await db.on_all(lambda shard: _tend(db, shard, limit, keep, lease, now))
    counts = {
        name: sum(getattr(done, name) for done in passes)
        for name in MaintenanceResult.COUNTS
    }
    return MaintenanceResult(
        **counts,
        failures=any(done.failures for done in passes),
        more=any(done.more for done in passes),
        quiet=all(done.quiet for done in passes),
        elsewhere=all(done.elsewhere for done in passes),
    )


async def _tend(
    db: Shards, shard: int, limit: int, keep: Keep | None, lease: int, now: int | None
) -> MaintenanceResult:
    if now is None:
        next_look = await _due_at(db, shard)
        if next_look > _time(db, shard):
            elsewhere = await _is_elsewhere(db, shard, next_look)
            return MaintenanceResult(quiet=True, elsewhere=elsewhere)
    asked = time.monotonic()
    reply = await db.run(
        shard,
        "tend",
        limit,
        lease,
        grace_gap(lease),
        EXPIRED_TAIL,
        _rules(keep),
        MINUTES_KEPT,
        MINUTES_PER_PASS,
        HOURS_KEPT,
        STACKS_MS,
        now=now,
    )
    if now is None:
        db.clocks[shard] = reply[0] / 1000 - asked
    if len(reply) == 1:
        return MaintenanceResult(quiet=True)
    if now is None:
        db.our_pass[shard] = db.last_pass[shard] = reply[0]
    _, promoted, expired, pruned, released, more, lost, late, due, *rest = reply
    failures, *damage = rest
    rescued = await _requeue_lost(db, lost, now)
    timed_out = await _end_runs(db, late, "ttl", retry_policy.after_ttl, now)
    fired = await fire_due(db, shard, due, now)
    released += await _relay(db, shard, limit, now)
    if damage:
        # Raised last, so that the other types are still maintained.
        raise db.client.translate(ResponseError(damage[0].decode()))
    return MaintenanceResult(
        promoted=promoted,
        expired=expired,
        pruned=pruned,
        released=released,
        rescued=rescued,
        timed_out=timed_out,
        fired=fired,
        failures=bool(failures or rescued or timed_out),
        more=bool(more),
    )


async def _requeue_lost(db: Shards, ids: list[bytes], now: int | None) -> int:
    """Requeue the jobs of dead workers, or fail those that were lost too often."""
    return await _end_runs(db, ids, "lease", retry_policy.after_lost_worker, now)


async def _end_runs(
    db: Shards,
    ids: list[bytes],
    overdue: str,
    decide: Callable[[Job, int], Ending],
    now: int | None,
) -> int:
    """End overdue runs as *decide* says; return how many were still overdue."""
    if not ids:
        return 0
    jobs = await get(db, [int(job_id) for job_id in ids])
    moment = await db.now() if now is None else now
    outcomes = []
    for job in jobs:
        if job and job.token:
            ending = decide(job, moment)
            ending = with_progress(ending, job.progress, job.progress_data)
            outcomes.append(Outcome(job, ending, overdue))
    words = await settle(db, outcomes, now=now)
    for outcome, word in zip(outcomes, words, strict=True):
        line = error_line_of(outcome)
        if word is Result.DONE and line is not None:
            await log(db, outcome.job.id, [line], now=now)
    return words.count(Result.DONE)


async def _due_at(db: Shards, shard: int) -> float:
    """Return when the next pass is due, in ms: see tend.lua."""
    keys = db.keys[shard]
    first = await db.client.read(
        keys.root, "ZRANGE", keys.of_shard("agenda"), 0, 0, "WITHSCORES"
    )
    return float(next((score for _, score in pairs(first)), 0))


def _time(db: Shards, shard: int) -> float:
    """Return Redis' time, estimated from the last pass to save a call."""
    return (db.clocks.get(shard, math.inf) + time.monotonic()) * 1000


async def _is_elsewhere(db: Shards, shard: int, next_look: float) -> bool:
    """Return whether another process made the last pass."""
    if next_look != db.next_look.get(shard):
        # Since we last asked there was a pass, or new work for one.
        keys = db.keys[shard]
        swept = await db.client.read(keys.root, "HGET", keys.of_shard("meta"), "swept")
        db.next_look[shard] = next_look
        db.last_pass[shard] = float(swept or 0)
        db.our_pass.setdefault(shard, db.last_pass[shard])
    return db.last_pass[shard] != db.our_pass[shard]


async def _relay(db: Shards, shard: int, limit: int, now: int | None) -> int:
    """Notify dependants on other shards; return how many were released."""
    if db.count == 1:
        return 0
    keys = db.keys[shard]
    outbox = keys.of_shard("outbox")
    _, entries = await db.client.read(keys.root, "HSCAN", outbox, 0, "COUNT", limit)
    released = 0
    for field, value in pairs(entries):
        kind, _, rest = field.partition(b":")
        if kind == b"rest":
            continue
        job_id, parent = (int(part) for part in rest.split(b":"))
        if kind == b"link":
            released += await link_to_parent(db, job_id, parent, now=now)
            continue
        if kind == b"unlink":
            await db.run(db.shard_of(parent), "unlink", parent, job_id)
        else:
            [job] = await get(db, [job_id])
            any_end = 1 if job and job.after_any else 0
            args = (job_id, parent, value, any_end)
            released += await db.run(db.shard_of(job_id), "unblock", *args, now=now)
        await db.client.read(keys.root, "HDEL", outbox, field)
    return released


def _rules(keep: Keep | None) -> str:
    values = () if keep is None else msgspec.structs.astuple(keep)
    return ",".join("-" if value is None else str(value) for value in values)
