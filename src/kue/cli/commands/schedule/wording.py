"""When a schedule runs next, in words and by the clock; how long a run took."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kue.cli.output.listing import took
from kue.cli.output.text import since
from kue.model.cron import zone_of

if TYPE_CHECKING:
    from datetime import tzinfo

    from kue.cli.output.listing import Cell
    from kue.model.schedule import Schedule, Tick

_DAY = 86_400_000
#: Maintenance fires within a second or two; later than this, no worker runs.
_LATE_MS = 10_000


def standing(schedule: Schedule) -> str:
    """Return why a schedule does not run again: "ended", "paused"; else nothing."""
    if schedule.due_at is None:
        return "ended"
    return "paused" if schedule.paused else ""


def zone_for(schedule: Schedule) -> tzinfo | None:
    """Return the zone to show times in; None, the local one, where it has none."""
    if not schedule.cron and schedule.tz == "UTC":
        return None
    # One that is not known on this machine must not hide the others of a list.
    with contextlib.suppress(ValueError):
        return zone_of(schedule.tz)
    return None


def weekday(moment: int, zone: tzinfo | None) -> str:
    """Return the day of the week: ``Mon``."""
    return f"{_moment(moment, zone):%a}"


def clock(moment: int, now: int, zone: tzinfo | None) -> str:
    """Return what a clock shows at *moment*, with the day if that is not obvious."""
    then = _moment(moment, zone)
    if moment - now < _DAY:
        return f"{then:%H:%M}"
    return f"{then:%a %H:%M}" if moment - now < 7 * _DAY else f"{then:%Y-%m-%d %H:%M}"


def next_run(schedule: Schedule, now: int) -> str:
    """Return when it runs next: ``next run in 5 h (03:00)``."""
    next_at = schedule.next_at
    if next_at is None:
        return "paused" if schedule.due_at else "no run is left"
    if next_at <= now:
        return overdue(next_at, now)
    shown = clock(next_at, now, zone_for(schedule))
    return f"next run {since(next_at, now)} ({shown})"


def is_late(schedule: Schedule, now: int) -> bool:
    """Return whether a schedule should have fired, and nobody did it."""
    return schedule.is_due(now - _LATE_MS)


def overdue(next_at: int, now: int) -> str:
    """Return for how long a schedule has been due."""
    return "due now" if now - next_at < _LATE_MS else f"due {since(next_at, now)}"


def run_time(tick: Tick) -> Cell | None:
    """Return how long the job of *tick* ran, if it has run to its end."""
    return took(tick.duration) if tick.outcome in ("complete", "failed") else None


def _moment(moment: int, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(moment / 1000, UTC).astimezone(zone)
