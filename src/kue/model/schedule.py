"""
Schedules: recurring jobs, and when the next one is due.  Pure rules.

A schedule is due at its *ticks*: each interval, when a cron expression matches, or
once.  Maintenance fires it: `next_firing` decides what is added and what the schedule
is afterwards, and the store does both atomically if nobody else has changed the
schedule.  So each tick fires once, however many workers there are.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from kue.model import cron as crons
from kue.model.duration import interval_words
from kue.model.job import Draft, Job, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: What happens to ticks that nobody fired in time: none of them is made up for, all of
#: them together by one job, or each by its own.
Missed: TypeAlias = Literal["skip", "once", "all"]
#: What a tick does while earlier jobs of the schedule are unfinished: add another one,
#: none, or one only if no other is still to start.
Overlap: TypeAlias = Literal["allow", "skip", "queue-one"]

#: A tick counts as missed when a later one is due, too, or after this long.
MISSED_MS = 60_000
#: Ticks kept with a schedule; older ones fall off, but not those of unfinished jobs
#: that hold others back.
MAX_TICKS = 10
MAX_SCHEDULES = 10_000
#: Firings of one schedule in one pass of maintenance, while it catches up.
MAX_CATCH_UP = 100
#: Stands for the id of a job that is not added yet.
NEW_JOB = -1
#: Stands for the id of a job that the cap of its type refused.
REFUSED_JOB = -2
_MAX_TIME = 253_000_000_000_000

Time: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_TIME)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Tick(msgspec.Struct, frozen=True, array_like=True):
    """One time when a schedule was due, or was run by hand."""

    #: When it was due, Unix ms.
    at: Time
    #: When it was fired: then its job was created.
    fired_at: Time
    #: How its job ended: a final state, or "removed" when that is not known; or why it
    #: has none: "missed", "overlap"; or empty: see `status`.
    outcome: str = ""
    #: How long the last run of its job took, in ms.
    duration: Count = 0
    is_manual: bool = False
    #: The id of its job; 0 if there is none, below 0 if it was refused.  The last
    #: field: see `Schedule.ticks`.
    job: int = 0

    @property
    def job_id(self) -> int | None:
        """Its job, if it has one."""
        return self.job if self.job > 0 else None

    @property
    def is_open(self) -> bool:
        """Whether its job was unfinished when it was last looked at."""
        return self.job > 0 and not self.outcome

    @property
    def status(self) -> str:
        """
        Its outcome, or "unfinished".

        "duplicate" if its unique key was held, "full" if its type was.
        """
        if self.outcome or self.job > 0:
            return self.outcome or "unfinished"
        return "full" if self.job == REFUSED_JOB else "duplicate"

    def settled(self, job: Job | None) -> Tick:
        """Return the tick with the outcome of its *job*, if that has ended."""
        if job is None or job.created_at != self.fired_at:
            return replace(self, outcome="removed")
        if not job.state.is_final:
            return self
        return replace(self, outcome=str(job.state), duration=job.duration or 0)


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A draft that is added again and again; `schedule_of` makes valid ones."""

    name: str
    draft: Draft
    #: Milliseconds from one tick to the next, or else …
    every: Count = 0
    #: … a cron expression in a time zone; without both there is one tick, `starts_at`.
    cron: str = ""
    tz: str = "UTC"
    #: The first tick of an interval; no tick of a cron expression is before it.
    starts_at: Time | None = None
    ends_at: Time | None = None
    #: Fires up to this many ms after each tick.
    jitter: Count = 0
    missed: Missed = "once"
    overlap: Overlap = "allow"
    #: The module that declares it; empty for one that was added at run time.
    declared_by: str = ""
    paused: bool = False
    #: The next tick; None when there is none left.
    due_at: Time | None = None
    #: The newest ticks that fired, the oldest first.  The last field, so that scripts
    #: can complete the text of a schedule with the id of the job that they add.
    ticks: tuple[Tick, ...] = ()

    @property
    def next_at(self) -> int | None:
        """When it fires next, Unix ms; None when it is paused or has ended."""
        if self.paused or self.due_at is None:
            return None
        # Not random: every process computes the same time.
        seed = zlib.crc32(f"{self.name}:{self.due_at}".encode())
        return self.due_at + seed % (self.jitter + 1)

    def is_due(self, now: int) -> bool:
        next_at = self.next_at
        return next_at is not None and next_at <= now

    @property
    def words(self) -> str:
        """When it is due, in words: "every weekday at 9:00, Berlin"."""
        if self.cron:
            return self._cron_words
        if self.every:
            return f"every {interval_words(self.every)}"
        moment = datetime.fromtimestamp((self.starts_at or 0) // 1000, UTC)
        return f"once, on {moment:%Y-%m-%d} at {moment:%H:%M:%S} UTC"

    @property
    def _cron_words(self) -> str:
        try:
            return crons.words_of(self.cron, self.tz)
        except ValueError:
            # A newer version may have written it: shown as it is, among the others.
            return f"{self.cron}, {self.tz}"

    @property
    def is_one_off(self) -> bool:
        return not self.every and not self.cron

    @property
    def open_jobs(self) -> list[int]:
        """The ids of jobs that were unfinished when they were last looked at."""
        return [tick.job for tick in self.ticks if tick.is_open]

    def tick_after(self, moment: int) -> int | None:
        """Return the first tick after *moment*; None if there is none."""
        first = self.starts_at or 0
        tick: int | None = first
        if self.cron:
            tick = crons.tick_after(self.cron, self.tz, max(moment, first - 1))
        elif moment >= first:
            steps = (moment - first) // self.every + 1 if self.every else 0
            tick = first + steps * self.every if self.every else None
        last = _MAX_TIME if self.ends_at is None else self.ends_at
        return None if tick is None or tick > last else tick

    def tick_until(self, moment: int) -> int:
        """Return the last tick from `due_at` up to *moment*."""
        due, last = self.due_at or 0, moment
        following = self.tick_after(due)
        if following is None or following > moment:
            return due
        if self.ends_at is not None:
            last = min(moment, self.ends_at)
        if self.cron:
            return crons.tick_until(self.cron, self.tz, last) or due
        return due + (last - due) // self.every * self.every

    def upcoming(self, count: int, *, since: int) -> Iterator[int]:
        """Yield up to *count* ticks after *since*, also of a paused schedule."""
        tick = self.tick_after(since)
        while tick is not None and count > 0:
            yield tick
            tick, count = self.tick_after(tick), count - 1

    def settled(self, jobs: Mapping[int, Job | None]) -> Schedule:
        """Return the schedule with the outcomes of those of *jobs* that have ended."""
        ticks = tuple(
            tick.settled(jobs[tick.job]) if tick.is_open and tick.job in jobs else tick
            for tick in self.ticks
        )
        return replace(self, ticks=ticks)

    def resumed(self, now: int) -> Schedule:
        """
        Return it without its pause.

        Ticks of the pause are not made up for; the only one of a one-off still is due.
        """
        due_at = self.due_at if self.is_one_off else self.tick_after(now)
        return replace(self, paused=False, due_at=due_at)


class Firing(NamedTuple):
    """What a firing does."""

    #: What to add; None for a tick that adds nothing.
    draft: Draft | None
    #: The schedule afterwards: its last tick is this one, for job `NEW_JOB`, or 0
    #: without a draft.  None: it is over and to be deleted.
    after: Schedule | None


def next_firing(schedule: Schedule, now: int, jobs: Mapping[int, Job | None]) -> Firing:
    """
    Return how a due schedule fires.

    *jobs* are its open jobs as they are now.
    """
    due = schedule.due_at or 0
    at = due if schedule.missed == "all" else schedule.tick_until(now)
    known = schedule.settled(jobs)
    reason = ""
    if schedule.missed == "skip" and now - at > MISSED_MS + schedule.jitter:
        reason = "missed"
    elif _is_held_back(known, jobs):
        reason = "overlap"
    tick = Tick(at, now, outcome=reason, job=0 if reason else NEW_JOB)
    after = replace(_with_tick(known, tick), due_at=schedule.tick_after(at))
    is_over = schedule.is_one_off and after.due_at is None
    draft = None if reason else job_of(schedule, at)
    return Firing(draft, None if is_over else after)


def manual_firing(
    schedule: Schedule, now: int, jobs: Mapping[int, Job | None]
) -> Firing:
    """Return how a schedule is run by hand; its own ticks stay as they are."""
    tick = Tick(now, now, is_manual=True, job=NEW_JOB)
    return Firing(job_of(schedule, now), _with_tick(schedule.settled(jobs), tick))


def with_job(schedule: Schedule, job_id: int) -> Schedule:
    """Return a schedule that fired, with its job, or what stands for none."""
    last = replace(schedule.ticks[-1], job=job_id)
    return replace(schedule, ticks=(*schedule.ticks[:-1], last))


def _with_tick(schedule: Schedule, tick: Tick) -> Schedule:
    """Return it with one more tick; of too many, the oldest falls off."""
    ticks = [*schedule.ticks, tick]
    if len(ticks) > MAX_TICKS:
        # Where unfinished jobs hold others back, they must stay known.
        may_go = [schedule.overlap == "allow" or not one.is_open for one in ticks[:-1]]
        del ticks[may_go.index(True) if True in may_go else 0]
    return replace(schedule, ticks=tuple(ticks))


def _is_held_back(schedule: Schedule, jobs: Mapping[int, Job | None]) -> bool:
    """Return whether unfinished jobs of the schedule keep it from adding another."""
    states = {job.state for id in schedule.open_jobs if (job := jobs[id])}
    if schedule.overlap == "queue-one":
        states.discard(State.ACTIVE)
    return schedule.overlap != "allow" and bool(states)


def job_of(schedule: Schedule, tick: int) -> Draft:
    """Return the job of a tick: it has the schedule as a tag, and the tick's time."""
    spec = schedule.draft.spec
    moment = datetime.fromtimestamp(tick / 1000, UTC)
    tags = dict.fromkeys((*spec.tags, tag_of(schedule.name)))
    meta = spec.meta | {"scheduled_for": moment.isoformat(timespec="milliseconds")}
    return replace(schedule.draft, spec=replace(spec, tags=tuple(tags), meta=meta))


def tag_of(name: str) -> str:
    """Return the tag of the jobs of a schedule, to find them by."""
    return f"schedule:{name}"
