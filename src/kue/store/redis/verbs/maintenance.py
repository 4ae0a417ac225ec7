"""Maintenance: the verb `tend` (one pass over each shard), and schedules."""

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
from kue.model.settings import LEASE_MS, Keep, Settings
from kue.store.redis.verbs.add import Producing, arguments, read_added
from kue.store.redis.verbs.changes import Operating
from kue.store.redis.verbs.queries import Reading
from kue.store.redis.verbs.runs import EXPIRED_TAIL, Running
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

logger = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Schedule).decode


class MaintenanceVerbs(Producing, Running, Operating, Reading):
    """Maintenance, which any process may do at any time, and schedules."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        #: By shard: what to add to our monotonic clock to get Redis' time.
        self._clocks: dict[int, float] = {}
        #: By shard: our last pass (at first, the last one known); the last pass of any
        #: process; and when the next one was due when we last asked.
        self._our_pass: dict[int, float] = {}
        self._last_pass: dict[int, float] = {}
        self._next_look: dict[int, float] = {}

    async def tend(
        self,
        *,
        limit: int = MAX_BATCH,
        keep: Keep | None = None,
        lease: int = LEASE_MS,
        now: int | None = None,
    ) -> MaintenanceResult:
        async def one(shard: int) -> MaintenanceResult:
            return await self._tend(shard, limit, keep, lease, now)

        passes = await self._on_all(one)
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
        self, shard: int, limit: int, keep: Keep | None, lease: int, now: int | None
    ) -> MaintenanceResult:
        if now is None:
            next_look = await self._due_at(shard)
            if next_look > self._time(shard):
                elsewhere = await self._is_elsewhere(shard, next_look)
                return MaintenanceResult(quiet=True, elsewhere=elsewhere)
        asked = time.monotonic()
        reply = await self._run(
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
            self._clocks[shard] = reply[0] / 1000 - asked
        if len(reply) == 1:
            return MaintenanceResult(quiet=True)
        if now is None:
            self._our_pass[shard] = self._last_pass[shard] = reply[0]
        _, promoted, expired, pruned, released, more, lost, late, due, *damage = reply
        rescued = await self._end(lost, "lease", retry_policy.after_lost_worker, now)
        timed_out = await self._end(late, "ttl", retry_policy.after_ttl, now)
        fired = await self._fire(shard, due, now)
        released += await self._relay(shard, limit, now)
        if damage:
            # Raised last, so that the other types are still maintained.
            raise self._client.translate(ResponseError(damage[0].decode()))
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

    async def _end(
        self,
        ids: list[bytes],
        overdue: str,
        decide: Callable[[Job, int], Ending],
        now: int | None,
    ) -> int:
        """End overdue runs as *decide* says; return how many were still overdue."""
        if not ids:
            return 0
        jobs = await self.get([int(job_id) for job_id in ids])
        moment = await self.now() if now is None else now
        outcomes = [
            Outcome(job, decide(job, moment), overdue)
            for job in jobs
            if job and job.token
        ]
        words = await self.settle(outcomes, now=now)
        return words.count(Result.DONE)

    async def _due_at(self, shard: int) -> float:
        """Return when the next pass is due, in ms: see tend.lua."""
        keys = self._keys[shard]
        first = await self._client.read(
            keys.root, "ZRANGE", keys.of_shard("agenda"), 0, 0, "WITHSCORES"
        )
        return float(next((score for _, score in pairs(first)), 0))

    def _time(self, shard: int) -> float:
        """Return Redis' time, estimated from the last pass to save a call."""
        return (self._clocks.get(shard, math.inf) + time.monotonic()) * 1000

    async def _is_elsewhere(self, shard: int, next_look: float) -> bool:
        """Return whether another process made the last pass."""
        if next_look != self._next_look.get(shard):
            # Since we last asked there was a pass, or new work for one.
            keys = self._keys[shard]
            swept = await self._client.read(
                keys.root, "HGET", keys.of_shard("meta"), "swept"
            )
            self._next_look[shard] = next_look
            self._last_pass[shard] = float(swept or 0)
            self._our_pass.setdefault(shard, self._last_pass[shard])
        return self._last_pass[shard] != self._our_pass[shard]

    async def _fire(self, shard: int, names: list[bytes], now: int | None) -> int:
        """Add the jobs of due schedules, and advance those to their next time."""
        if not names:
            return 0
        keys = self._keys[shard]
        moment = await self.now() if now is None else now
        fired = 0
        for name in names:
            text = await self._client.read(
                keys.root, "HGET", keys.of_shard("schedules"), name
            )
            if text is not None:
                fired += await self._fire_one(shard, name, text, moment, now)
        return fired

    async def _fire_one(
        self, shard: int, name: bytes, text: bytes, moment: int, now: int | None
    ) -> int:
        schedule = _read_schedule(text)
        if schedule is None or schedule.next_at > moment:
            return 0  # damaged, or another process was faster
        next_at = schedule.following(moment)
        new = _encode(msgspec.structs.replace(schedule, next_at=next_at))
        try:
            # The script advances the schedule and adds its job atomically, for the
            # first caller only.  A producer of one call may have a random name.
            reply = await self._run(
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

    async def _relay(self, shard: int, limit: int, now: int | None) -> int:
        """Notify dependants on other shards; return how many were released."""
        if self._shards == 1:
            return 0
        keys = self._keys[shard]
        outbox = keys.of_shard("outbox")
        _, entries = await self._client.read(
            keys.root, "HSCAN", outbox, 0, "COUNT", limit
        )
        released = 0
        for field, value in pairs(entries):
            kind, _, rest = field.partition(b":")
            if kind == b"rest":
                continue
            job_id, parent = (int(part) for part in rest.split(b":"))
            if kind == b"link":
                released += await self._link_to_parent(job_id, parent, now=now)
                continue
            if kind == b"unlink":
                await self._run(self._shard_of(parent), "unlink", parent, job_id)
            else:
                released += await self._notify_end(job_id, parent, value, now)
            await self._client.read(keys.root, "HDEL", outbox, field)
        return released

    async def _notify_end(
        self, job_id: int, parent: int, outcome: bytes, now: int | None
    ) -> int:
        home = self._shard_of(job_id)
        jobs = await self.get([job_id])
        any_end = 1 if jobs[0] and jobs[0].after_any else 0
        return int(
            await self._run(home, "unblock", job_id, parent, outcome, any_end, now=now)
        )

    async def schedule(self, schedule: Schedule) -> None:
        home = self._home_of(schedule.draft.type)
        text = _encode(schedule)
        await self._run(home, "schedule", schedule.name, schedule.next_at, text)
        # It is kept on the shard of its job's type: a change of type moves it.
        for shard in range(self._shards):
            if shard != home:
                await self._run(shard, "schedule", schedule.name, "", "")

    async def unschedule(self, name: str) -> bool:
        replies = await self._on_all(
            lambda shard: self._run(shard, "schedule", name, "", "")
        )
        return any(replies)

    async def schedules(self) -> list[Schedule]:
        async def texts_of(shard: int) -> list[bytes]:
            key = self._keys[shard].of_shard("schedules")
            [texts] = await self._read_many(shard, [("HVALS", key)])
            return list(texts)

        replies = await self._on_all(texts_of)
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
    if keep is None:
        return ""
    values = (getattr(keep, name) for name in Keep.__struct_fields__)
    return ",".join("-" if value is None else str(value) for value in values)
