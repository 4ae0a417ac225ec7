"""A Redis store with something in every key, and wrong values in any of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import redis

from kue.model.job import State
from kue.store.contract import Store
from kue.store.redis.doctor.key_parsing import parse_key
from kue.store.redis.keys import JOB_KEYS, SHARD_KEYS, TYPE_KEYS, Keys, root_of
from kue.store.values import AuditEntry
from tests.faults.garbling import CALLS, TIMING, surround
from tests.faults.scene import TYPE, Scene, Verb, build
from tests.support.jobs import HOUR, T0, add_one, job_in

#: What is garbled and how, and the commands that do it.
Way: TypeAlias = tuple[str, list[tuple[Any, ...]]]


_HUGE = b"9" * 300
#: Every kind of wrong value, of a string or of a field of a hash.
VALUES: dict[str, bytes] = {
    "empty": b"",
    "text": b"garbage",
    "object": b'{"a": {"b": 1}}',
    "negative": b"-7",
    "float": b"1e300",
    "huge": _HUGE,
    "nan": b"nan",
    "binary": b"\xff\xfe",
    "nul": b"\x00",
    "long": b"x" * 1_000_000,
}
#: Members and fields that nobody knows.
MEMBERS: dict[str, bytes] = {
    "empty": b"",
    "text": b"garbage",
    "negative": b"-7",
    "huge": _HUGE,
    "binary": b"\xff\xfe",
    "nul": b"\x00",
    "long": b"x" * 1_000_000,
}
#: All verbs, as for SQLite; here each hour that is asked for is a key that is read.
VERBS: dict[str, Verb] = {
    **CALLS,
    "hours": lambda store, scene: store.hours(T0 // HOUR - 4, T0 // HOUR),
}
SCORES = ("-inf", "inf", "1e300", "-7", "0.5")


#: Every kind of key, with a star for names and numbers, and its Redis type.
PLACES = {
    **SHARD_KEYS,
    **{f"*:{name}": kind for name, kind in TYPE_KEYS.items()},
    "*:held:*": "zset",
    "limit keys:*": "set",
    "limit held:*": "zset",
    "limit running:*": "zset",
    "limit rate:*": "string",
    "job:*": "string",
    **{f"job:*:{name}": kind for name, kind in JOB_KEYS.items()},
    "live:*": "string",
    "lost:*": "string",
    "flow:*": "hash",
    "members:*": "zset",
    **dict.fromkeys(("stats:*", "hours:*", "producers:*", "claims:*"), "hash"),
}
#: Commands that go by whether a key is there and of which Redis type, not by what it
#: holds; `test_wrong_types` is about those.
_BLIND = frozenset(
    {
        *("EXISTS", "ZCARD", "HLEN", "ZINTERCARD", "STRLEN", "SCARD", "LLEN"),
        *("HSET", "ZADD", "SADD", "SREM", "SET", "MSET", "HDEL", "ZREM", "APPEND"),
        *("DEL", "UNLINK", "EXPIRE", "SPUBLISH", "DUMP", "RESTORE", "SCAN"),
    }
)


class Case(NamedTuple):
    """One way to garble one key."""

    #: The key, without its tag and numbers.
    place: str
    key: bytes
    #: What is garbled there, and how: ``schema=text``.
    what: str
    commands: list[tuple[Any, ...]]

    def __str__(self) -> str:
        return f"{self.place} {self.what}"


async def prepare(store: Store, client: redis.Redis, prefix: str) -> Scene:
    """Fill a store that has no jobs yet, so that every kind of key is there."""
    await store.measure([TIMING], now=T0 - 3 * HOUR)
    scene = await build(store)
    await surround(store)
    await store.note(AuditEntry(who="eve", what="jobs.remove", status=403), now=T0)
    await store.note(AuditEntry(who="eve", what="jobs.add", status=201), now=T0)
    for state in (State.FAILED, State.CANCELLED):
        await job_in(store, state, "sms", retention="2s")
    await add_one(store, TYPE, after=[scene.delayed], on_parent_failure="run")
    keys = Keys(root_of(prefix, 0, 1))
    [parent] = client.smembers(keys.job(f"{scene.blocked}:after"))
    far = 2**45
    for key, add in {
        "meta": ("HSET", *_meta()),
        "listeners": ("ZADD", far, "0123456789abcdef"),
        "watched": ("ZADD", far, scene.waiting),
        "outbox": (
            *("HSET", f"rest:{int(parent)}", "complete"),
            *(f"left:{scene.waiting}", ""),
        ),
        f"job:{scene.waiting}:left": ("SADD", scene.delayed),
        "search": ("HSET", f"type:{TYPE}", f"0:{T0}", "worker:w1", T0),
        f"{TYPE}:wake": ("ZADD", 0, "0"),
    }.items():
        _do(client, (add[0], keys.of_shard(key), *add[1:]))
    return scene


def _meta() -> list[str | int]:
    """Return what maintenance notes while it is amid something."""
    noted: dict[str, str | int] = {
        "graced": T0,
        "idle": T0,
        "told": 7,
        "pauses": 0,
        "types": 0,
        "rolling": f"{T0 // 60_000}:0",
        f"pruned:complete:{TYPE}": f"{T0}:1:{T0}",
    }
    return [word for pair in noted.items() for word in pair]


class Garbling:
    """Garbles keys of one store, and puts back what was there."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._root = root_of(prefix, 0, 1)
        self._sound = self._read()

    def cases(self, place: str) -> list[Case]:
        """Return every way to garble a kind of key."""
        keys = [key for key in self._sound if place_of(key) == place]
        keys.sort(key=lambda key: len(self._sound[key]))
        # The one that says most; what is not there comes into being.
        key = keys[-1] if keys else f"{self._root}:{place}".replace("*", TYPE).encode()
        kind = _do(self._client, ("TYPE", key)).decode()
        other = "SADD" if kind == "string" else "SET"
        ways = dict(getattr(self, f"_{PLACES[place]}")(key))
        ways["type"] = [("DEL", key), (other, key, "x")]
        if kind != "none":
            ways["gone"] = [("DEL", key)]
        return [Case(place, key, what, commands) for what, commands in ways.items()]

    def _string(self, key: bytes) -> Iterator[Way]:
        for name, value in VALUES.items():
            if b":live:" in key and name == "long":
                # Each bit that is set would be another job to look for.
                value = bytes(len(value))
            yield name, [("SET", key, value)]

    def _hash(self, key: bytes) -> Iterator[Way]:
        fields: dict[str, list[bytes]] = {}
        for field in sorted(_do(self._client, ("HKEYS", key))):
            fields.setdefault(shape_of(field), []).append(field)
        for shape, alike in fields.items():
            for name, value in VALUES.items():
                given = [word for field in alike for word in (field, value)]
                yield f"{shape}={name}", [("HSET", key, *given)]
        for name, field in MEMBERS.items():
            yield f"+{name}", [("HSET", key, field, "garbage")]

    def _zset(self, key: bytes) -> Iterator[Way]:
        members = self._client.zrange(key, 0, -1)
        for score in SCORES if members else ():
            given = [word for member in members for word in (score, member)]
            yield f"={score}", [("ZADD", key, *given)]
        for name, member in MEMBERS.items():
            yield f"+{name}", [("ZADD", key, T0 + HOUR, member)]

    def _set(self, key: bytes) -> Iterator[Way]:
        for name, member in MEMBERS.items():
            yield f"+{name}", [("SADD", key, member)]

    def _list(self, key: bytes) -> Iterator[Way]:
        for name, member in VALUES.items():
            yield f"+{name}", [("RPUSH", key, member)]

    async def readers(self, store: Store, scene: Scene) -> dict[bytes, list[str]]:
        """Return which verbs look into each key: what it holds concerns no others."""
        found: dict[bytes, list[str]] = {}
        watch: Callable[[], Any] = self._client.monitor
        with watch() as monitor:
            for name, verb in VERBS.items():
                await verb(store, scene)
                self._client.echo(name)
                touched: set[bytes] = set()
                for seen in iter(monitor.next_command, None):
                    if seen["command"] == f"ECHO {name}":
                        break
                    touched |= self._read_by(seen["command"].split(" "))
                for key in touched:
                    found.setdefault(key, []).append(name)
                self.restore()
        return found

    def _read_by(self, words: list[str]) -> set[bytes]:
        if words[0] in _BLIND:
            return set()
        tag = f"{self._root}:"
        return {word.encode() for word in words if word.startswith(tag)}

    def garble(self, case: Case) -> None:
        for command in case.commands:
            _do(self._client, command)

    def restore(self) -> None:
        """Put back every key as it was."""
        now = self._read()
        pipe = self._client.pipeline(transaction=False)
        for key in now.keys() - self._sound.keys():
            pipe.delete(key)
        for key, value in self._sound.items():
            if now.get(key) != value:
                pipe.restore(key, 0, value, replace=True)
        pipe.execute()

    def _read(self) -> dict[bytes, bytes]:
        keys = sorted(self._client.scan_iter(f"{self._root}:*", count=10_000))
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.dump(key)
        return dict(zip(keys, pipe.execute(), strict=True))


def _do(client: redis.Redis, command: tuple[Any, ...]) -> Any:
    send: Callable[..., Any] = client.execute_command
    return send(*command)


def place_of(key: bytes) -> str:
    """Return the kind of a key: its name, with a star for what differs."""
    text = key.decode().partition("}:")[2]
    known = parse_key(text)
    assert known is not None, text
    if known.kind in ("type", "held"):
        return "*:held:*" if known.kind == "held" else f"*:{known.name}"
    if known.kind == "shard":
        return known.name
    return {"record": "job:*", "part": f"job:*:{known.name}"}.get(
        known.kind, f"{known.kind}:*"
    )


def shape_of(field: bytes) -> str:
    """Return what stands for all fields like this one: numbers aside."""
    return re.sub(r"\d+", "*", field.decode())
