"""
Named limits: rates and concurrency that jobs share, by name and by key.

A job names the limits it counts against, each with a key: "stripe", or "mail" of
customer 42.  All jobs with the same name and key, of any type, share it.  What a name
allows (`LimitRule`) is kept in the store and may change while jobs run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kue.model.duration import Duration, interval_words, milliseconds
from kue.model.names import check_path_name, quote, unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The most limits that one job counts against, and bytes of a name or key in a header.
MAX_LIMITS = 5
MAX_REF = 250
#: The most starts in the window of a rate, or in a burst.
MAX_NUMBER = 1_000_000
#: A sliding window is counted in so many parts: a start counts for up to a part longer.
PARTS = 100

_RATE = re.compile(r"\s*(\d+)\s*/\s*(\S.*?)\s*", re.ASCII)
_UNIT_NAMES = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h"}
_UNIT_NAMES |= {"day": "d", "week": "w"}
_START = re.compile(r"(\d+):(\d+)", re.ASCII)


class LimitRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What a limit allows: *concurrency* at once, or *rate* starts in *per* ms.

    No *per* ms, wherever they begin, have more than *rate* starts.  With *burst* it is
    a token bucket instead: so many at once, and *rate* in *per* ms on average.

    Raises:
        ValueError: It makes no sense.
    """

    concurrency: int | None = None
    rate: int | None = None
    per: int = 1000
    burst: int | None = None

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate is None):
            raise ValueError("a limit has either a concurrency or a rate")
        for name in ("concurrency", "rate", "per", "burst"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be a whole number, not {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
            if name != "per" and value > MAX_NUMBER:
                raise ValueError(
                    f"{name} must be at most {MAX_NUMBER:,}, not {value:,}"
                )
        if self.rate is None:
            if self.burst is not None:
                raise ValueError("burst is part of a rate")
            # It means nothing here: equal rules must be equal.
            msgspec.structs.force_setattr(self, "per", 1000)

    @property
    def text(self) -> str:
        """As it is stored: four numbers, "-" for none."""
        values = (self.concurrency, self.rate, self.per, self.burst)
        return " ".join("-" if value is None else str(value) for value in values)

    @classmethod
    def read(cls, text: str) -> LimitRule:
        """Parse `text`; raises `ValueError`."""
        concurrency, rate, per, burst = (
            None if part == "-" else int(part) for part in text.split(" ")
        )
        return cls(concurrency, rate, 1000 if per is None else per, burst)

    @property
    def words(self) -> str:
        """As people say it: "5 at once", "10 per second", "…, bursts of 20"."""
        if self.rate is None:
            return f"{self.concurrency:,} at once"
        bursts = "" if self.burst is None else f", bursts of {self.burst:,}"
        return f"{self.rate:,} per {interval_words(self.per)}{bursts}"

    @property
    def part(self) -> int:
        """How many ms one part of the window has."""
        return max(1, -(-self.per // PARTS))


class StoredLimit(msgspec.Struct, frozen=True):
    """A limit of the store: the rule in force, and the one that programs declare."""

    rule: LimitRule
    #: None for a limit that was set at run time only.
    declared: LimitRule | None = None

    @property
    def text(self) -> str:
        return f"{self.rule.text}\t{self.declared.text if self.declared else ''}"

    @classmethod
    def read(cls, text: str) -> StoredLimit:
        """Parse `text`; raises `ValueError`."""
        rule, _, declared = text.partition("\t")
        return cls(LimitRule.read(rule), LimitRule.read(declared) if declared else None)


class TaskLimit(NamedTuple):
    """A limit of a task: its rule, its name, and the argument that is its key."""

    rule: LimitRule
    name: str | None = None
    by: str | None = None

    def named(self, type: str) -> TaskLimit:
        """Return it with a name: else it is of this *type* alone."""
        if self.name is not None:
            return self
        kind = "concurrency" if self.rule.rate is None else "rate"
        parts = [type, kind] if self.by is None else [type, kind, self.by]
        return self._replace(name=check_path_name(".".join(parts), what="limit"))

    def key_in(self, data: Mapping[str, Any]) -> str | None:
        """
        Return the key of a job with this *data*; None: the limit does not apply.

        Raises:
            ValueError: The data has no such value, or one that cannot be a key.
        """
        if self.by is None:
            return ""
        first, *rest = self.by.split(".")
        # As it will be in the data: a dataclass is an object, a UUID is text.
        value: Any = {first: msgspec.to_builtins(data[first])} if first in data else {}
        for step in (first, *rest):
            if not isinstance(value, dict) or step not in value:
                raise ValueError(
                    f"limit {self.name!r} is by {self.by!r}, which it does not have"
                )
            value = value[step]
        if value is None:
            return None
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(
                f"{self.by!r}, the key of limit {self.name!r}, must be text or a whole "
                f"number, not {value!r}"
            )
        return str(value)


def rate(
    text: str,
    *,
    by: str | None = None,
    name: str | None = None,
    burst: int | None = None,
) -> TaskLimit:
    """
    Limit how many jobs start in a time: ``rate("10/s")``, ``rate("100/5m")``.

    Never more than that start in any such time.  Jobs over it wait, without spending
    an attempt, and do not hold back others::

        @q.task(limits=[kue.rate("10/s", by="customer_id")])

    Args:
        by: The argument, or path into it ("user.id"), whose values are limited each.
        name: Shared by all tasks that give it; else the limit is the task's.
        burst: Let so many start at once, with the rate as the average: a token bucket.

    Raises:
        ValueError, TypeError: It makes no sense.
    """
    number, per = _parse_rate(text)
    return _task_limit(LimitRule(rate=number, per=per, burst=burst), by, name)


def concurrency(
    number: int, *, by: str | None = None, name: str | None = None
) -> TaskLimit:
    """
    Limit how many jobs run at once, in all workers together; arguments as `rate`.

    Raises:
        ValueError, TypeError: It makes no sense.
    """
    return _task_limit(LimitRule(concurrency=number), by, name)


def _task_limit(rule: LimitRule, by: str | None, name: str | None) -> TaskLimit:
    if name is not None:
        check_path_name(name, what="limit")
    if by is not None and (not isinstance(by, str) or not by):
        raise TypeError(f"by names an argument of the task, not {by!r}")
    return TaskLimit(rule, name, by)


def _parse_rate(text: str) -> tuple[int, int]:
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f'a rate is written as number/time, such as "10/s" or "100/5m", '
            f"not {text!r}"
        )
    unit = _UNIT_NAMES.get(match[2], match[2])
    per: Duration = unit if unit[0].isdigit() else f"1{unit}"
    length = milliseconds(per, field="the time of a rate")
    if not length:
        raise ValueError(f"the time of a rate must be more than 0, not {match[2]!r}")
    return int(match[1]), length


# -- the limits that a job counts against --------------------------------------


def check_limited_by(limits: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """
    Return names and keys of the limits that a job counts against.

    Raises:
        TypeError, ValueError: One cannot be a name or a key, or they are too many.
    """
    if limits is None:
        return ()
    if not hasattr(limits, "items"):
        raise TypeError(
            f"limited_by maps names of limits to keys, not {limits!r}; the key of a "
            'limit without keys is ""'
        )
    found = tuple((_name(name), _key(name, key)) for name, key in limits.items())
    if len(found) > MAX_LIMITS:
        raise ValueError(
            f"a job counts against at most {MAX_LIMITS} limits, not {len(found)}"
        )
    return found


def _name(name: str) -> str:
    check_path_name(name, what="limit")
    return _short(name, f"the name of limit {name[:40]!r}")


def _key(name: str, key: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key of limit {name!r} must be text, not {key!r}")
    return _short(key, f"the key {key[:40]!r} of limit {name!r}")


def _short(text: str, what: str) -> str:
    if len(quote(text).encode("utf-8", "replace")) > MAX_REF:
        raise ValueError(f"{what} is longer than {MAX_REF} bytes")
    return text


def limit_ref(name: str, key: str) -> str:
    """Return name and key as one text, for keys of the store and headers."""
    return f"{quote(name)}:{quote(key)}"


def read_ref(ref: str) -> tuple[str, str]:
    """Return the name and key of a `limit_ref`."""
    name, _, key = ref.partition(":")
    return unquote(name), unquote(key)


# -- rates at one moment -------------------------------------------------------


class RateLevel(NamedTuple):
    """
    A rate at one moment: which starts still count, or how full its bucket is.

    ``lib/named_limits.lua`` computes the same.
    """

    rule: LimitRule
    now: int
    #: When parts of the window began, and starts in each; oldest first.
    starts: tuple[tuple[int, int], ...] = ()
    #: What the token bucket has; one start costs *per*.
    level: int = 0

    @classmethod
    def read(cls, rule: LimitRule, text: str, now: int) -> RateLevel:
        """Read what `text` has written, as it is *now*; "" for a rate not yet used."""
        if rule.burst is not None:
            return cls(rule, now, level=_bucket_level(rule, text, now))
        starts = []
        for at, count in _START.findall(text) if text.startswith("w") else ():
            # Far in the future: the clock was set back.
            if now - rule.per < int(at) + rule.part - 1 and int(at) <= now + rule.per:
                starts.append((int(at), int(count)))
        return cls(rule, now, tuple(starts))

    @property
    def left(self) -> int:
        """How many may start now."""
        if self.rule.burst is not None:
            return max(0, self.level // self.rule.per)
        return max(0, (self.rule.rate or 0) - sum(count for _, count in self.starts))

    @property
    def opens_at(self) -> int:
        """When one may start."""
        rule = self.rule
        if self.left:
            return self.now
        if rule.burst is not None:
            return self.now + -(-(rule.per - self.level) // (rule.rate or 1))
        return self.starts[0][0] + rule.part - 1 + rule.per

    def spend(self, count: int) -> RateLevel:
        """Return the level after *count* starts."""
        if self.rule.burst is not None:
            return self._replace(level=self.level - count * self.rule.per)
        began = self.now - self.now % self.rule.part
        starts = [*self.starts]
        if starts and starts[-1][0] >= began:
            began, before = starts.pop()
            count += before
        return self._replace(starts=(*starts, (began, count)))

    @property
    def text(self) -> str:
        if self.rule.burst is not None:
            return f"b{self.level}:{self.now}"
        return "w" + ",".join(f"{at}:{count}" for at, count in self.starts)

    @property
    def kept_ms(self) -> int:
        """How long it matters, in ms; then it is as if it had not been used."""
        if self.rule.burst is None:
            return self.rule.per + self.rule.part
        return -(-self.rule.burst * self.rule.per // (self.rule.rate or 1))


def _bucket_level(rule: LimitRule, text: str, now: int) -> int:
    most = (rule.burst or 0) * rule.per
    match = _START.fullmatch(text[1:]) if text.startswith("b") else None
    per_ms = rule.rate or 1
    if match is None or int(match[2]) > now + most / per_ms:
        return most
    elapsed = max(0, now - int(match[2]))
    return min(most, int(match[1]) + elapsed * per_ms)
