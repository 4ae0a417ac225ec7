"""Maintenance: the verb `tend` requeues jobs of dead workers, prunes; schedules."""

from __future__ import annotations

import logging
import math
import secrets
import time
from typing import TYPE_CHECKING

import msgspec
from redis.exceptions import ResponseError

from kue.model import retry_policy
from kue.model.errors import StoreFull
from kue.model.schedule import Schedule
from kue.model.settings import LEASE_MS, Keep
from kue.store.codec import encode_json
from kue.store.redis.verbs.add import arguments, link_to_parent, read_added
from kue.store.redis.verbs.pages import get
from kue.store.redis.verbs.runs import EXPIRED_TAIL, settle
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
    grace_gap,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.model.job import Ending, Job
    from kue.store.redis.sharding import Shards

logger = logging.getLogger(__name__)

_decode = msgspec.json.Decoder(Schedule).decode


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
    _, promoted, expired, pruned, released, more, lost, late, due, *damage = reply
    rescued = await _requeue_lost(db, lost, now)
    timed_out = await _end_runs(db, late, "ttl", retry_policy.after_ttl, now)
    fired = await _fire(db, shard, due, now)
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
    outcomes = [
        Outcome(job, decide(job, moment), overdue) for job in jobs if job and job.token
    ]
    words = await settle(db, outcomes, now=now)
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


async def _fire(db: Shards, shard: int, names: list[bytes], now: int | None) -> int:
    """Add the jobs of due schedules, and advance those to their next time."""
    if not names:
        return 0
    keys = db.keys[shard]
    moment = await db.now() if now is None else now
    fired = 0
    for name in names:
        text = await db.client.read(keys.root, "HGET", keys.of_shard("schedules"), name)
        if text is not None:
            fired += await _fire_one(db, shard, name, text, moment, now)
    return fired


async def _fire_one(
    db: Shards, shard: int, name: bytes, text: bytes, moment: int, now: int | None
) -> int:
    schedule = _read_schedule(text)
    if schedule is None or schedule.next_at > moment:
        return 0  # damaged, or another process was faster
    next_at = schedule.following(moment)
    new = encode_json(msgspec.structs.replace(schedule, next_at=next_at))
    try:
        # The script advances the schedule and adds its job atomically, for the
        # first caller only.  A producer of one call may have a random name.
        reply = await db.run(
            shard,
            "add",
            secrets.token_hex(8),
            0,
            name,
            text,
            new,
            next_at,
            *arguments([schedule.draft]),
            now=now,
        )
    except StoreFull:
        return 0  # stays due, and fires when there is memory again
    return sum(one.new for one in read_added(reply[1])) if reply[0] == b"OK" else 0


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


async def schedule(db: Shards, schedule: Schedule) -> None:
    home = db.home_of(schedule.draft.type)
    text = encode_json(schedule)
    await db.run(home, "schedule", schedule.name, schedule.next_at, text)
    # It is kept on the shard of its job's type: a change of type moves it.
    for shard in range(db.count):
        if shard != home:
            await db.run(shard, "schedule", schedule.name, "", "")


async def unschedule(db: Shards, name: str) -> bool:
    replies = await db.on_all(lambda shard: db.run(shard, "schedule", name, "", ""))
    return any(replies)


async def schedules(db: Shards) -> list[Schedule]:
    replies = await db.read_all("HVALS", "schedules")
    read = [_read_schedule(text) for texts in replies for text in texts]
    found = [schedule for schedule in read if schedule is not None]
    return sorted(found, key=lambda schedule: schedule.name)


def _read_schedule(text: bytes) -> Schedule | None:
    """Read a schedule; None if damaged, so that the others still fire."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        logger.exception("a schedule cannot be read: %.200r", text)
        return None


def _rules(keep: Keep | None) -> str:
    values = () if keep is None else msgspec.structs.astuple(keep)
    return ",".join("-" if value is None else str(value) for value in values)
