"""
Alerts: thresholds of a queue, whether they are reached, and what has been reported.

Pure rules: `kue.worker.alert_monitor` reads the facts and stores the state.  An alert
is raised when a value reaches its threshold, reported again once in an interval, and
resolved when the value is below the threshold again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from kue.model.duration import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

AlertKind: TypeAlias = Literal["oldest", "backlog", "failures", "no_worker"]
AlertStatus: TypeAlias = Literal["raised", "reminded", "resolved"]

#: Types of jobs that Kue itself adds; the default thresholds do not apply to them.
RESERVED = "kue."
MINUTE_MS = 60_000
REMIND_MS = 3_600_000
#: The time that the failure rate is measured over, and the jobs that it needs.
WITHIN_MS = 5 * MINUTE_MS
MAX_WITHIN_MS = 60 * MINUTE_MS
LEAST_JOBS = 20
#: What is kept at most: alerts in force, reports, and types seen without a worker.
#: Together they fit a small record of the store, whatever the names are.
MAX_ACTIVE, MAX_NOTICES, MAX_UNSERVED = 60, 40, 60


class AlertRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Thresholds of a queue (times in ms); those that are None are not checked."""

    #: How long a job may wait.
    oldest: int | None = None
    #: How many jobs may wait.
    backlog: int | None = None
    #: Share of the jobs ended *within* that failed, once at least *least* ended.
    failures: float | None = None
    within: int = WITHIN_MS
    least: int = LEAST_JOBS
    #: How long jobs may wait while no live worker takes their type.
    no_worker: int | None = None
    #: How long until an alert that is still in force is reported again; 0 for never.
    remind: int = REMIND_MS
    #: Where a report is sent.  It may have a secret in its path: not to be shown.
    webhook: str | None = None

    @property
    def minutes(self) -> int:
        """The minutes of statistics that the failure rate is measured over."""
        return -(-self.within // MINUTE_MS)

    @property
    def thresholds(self) -> dict[AlertKind, float]:
        """The thresholds that are set."""
        every: dict[AlertKind, float | None] = {
            "oldest": self.oldest,
            "backlog": self.backlog,
            "failures": self.failures,
            "no_worker": self.no_worker,
        }
        return {kind: one for kind, one in every.items() if one is not None}


class AlertFacts(NamedTuple):
    """What the thresholds of a queue are compared with."""

    waiting: int = 0
    #: How long the oldest job has been waiting, in ms; None if none waits.
    oldest: int | None = None
    #: Jobs that ended, and that failed, in the time of the failure rate.
    ended: int = 0
    failed: int = 0
    #: How long its jobs have had no live worker, in ms; None if they have one.
    unserved: int | None = None


class Breach(NamedTuple):
    """A threshold that is reached."""

    kind: AlertKind
    value: float
    threshold: float


class ActiveAlert(msgspec.Struct, frozen=True, omit_defaults=True):
    """An alert in force."""

    type: str
    kind: AlertKind
    value: float
    threshold: float
    #: When it was raised, and reported last, Unix ms.
    since: int
    reported_at: int

    @property
    def message(self) -> str:
        """What is wrong, in a sentence."""
        return sentence(self.type, self.kind, self.value, self.threshold)


class AlertNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A report that an alert was raised, is still in force, or was resolved."""

    #: Grows with each report of the store.
    number: int
    at: int
    status: AlertStatus
    type: str
    kind: AlertKind
    value: float
    threshold: float
    #: When the alert was raised, Unix ms.
    since: int

    @property
    def id(self) -> str:
        """Unique, also after the state of the alerts was deleted."""
        return f"{self.at}-{self.number}"

    @property
    def message(self) -> str:
        """What happened, in a sentence."""
        said = sentence(self.type, self.kind, self.value, self.threshold)
        if self.status == "resolved":
            lasted = words(max(0, self.at - self.since))
            return f"resolved after {lasted}: {said}"
        if self.status == "reminded":
            return f"since {words(max(0, self.at - self.since))}: {said}"
        return said


class AlertState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The alerts in force, and the last reports, as the store keeps them."""

    #: When the thresholds were compared last, Unix ms, and a random mark of who did:
    #: two processes never write the same state.
    checked_at: int = 0
    mark: str = ""
    #: Whether a rule has a webhook, so that workers handle its jobs.
    webhooks: bool = False
    #: The number of the last report, and of the last one that webhooks were sent for.
    number: int = 0
    sent: int = 0
    active: tuple[ActiveAlert, ...] = ()
    #: The last reports, the oldest first.
    notices: tuple[AlertNotice, ...] = ()
    #: Since when types have jobs and no worker, Unix ms.
    unserved: dict[str, int] = {}


def breaches(rule: AlertRule, facts: AlertFacts) -> Iterator[Breach]:
    """Yield the thresholds of a queue that are reached."""
    values: dict[AlertKind, float | None] = {
        "oldest": facts.oldest,
        "backlog": facts.waiting,
        "failures": None,
        "no_worker": facts.unserved,
    }
    if facts.ended >= rule.least:
        values["failures"] = round(facts.failed / facts.ended, 4)
    for kind, threshold in rule.thresholds.items():
        value = values[kind]
        if value is not None and value >= threshold:
            yield Breach(kind, value, threshold)


def advance(
    state: AlertState,
    found: Mapping[str, list[Breach]],
    remind: Mapping[str, int],
    now: int,
) -> AlertState:
    """Return the state after a check that *found* breaches by type, and reports."""
    reached = [
        ActiveAlert(type, one.kind, one.value, one.threshold, now, now)
        for type, of_type in sorted(found.items())
        for one in of_type
    ]
    before = {(one.type, one.kind): one for one in state.active}
    # Alerts in force keep their place when there are too many.
    reached.sort(key=lambda one: (one.type, one.kind) not in before)
    active, reports = [], []
    for one in reached[:MAX_ACTIVE]:
        known = before.pop((one.type, one.kind), None)
        status = _status(known, remind.get(one.type, 0), now)
        if known is not None:
            last = known.reported_at if status is None else now
            one = replace(one, since=known.since, reported_at=last)
        if status is not None:
            reports.append((status, one))
        active.append(one)
    reports += [("resolved", one) for one in before.values()]
    notices = [
        _notice(state.number + index, now, status, one)
        for index, (status, one) in enumerate(reports, 1)
    ]
    return replace(
        state,
        checked_at=now,
        number=state.number + len(notices),
        active=tuple(active),
        notices=(*state.notices, *notices)[-max(MAX_NOTICES, len(notices)) :],
    )


def _status(known: ActiveAlert | None, remind: int, now: int) -> AlertStatus | None:
    """Return what to report of an alert; None if it was reported not long ago."""
    if known is None:
        return "raised"
    return "reminded" if remind and now - known.reported_at >= remind else None


def _notice(number: int, at: int, status: AlertStatus, one: ActiveAlert) -> AlertNotice:
    return AlertNotice(
        number, at, status, one.type, one.kind, one.value, one.threshold, one.since
    )


def sentence(type: str, kind: AlertKind, value: float, threshold: float) -> str:
    """Return what is wrong with a queue, with the value and its threshold."""
    if kind == "backlog":
        jobs = "job waits" if value == 1 else "jobs wait"
        return f"{value:,.0f} {jobs} in queue {type!r} (threshold {threshold:,.0f})"
    if kind == "failures":
        share = f"{value:.0%} of the jobs of queue {type!r} fail"
        return f"{share} (threshold {threshold:.0%})"
    what = (
        f"a job of queue {type!r} has been waiting for"
        if kind == "oldest"
        else f"jobs of queue {type!r} wait, and no live worker has taken them for"
    )
    return f"{what} {words(int(value))} (threshold {words(int(threshold))})"
