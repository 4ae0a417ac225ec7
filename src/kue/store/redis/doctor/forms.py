"""
What members, values and scores look like, as Kue writes them.

For structures that hold no jobs, and so are checked by no rule about those.  Most of
what they hold can be forgotten: a worker says it again, a sum is counted again.  What
was said by a person is left to one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from kue.model.job import Error
from kue.model.names import check_name, quote, unquote
from kue.model.settings import LEASE_MS
from kue.store.redis.doctor.case import PlainCase
from kue.store.redis.doctor.trouble import Trouble
from kue.store.redis.record import PauseDetails
from kue.store.values import AuditEntry, LogLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.redis.doctor.keyspace import Key
    from kue.store.redis.doctor.shard import Command, Seen, Shard

#: A hash's value, or a score.
Value: TypeAlias = bytes | float

#: Times, counts and numbers of jobs: no larger than a score holds exactly.
_WHOLE = re.compile(rb"\d{1,15}")
_CURSOR = re.compile(rb"\d{1,20}")
_ORDERS = re.compile(rb"[a-z]+=\d{1,15}( [a-z]+=\d{1,15})*")
_LIMITS = re.compile(rb"(?:(?:\d{1,15}|-) ){3}(?:\d{1,15}|-)")
_ANSWER = re.compile(rb"\d{1,15}:\d{1,15} [-\d,!@]*")
_BUCKETS = re.compile(rb"\d{1,15}=\d{1,15}(?: \d{1,15}=\d{1,15})*")
_MARK = re.compile(rb"[0-9a-f]{12}")
_LISTENER = re.compile(rb"[0-9a-f]{16}")
_ROOM = re.compile(rb"[a-z]{1,40}")
_META = {
    b"schema": re.compile(rb"[1-9]\d{0,5}"),
    b"shards": re.compile(rb"[1-9]\d{0,5}"),
    b"id": re.compile(rb"[0-9a-f]{16}"),
    b"pauses": _CURSOR,
    b"types": _CURSOR,
    b"rolling": re.compile(rb"\d{1,15}:\d{1,20}"),
    **dict.fromkeys((b"swept", b"graced", b"idle", b"rolled", b"told"), _WHOLE),
}
_PRUNED = re.compile(rb"\d{1,15}:\d{1,15}:\d{1,15}")
_SEARCHED = re.compile(rb"\d{1,20}:\d{1,15}")
#: How much is left of a rate: never more than its limit.
_MAX_RATE = 1e15

_read_line = msgspec.json.Decoder(LogLine).decode
_read_act = msgspec.json.Decoder(AuditEntry).decode
_read_error = msgspec.json.Decoder(Error).decode
_read_object = msgspec.json.Decoder(dict).decode
_read_said = msgspec.json.Decoder(PauseDetails).decode
#: Of meta, what a person must look at; the rest maintenance writes again.
_LAYOUT = frozenset({b"schema", b"shards", b"id"})


class Form(NamedTuple):
    """What one structure holds."""

    is_sound: Callable[[bytes, Value], bool]
    #: What no form fits may be taken out.
    is_spare: bool = True


def form_of(key: Key) -> Form | None:
    """Return the form of what *key* holds; None if other rules are about it."""
    if key.kind in ("shard", "type"):
        return FORMS.get(key.name)
    return FORMS.get(key.kind)


def odd_entry(shard: Shard, key: Key, form: Form, member: bytes) -> PlainCase:
    """An entry that does not look as Kue writes it."""

    def judge(seen: Seen) -> list[Trouble]:
        if not seen.facts:
            return []
        [text] = seen.facts
        value: Value = float(text) if key.redis_type == "zset" else text
        if form.is_sound(member, value):
            return []
        trouble = _trouble(shard, key, member, text, is_spare=form.is_spare)
        if key.name == "workers" and is_name(member):
            # Long enough for a live worker to renew it before its runs are taken back.
            until = seen.at + LEASE_MS
            lease: Command = ("ZADD", shard.keys.of_shard("workers"), until, member)
            repair = "give it a lease from now on"
            return [msgspec.structs.replace(trouble, repair=repair, commands=(lease,))]
        return [trouble]

    return PlainCase(shard, ("entry", key.text, member), judge)


def _trouble(
    shard: Shard, key: Key, member: bytes, text: bytes, *, is_spare: bool
) -> Trouble:
    name = f"{shard.keys.root}:{key.text}"
    what = shown(member)
    if key.redis_type != "set":
        joint = "with the score" if key.redis_type == "zset" else "with the value"
        what += f" {joint} {shown(text)}"
    message = f"key {name} has {what}, which Kue does not write"
    if key.name == "meta" and member in _LAYOUT:
        is_spare = False
    if not is_spare:
        message += f"; look at it with {_READS[key.redis_type]} {name}"
        return Trouble("bad-value", message)
    out: Command = (_OUT[key.redis_type], name, member)
    return Trouble("bad-value", message, None, "take it out", (out,))


_OUT = {"hash": "HDEL", "zset": "ZREM", "set": "SREM"}
_READS = {"hash": "HGETALL", "zset": "ZRANGE 0 -1 WITHSCORES", "set": "SMEMBERS"}


def shown(text: bytes) -> str:
    """Return bytes for a message: quoted, and cut short."""
    return ascii(text[:60].decode("utf-8", "backslashreplace"))


def is_name(text: bytes) -> bool:
    """Return whether *text* is a name as `quote` writes it, and not an empty one."""
    try:
        name = text.decode()
        return quote(check_name(unquote(name), what="a name")) == name
    except ValueError:
        return False


def is_time(value: Value) -> bool:
    """Return whether a score, or a text, is a time or a count."""
    if isinstance(value, float):
        return 0 <= value < 10**15 and value.is_integer()
    return _WHOLE.fullmatch(value) is not None


def is_agenda_time(value: float) -> bool:
    """Return whether maintenance can look at something then; see ``lib/types.lua``."""
    return is_time(2 * value)


def _fits(pattern: re.Pattern[bytes]) -> Callable[[Value], bool]:
    return lambda value: isinstance(value, bytes) and bool(pattern.fullmatch(value))


def _reads(decode: Callable[[bytes], object], text: bytes) -> bool:
    try:
        decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _named(is_value: Callable[[Value], bool]) -> Callable[[bytes, Value], bool]:
    return lambda member, value: is_name(member) and is_value(value)


def _meta(member: bytes, value: Value) -> bool:
    kind, _, rest = member.partition(b":")
    if kind == b"pruned":
        return is_name(rest.partition(b":")[2]) and _fits(_PRUNED)(value)
    return member in _META and _fits(_META[member])(value)


def _worker(member: bytes, value: Value) -> bool:
    # A worker that left has the time it did, below 0.
    return is_name(member) and isinstance(value, float) and is_time(abs(value))


def _info(member: bytes, value: Value) -> bool:
    return is_name(member) and _reads(_read_object, bytes_of(value))


def _stacks(member: bytes, value: Value) -> bool:
    worker, colon, word = member.partition(b":")
    is_known = word == b"at" and is_time(value) if colon else True
    return is_name(worker) and is_known


def _claim(member: bytes, value: Value) -> bool:
    worker, _, lane = member.partition(b":")
    return is_name(worker) and is_name(lane) and is_time(value)


def _pause(member: bytes, value: Value) -> bool:
    until, tab, said = bytes_of(value).partition(b"\t")
    is_whose = not member or is_name(member.removeprefix(b":"))
    is_until = not until or is_time(until)
    return is_whose and bool(tab) and is_until and _reads(_read_said, said)


def _kept(member: bytes, value: Value) -> bool:
    room, _, name = member.partition(b":")
    until, tab, text = bytes_of(value).partition(b"\t")
    is_until = not until or is_time(until)
    is_named = bool(_ROOM.fullmatch(room)) and is_name(name)
    return is_named and bool(tab) and is_until and _reads(bytes.decode, text)


def _act(member: bytes, value: Value) -> bool:
    at, _, rest = member.partition(b"\t")
    _, tab, said = rest.partition(b"\t")
    return is_time(at) and bool(tab) and is_time(value) and _reads(_read_act, said)


def _search(member: bytes, value: Value) -> bool:
    kind, _, name = member.partition(b":")
    form = {b"type": _SEARCHED, b"worker": _WHOLE}.get(kind)
    return form is not None and is_name(name) and _fits(form)(value)


def _counter(member: bytes, value: Value) -> bool:
    name, _, what = member.rpartition(b":")
    if what in (b"added", b"complete", b"failed", b"run_ms"):
        return is_name(name) and is_time(value)
    if what in (b"waits", b"runs"):
        return is_name(name) and _fits(_BUCKETS)(value)
    # Of another release, which knows what it is.
    return is_name(name) and is_name(what)


def _rate(member: bytes, value: Value) -> bool:
    if member == b"at":
        return is_time(value)
    try:
        return member == b"left" and 0 <= float(bytes_of(value)) <= _MAX_RATE
    except ValueError:
        return False


def _cause(member: bytes, value: Value) -> bool:
    mark, colon, word = member.partition(b":")
    if not _MARK.fullmatch(mark):
        # Of no error: found when errors are counted.
        return True
    if not colon:
        return is_time(value)
    at, _, rest = bytes_of(value).partition(b"\t")
    job_id, _, cause = rest.partition(b"\t")
    is_said = not cause or _reads(_read_error, cause)
    return word == b"last" and is_time(at) and is_time(job_id) and is_said


def _progress(member: bytes, value: Value) -> bool:
    percent, _, data = bytes_of(value).partition(b"\t")
    is_percent = is_time(percent) and int(percent) <= 100
    # Whether there is such a job, other rules see.
    return is_percent and _reads(msgspec.json.decode, data)


def is_log_line(text: bytes) -> bool:
    """Return whether a line of a job's log can be read."""
    return _reads(_read_line, text)


