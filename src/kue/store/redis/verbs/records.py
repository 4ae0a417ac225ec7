"""Small records and the audit log; with several shards, on the first of them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec

from kue.model.names import quote, unquote
from kue.store.codec import encode_json
from kue.store.redis.sharding import ms_of
from kue.store.redis.wire.client import pairs
from kue.store.validation import read_act_cursor
from kue.store.values import RINGS, AuditEntry, AuditPage, KeepRequest

if TYPE_CHECKING:
    from kue.store.redis.sharding import Shards

#: The shard that has them.
HOME = 0
#: Fields scanned in one call.
_COUNT = 1_000

_decode = msgspec.json.Decoder(AuditEntry).decode


async def keep(db: Shards, request: KeepRequest, *, now: int | None = None) -> bool:
    how, before = "any", ""
    if request.was is None:
        how = "new"
    elif request.was is not msgspec.UNSET:
        how, before = "was", request.was
    end = "" if request.until is None else request.until
    field = _field(request.room, request.name)
    word = await db.run(
        HOME, "put_record", field, end, request.value, how, before, now=now
    )
    return bool(word == b"done")


async def kept(
    db: Shards, room: str, name: str, *, now: int | None = None
) -> str | None:
    key = db.keys[HOME].of_shard("kept")
    time, text = await db.read_many(
        HOME, [("TIME",), ("HGET", key, _field(room, name))]
    )
    return _value(text, ms_of(time) if now is None else now)


async def all_kept(db: Shards, room: str, *, now: int | None = None) -> dict[str, str]:
    moment = await db.now() if now is None else now
    key = db.keys[HOME].of_shard("kept")
    found: dict[str, str] = {}
    cursor = 0
    while True:
        options = ("MATCH", f"{room}:*", "COUNT", _COUNT)
        after, fields = await db.read(HOME, "HSCAN", key, cursor, *options)
        for field, text in pairs(fields):
            value = _value(text, moment)
            if value is not None:
                found[unquote(field.decode().partition(":")[2])] = value
        cursor = int(after)
        if cursor == 0:
            return dict(sorted(found.items()))


async def forget(db: Shards, room: str, name: str, *, now: int | None = None) -> bool:
    return bool(await db.run(HOME, "delete_record", _field(room, name), now=now))


async def note(db: Shards, act: AuditEntry, *, now: int | None = None) -> int:
    call = secrets.token_hex(8)
    number = await db.run(
        HOME, "append_audit", act.ring, RINGS[act.ring], call, encode_json(act), now=now
    )
    return int(number)


async def acts(db: Shards, limit: int = 50, cursor: str | None = None) -> AuditPage:
    before = read_act_cursor(cursor)
    keys = [db.keys[HOME].of_shard(ring) for ring in RINGS]
    last = "+inf" if before is None else f"({before}"
    # Reads one more than is returned, to know whether there is a next page.
    span = (last, "-inf", "BYSCORE", "REV", "LIMIT", 0, limit + 1, "WITHSCORES")
    replies = await db.read_many(HOME, [("ZRANGE", key, *span) for key in keys])
    found = [
        _act(text, int(float(number)))
        for reply in replies
        for text, number in pairs(reply)
    ]
    found.sort(key=lambda act: act.id, reverse=True)
    return AuditPage.of(found[: limit + 1], limit)


def _field(room: str, name: str) -> str:
    return f"{room}:{quote(name)}"


def _value(text: bytes | None, now: int) -> str | None:
    """Return the value after the expiry time; None if it has expired."""
    if text is None:
        return None
    until, _, value = text.partition(b"\t")
    return None if until and int(until) <= now else value.decode()


def _act(text: bytes, number: int) -> AuditEntry:
    at, _, entry = text.split(b"\t", 2)
    return msgspec.structs.replace(_decode(entry), id=number, at=int(at))
