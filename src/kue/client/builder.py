"""Job builder: Kue's fluent methods to create a job."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

from kue.client.handle import JobHandle, added_handle
from kue.client.subscriptions import Callback, Callbacks, kind_of
from kue.model import unique_options
from kue.model.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kue.client.connection import Connection
    from kue.model.duration import Duration
    from kue.model.job import (
        Delivery,
        Draft,
        OnConflict,
        OnParentFailure,
        PriorityGiven,
        UniqueUntil,
    )
    from kue.model.options import AttemptsGiven, Identified
    from kue.model.payload import JSON


#: Options that can be changed once a job is saved.
UPDATABLE = frozenset({"priority", "attempts", "tags", "meta"})


class BaseJobBuilder:
    """Options of a job that is not saved yet, checked as they are given."""

    def __init__(self, connection: Connection, type: str, data: JSON) -> None:
        self._connection = connection
        self._type = type
        self._options: dict[str, Any] = {}
        self._saved: JobHandle[Any] | None = None
        #: What was changed since.
        self._changed: set[str] = set()
        self._callbacks = Callbacks()
        self._draft = connection.draft(type, data, {})

    @property
    def draft(self) -> Draft:
        """The job as it would be saved now."""
        return self._draft

    @property
    def type(self) -> str:
        return self._type

    @property
    def address_id(self) -> str:
        """The UUID of the job, chosen when first read: to subscribe on the bus with."""
        if self._draft.spec.address_id is None:
            self._set(address_id=str(uuid.uuid4()))
        return cast("str", self._draft.spec.address_id)

    def queue(self, name: str) -> Self:
        """Wait in the queue *name* instead of the one that is named like the type."""
        return self._set(queue=name)

    def priority(self, level: PriorityGiven) -> Self:
        """Run before jobs of a higher number; "high" is -10, "normal" 0, "low" 10."""
        return self._set(priority=level)

    def delay(self, delay: Duration | datetime) -> Self:
        """Run no sooner than after *delay*, or at an aware datetime."""
        return self._set(delay=delay)

    def at(self, moment: datetime) -> Self:
        """Run no sooner than at *moment*, an aware datetime."""
        return self._set(at=moment)

    def attempts(self, number: AttemptsGiven) -> Self:
        """Run at most *number* times until it succeeds; "unlimited" for no limit."""
        return self._set(attempts=number)

    def max_exceptions(self, number: int) -> Self:
        """Fail the job once *number* runs raised an error; attempts may be left."""
        return self._set(max_exceptions=number)

    def retry_until(self, until: Duration | datetime) -> Self:
        """Start no further attempt *until* after it was saved, or after a datetime."""
        return self._set(retry_until=until)

    def backoff(self, backoff: Any) -> Self:
        """
        Wait between attempts: True (the delay), seconds, a list, ``kue.exponential(…)``
        or Kue's ``{"type": "exponential", "delay": ms}``.
        """
        return self._set(backoff=backoff)

    def ttl(self, ttl: Duration) -> Self:
        """Fail a run that reports no progress for *ttl*."""
        return self._set(ttl=ttl)

    def timeout(self, timeout: Duration) -> Self:
        """Cancel a run that takes longer."""
        return self._set(timeout=timeout)

    def soft_timeout(self, timeout: Duration) -> Self:
        """Ask the handler of a run that takes longer to stop, so that it cleans up."""
        return self._set(soft_timeout=timeout)

    def max_stalls(self, number: int) -> Self:
        """Fail the job once more than *number* workers were lost while they ran it."""
        return self._set(max_stalls=number)

    def expires(self, expires: Duration) -> Self:
        """Fail the job if it has not ended *expires* after it was saved."""
        return self._set(expires=expires)

    def remove_on_complete(self, remove: bool = True) -> Self:
        """Remove the job once it succeeded; who waits for its result receives it."""
        return self._set(remove_on_complete=remove)

    def unique(
        self,
        key: str,
        *,
        for_: Duration = 0,
        until: UniqueUntil | None = None,
        at_most: Duration | None = None,
        on_conflict: OnConflict | None = None,
    ) -> Self:
        """
        Save nothing while an unfinished job of the type has this key.

        With *for_* also for that long after it was saved, even if it has ended; with
        *until* "start" only until it is first started; with *at_most* no longer than
        that after it was saved.  *on_conflict* "reject" makes `save` raise
        `DuplicateJob`; "replace" replaces a job that has not started.
        """
        return self._set_key(
            unique=key,
            unique_for=for_,
            unique_until=until,
            unique_at_most=at_most,
            on_conflict=on_conflict,
        )

    def throttle(self, key: str, per: Duration) -> Self:
        """Save at most one job of the type with this key in the time *per*."""
        return self._set_key(unique=key, throttle=per)

    def debounce(
        self, key: str, wait: Duration, *, longest: Duration | None = None
    ) -> Self:
        """
        Run once nothing was saved with this key for *wait*, with the newest data.

        It waits no longer than *longest* after the first was saved.
        """
        return self._set_key(unique=key, debounce=wait, debounce_max=longest)

    def group(self, key: str) -> Self:
        """Share the type's per-key limit with the other jobs of the group."""
        return self._set(group=key)

    def limited_by(self, limits: Mapping[str, str]) -> Self:
        """Count against named limits, by name and key; "" for one without keys."""
        return self._set(limited_by=limits)

    def tags(self, *tags: str) -> Self:
        """Attach tags, to find the job by."""
        return self._set(tags=tags)

    def parent(self, job: Identified | int) -> Self:
        """Set the job that this one belongs to."""
        return self._set(parent=job)

    def after(
        self, *jobs: Identified | int, on_parent_failure: OnParentFailure = "block"
    ) -> Self:
        """Wait for *jobs*; *on_parent_failure* says what happens when one fails."""
        return self._set(after=jobs, on_parent_failure=on_parent_failure)

    def retention(self, retention: Duration) -> Self:
        """Keep the job for this long once it ended, instead of the queue's rule."""
        return self._set(retention=retention)

    def delivery(self, delivery: Delivery) -> Self:
        """Choose "at-least-once" or "at-most-once": what a lost worker causes."""
        return self._set(delivery=delivery)

    def meta(self, meta: Mapping[str, str]) -> Self:
        """Attach texts that travel with the job, such as a trace context."""
        return self._set(meta=meta)

    def events(self, publish: bool = True) -> Self:
        """Publish events of the job, or none: then it has no listeners."""
        return self._set(events=publish)

    def on(self, event: str, callback: Callback) -> Self:
        """
        Call *callback* with each such event of the job, from its first one on.

        Removed once the job has ended; ``off`` of the saved job's handle removes it
        before.

        Raises:
            ValueError: There is no such event; the message lists those there are.
        """
        self._refuse_if_saved("listeners")
        self._callbacks.add(kind_of(event), callback)
        return self

    async def _save(self, connection: Connection, *, durable: bool) -> JobHandle[Any]:
        if self._saved is not None:
            await self._update(self._saved)
            return self._saved
        add = partial(self._add, connection, durable=durable)
        if not self._callbacks:
            return await add()
        if self._draft.spec.quiet:
            raise ValueError(
                f"events of this {self.type!r} job are off, so its listeners would "
                "never be called; switch them on with .events(True)"
            )
        self._callbacks.on_error = connection.errors.report
        return await connection.job_listeners.save(self._callbacks, add)

    async def _add(self, connection: Connection, *, durable: bool) -> JobHandle[Any]:
        added = await connection.add(self._draft, durable=durable)
        self._saved = added_handle(connection, self._draft.type, added)
        return self._saved

    async def _update(self, handle: JobHandle[Any]) -> None:
        """Store what was changed since the job was saved."""
        changes = {name: self._options[name] for name in self._changed}
        if changes:
            await handle.update(**changes)
        self._changed.clear()

    def _set_key(self, **options: Any) -> Self:
        """Set the unique key; what an earlier call has set about one is dropped."""
        return self._set(**dict.fromkeys(unique_options.NAMES) | options)

    def _set(self, **options: Any) -> Self:
        if not options.keys() <= UPDATABLE:
            self._refuse_if_saved(", ".join(options))
        merged = self._options | options
        data = self._draft.spec.data
        self._draft = self._connection.draft(self._type, data, merged)
        self._options = merged
        if self._saved is not None:
            self._changed.update(options)
        return self

    def _refuse_if_saved(self, what: str) -> None:
        if self._saved is not None:
            raise JobError(
                self._saved.id,
                f"this job was saved as job {self._saved.id}, and its {what} cannot "
                f"be changed any more, only its {', '.join(sorted(UPDATABLE))}; "
                "begin another with create_job()",
            )


class JobBuilder(BaseJobBuilder):
    """
    A job that is not saved yet.

    Every method checks its arguments at once and returns the builder::

        job = await q.create_job("email", {"to": "a@b.c"}).priority("high").save()
    """

    async def save(self, *, durable: bool = False) -> JobHandle[Any]:
        """
        Store the job and return its handle.

        With *durable* it returns only when the store's replicas have it, too.  A job
        that was saved is updated: priority, attempts, tags and meta can be changed.

        Raises:
            JobNotFound: It was saved, and has been removed since.
            DuplicateJob: Another job has its unique key, and it is to be rejected.
            StoreFull, StoreUnavailable, DurabilityUnknown: see there.
        """
        return await self._save(self._connection, durable=durable)