def bytes_of(value: Value) -> bytes:
    """Return a hash's value as what it is."""
    assert isinstance(value, bytes)
    return value


FORMS = {
    "meta": Form(_meta),
    "types": Form(lambda member, _: is_name(member)),
    "workers": Form(_worker),
    "info": Form(_info),
    "orders": Form(_named(_fits(_ORDERS))),
    "stacks": Form(_stacks),
    "claims": Form(_claim),
    "producers": Form(lambda _, value: _fits(_ANSWER)(value)),
    "search": Form(_search),
    "stats": Form(_counter),
    "hours": Form(_counter),
    "listeners": Form(lambda m, at: bool(_LISTENER.fullmatch(m)) and is_time(at)),
    "watched": Form(lambda member, at: is_time(member) and is_time(at)),
    "rate": Form(_rate),
    "wake": Form(lambda member, score: member == b"0" and score == 0),
    "causes": Form(_cause),
    "progress": Form(_progress),
    "limits": Form(_named(_fits(_LIMITS)), is_spare=False),
    "paused": Form(_pause, is_spare=False),
    "kept": Form(_kept, is_spare=False),
    "acts": Form(_act, is_spare=False),
    "routine": Form(_act, is_spare=False),
    "refusals": Form(_act, is_spare=False),
}
