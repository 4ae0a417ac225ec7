"""Workers: their leases and status, orders to them, and their stacks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.names import quote, unquote
from kue.store.redis.verbs.limits import pauses
from kue.store.redis.wire.client import pairs
from kue.store.values import MAX_STACKS, ORDER_MS, STACKS_MS, Stacks, WorkerStatus

if TYPE_CHECKING:
    from kue.store.redis.sharding import Shards


async def workers(db: Shards, *, now: int | None = None) -> list[WorkerStatus]:
    moment = await db.now() if now is None else now
    deadlines: dict[str, int] = {}
    info: dict[str, dict[str, Any]] = {}
    active: Counter[str] = Counter()
    paused = {pause.worker for pause in await pauses(db, moment)}
    for shard, keys in enumerate(db.keys):
        leases, statuses, types = await db.read_many(
            shard,
            [
                ("ZRANGE", keys.of_shard("workers"), 0, -1, "WITHSCORES"),
                ("HGETALL", keys.of_shard("info")),
                ("SMEMBERS", keys.of_shard("types")),
            ],
        )
        for quoted, score in pairs(leases):
            name, deadline = unquote(quoted.decode()), int(float(score))
            deadlines[name] = max(deadline, deadlines.get(name, deadline))
        info.update((unquote(k.decode()), _info(v)) for k, v in pairs(statuses))
        names = [unquote(quoted.decode()) for quoted in types]
        runs = await db.read_many(
            shard, [("HVALS", keys.of_type(name, "active")) for name in names]
        )
        active.update(_owner(token) for tokens in runs for token in tokens)
    # The deadline of a worker that left is the time it did, negated.
    return [
        WorkerStatus(
            name,
            abs(deadline),
            deadline > moment,
            active[name],
            info.get(name, {}),
            name in paused,
            deadline < 0 and not active[name],
        )
        for name, deadline in sorted(deadlines.items())
    ]


async def order(db: Shards, worker: str, order: str, *, now: int | None = None) -> bool:
    # A heartbeat goes to every shard, so one is enough to keep the order.
    home = db.home_of(worker)
    word = await db.run(home, "order_worker", quote(worker), order, ORDER_MS, now=now)
    return bool(word == b"OK")


async def write_stacks(
    db: Shards, worker: str, text: str, *, now: int | None = None
) -> None:
    kept = text.encode("utf-8", "replace")[:MAX_STACKS]
    await db.run(db.home_of(worker), "write_stacks", quote(worker), kept, now=now)


async def stacks(db: Shards, worker: str, *, now: int | None = None) -> Stacks | None:
    moment = await db.now() if now is None else now
    shard, name = db.home_of(worker), quote(worker)
    key = db.keys[shard].of_shard("stacks")
    text, at = await db.read(shard, "HMGET", key, name, f"{name}:at")
    if text is None or at is None or int(at) <= moment - STACKS_MS:
        return None
    return Stacks(int(at), text.decode("utf-8", "ignore"))


def _info(text: bytes) -> dict[str, Any]:
    """Read a worker's status; empty if it is damaged."""
    try:
        info = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return info if isinstance(info, dict) else {}


def _owner(token: bytes) -> str:
    """Return the worker of a run; empty if the token is damaged."""
    parts = token.split(b":")
    return unquote(parts[3].decode("utf-8", "replace")) if len(parts) == 5 else ""
