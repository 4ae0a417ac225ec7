"""Schedules as tests make them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kue.model.schedule_options import schedule_of

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.model.job import Draft
    from kue.model.schedule import Schedule


def moment(time: int) -> datetime:
    """Return Unix ms as the datetime that a user would give."""
    return datetime.fromtimestamp(time / 1000, UTC)


def every(
    name: str, interval: Duration, draft: Draft, *, first_at: int, **options: Any
) -> Schedule:
    """Return a schedule that adds *draft* each *interval*, first at *first_at* (ms)."""
    return schedule_of(
        name,
        draft,
        every=interval,
        start=moment(first_at),
        now=first_at - 1,
        **options,
    )
