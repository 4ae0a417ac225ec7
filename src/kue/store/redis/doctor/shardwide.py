"""Judges of what is not about one job: keys, counters, unique keys, groups."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kue.model.names import unquote
from kue.store.redis.doctor.case import PlainCase
from kue.store.redis.doctor.chart import FINAL_PLACES
from kue.store.redis.doctor.forms import is_agenda_time, is_time, shown
from kue.store.redis.doctor.keyspace import is_number
from kue.store.redis.doctor.mending import freed_for, looked_at
from kue.store.redis.doctor.trouble import Trouble
from kue.store.redis.keys import MAX_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Container

    from kue.store.redis.doctor.keyspace import Key
    from kue.store.redis.doctor.shard import Command, Seen, Shard

_HOLDER = re.compile(r"(\d+):(\d+)", re.ASCII)
#: What upkeep carries: see ``lib/dependants.lua``.
_OUTBOX = re.compile(rb"(?P<kind>link|unlink|end):\d+:\d+|(?P<rest>rest):\d+")
#: What stands there of each.
_ENDS = frozenset({b"complete", b"failed", b"cancelled", b"removed"})
_NEWS = {b"link": {b"0", b"1"}, b"unlink": {b""}, b"end": _ENDS, b"rest": _ENDS}
#: The most that counters can give out: a score has 41 bits for a number, and a fence
#: past 2^53 would not be exact.
_MOST = {"ids": MAX_SEQUENCE, "fence": 2**53 - 1}
_DIGITS = 16


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


def counter(shard: Shard, name: str, highest: int, because: str) -> PlainCase:
    """A counter (``ids``, ``fence``): not behind what it gave out, nor at its end."""
    most = _MOST[name]

    def judge(seen: Seen) -> list[Trouble]:
        text = _shown(seen.facts[0]) if seen.facts else "0"
        number = int(text) if is_number(text) and len(text) <= _DIGITS else None
        if number is not None and highest <= number <= most:
            return []
        code, problem = f"{name}-behind", f"{because} has {highest}"
        if (number is not None and number > most) or len(text) > _DIGITS:
            code, problem = "bad-value", f"the highest there can be is {most}"
        message = f"the last of {name} is {text:.60}, but {problem}"
        right: Command = ("SET", shard.keys.of_shard(name), highest)
        repair = f"set it to {highest}"
        return [Trouble(code, message, None, repair, (right,))]

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
        if not seen.facts:
            return []
        score, held = seen.facts
        name = f"unique key {unquote(_shown(key))!r} of {unquote(job_type)!r}"
        match = _HOLDER.fullmatch(_shown(held))
        if match and not is_time(float(score)):
            message = f"{name} is to be freed at {_shown(score)}, which is not a time"
            right: Command = ("ZADD", structure, match[2], key)
            repair = f"free it at {match[2]}"
            return [Trouble("bad-score", message, None, repair, (right,))]
        # What is due is about to be forgotten, held or not.
        if held or float(score) <= seen.at:
            return []
        message = f"{name} is to be freed later, but nobody holds it"
        out: Command = ("ZREM", structure, key)
        return [Trouble("unique-drift", message, None, "take it out", (out,))]

    return PlainCase(shard, ("lapse", job_type, key), judge)


def fading_record(shard: Shard, field: bytes) -> PlainCase:
    """A small record: is it swept when its time is over, and not before?"""
    fading = shard.keys.of_shard("fading")

    def judge(seen: Seen) -> list[Trouble]:
        # One that cannot be read is found by its form.
        if not seen.facts or seen.facts[0] == b"unread":
            return []
        is_there, until, score = seen.facts
        if until == score:
            return []
        if not is_there:
            problem = "is to be swept, but is not there"
        elif not until:
            problem = f"is to be swept at {_shown(score)}, but has no end"
        else:
            when = f"at {_shown(score)}" if score else "never"
            problem = f"ends at {_shown(until)}, but is to be swept {when}"
        repair = "sweep it then" if until else "do not sweep it"
        right: Command = ("ZADD", fading, until, field)
        if not until:
            right = ("ZREM", fading, field)
        message = f"the record {shown(field)} {problem}"
        return [Trouble("bad-score", message, None, repair, (right,))]

    return PlainCase(shard, ("kept", field), judge)


def next_look(shard: Shard, types: Container[str], member: bytes) -> PlainCase:
    """When maintenance looks at a type, or (a colon) at the shard: can it?"""
    agenda = shard.keys.of_shard("agenda")

    def judge(seen: Seen) -> list[Trouble]:
        if not seen.facts:
            return []
        score, is_type = seen.facts
        is_known = (
            is_type == b"1"
            or member == b":"
            or member.decode("utf-8", "replace") in types
        )
        if not is_known:
            message = f"maintenance is to look at {shown(member)}, which is not a type"
            out: Command = ("ZREM", agenda, member)
            return [Trouble("unknown-type", message, None, "take it out", (out,))]
        if is_agenda_time(float(score)):
            return []
        message = f"maintenance is to look at {shown(member)} at {_shown(score)}, "
        message += "which is not a time"
        now: Command = ("ZADD", agenda, 0, member)
        return [Trouble("bad-score", message, None, "have it looked at now", (now,))]

    return PlainCase(shard, ("agenda", member), judge)


def listed_dependant(shard: Shard, key: Key, job_id: int) -> PlainCase:
    """A job that waits for another: is it on that one's list in its turn?"""

    def judge(seen: Seen) -> list[Trouble]:
        if not seen.facts or float(seen.facts[0]) == job_id:
            return []
        message = f"job {job_id} is in {key.text} with the score "
        message += f"{_shown(seen.facts[0])}, where {job_id} is right"
        right: Command = ("ZADD", f"{shard.keys.root}:{key.text}", job_id, job_id)
        repair = f"set it to {job_id}"
        return [Trouble("bad-score", message, job_id, repair, (right,))]

    return PlainCase(shard, ("entry", key.text, str(job_id)), judge)


def log_line(shard: Shard, job_id: int, line: bytes) -> PlainCase:
    """A line of a job's log that cannot be read."""

    def judge(seen: Seen) -> list[Trouble]:
        if not seen.facts:
            return []
        message = f"the log of job {job_id} has a line that cannot be read: "
        out: Command = ("LREM", shard.keys.log(job_id), 0, line)
        return [
            Trouble("bad-value", message + shown(line), job_id, "take it out", (out,))
        ]

    return PlainCase(shard, ("entry", f"job:{job_id}:log", line), judge)


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
        if not seen.facts:
            return []
        match = _OUTBOX.fullmatch(field)
        if match and seen.facts[0] in _NEWS[match["kind"] or match["rest"]]:
            return []
        # A job that was to receive it is found waiting for nothing, and mended then.
        message = f"the outbox has {shown(field)}"
        message += f" with {shown(seen.facts[0])}" if match else ""
        message += ", which upkeep cannot carry to any job"
        out: Command = ("HDEL", shard.keys.of_shard("outbox"), field)
        return [Trouble("stray-entry", message, None, "take it out", (out,))]

    return PlainCase(shard, ("entry", "outbox", field), judge)


def _shown(text: bytes) -> str:
    """Return text for a message, whatever it is."""
    return text.decode("utf-8", "backslashreplace")
