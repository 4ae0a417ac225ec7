"""
Rules about values: what members, values and scores look like, as Kue writes them.

For structures that do not hold jobs, and to which no rule about jobs applies.  Most of
their entries can be removed: a worker reports them again, or they are counted again.
What a person entered is left to a person.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kue.model.failure_rule import FailureRule
from kue.model.job import Error
from kue.model.names import check_name, quote, unquote
from kue.store.redis.record import PauseDetails, chunk_at
from kue.store.step_record import is_valid as is_step
from kue.store.values import AuditEntry, LogLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.redis.doctor.key_parsing import KnownKey

#: A hash's value, or a score.
Value: TypeAlias = bytes | float

#: Of meta, what a person must repair; maintenance writes the rest again.
LAYOUT_FIELDS = frozenset({b"schema", b"shards", b"id"})
#: What is left of a rate: never more than its limit.
_MAX_RATE = 1e15


def is_name(text: bytes) -> bool:
    """Return whether *text* is a name as `quote` writes it, and not empty."""
    try:
        name = text.decode()
        return quote(check_name(unquote(name), what="a name")) == name
    except ValueError:
        return False


def is_time(value: float) -> bool:
    """Return whether a score is a time or a count."""
    return 0 <= value < 10**15 and value.is_integer()


def is_agenda_time(value: float) -> bool:
    """Return whether it can be due then: see ``lib/maintenance_agenda.lua``."""
    return is_time(2 * value)


def _is_rate(text: bytes) -> bool:
    try:
        return 0 <= float(text) <= _MAX_RATE
    except ValueError:
        return False


def _decodes(decode: Callable[[bytes], object]) -> Callable[[bytes], bool]:
    def is_decoded(text: bytes) -> bool:
        try:
            decode(text)
        except (ValueError, RecursionError):
            return False
        return True

    return is_decoded


def _json(kind: type) -> Callable[[bytes], bool]:
    return _decodes(msgspec.json.Decoder(kind).decode)


#: Whether an item of a job's log or stream can be read.
LIST_ITEMS: dict[str, Callable[[bytes], bool]] = {
    "log": _json(LogLine),
    "stream": _decodes(partial(chunk_at, 0)),
}
_is_error = _json(Error)
#: What forms are made of: a regular expression, and a check of what it matches.
_PARTS: dict[str, tuple[str, Callable[[bytes], bool]]] = {
    "name": ("[^:]*", is_name),
    # Times, counts and numbers of jobs: no larger than a score holds exactly.
    "time": (r"\d{1,15}", lambda _: True),
    "cursor": (r"\d{1,20}", lambda _: True),
    "percent": (r"\d{1,15}", lambda text: int(text) <= 100),
    "rate": (".*", _is_rate),
    "text": (".*", _decodes(bytes.decode)),
    "json": (".*", _decodes(msgspec.json.decode)),
    "object": (".*", _json(dict)),
    "pause": (".*", _json(PauseDetails)),
    "act": (".*", _json(AuditEntry)),
    "failures": (".*", _json(FailureRule)),
    # Of workers: only a score.
    "lease": (".*", lambda _: False),
    "rank": (".*", lambda _: False),
    "error": (".*", lambda text: not text or _is_error(text)),
}
_PART = re.compile(r"<(\w+)>")
#: Forms of scores.
_SCORES: dict[str, Callable[[float], bool]] = {
    "<time>": is_time,
    # A worker that deregistered has the time when it did, below 0.
    "<lease>": lambda score: is_time(abs(score)),
    "0": lambda score: score == 0,
    "<rank>": lambda score: abs(score) < 2**53 and score.is_integer(),
}


class ValueRule:
    """What the entries of one structure look like."""

    def __init__(self, *forms: tuple[str, str], is_removable: bool = True) -> None:
        self._forms = [
            (_form(member), _SCORES.get(value, is_time), _form(value))
            for member, value in forms
        ]
        #: Entries that are not valid may be removed.
        self.is_removable = is_removable

    def is_valid(self, member: bytes, value: Value) -> bool:
        """Return whether an entry is as Kue writes it: the first form counts."""
        for is_member, is_score, is_value in self._forms:
            if is_member(member):
                if isinstance(value, float):
                    return is_score(value)
                return is_value(value)
        return False


def _form(text: str) -> Callable[[bytes], bool]:
    """Return a check of *text*, a regular expression with parts: ``<name>``."""
    checks = [_PARTS[name][1] for name in _PART.findall(text)]
    groups = _PART.sub(lambda part: f"({_PARTS[part[1]][0]})", text)
    pattern = re.compile(groups.encode(), re.DOTALL)

    def fits(value: bytes) -> bool:
        match = pattern.fullmatch(value)
        return match is not None and all(
            part is None or is_fine(part)
            for is_fine, part in zip(checks, match.groups(), strict=True)
        )

    return fits


def value_rule_of(key: KnownKey) -> ValueRule | None:
    """Return the rule about what *key* holds; None if other rules are about it."""
    name = key.name if key.kind in ("shard", "type", "part") else key.kind
    return VALUE_RULES.get(name)


class _StepRule(ValueRule):
    """What the record of a job's steps looks like: `kue.store.step_record`."""

    def __init__(self) -> None:
        # A step without its result would be done again: a person has to decide.
        super().__init__(is_removable=False)

    def is_valid(self, member: bytes, value: Value) -> bool:
        try:
            return is_step(member.decode(), bytes(value).decode())  # type: ignore[arg-type]
        except UnicodeDecodeError:
            return False


