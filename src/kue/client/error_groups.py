"""Groups of errors with counts: errors that differ only in numbers are one group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.fingerprint import fingerprint, first_line, shape
from kue.model.job import Error
from kue.store.values import ErrorGroup

if TYPE_CHECKING:
    from kue.model.job import Job

#: Past this many groups, new ones are counted by type and kind alone.
MAX_GROUPS = 1000


class ErrorCounter:
    """Counts jobs by their error, in bounded memory."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], ErrorGroup] = {}
        self.jobs = 0

    def count(self, job: Job) -> None:
        """Add *job* to its group."""
        self.jobs += 1
        error = job.error or Error("Unknown", "the store kept no error")
        key = (job.type, error.kind, shape(error.message))
        if key not in self._groups and len(self._groups) >= MAX_GROUPS:
            key, error = (job.type, error.kind, ""), Error(error.kind, "")
        one = _group_of(job, error)
        known = self._groups.get(key)
        self._groups[key] = one if known is None else _joined(known, one)

    def groups(self) -> list[ErrorGroup]:
        """Return the groups, the largest first."""
        return sorted(self._groups.values(), key=lambda group: -group.count)


def _group_of(job: Job, error: Error) -> ErrorGroup:
    at = job.ended_at or job.updated_at
    return ErrorGroup(
        fingerprint=fingerprint(error),
        type=job.type,
        kind=error.kind,
        message=first_line(error.message),
        count=1,
        first_at=at,
        last_at=at,
        job_id=job.id,
    )


def _joined(known: ErrorGroup, one: ErrorGroup) -> ErrorGroup:
    newest = one if one.last_at >= known.last_at else known
    return msgspec.structs.replace(
        newest,
        count=known.count + one.count,
        first_at=min(known.first_at, one.first_at),
    )
