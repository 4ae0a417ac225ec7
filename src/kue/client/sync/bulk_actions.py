"""The verbs of a queue that act on many jobs, for ordinary code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.client.sync.connection import BlockingCalls
from kue.client.sync.event_iterator import iterate
from kue.model.job import FINAL, PROMOTABLE, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kue.client.bulk_actions import BulkResult, BulkSummary, JobGiven, OnSwept
    from kue.client.filters import Selection
    from kue.model.duration import Duration
    from kue.model.job import Job
    from kue.store.values import ErrorGroup


class SyncBulkActions(BlockingCalls):
    """What can be asked about many jobs; `client.bulk_actions.Sweeping`, blocking."""

    # What is given as an iterable is read here: it may belong to this thread, as the
    # cursor of a database does.

    def retry_many(
        self,
        jobs: Iterable[JobGiven],
        *,
        delay: Duration = 0,
        states: Iterable[State] = FINAL,
    ) -> list[BulkResult]:
        """Put ended jobs back in line; each may be retried from *states*."""
        given, allowed = tuple(jobs), tuple(states)
        return self.call(lambda q: q.retry_many(given, delay=delay, states=allowed))

    def promote_many(
        self, jobs: Iterable[JobGiven], *, states: Iterable[State] = PROMOTABLE
    ) -> list[BulkResult]:
        """Let jobs that are delayed or wait for others run now."""
        given, allowed = tuple(jobs), tuple(states)
        return self.call(lambda q: q.promote_many(given, states=allowed))

    def cancel_many(
        self, jobs: Iterable[JobGiven], *, reason: str = ""
    ) -> list[BulkResult]:
        """Cancel jobs; for one that runs the word is ASKED: its worker will end it."""
        given = tuple(jobs)
        return self.call(lambda q: q.cancel_many(given, reason=reason))

    def remove_many(
        self,
        jobs: Iterable[JobGiven],
        *,
        force: bool = False,
        states: Iterable[State] | None = None,
    ) -> list[BulkResult]:
        """Delete jobs with their logs; running ones only by *force*."""
        given = tuple(jobs)
        allowed = None if states is None else tuple(states)
        return self.call(lambda q: q.remove_many(given, force=force, states=allowed))

    def move_many(
        self, jobs: Iterable[JobGiven], to: State, *, at: int | None = None
    ) -> list[BulkResult]:
        """Move jobs to ``waiting``, or to ``delayed`` until *at* (Unix ms)."""
        given = tuple(jobs)
        return self.call(lambda q: q.move_many(given, to, at=at))

    def ended(
        self, wanted: Selection, *, descending: bool = False
    ) -> Iterator[list[Job]]:
        """Yield the jobs that match, up to 500 at a time, by the time they ended."""
        return iterate(
            self,
            lambda q: q.ended(wanted, descending=descending),
            instead="async for jobs in q.ended(…): …",
        )

    def retry_all(
        self,
        wanted: Selection,
        *,
        delay: Duration = 0,
        on_progress: OnSwept | None = None,
    ) -> BulkSummary:
        """Put all jobs back in line that match and have ended by now."""
        return self.call(
            lambda q: q.retry_all(wanted, delay=delay, on_progress=on_progress)
        )

    def remove_all(
        self, wanted: Selection, *, on_progress: OnSwept | None = None
    ) -> BulkSummary:
        """Delete all jobs that match and have ended by now."""
        return self.call(lambda q: q.remove_all(wanted, on_progress=on_progress))

    def group_errors(
        self, wanted: Selection, *, on_progress: OnSwept | None = None
    ) -> list[ErrorGroup]:
        """Return what the jobs that match failed of, the most frequent first."""
        return self.call(lambda q: q.group_errors(wanted, on_progress=on_progress))
