"""Statistics by minute and by hour, and facts about the server."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from kue.model.names import unquote
from kue.store.redis.wire.client import pairs
from kue.store.values import MINUTES_KEPT, Stat, StoreFacts, hourly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.store.redis.sharding import Shards

#: Hours that one script reads: a script blocks all other clients.
HOURS_PER_CALL = 200
_NUMBERS = {"added": "added", "complete": "complete", "failed": "failed"}
#: Runs that succeeded, and the others.
_NUMBERS |= dict.fromkeys(("work_ms", "run_ms"), "run_ms")
_COUNTS = frozenset({"waits", "runs"})
_COUNT = re.compile(rb"(\d+)=(\d+)")


async def stats(db: Shards, since: int, until: int) -> list[Stat]:
    minutes = range(since, until + 1)
    found: list[Stat] = []
    for shard in range(db.count):
        keys = db.keys[shard]
        replies = await db.read_many(
            shard, [("HGETALL", keys.of_shard(f"stats:{n}")) for n in minutes]
        )
        for minute, fields in zip(minutes, replies, strict=True):
            found += _read_stats(minute, fields)
    return sorted(found, key=lambda stat: (stat.minute, stat.type))


async def hours(
    db: Shards, since: int, until: int, *, now: int | None = None
) -> list[Stat]:
    found: list[Stat] = []
    for shard in range(db.count):
        first = since
        while first <= until:
            last = min(first + HOURS_PER_CALL - 1, until)
            first, reply = await db.run(
                shard, "hourly_stats", first, last, MINUTES_KEPT, now=now
            )
            for minute, fields in zip(reply[::2], reply[1::2], strict=True):
                found += _read_stats(int(minute), fields)
    return hourly(found)


async def work_time(db: Shards, *, now: int | None = None) -> int:
    sums = [
        await db.run(shard, "work_time", MINUTES_KEPT, now=now)
        for shard in range(db.count)
    ]
    return sum(map(int, sums))


async def facts(db: Shards) -> StoreFacts:
    await db.open()
    began = time.perf_counter()
    await db.now()
    rtt = (time.perf_counter() - began) * 1000
    nodes: dict[str, dict[str, str]] = {}
    for keys in db.keys:
        info = await db.client.info(keys.root, "server", "memory")
        nodes[info.get("run_id", keys.root)] = info
    info = next(iter(nodes.values()))
    engine = "valkey" if "valkey_version" in info else "redis"
    version = info.get(f"{engine}_version", "?")
    sizes = [info.get("used_memory") for info in nodes.values()]
    memory = [int(size) for size in sizes if size is not None]
    size = sum(memory) if len(memory) == len(sizes) else None
    return StoreFacts(engine, version, size, round(rtt, 3))


def write_counts(counts: Mapping[int, int]) -> str:
    """Return counts by bucket as ``lib/histogram.lua`` takes them."""
    return " ".join(f"{bound}={number}" for bound, number in counts.items())


def _read_counts(text: bytes) -> dict[int, int]:
    found = {int(bound): int(number) for bound, number in _COUNT.findall(text)}
    return dict(sorted(found.items()))


def _read_stats(minute: int, fields: Any) -> list[Stat]:
    known: dict[str, dict[str, Any]] = {}
    for field, value in pairs(fields):
        name, _, what = field.decode().rpartition(":")
        # Unknown fields are of other releases.
        if what in _NUMBERS:
            numbers = known.setdefault(unquote(name), {})
            number = _NUMBERS[what]
            numbers[number] = numbers.get(number, 0) + int(value)
        elif what in _COUNTS:
            known.setdefault(unquote(name), {})[what] = _read_counts(value)
    return [Stat(minute=minute, type=name, **what) for name, what in known.items()]
