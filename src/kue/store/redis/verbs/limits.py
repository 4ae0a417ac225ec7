"""Pauses of types and workers; concurrency and rate limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.names import quote, unquote
from kue.store.codec import encode_json
from kue.store.redis.keys import worker_field
from kue.store.redis.record import read_paused
from kue.store.redis.wire.client import pairs
from kue.store.validation import check_limits
from kue.store.values import MAX_BATCH, Limits, Pause, PauseRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.store.redis.sharding import Shards


async def pause(db: Shards, request: PauseRequest, *, now: int | None = None) -> None:
    shards, field = _place_of(db, request.type, request.worker)
    # The script writes the opening brace and the time before it.
    details = encode_json({"reason": request.reason, "by": request.by})[1:]
    end = "" if request.until is None else request.until
    for shard in shards:
        await db.run(shard, "pause", field, end, details, now=now)


async def resume(
    db: Shards,
    type: str | None = None,
    *,
    worker: str | None = None,
    now: int | None = None,
) -> bool:
    shards, field = _place_of(db, type, worker)
    replies = [await db.run(shard, "resume", field, now=now) for shard in shards]
    return any(replies)


def _place_of(
    db: Shards, type: str | None, worker: str | None
) -> tuple[Iterable[int], str]:
    """Return the shards that keep a pause, and its field in ``:paused``."""
    if worker is not None:
        # A heartbeat goes to every shard, so one is enough to keep the pause.
        return [db.home_of(worker)], worker_field(worker)
    if type is not None:
        return [db.home_of(type)], quote(type)
    return range(db.count), ""


async def paused(db: Shards) -> list[Pause]:
    return await pauses(db, await db.now())


async def pauses(db: Shards, moment: int) -> list[Pause]:
    found: dict[bytes, Pause] = {}
    for fields in await db.read_all("HGETALL", "paused"):
        for target, text in pairs(fields):
            pause = read_paused(target, text)
            if pause.until is None or pause.until > moment:
                found[target] = pause
    return sorted(found.values(), key=_sort_key)


async def limit(
    db: Shards, type: str, limits: Limits | None, *, now: int | None = None
) -> None:
    check_limits(limits)
    text = "" if limits is None else _limits_text(limits)
    home = db.home_of(type)
    if await db.run(home, "limit", quote(type), text, now=now) == b"REORDER":
        for place in ("waiting", "held"):
            await _reorder(db, home, type, place, now)


async def _reorder(
    db: Shards, shard: int, type: str, place: str, now: int | None
) -> None:
    """Give the jobs in *place* the scores that the new order of their type asks for."""
    keys, cursor = db.keys[shard], 0
    while True:
        scan = ("ZSCAN", keys.of_type(type, place), cursor, "COUNT", MAX_BATCH)
        cursor, found = await db.client.read(keys.root, *scan)
        ids = [job_id for job_id, _ in pairs(found)]
        # Small sets are returned whole, whatever the count.
        for start in range(0, len(ids), MAX_BATCH):
            part = ids[start : start + MAX_BATCH]
            await db.run(shard, "reorder", quote(type), *part, now=now)
        if not int(cursor):
            return


async def limits(db: Shards) -> dict[str, Limits]:
    found: dict[str, Limits] = {}
    for fields in await db.read_all("HGETALL", "limits"):
        for name, text in pairs(fields):
            found[unquote(name.decode())] = _read_limits(text)
    return dict(sorted(found.items()))


def _sort_key(pause: Pause) -> tuple[bool, str]:
    return pause.worker is not None, pause.worker or pause.type or ""


def _limits_text(limits: Limits) -> str:
    """Return limits as ``lib/limits.lua`` and ``lib/rank.lua`` read them."""
    values = msgspec.structs.asdict(limits)
    values["fair"] = 1 if limits.fair else None
    # Neither brace is in a quoted name.
    weights = [f"{{{quote(group)}}}{n}" for group, n in limits.weights.items()]
    values["weights"] = "".join(weights) or None
    return " ".join("-" if value is None else str(value) for value in values.values())


def _read_limits(text: bytes) -> Limits:
    names = Limits.__struct_fields__
    # The weights are last: a group's name may contain spaces.
    fields = zip(names, text.decode().split(" ", len(names) - 1), strict=False)
    values: dict[str, Any] = {name: value for name, value in fields if value != "-"}
    weights = [pair.split("}") for pair in values.get("weights", "").split("{")[1:]]
    values["weights"] = {unquote(group): weight for group, weight in weights}
    return msgspec.convert(values, Limits, strict=False)
