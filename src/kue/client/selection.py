"""Filters for ended jobs: which ones bulk actions find and act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.job import FINAL, State
from kue.store.validation import read_cursor
from kue.store.values import Filter

if TYPE_CHECKING:
    from kue.model.job import Job


class Selection(Filter, frozen=True, kw_only=True):
    """
    Jobs that ended in one state; everything given must match.

    Unlike in a `Filter`, the times are those of the end: "what failed since noon".

    Raises:
        ValueError: Jobs do not end in that state.
    """

    state: State = State.FAILED

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.state not in FINAL:
            ends = ", ".join(sorted(FINAL))
            raise ValueError(f"jobs do not end as {self.state}; they end as {ends}")

    def until_at_most(self, moment: int) -> Selection:
        """Return the same without what ends at *moment* or later."""
        until = moment if self.until is None else min(self.until, moment)
        return msgspec.structs.replace(self, until=until)

    def start(self, *, descending: bool) -> str | None:
        """Return the cursor just before the first job of the wanted time."""
        first = self.until if descending else self.since
        # No job has the id 0: this cursor is before all jobs of that millisecond.
        return None if first is None else f"{first}:0"

    def ends_before(self, cursor: str, *, descending: bool) -> bool:
        """Return whether no job of the wanted time can follow *cursor*."""
        position = read_cursor(cursor)
        if position is None:
            return False
        if descending:
            return self.since is not None and position[0] < self.since
        return self.until is not None and position[0] >= self.until

    def covers(self, job: Job) -> bool:
        """Return whether *job* ended in the wanted time."""
        return self._is_within(job.ended_at or 0)
