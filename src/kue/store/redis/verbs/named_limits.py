"""Named limits: rates and concurrency that jobs share by name and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.named_limits import RateLevel, StoredLimit
from kue.model.names import quote, unquote
from kue.store.redis.wire.client import pairs
from kue.store.validation import InvalidCall
from kue.store.values import LimitUse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.store.redis.sharding import Shards

#: Keys of a limit that one call of ``named_limit.lua`` looks at.
_KEYS_PER_CALL = 20
#: Keys that one scan reads, and the most that are read to show a limit.
_SCANNED, MAX_SHOWN = 500, 5_000


async def set_named_limit(
    db: Shards,
    name: str,
    limit: StoredLimit | None,
    *,
    types: Sequence[str] = (),
    now: int | None = None,
) -> None:
    _refuse_several_homes(db, name, types)
    args = (quote(name), "" if limit is None else limit.text)
    for shard in range(db.count):
        # The rule first: jobs that are held from now on are held by it.
        await db.run(shard, "named_limit", *args, now=now)
        async for keys in _keys(db, shard, name):
            for at in range(0, len(keys), _KEYS_PER_CALL):
                part: Any = keys[at : at + _KEYS_PER_CALL]
                while part:
                    part = await db.run(shard, "named_limit", *args, *part, now=now)


def _refuse_several_homes(db: Shards, name: str, types: Sequence[str]) -> None:
    if len(db.homes(types)) > 1:
        raise InvalidCall(
            f"limit {name!r} is shared by {', '.join(map(repr, types))}, which live on "
            "different shards of this store, where it cannot be exact; give each its "
            "own limit"
        )


async def named_limits(db: Shards) -> dict[str, StoredLimit]:
    found: dict[str, StoredLimit] = {}
    for fields in await db.read_all("HGETALL", "named_limits"):
        for name, text in pairs(fields):
            found[unquote(name.decode())] = StoredLimit.read(text.decode())
    return dict(sorted(found.items()))


async def limit_use(
    db: Shards, name: str, *, limit: int = 100, now: int | None = None
) -> list[LimitUse]:
    stored = (await named_limits(db)).get(name)
    moment = await db.now() if now is None else now
    found: list[LimitUse] = []
    for shard in range(db.count):
        async for keys in _keys(db, shard, name):
            found += await _uses(db, shard, name, stored, keys, moment)
            if len(found) >= MAX_SHOWN:
                break
    found.sort(key=lambda use: (-use.waiting, -use.running, use.key))
    return found[:limit]


async def _keys(db: Shards, shard: int, name: str) -> AsyncIterator[list[bytes]]:
    """Yield the keys of a limit that have jobs, in parts."""
    key, cursor = db.keys[shard].of_limit(name, "keys"), 0
    while True:
        reply = await db.read(shard, "SSCAN", key, cursor, "COUNT", _SCANNED)
        cursor = int(reply[0])
        if reply[1]:
            yield reply[1]
        if not cursor:
            return


async def _uses(
    db: Shards,
    shard: int,
    name: str,
    stored: StoredLimit | None,
    keys: list[bytes],
    now: int,
) -> list[LimitUse]:
    of_limit = db.keys[shard].of_limit
    commands: list[tuple[Any, ...]] = []
    for key in map(bytes.decode, keys):
        commands += (
            ("ZCARD", of_limit(name, f"running:{key}")),
            ("ZCARD", of_limit(name, f"held:{key}")),
            ("GET", of_limit(name, f"rate:{key}")),
        )
    replies = await db.read_many(shard, commands)
    return [
        LimitUse(
            unquote(key.decode()), running, held, _opens_at(stored, rate or b"", now)
        )
        for key, running, held, rate in zip(
            keys, replies[::3], replies[1::3], replies[2::3], strict=True
        )
        if running or held
    ]


def _opens_at(stored: StoredLimit | None, rate: bytes, now: int) -> int | None:
    if stored is None or stored.rule.rate is None:
        return None
    return RateLevel.read(stored.rule, rate.decode(), now).opens_at
