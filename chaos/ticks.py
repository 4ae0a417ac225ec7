"""
Ticks: schedules drawn from a seed, when each is due, and whether each tick fired once.

When a schedule is due is computed here from its definition, by looking at every second:
nothing is taken from the code under test.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kue.model.schedule_options import ScheduleOptions

#: Seconds from one tick to the next of schedules by interval.
EVERY = (20, 60)
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata")
#: Kind of schedule → how common it is.
KINDS = {"every": 70, "second": 14, "minute": 10, "at": 6}
_STEPS = ("*/20", "*/30", "10,40", "5,25,45")

#: The name of a schedule, and when it was due, Unix ms.
Tick: TypeAlias = tuple[str, int]


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule: one of *every* (ms), *cron* and *at*."""

    name: str
    start: int
    end: int
    every: int = 0
    cron: str = ""
    tz: str = "UTC"
    at: int = 0

    @property
    def options(self) -> ScheduleOptions:
        """The options for `Kue.schedule`: all ticks must fire, however late."""
        if self.at:
            return {"at": _moment(self.at), "missed": "all"}
        times: ScheduleOptions = {
            "start": _moment(self.start),
            "end": _moment(self.end),
            "missed": "all",
        }
        if self.every:
            return {**times, "every": self.every / 1000}
        return {**times, "cron": self.cron, "tz": self.tz}

    @property
    def ticks(self) -> Iterable[int]:
        """When it is due, Unix ms."""
        if self.at:
            return (self.at,)
        if self.every:
            return range(self.start, self.end + 1, self.every)
        return _cron_ticks(self.cron, self.tz, self.start, self.end)


class TickRun(msgspec.Struct, frozen=True):
    """A handler was called for a tick."""

    schedule: str
    #: When it was due, Unix ms.
    tick: int
    job: int
    #: When the handler was called, Unix ms.
    at: int


class Account(NamedTuple):
    """What became of all ticks."""

    #: Ticks that were due.
    due: int
    #: Ticks without a run of a handler.
    missing: list[Tick]
    #: Ticks with more than one job.
    twice: list[Tick]
    #: Ticks that had a job and were not due.
    unexpected: list[Tick]
    #: Runs of the same job after its first: at-least-once, not a second firing.
    repeated: int


def draw(count: int, seed: int, start: int, end: int) -> list[Definition]:
    """Return *count* schedules of all kinds, due from *start* to *end* (Unix ms)."""
    random = Random(f"schedules {seed}")
    return [_definition(random, f"s{number}", start, end) for number in range(count)]


def account(
    definitions: Iterable[Definition],
    jobs: Iterable[tuple[str, int, int]],
    runs: Iterable[TickRun],
) -> Account:
    """Compare what was due with the *jobs* (schedule, tick, id) and their *runs*."""
    due = {(one.name, tick) for one in definitions for tick in one.ticks}
    calls: dict[Tick, list[int]] = defaultdict(list)
    for run in runs:
        calls[run.schedule, run.tick].append(run.job)
    ids = defaultdict(set, {tick: set(called) for tick, called in calls.items()})
    for name, tick, job_id in jobs:
        ids[name, tick].add(job_id)
    return Account(
        due=len(due),
        missing=sorted(due - calls.keys()),
        twice=sorted(tick for tick, found in ids.items() if len(found) > 1),
        unexpected=sorted(ids.keys() - due),
        repeated=sum(len(called) - len(set(called)) for called in calls.values()),
    )


def _definition(random: Random, name: str, start: int, end: int) -> Definition:
    [kind] = random.choices(list(KINDS), list(KINDS.values()))
    if kind == "every":
        every = random.randint(*EVERY) * 1000
        # Not all of them at the same time.
        first = min(start + random.randrange(every), end)
        return Definition(name, first, end, every=every)
    if kind == "at":
        return Definition(name, start, end, at=random.randint(start, end))
    tz = random.choice(ZONES)
    cron = "* * * * *"
    if kind == "second":
        second = random.choice([*_STEPS, str(random.randrange(60))])
        cron = f"{second} * * * * *"
    return Definition(name, start, end, cron=cron, tz=tz)


@cache
def _cron_ticks(cron: str, tz: str, start: int, end: int) -> tuple[int, ...]:
    zone = ZoneInfo(tz)
    fields = cron.split()
    if len(fields) == 5:
        fields.insert(0, "0")
    seconds = range(-(-start // 1000), end // 1000 + 1)
    return tuple(
        second * 1000
        for second in seconds
        if _matches(fields, datetime.fromtimestamp(second, zone))
    )


def _matches(fields: list[str], moment: datetime) -> bool:
    """Return whether a clock that shows *moment* shows what the *fields* ask for."""
    week_day = moment.isoweekday() % 7
    shown = (moment.second, moment.minute, moment.hour, moment.day, moment.month)
    return all(
        value in _values(field)
        for field, value in zip(fields, (*shown, week_day), strict=True)
    )


@cache
def _values(field: str) -> frozenset[int]:
    return frozenset(value for part in field.split(",") for value in _part(part))


def _part(part: str) -> Iterator[int]:
    first, _, step = part.partition("/")
    if first == "*":
        yield from range(0, 60, int(step or 1))
    else:
        yield int(first)


def _moment(time: int) -> datetime:
    return datetime.fromtimestamp(time / 1000, UTC)
