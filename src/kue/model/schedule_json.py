"""A schedule as JSON: the view that the REST API and the command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.backoff import Backoff
from kue.model.job import Delivery, OnConflict, UniqueUntil
from kue.model.schedule import Missed, Overlap
from kue.model.view_struct import View

if TYPE_CHECKING:
    from kue.model.schedule import Schedule

#: Coming times that a view has.
UPCOMING = 5


class TickView(View, frozen=True, kw_only=True):
    """A time when a schedule was due, or was run by hand; Unix ms, durations ms."""

    at: int
    fired_at: int
    #: "unfinished"; how its job ended: "complete", "failed", "cancelled", or "removed"
    #: if that is not known; or why it has none: "missed", "overlap" or "duplicate".
    status: str
    duration: int
    is_manual: bool
    #: Null if it added no job.
    job: int | None


class ScheduleView(View, frozen=True, kw_only=True):
    """A schedule as it is now; times are Unix ms, durations ms."""

    name: str
    #: When it is due, in words.
    words: str
    #: The type of its jobs: the name of their task.
    type: str
    #: Where they wait, if not in the queue that is named like their type.
    queue: str | None
    #: 0 for a cron expression or a single time.
    every: int
    cron: str
    tz: str
    starts_at: int | None
    ends_at: int | None
    jitter: int
    missed: Missed
    overlap: Overlap
    #: The module that declares it; empty for one that was added at run time.
    declared_by: str
    paused: bool
    #: When it fires next, with jitter; null if it is paused or has ended.
    next_at: int | None
    #: The coming times, without jitter, also of a paused one.
    upcoming: list[int]
    #: The newest ten, the oldest first.
    ticks: list[TickView]


class ScheduleDetail(ScheduleView, frozen=True, kw_only=True):
    """A schedule as it is now, with the job that it adds."""

    data: Any
    priority: int
    delay: int
    #: 0 for no limit.
    max_attempts: int
    #: How many runs may raise an error; 0 for no limit.
    max_exceptions: int
    #: How long after it was added another attempt may start; 0 for no limit.
    retry_for: int
    backoff: Backoff | None
    timeout: int
    #: 0 for none.
    soft_timeout: int
    #: How many lost workers a job survives; null for the default.
    max_stalls: int | None
    ttl: int
    expires: int
    unique: str | None
    unique_for: int
    unique_until: UniqueUntil
    #: 0 for no limit, as below.
    unique_at_most: int
    on_conflict: OnConflict
    debounce: int
    debounce_max: int
    group: str | None
    #: Names and keys of the limits that its jobs count against.
    limited_by: dict[str, str]
    tags: tuple[str, ...]
    remove_on_complete: bool
    retention: int | None
    delivery: Delivery
    meta: dict[str, str]
    #: Whether events of its jobs are published.
    events: bool


def schedule_view(schedule: Schedule, *, now: int) -> ScheduleView:
    """Return *schedule* as in lists."""
    return ScheduleView.of(schedule, schedule.draft, **_shown(schedule, now))


def schedule_detail(schedule: Schedule, *, now: int) -> ScheduleDetail:
    """Return everything there is to know about *schedule*."""
    draft = schedule.draft
    delivery = "at-most-once" if draft.once else "at-least-once"
    return ScheduleDetail.of(
        schedule,
        draft,
        draft.spec,
        delivery=delivery,
        limited_by=dict(draft.limited_by),
        events=not draft.spec.quiet,
        **_shown(schedule, now),
    )


def _shown(schedule: Schedule, now: int) -> dict[str, Any]:
    ticks = [TickView.of(tick, job=tick.job_id) for tick in schedule.ticks]
    # Not from now on: that would be computed each time, see `cron.KEPT`.
    since = max(now, (schedule.due_at or 0) - 1)
    try:
        upcoming = list(schedule.upcoming(UPCOMING, since=since))
    except ValueError:
        # Its time zone is not known here; it is shown with the others all the same.
        upcoming = []
    draft = schedule.draft
    queue = None if draft.queue == draft.name else draft.queue
    return {"type": draft.name, "queue": queue, "upcoming": upcoming, "ticks": ticks}