_COUNTS = ValueRule(
    ("<name>:(?:added|complete|failed|run_ms|work_ms)", "<time>"),
    ("<name>:(?:waits|runs)", "<time>=<time>(?: <time>=<time>)*"),
    # Possibly written by another release.
    ("<name>:<name>", ".*"),
)
#: The rule of a named limit: concurrency, rate, per, burst.
_RULE = "(?:<time> - <time> -|- <time> <time> (?:<time>|-))"
#: Of a type's limits: the cap, and in which order jobs start.
_CAP = "(?:<time>|-) (?:refuse|wait|drop-oldest) <time>"
_ORDER = r"(?:1|-) (?:<time>|-) (?:-|(?:\{[^{}]+\}\d{1,2})+)"
_ACTS = ValueRule((r"<time>\t[^\t]*\t<act>", "<time>"), is_removable=False)
#: The forms of members and of their values or scores, by structure.
VALUE_RULES = {
    "meta": ValueRule(
        ("schema|shards", r"[1-9]\d{0,5}"),
        ("id", "[0-9a-f]{16}"),
        ("pauses|types", "<cursor>"),
        ("rolling", "<time>:<cursor>"),
        ("swept|graced|idle|rolled|told|quiet|work_ms", "<time>"),
        ("pruned:[^:]*:<name>", "<time>:<time>:<time>"),
    ),
    "types": ValueRule(("<name>", ".*")),
    "steps": _StepRule(),
    "workers": ValueRule(("<name>", "<lease>")),
    "info": ValueRule(("<name>", "<object>")),
    "orders": ValueRule(("<name>", "[a-z]+=<time>(?: [a-z]+=<time>)*")),
    "stacks": ValueRule(("<name>:at", "<time>"), ("<name>", ".*")),
    "claims": ValueRule(("<name>:<name>", "<time>")),
    "producers": ValueRule((".*", "<time>:<time> [-\\d,!~@#]*")),
    "search": ValueRule(
        ("type:<name>", "<cursor>:<time>"), ("worker:<name>", "<time>")
    ),
    "stats": _COUNTS,
    "hours": _COUNTS,
    "flow": ValueRule(
        ("(?:gone_)?(?:complete|failed|cancelled)", "<time>"),
        (r"at:\d{1,5}|linked", ""),
    ),
    "listeners": ValueRule(("[0-9a-f]{16}", "<time>")),
    "watched": ValueRule(("<time>", "<time>")),
    "rate": ValueRule(("at", "<time>"), ("left", "<rate>")),
    "wake": ValueRule(("0", "0")),
    "fair": ValueRule((r"-?\d{1,4}(?::[^:]*)?", "<rank>")),
    "causes": ValueRule(
        ("[0-9a-f]{12}", "<time>"),
        ("[0-9a-f]{12}:last", r"<time>\t<time>(?:\t<error>)?"),
        ("(?![0-9a-f]{12}:).*", ".*"),  # of no error: found when errors are counted
    ),
    # Whether there is such a job is for other rules.
    "progress": ValueRule((".*", r"<percent>\t<json>")),
    "limits": ValueRule(
        ("<name>", f"(?:(?:<time>|-) ){{3}}(?:<time>|-)(?: {_CAP} {_ORDER})?"),
        is_removable=False,
    ),
    "named_limits": ValueRule(
        ("<name>", rf"{_RULE}\t(?:{_RULE})?"), is_removable=False
    ),
    "failure_rules": ValueRule(
        ("", "<failures>"), ("<name>", "<failures>"), is_removable=False
    ),
    # id, type, when, and the token of the run.
    "failures": ValueRule(("<time>:<name>:<time>:.*", "<time>")),
    "opens": ValueRule(("<name>:[^:]*", "<time>")),
    "paused": ValueRule(
        ("", r"(?:<time>)?\t<pause>"),
        (":?<name>", r"(?:<time>)?\t<pause>"),
        is_removable=False,
    ),
    "kept": ValueRule(
        ("[a-z]{1,40}:<name>", r"(?:<time>)?\t<text>"), is_removable=False
    ),
    "acts": _ACTS,
    "routine": _ACTS,
    "refusals": _ACTS,
}
