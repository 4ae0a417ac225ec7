"""Rules about keys, counters and entries of structures: what is not about one job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kue.model.names import unquote
from kue.model.schedule import Schedule
from kue.model.settings import LEASE_MS
from kue.store.redis.doctor.job_record import FINAL_PLACES
from kue.store.redis.doctor.key_parsing import KnownKey, is_number
from kue.store.redis.doctor.repairs import set_running, visit_type
from kue.store.redis.doctor.rule import Rule, Violation, apply_rules
from kue.store.redis.doctor.shard_access import Inspection, text_of
from kue.store.redis.doctor.value_rules import (
    LAYOUT_FIELDS,
    is_agenda_time,
    is_name,
    is_time,
    value_rule_of,
)
from kue.store.redis.keys import LIVE_CHUNK, MAX_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.store.redis.doctor.rule import RedisFinding
    from kue.store.redis.doctor.shard_access import RedisCommand, Shard, Subject

#: Structures whose entries are all inspected, and as which subject.
INSPECTED = {
    "unique": "unique",
    "lapse": "lapse",
    "outbox": "entry",
    "schedules": "schedule",
    "due": "schedule",
    "kept": "kept",
    "fading": "kept",
    "agenda": "agenda",
}
#: The subjects of everything that is checked; others are just entries.
_SUBJECTS = {
    **INSPECTED,
    "key": "keys",
    "unknown key": "keys",
    "ids": "value",
    "fence": "value",
    "groups": "groups",
    "limit keys": "limit key",
    "limit rate": "value",
    "lost": "value",
}
_HOLDER = re.compile(r"(\d+):(\d+)(?::\d+)?", re.ASCII)
#: What maintenance still has to do for dependants: see ``lib/dependants.lua``.
_OUTBOX = re.compile(
    rb"(?P<kind>link|unlink|end|join|root|drop):\d+:\d+|(?P<rest>rest|left|hold):\d+"
)
#: See ``lib/named_limits.lua``.
_RATE_STATE = re.compile(rb"w\d{1,15}:\d{1,15}(,\d{1,15}:\d{1,15})*|b\d{1,15}:\d{1,15}")
_ENDS = frozenset({b"complete", b"failed", b"cancelled", b"removed"})
_NOTHING = frozenset({b""})
_NOTICES = {
    **dict.fromkeys((b"unlink", b"join", b"root", b"drop", b"left"), _NOTHING),
    b"link": frozenset({b"0", b"1"}),
    b"end": _ENDS,
    b"rest": _ENDS,
}
#: The highest values of counters: a score has 41 bits for a sequence number, and a
#: fence past 2^53 would not be exact.
_HIGHEST = {"ids": MAX_SEQUENCE, "fence": 2**53 - 1}
_DIGITS = 16
_CHUNK_BYTES = LIVE_CHUNK // 8
_REMOVES = {"hash": "HDEL", "zset": "ZREM", "set": "SREM"}
_READS = {"hash": "HGETALL", "zset": "ZRANGE 0 -1 WITHSCORES", "set": "SMEMBERS"}
#: Subjects that are checked even if there are no facts about them.
_EXPECTED = frozenset({"ids", "fence", "listed type", "visited type"})

_decode_schedule = msgspec.json.Decoder(Schedule).decode


class Entry(NamedTuple):
    """An entry of a structure, a key or a counter, and the facts about it."""

    shard: Shard
    #: What rules look at: a structure, or another word of `ENTRY_RULES`.
    checked_as: str
    key: KnownKey
    member: bytes = b""
    #: What the rule compares it with: a number, the types, a reason.
    expected: Any = None
    digest: bytes = b""
    facts: list[bytes] = []
    now: int = 0

    @property
    def subject(self) -> Subject:
        """What is inspected."""
        kind, key = _SUBJECTS.get(self.checked_as, "entry"), self.key
        if kind == "keys":
            return (kind, self.member or key.text, key.redis_type)
        if kind in ("entry", "value"):
            return (kind, key.text, self.member)
        if kind == "limit key":
            return (kind, key.name, self.member)
        return (kind, *filter(None, [key.job_type]), self.member)

    async def check(self) -> list[RedisFinding]:
        [inspection] = await self.shard.inspect([self.subject])
        return self.findings(inspection)

    def findings(self, inspection: Inspection) -> list[RedisFinding]:
        """Return what is wrong with the entry, by the facts of one moment."""
        if not inspection.facts and self.checked_as not in _EXPECTED:
            return []
        _, _, digest, facts, now = inspection
        entry = self._replace(digest=digest, facts=facts, now=now)
        return list(apply_rules(ENTRY_RULES, entry, self.checked_as))

    @property
    def inspection(self) -> Inspection:
        return Inspection(self.shard, self.subject, self.digest, self.facts, self.now)

    @property
    def key_name(self) -> str:
        return self.shard.keys.of_shard(self.key.text)

    @property
    def job_id(self) -> int | None:
        if self.checked_as == "dependant":
            return int(self.member)
        is_of_job = self.key.kind in ("record", "part")
        is_of_job = is_of_job and self.checked_as in ("key", "item", "value")
        return self.key.number if is_of_job else None

    @property
    def title(self) -> str:
        """What messages begin with."""
        if self.checked_as not in ("unique", "lapse"):
            return ""
        return f"unique key {unquote(text_of(self.member))!r} of {self.type_name!r} "

    @property
    def type_name(self) -> str:
        return unquote(self.key.job_type)

    @property
    def removal(self) -> RedisCommand:
        return (_REMOVES[self.key.redis_type], self.key_name, self.member)


def shown(value: bytes) -> str:
    """Return a value for a message: quoted, and cut short."""
    return ascii(text_of(value[:60]))


# -- keys ----------------------------------------------------------------------


def _wrong_type(entry: Entry) -> Iterator[Violation]:
    kind, right = text_of(entry.facts[1]), entry.key.redis_type
    if kind != right:
        problem = f"key {entry.key_name} is a {kind}, but must be a {right}; "
        yield Violation(f"{problem}rename it away and check again")


def _expiring(entry: Entry) -> Iterator[Violation]:
    if entry.facts[2] == b"1" and not entry.key.may_expire:
        name = entry.key_name
        problem = f"key {name} has a time to live, after which it would be lost"
        yield Violation(problem, "keep it", (("PERSIST", name),))


def _unknown_key(entry: Entry) -> Iterator[Violation]:
    name, why = entry.key_name, entry.expected
    yield Violation(f"key {name} {why}; delete it if it is not needed")


# -- types, groups, counters ---------------------------------------------------


def _unknown_type(entry: Entry) -> Iterator[Violation]:
    if not entry.facts:
        job_type = text_of(entry.member)
        problem = f"type {unquote(job_type)!r} has jobs, but is not among the types"
        visit = visit_type(entry.shard.keys, job_type)
        add = ("SADD", entry.key_name, job_type)
        yield Violation(problem, "add it", (add, visit))


def _unvisited_type(entry: Entry) -> Iterator[Violation]:
    if not entry.facts:
        job_type = text_of(entry.member)
        problem = f"type {unquote(job_type)!r} has jobs, but maintenance does not look "
        visit = visit_type(entry.shard.keys, job_type)
        yield Violation(f"{problem}at it", "have it looked at", (visit,))


def _miscounted_groups(entry: Entry) -> Iterator[Violation]:
    keys, job_type = entry.shard.keys, entry.key.job_type
    for at in range(0, len(entry.facts), 5):
        group, *facts = entry.facts[at : at + 5]
        written, counted, held, score = map(text_of, facts)
        is_freed = not is_number(written) or int(written) > int(counted)
        next_held = (int(held), score) if is_freed and is_number(held) else None
        commands = set_running(keys, job_type, group, int(counted), next_held)
        problem = f"group {unquote(text_of(group))!r} of {entry.type_name!r} counts "
        problem += f"{written or 'no'} running jobs, but {counted} run"
        yield Violation(problem, f"set it to {counted}", commands)


def _counter_beyond(entry: Entry) -> Iterator[Violation]:
    text, most = _counter(entry), _HIGHEST[entry.key.name]
    if len(text) > _DIGITS or (is_number(text) and int(text) > most):
        yield _set_counter(entry, f"the highest there can be is {most}")


def _counter_behind(entry: Entry) -> Iterator[Violation]:
    text = _counter(entry)
    if len(text) <= _DIGITS and (not is_number(text) or int(text) < entry.expected):
        user = {"ids": "a job", "fence": "a run"}[entry.key.name]
        yield _set_counter(entry, f"{user} has {entry.expected}")


def _counter(entry: Entry) -> str:
    return text_of(entry.facts[0]) if entry.facts else "0"


def _set_counter(entry: Entry, why: str) -> Violation:
    highest = entry.expected
    problem = f"the last of {entry.key.name} is {_counter(entry):.60}, but {why}"
    right = ("SET", entry.key_name, highest)
    return Violation(problem, f"set it to {highest}", (right,))


def _lost_too_soon(entry: Entry) -> Iterator[Violation]:
    [bitmap], last = entry.facts, entry.expected
    # A number: the first bit of a bitmap is the highest.
    value = int.from_bytes(bitmap[:_CHUNK_BYTES].ljust(_CHUNK_BYTES, b"\0"))
    unused = max(0, (entry.key.number + 1) * LIVE_CHUNK - last - 1)
    right = (value >> unused << unused).to_bytes(_CHUNK_BYTES).rstrip(b"\0")
    if right != bitmap.rstrip(b"\0"):
        problem = f"key {entry.key_name} marks jobs as removed that were never added"
        yield Violation(problem, "unmark them", (("SET", entry.key_name, right),))


# -- unique keys ---------------------------------------------------------------


def _free_unique(entry: Entry) -> Iterator[Violation]:
    held, standing, has_key, will_lapse = map(text_of, entry.facts)
    match = _HOLDER.fullmatch(held)
    if match is None:
        problem = f"{held!r}, which is not a job"
    elif standing and standing not in FINAL_PLACES:
        if has_key == "1" or standing == "nowhere":
            return
        problem = f"job {match[1]}, which has another"
    elif int(match[2]) > entry.now or will_lapse == "1":
        return
    else:
        how = standing or "gone"
        problem = f"job {match[1]}, which is {how}, and its time is over"
    yield Violation(f"is held by {problem}", "free it", (entry.removal,))


def _bad_lapse(entry: Entry) -> Iterator[Violation]:
    score, held = map(text_of, entry.facts)
    match = _HOLDER.fullmatch(held)
    if match and not is_time(float(score)):
        problem = f"is to be freed at {score}, which is not a time"
        right = ("ZADD", entry.key_name, match[2], entry.member)
        yield Violation(problem, f"free it at {match[2]}", (right,))


def _needless_lapse(entry: Entry) -> Iterator[Violation]:
    score, held = entry.facts
    # What is due is about to be removed, held or not.
    if not held and float(score) > entry.now:
        problem = "is to be freed later, but nobody holds it"
        yield Violation(problem, "take it out", (entry.removal,))


# -- named limits --------------------------------------------------------------


def _needless_limit_key(entry: Entry) -> Iterator[Violation]:
    if entry.facts[1] == b"0":
        problem = f"limit {unquote(entry.key.name)!r} lists the key "
        problem += f"{shown(entry.member)}, under which no job runs or is held"
        yield Violation(problem, "take it out", (entry.removal,))


def _bad_rate(entry: Entry) -> Iterator[Violation]:
    if not _RATE_STATE.fullmatch(entry.facts[0]):
        problem = f"key {entry.key_name} has {shown(entry.facts[0])}, which Kue does "
        forget = ("DEL", entry.key_name)
        yield Violation(f"{problem}not write", "begin again", (forget,))


# -- small records, maintenance, outbox ----------------------------------------


def _wrong_expiry(entry: Entry) -> Iterator[Violation]:
    # A record that cannot be read violates its value rule.
    if entry.facts[0] == b"unread" or entry.facts[1] == entry.facts[2]:
        return
    is_there, until, score = map(text_of, entry.facts)
    if not is_there:
        problem = "is to be swept, but is not there"
    elif not until:
        problem = f"is to be swept at {score}, but has no end"
    else:
        when = f"at {score}" if score else "never"
        problem = f"ends at {until}, but is to be swept {when}"
    fading = entry.shard.keys.of_shard("fading")
    problem = f"the record {shown(entry.member)} {problem}"
    if until:
        right = ("ZADD", fading, until, entry.member)
        yield Violation(problem, "sweep it then", (right,))
    else:
        out = ("ZREM", fading, entry.member)
        yield Violation(problem, "do not sweep it", (out,))


def _wrong_visit(entry: Entry) -> Iterator[Violation]:
    if _is_visited(entry) and not is_agenda_time(float(entry.facts[0])):
        at = text_of(entry.facts[0])
        problem = f"maintenance is to look at {shown(entry.member)} at {at}, which is "
        visit = ("ZADD", entry.key_name, 0, entry.member)
        yield Violation(f"{problem}not a time", "have it looked at now", (visit,))


def _needless_visit(entry: Entry) -> Iterator[Violation]:
    if not _is_visited(entry):
        what = shown(entry.member)
        problem = f"maintenance is to look at {what}, which is not a type"
        yield Violation(problem, "take it out", (entry.removal,))


def _is_visited(entry: Entry) -> bool:
    """Return whether it is a type, or (a colon) the rest of the shard."""
    is_known = entry.facts[1] == b"1" or entry.member == b":"
    return is_known or entry.member.decode("utf-8", "replace") in entry.expected


def _bad_notice(entry: Entry) -> Iterator[Violation]:
    [value], match = entry.facts, _OUTBOX.fullmatch(entry.member)
    kind: bytes = (match["kind"] or match["rest"]) if match else b""
    is_hold = kind == b"hold" and is_number(text_of(value))
    if is_hold or value in _NOTICES.get(kind, ()):
        return
    # A job that it was meant for is found waiting for nothing, and repaired then.
    what = shown(entry.member) + (f" with {shown(value)}" if match else "")
    problem = f"the outbox has {what}, which maintenance cannot carry to any job"
    yield Violation(problem, "take it out", (entry.removal,))


# -- schedules -----------------------------------------------------------------


def _wrong_due(entry: Entry) -> Iterator[Violation]:
    is_there, text, due = entry.facts
    name, key = text_of(entry.member), entry.shard.keys.of_shard("due")
    schedule = _read_schedule(text)
    next_at = schedule.next_at if schedule else None
    removal = ("ZREM", key, entry.member)
    if is_there == b"0":
        problem = f"a schedule {name!r} is to fire, but there is none"
        yield Violation(problem, "take it out", (removal,))
    elif next_at is not None and (not due or float(due) != next_at):
        what = f"is to fire at {text_of(due)}" if due else "is not to fire"
        problem = f"the schedule {name!r} {what}, but its next time is {next_at}"
        right = ("ZADD", key, next_at, entry.member)
        yield Violation(problem, f"have it fire at {next_at}", (right,))
    elif schedule and next_at is None and due:
        problem = f"the schedule {name!r} is to fire, but is paused or has ended"
        yield Violation(problem, "take it out", (removal,))


def _bad_schedule(entry: Entry) -> Iterator[Violation]:
    if entry.facts[0] == b"1" and _read_schedule(entry.facts[1]) is None:
        yield Violation(f"the schedule {text_of(entry.member)!r} cannot be read")


def _read_schedule(text: bytes) -> Schedule | None:
    try:
        return _decode_schedule(text)
    except (ValueError, RecursionError):
        return None


# -- members and values --------------------------------------------------------


def _not_a_job(entry: Entry) -> Iterator[Violation]:
    where = f"job {text_of(entry.member)} is in {entry.key.text}"
    problem = f"{where}, but there can be no such job here"
    yield Violation(problem, "take it out", (entry.removal,))


def _wrong_dependant(entry: Entry) -> Iterator[Violation]:
    job_id, score = int(entry.member), text_of(entry.facts[0])
    if float(score) != job_id:
        problem = f"job {job_id} is in {entry.key.text} with the score {score}, where "
        right = ("ZADD", entry.key_name, job_id, job_id)
        yield Violation(f"{problem}{job_id} is right", f"set it to {job_id}", (right,))


def _bad_item(entry: Entry) -> Iterator[Violation]:
    what = "line" if entry.key.name == "log" else "chunk"
    problem = f"the {entry.key.name} of job {entry.key.number} has a {what} "
    problem += "that cannot be read: "
    out = ("LREM", entry.key_name, 0, entry.member)
    yield Violation(problem + shown(entry.member), "take it out", (out,))


def _bad_value(entry: Entry) -> Iterator[Violation]:
    key, member, [text] = entry.key, entry.member, entry.facts
    rule = value_rule_of(key)
    value = float(text) if key.redis_type == "zset" else text
    if rule is None or rule.is_valid(member, value):
        return
    what = shown(member)
    if key.redis_type != "set":
        what += f" with the {'score' if key.redis_type == 'zset' else 'value'} "
        what += shown(text)
    problem = f"key {entry.key_name} has {what}, which Kue does not write"
    if not rule.is_removable or (key.name == "meta" and member in LAYOUT_FIELDS):
        advice = f"; look at it with {_READS[key.redis_type]} {entry.key_name}"
        yield Violation(problem + advice)
    elif key.name == "workers" and is_name(member):
        # Long enough for a live worker to renew it before its runs are reclaimed.
        lease = ("ZADD", entry.key_name, entry.now + LEASE_MS, member)
        yield Violation(problem, "give it a lease from now on", (lease,))
    else:
        yield Violation(problem, "take it out", (entry.removal,))


#: By what is checked: structures that are inspected, and the words of the functions
#: above that return suspects.
ENTRY_RULES = (
    Rule[Entry]("wrong-type", ("key",), _wrong_type),
    Rule[Entry]("expiring-key", ("key",), _expiring),
    Rule[Entry]("unknown-key", ("unknown key",), _unknown_key),
    Rule[Entry]("unknown-type", ("listed type",), _unknown_type),
    Rule[Entry]("unknown-type", ("visited type",), _unvisited_type),
    Rule[Entry]("group-drift", ("groups",), _miscounted_groups),
    Rule[Entry]("bad-value", ("ids", "fence"), _counter_beyond),
    Rule[Entry]("ids-behind", ("ids",), _counter_behind),
    Rule[Entry]("fence-behind", ("fence",), _counter_behind),
    Rule[Entry]("count-drift", ("lost",), _lost_too_soon),
    Rule[Entry]("unique-drift", ("unique",), _free_unique),
    Rule[Entry]("bad-score", ("lapse",), _bad_lapse),
    Rule[Entry]("unique-drift", ("lapse",), _needless_lapse),
    Rule[Entry]("bad-score", ("kept", "fading"), _wrong_expiry),
    Rule[Entry]("bad-score", ("agenda",), _wrong_visit),
    Rule[Entry]("unknown-type", ("agenda",), _needless_visit),
    Rule[Entry]("stray-entry", ("outbox",), _bad_notice),
    Rule[Entry]("stray-entry", ("limit keys",), _needless_limit_key),
    Rule[Entry]("bad-value", ("limit rate",), _bad_rate),
    Rule[Entry]("schedule-drift", ("schedules", "due"), _wrong_due),
    Rule[Entry]("bad-record", ("schedules", "due"), _bad_schedule),
    Rule[Entry]("no-record", ("not a job",), _not_a_job),
    Rule[Entry]("bad-score", ("dependant",), _wrong_dependant),
    Rule[Entry]("bad-value", ("item",), _bad_item),
    Rule[Entry]("bad-value", ("value",), _bad_value),
)
