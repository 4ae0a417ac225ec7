"""Schedules: recurring jobs, and when the next one is due."""

from __future__ import annotations

import msgspec

from kue.model.duration import Duration, milliseconds
from kue.model.job import Draft
from kue.model.names import check_path_name

#: Shorter intervals are a busy loop, not a schedule.
MIN_EVERY_MS = 100


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A draft that is added at a fixed interval."""

    name: str
    draft: Draft
    #: Milliseconds from one firing to the next.
    every: int
    #: When it fires next, Unix ms.
    next_at: int

    def following(self, now: int) -> int:
        """
        Return when to fire after firing at *now*.

        Stays in step with *next_at*.  Firings missed while no worker did maintenance
        are made up for by one, not by all of them.
        """
        missed = max(0, now - self.next_at) // self.every
        return self.next_at + (missed + 1) * self.every


def every(name: str, interval: Duration, draft: Draft, *, first_at: int) -> Schedule:
    """Return a schedule that adds *draft* each *interval*, first at *first_at* (ms)."""
    step = milliseconds(interval, field="every")
    if step < MIN_EVERY_MS:
        raise ValueError(f"every must be at least {MIN_EVERY_MS} ms, not {interval!r}")
    return Schedule(
        name=check_path_name(name, what="schedule name"),
        draft=draft,
        every=step,
        next_at=first_at,
    )
