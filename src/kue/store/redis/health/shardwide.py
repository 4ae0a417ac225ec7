"""Judges of what is not about one job: keys, counters, unique keys, groups."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kue.names import unquote
from kue.store.redis.health.case import PlainCase
from kue.store.redis.health.chart import FINAL_PLACES
from kue.store.redis.health.keyspace import is_number
from kue.store.redis.health.mending import freed_for, looked_at
from kue.store.redis.health.trouble import Trouble

if TYPE_CHECKING:
    from kue.store.redis.health.keyspace import Key
    from kue.store.redis.health.shard import Command, Seen, Shard

_HOLDER = re.compile(r"(\d+):(\d+)", re.ASCII)
#: What upkeep carries: see ``lib/dependants.lua``.
_OUTBOX = re.compile(rb"(link|unlink|end):\d+:\d+|rest:\d+")


def known_key(shard: Shard, key: Key) -> PlainCase:
    """A key that the table knows: does it have the right type, and will it stay?"""
    name = f"{shard.keys.root}:{key.text}"
    job_id = key.number if key.kind in ("record", "part") else None

    def judge(seen: Seen) -> list[Trouble]:
        found: list[Trouble] = []
        for kind, expires in zip(seen.facts[1::3], seen.facts[2::3], strict=True):
            if kind.decode() != key.redis_type:
                message = f"key {name} is a {kind.decode()}, but must be a "
                message += f"{key.redis_type}; rename it away and check again"
                found.append(Trouble("wrong-type", message, job_id))
            if expires == b"1" and not key.may_expire:
                message = f"key {name} has a time to live, after which it would be lost"
                keep: Command = ("PERSIST", name)
                found.append(
                    Trouble("expiring-key", message, job_id, "keep it", (keep,))
                )
        return found

    return PlainCase(shard, ("keys", key.text, key.redis_type), judge)


def unknown_key(shard: Shard, text: bytes, why: str) -> PlainCase:
    """A key that does not belong where it is."""

    def judge(seen: Seen) -> list[Trouble]:
        if not seen.facts:
            return []
        message = (
            f"key {shard.keys.root}:{_shown(text)} {why}; delete it if it is not needed"
        )
        return [Trouble("unknown-key", message)]

    return PlainCase(shard, ("keys", text, "none"), judge)


def odd_member(shard: Shard, key: Key, member: bytes) -> PlainCase:
    """An entry of a structure of jobs that cannot be a job of this shard."""
    name = f"{shard.keys.root}:{key.text}"
    verbs = {"hash": "HDEL", "zset": "ZREM", "set": "SREM"}

    def judge(seen: Seen) -> list[Trouble]:
        if not seen.facts:
            return []
        message = (
            f"job {_shown(member)} is in {key.text}, but there can be no such job here"
        )
        out: Command = (verbs[key.redis_type], name, member)
        return [Trouble("no-record", message, None, "take it out", (out,))]

    return PlainCase(shard, ("entry", key.text, member), judge)


def type_known(shard: Shard, job_type: str) -> PlainCase:
    """A type that has structures: is it among the types?"""

    def judge(seen: Seen) -> list[Trouble]:
        if seen.facts:
            return []
        message = f"type {unquote(job_type)!r} has jobs, but is not among the types"
        add: Command = ("SADD", shard.keys.of_shard("types"), job_type)
        commands = (add, looked_at(shard.keys, job_type))
        return [Trouble("unknown-type", message, None, "add it", commands)]

    return PlainCase(shard, ("entry", "types", job_type), judge)


def type_looked_at(shard: Shard, job_type: str) -> PlainCase:
    """A type that has structures: does maintenance look at it?"""

    def judge(seen: Seen) -> list[Trouble]:
        if seen.facts:
            return []
        message = f"type {unquote(job_type)!r} has jobs, but maintenance does not "
        message += "look at it"
        enter = looked_at(shard.keys, job_type)
        return [Trouble("unknown-type", message, None, "have it looked at", (enter,))]

    return PlainCase(shard, ("entry", "agenda", job_type), judge)


def at_least(shard: Shard, name: str, highest: int, because: str) -> PlainCase:
    """A counter (``ids``, ``fence``) that must not be behind what it gave out."""

    def judge(seen: Seen) -> list[Trouble]:
        text = seen.facts[0].decode("utf-8", "replace") if seen.facts else "0"
        if is_number(text) and int(text) >= highest:
            return []
        message = f"the last of {name} is {text}, but {because} has {highest}"
        up: Command = ("SET", shard.keys.of_shard(name), highest)
        repair = f"set it to {highest}"
        return [Trouble(f"{name}-behind", message, None, repair, (up,))]

    return PlainCase(shard, ("value", name), judge)


def unique_key(shard: Shard, job_type: str, key: bytes) -> PlainCase:
    """An entry of a type's unique keys: does it hold anything?"""
    structure = shard.keys.of_type(unquote(job_type), "unique")

    def judge(seen: Seen) -> list[Trouble]:
        problem = _unique_problem(seen)
        if not problem:
            return []
        name = unquote(_shown(key))
        message = f"unique key {name!r} of {unquote(job_type)!r} {problem}"
        free: Command = ("HDEL", structure, key)
        return [Trouble("unique-drift", message, None, "free it", (free,))]

    return PlainCase(shard, ("unique", job_type, key), judge)


