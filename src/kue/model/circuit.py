"""
Circuit breaker: when a circuit opens, is tried by a probe, and closes.  Pure decisions.

A circuit is *closed* while jobs run, and counts their failures.  With enough of them in
a short time it is *open*: jobs wait.  When that time is over it is *half-open*: one job
runs, the probe.  If it succeeds the circuit closes, else it opens again, for longer.

All workers share one `CircuitRecord` by the name of the circuit; every function here
returns the next record, or the same one where nothing changes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from kue.model.duration import Duration, interval_words, milliseconds

CircuitState: TypeAlias = Literal["closed", "open", "half-open"]

MAX_FAILURES = 1_000
DAY_MS = 24 * 3_600_000
#: The longest time that failures are counted within, and the longest that it is open.
MAX_WITHIN_MS = DAY_MS
MAX_OPEN_MS = 365 * DAY_MS
#: How long a record is kept after its last change, or after the circuit was to probe.
KEPT_MS = DAY_MS
#: It reopens for up to this many times as long, unless the policy says otherwise.
LONGEST = 4
#: Clocks of servers differ a little; beyond this the clock was set back.
SKEW_MS = 10_000
#: Characters kept of an error.
MAX_ERROR = 300
#: The same of a reason, and of who gave it.
MAX_REASON = 500
MAX_BY = 200
#: Jobs that return are this far apart, the first but for a pause in which it probes.
STEP_MS = 10
FIRST_PAUSE_MS = 1_000
#: They return within this share of the time that it was open, and this long at most.
SPREAD_SHARE = 10
MAX_SPREAD_MS = 30_000
#: The shortest pause of a job while another one probes.
MIN_PROBE_PAUSE_MS = 1_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CircuitPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a circuit opens, and for how long; times in ms."""

    failures: int
    within: int
    open_for: int
    max_open_for: int

    @classmethod
    def of(
        cls,
        *,
        failures: int,
        within: Duration,
        open_for: Duration,
        max_open_for: Duration | None,
    ) -> CircuitPolicy:
        """Return a valid policy; raise `ValueError` or `TypeError` for another."""
        if not isinstance(failures, int) or isinstance(failures, bool):
            raise TypeError(f"failures must be a whole number, not {failures!r}")
        if not 1 <= failures <= MAX_FAILURES:
            raise ValueError(
                f"failures must be from 1 to {MAX_FAILURES:,}, not {failures}"
            )
        length = open_length(open_for, "open_for")
        longest = length * LONGEST
        if max_open_for is not None:
            longest = open_length(max_open_for, "max_open_for")
        if longest < length:
            raise ValueError(
                f"max_open_for must be at least open_for, {open_for!r}, "
                f"not {max_open_for!r}"
            )
        return cls(
            failures=failures,
            within=_length(within, "within", MAX_WITHIN_MS, "a day"),
            open_for=length,
            max_open_for=min(longest, MAX_OPEN_MS),
        )


class CircuitRun(msgspec.Struct, frozen=True):
    """A run of a job; the fencing token tells it from other runs of the same job."""

    job: int
    fence: int


class CircuitRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A circuit as the store has it; times are Unix ms."""

    #: When the failures happened that count, the newest last.
    failures: tuple[int, ...] = ()
    #: The time that they were counted within, in ms.
    within: int = 0
    last_error: str = ""
    failed_at: int | None = None
    #: Since when, and until when, it is open; both None while it is closed.
    opened_at: int | None = None
    until: int | None = None
    #: Why it is open, in words.
    cause: str = ""
    #: How often in a row the probe failed.
    reopened: int = 0
    #: The run that has to show whether it may close.
    probe: CircuitRun | None = None
    closed_at: int | None = None
    #: Who opened or closed it by hand.
    by: str = ""
    #: Drawn for every change: no two records are equal by chance.
    mark: str = ""

    @property
    def is_closed(self) -> bool:
        return self.until is None

    @property
    def length(self) -> int:
        """How long it is open in all, in ms."""
        return max(0, (self.until or 0) - (self.opened_at or 0))

    def is_due(self, now: int) -> bool:
        """
        Return whether it is time for a probe.

        Also when the clock was set back: nobody can know how long the circuit has been
        open, and a probe does little harm.
        """
        if self.until is None:
            return False
        return now >= self.until or now < (self.opened_at or 0) - SKEW_MS

    def state(self, now: int) -> CircuitState:
        if self.is_closed:
            return "closed"
        return "half-open" if self.is_due(now) else "open"

    def recent(self, within: int, now: int) -> tuple[int, ...]:
        """Return the times of failures that count; those after *now* are now."""
        times = (min(at, now) for at in self.failures)
        return tuple(at for at in times if at > now - within)

    def expires_at(self, now: int) -> int:
        """Return when the store may forget it."""
        return max(now, self.until or 0) + KEPT_MS


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """A circuit as people see it; times are Unix ms."""

    name: str
    state: CircuitState
    #: Until when jobs wait; None unless it is open.
    until: int | None
    #: Since when it is open, or half-open.
    opened_at: int | None
    #: Failures that count now, or that opened it.
    failures: int
    #: The last failure, "ProviderDown: 503", and when it was.
    last_error: str
    failed_at: int | None
    #: Why it is open, in words.
    cause: str
    #: Who opened or closed it by hand.
    by: str
    #: The job that runs as the probe.
    probe: int | None
    #: When it was last closed.
    closed_at: int | None

    @property
    def summary(self) -> str:
        """Return a sentence about a circuit that is not closed."""
        last = f", last {self.last_error}" if self.last_error else ""
        if self.state == "open":
            return f"is open until {_moment(self.until or 0)}: {self.cause}{last}"
        probe = f"job {self.probe} is" if self.probe else "the next job is"
        return f"is half-open: {probe} its probe; {self.cause}{last}"


def seen(name: str, record: CircuitRecord, now: int) -> Circuit:
    """Return *record* as people see it."""
    state = record.state(now)
    counted = record.recent(record.within, now) if state == "closed" else ()
    return Circuit(
        name=name,
        state=state,
        until=record.until if state == "open" else None,
        opened_at=record.opened_at,
        failures=len(counted if state == "closed" else record.failures),
        last_error=record.last_error,
        failed_at=record.failed_at,
        cause=record.cause,
        by=record.by,
        probe=record.probe.job if record.probe else None,
        closed_at=record.closed_at,
    )


# -- what happens to a circuit -------------------------------------------------


def after_failure(
    record: CircuitRecord, policy: CircuitPolicy, error: str, run: CircuitRun, now: int
) -> CircuitRecord:
    """Return the circuit after *run* failed; runs from before it opened are ignored."""
    failed = replace(record, last_error=_cut(error, MAX_ERROR), failed_at=now)
    if record.is_closed:
        return _counted(failed, policy, now)
    if record.probe != run:
        return record
    times = min(record.reopened + 1, MAX_FAILURES)
    # A long shift would be a very large number.
    length = min(policy.open_for << min(times, 32), policy.max_open_for)
    cause = "its probe failed" + (f" {times} times" if times > 1 else "")
    return replace(_opened(failed, length, cause, now), reopened=times)


def _counted(record: CircuitRecord, policy: CircuitPolicy, now: int) -> CircuitRecord:
    recent = (*record.recent(policy.within, now), now)[-policy.failures :]
    counted = replace(record, failures=recent, within=policy.within)
    if len(recent) < policy.failures:
        return counted
    number = "1 failure" if len(recent) == 1 else f"{len(recent):,} failures"
    cause = f"{number} in {_words(policy.within)}"
    return replace(_opened(counted, policy.open_for, cause, now), by="")


def _opened(record: CircuitRecord, length: int, cause: str, now: int) -> CircuitRecord:
    return replace(record, opened_at=now, until=now + length, cause=cause, probe=None)


def after_success(record: CircuitRecord, run: CircuitRun, now: int) -> CircuitRecord:
    """Return the circuit after *run* succeeded: closed if that was the probe."""
    if record.is_closed or record.probe != run:
        return record
    return _closed(record, now)


def without_probe(record: CircuitRecord, run: CircuitRun) -> CircuitRecord:
    """Return the circuit after *run* ended without showing anything."""
    return replace(record, probe=None) if record.probe == run else record


def with_probe(
    record: CircuitRecord, run: CircuitRun, now: int, *, lost: CircuitRun | None
) -> CircuitRecord:
    """Return the circuit with *run* as its probe, in place of none or a *lost* one."""
    is_free = record.probe is None or record.probe == lost
    if not record.is_due(now) or not is_free:
        return record
    return replace(record, probe=run)


def opened_by_hand(
    record: CircuitRecord, length: int, by: str, reason: str, now: int
) -> CircuitRecord:
    """Return the circuit as an operator opened it; the failures so far stay."""
    who = _cut(by, MAX_BY)
    why = f": {_cut(reason, MAX_REASON)}" if reason else ""
    cause = f"opened by {who or 'hand'}{why}"
    return replace(_opened(record, length, cause, now), by=who, reopened=0)


def closed_by_hand(record: CircuitRecord, by: str, now: int) -> CircuitRecord:
    """Return the circuit as an operator closed it; no failure counts any more."""
    if record.is_closed and not record.failures:
        return record
    return replace(_closed(record, now), by=_cut(by, MAX_BY))


def _closed(record: CircuitRecord, now: int) -> CircuitRecord:
    return CircuitRecord(
        last_error=record.last_error, failed_at=record.failed_at, closed_at=now
    )


# -- jobs that wait ------------------------------------------------------------


def wait_ms(record: CircuitRecord, place: int, now: int) -> int:
    """
    Return how long a job waits for a circuit that is not closed, in ms.

    *place* counts the jobs that wait, from 0.  The first returns when the circuit may
    probe; the others follow a little later, one after the other, so that they come in
    order, not in one instant, and not while the first probes.
    """
    share = record.length // SPREAD_SHARE
    if record.is_due(now):
        wait = min(max(share, MIN_PROBE_PAUSE_MS), MAX_SPREAD_MS)
    else:
        wait = max(0, (record.until or 0) - now)
        wait += min(share, FIRST_PAUSE_MS) if place else 0
    spread = max(1, min(share, MAX_SPREAD_MS))
    return wait + place * STEP_MS % spread


# -- reading options -----------------------------------------------------------


def open_length(value: Duration, field: str) -> int:
    """Return how long a circuit is open, in ms; raise as `milliseconds` does."""
    return _length(value, field, MAX_OPEN_MS, "a year")


def _length(value: Duration, field: str, most: int, words: str) -> int:
    length = milliseconds(value, field=field)
    if not 1 <= length <= most:
        raise ValueError(f"{field} must be longer than 0 and at most {words}")
    return length


def _words(length: int) -> str:
    words = interval_words(length)
    return words if words[0].isdigit() else f"1 {words}"


def _moment(at: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