def _unique_problem(seen: Seen) -> str:
    """Return what is wrong with an entry of the unique keys; nothing if it is fine."""
    if not seen.facts:
        return ""
    held, standing, has_key, will_lapse = map(_shown, seen.facts)
    match = _HOLDER.fullmatch(held)
    if match is None:
        return f"is held by {held!r}, which is no job"
    holder, until = match.groups()
    if standing and standing not in FINAL_PLACES:
        has_it = has_key == "1" or standing == "adrift"
        return "" if has_it else f"is held by job {holder}, which has another"
    if int(until) > seen.at or will_lapse == "1":
        return ""
    how = f"is {standing}" if standing else "is gone"
    return f"is held by job {holder}, which {how}, and its time is over"


def lapsing_key(shard: Shard, job_type: str, key: bytes) -> PlainCase:
    """A unique key that upkeep is to free: is it held at all?"""
    structure = shard.keys.of_type(unquote(job_type), "lapse")

    def judge(seen: Seen) -> list[Trouble]:
        # What is due is about to be forgotten, held or not.
        if not seen.facts or seen.facts[1] == b"1" or float(seen.facts[0]) <= seen.at:
            return []
        name = unquote(_shown(key))
        message = f"unique key {name!r} of {unquote(job_type)!r} is to be freed later, "
        message += "but nobody holds it"
        out: Command = ("ZREM", structure, key)
        return [Trouble("unique-drift", message, None, "take it out", (out,))]

    return PlainCase(shard, ("lapse", job_type, key), judge)


def groups(shard: Shard, job_type: str) -> PlainCase:
    """A type's groups: does each count the jobs that it runs?"""

    def judge(seen: Seen) -> list[Trouble]:
        rows = [seen.facts[at : at + 5] for at in range(0, len(seen.facts), 5)]
        return [_drift(shard, job_type, row[0], *map(_shown, row[1:])) for row in rows]

    return PlainCase(shard, ("groups", job_type), judge)


def _drift(
    shard: Shard,
    job_type: str,
    group: bytes,
    written: str,
    counted: str,
    held: str,
    score: str,
) -> Trouble:
    running = int(counted)
    message = f"group {unquote(_shown(group))!r} of {unquote(job_type)!r} counts "
    message += f"{written or 'no'} running jobs, but {running} run"
    is_freed = not is_number(written) or int(written) > running
    next_held = (int(held), score) if is_freed and is_number(held) else None
    commands = freed_for(shard.keys, job_type, group, running, next_held)
    return Trouble("group-drift", message, None, f"set it to {running}", commands)


def outbox_entry(shard: Shard, field: bytes) -> PlainCase:
    """What upkeep must still carry: can it?"""

    def judge(seen: Seen) -> list[Trouble]:
        if not seen.facts or _OUTBOX.fullmatch(field):
            return []
        message = (
            f"the outbox has {_shown(field)!r}, which upkeep cannot carry to any job"
        )
        out: Command = ("HDEL", shard.keys.of_shard("outbox"), field)
        return [Trouble("stray-entry", message, None, "take it out", (out,))]

    return PlainCase(shard, ("entry", "outbox", field), judge)


def _shown(text: bytes) -> str:
    """Return text for a message, whatever it is."""
    return text.decode("utf-8", "backslashreplace")
