"""Job handles: the id of a job, and everything that can be done with it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import msgspec

from kue.client.signals import send_signal
from kue.client.stream_reader import StreamReader
from kue.client.subscriptions import Callback, Callbacks, kind_of
from kue.model.duration import Duration, milliseconds
from kue.model.errors import (
    InvalidTransition,
    JobCancelled,
    JobFailed,
    JobNotFound,
    StoreUnavailable,
)
from kue.model.events import Event, Kind
from kue.model.job import FINAL, PROMOTABLE, SEALED, UNKNOWN_ERROR, State
from kue.model.sealed_payload import readable, refusal_of
from kue.model.stream import Position
from kue.store.reply_errors import check, check_reply
from kue.store.values import (
    Added,
    Change,
    ExpectedState,
    LogLine,
    MoveRequest,
    RemoveRequest,
    Result,
)
from kue.worker import progress_values as progress_module

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Collection,
        Iterable,
        Mapping,
    )
    from datetime import datetime

    from kue.client.connection import Connection
    from kue.model.job import Job, PriorityGiven
    from kue.model.options import AttemptsGiven
    from kue.model.payload import JSON
    from kue.model.steps import JobSteps
    from kue.model.stream import Chunk

T_co = TypeVar("T_co", covariant=True)


#: How often a job whose events are off is read until it has ended.
QUIET_SECONDS = 0.5


class JobHandle(Generic[T_co]):
    """
    A job in the store, whose result is a ``T_co``.

    Making one costs nothing: it has an id and the time of creation, and reads the store
    on demand.  Ids can be assigned again after a fail-over that lost writes; the store
    compares the time as well, so a handle never acts on another job.

    Args:
        created_at: When the job was created, as the add returned; None if unknown.
        reader: Converts the result from stored JSON; None: it stays JSON.
    """

    __slots__ = (
        *("_callbacks", "_connection", "_created_at", "_job", "_reader", "_restarted"),
        *("has_replaced", "id", "is_new", "type"),
    )

    def __init__(
        self,
        connection: Connection,
        job_id: int,
        type: str,
        *,
        job: Job | None = None,
        created_at: int | None = None,
        is_new: bool = True,
        has_replaced: bool = False,
        reader: Callable[[JSON], T_co] | None = None,
    ) -> None:
        self._connection = connection
        self._job = job
        self._created_at = created_at if job is None else job.created_at
        #: The ending that was retried through this handle.
        self._restarted: str | None = None
        self._reader = reader
        self._callbacks: Callbacks | None = None
        self.id = job_id
        self.type = type
        #: False when a job with the same unique key existed, and none was added.
        self.is_new = is_new
        #: True when that job had not started, and got the data and options of this add.
        self.has_replaced = has_replaced

    def __repr__(self) -> str:
        state = f", {self._job.state}" if self._job else ""
        return f"<JobHandle {self.id} {self.type!r}{state}>"

    @property
    def job(self) -> Job | None:
        """The job as it was when last read; None before the first `refresh`."""
        return self._job

    @property
    def address_id(self) -> str | None:
        """The UUID of this very job; None before the first `refresh`."""
        return self._job.address_id if self._job else None

    # -- reading ---------------------------------------------------------------

    async def refresh(self) -> Job:
        """
        Read the job as it is now.

        Raises:
            JobNotFound: It was removed, or its id belongs to another job by now.
        """
        job = await self._fetch()
        if job is None:
            raise JobNotFound(self.id)
        return job

    async def _fetch(self) -> Job | None:
        """Read the job; None when it is gone, `JobNotFound` when it is another one."""
        [job] = await self._connection.store.get([self.id])
        if job is None:
            return None
        if not self._is_same(job):
            raise JobNotFound(self.id)
        self._job, self._created_at = job, job.created_at
        return job

    async def logs(self, start: int = 0, stop: int = -1) -> list[LogLine]:
        """
        Return lines *start* to *stop* of its log, both included.

        Raises:
            JobNotFound: It was removed, or its id belongs to another job by now.
        """
        lines = await self._connection.store.logs(self.id, start, stop)
        # If the id is still this job's, it was when the lines were read.
        await self.refresh()
        return lines

    async def result(self, timeout: Duration | None = None) -> T_co:
        """
        Wait until the job has ended and return its result.

        The store notifies us; nothing is polled.  The result of a job with
        ``remove_on_complete`` is only sent to those who wait: if it ended before, this
        raises JobNotFound.

        Raises:
            JobFailed, JobCancelled: It ended that way.
            JobNotFound: It was removed.
            PayloadRefused: It is sealed with a key that this queue does not have.
            TimeoutError: It did not end within *timeout*; it goes on.
            Whatever the reader raises for a result that it does not expect.
        """
        if timeout is None:
            return await self._result()
        seconds = milliseconds(timeout, field="timeout") / 1000
        try:
            async with asyncio.timeout(seconds):
                return await self._result()
        except TimeoutError:
            state = self._job.state if self._job else "of unknown state"
            raise TimeoutError(
                f"job {self.id} is {state} and did not end within {seconds:g} s"
            ) from None

    async def _result(self) -> T_co:
        while True:
            async with aclosing(self._follow()) as steps:
                async for step in steps:
                    event, job = step
            if job is None:
                # It ended, and remove_on_complete left nothing to read.
                if event.kind is Kind.COMPLETE:
                    if self._job is not None and self._job.spec.sealed == SEALED:
                        raise refusal_of(self._job.spec)
                    return self._converted(event.detail.get("result"))
                raise JobNotFound(self.id)
            # It may have been requeued before we read it.
            if job.state.is_final:
                return self._read_result(job)

    def _read_result(self, job: Job) -> T_co:
        if job.state is State.FAILED:
            error = job.error or UNKNOWN_ERROR
            raise JobFailed(job.id, error.kind, error.message)
        if job.state is State.CANCELLED:
            raise JobCancelled(job.id, _reason(job))
        return self._converted(job.result)

    def _converted(self, result: JSON) -> T_co:
        readable(result, f"the result of job {self.id}")
        if self._reader is None:
            # The creator of the handle declared that its result is JSON.
            return cast("T_co", result)
        return self._reader(result)

    # -- stream ----------------------------------------------------------------

    async def stream(
        self, *, timeout: Duration | None = None
    ) -> AsyncGenerator[JSON, None]:
        """
        Yield what the job sends while it runs, from the beginning until it ends::

            async for token in job.stream():
                print(token, end="")

        These are the values that its handler yields, if it is a generator, or passes
        to `kue.ActiveJob.send`.  They come from one run: chunks of an earlier attempt
        are not shown.

        Raises:
            As `chunks`.
        """
        async with aclosing(self.chunks(timeout=timeout)) as chunks:
            async for chunk in chunks:
                yield readable(chunk.value, f"the stream of job {self.id}")

    def chunks(
        self, *, after: str = "", timeout: Duration | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """
        Yield what `stream` yields, each value with its id, attempt and time.

        *after* is the id of the last chunk that was read before: only what follows it
        is yielded.

        Raises:
            StreamRestarted: Another run began after chunks were read: drop those, and
                call this again, without *after*.
            JobFailed, JobCancelled: It ended that way, after its last chunk.
            JobNotFound: It was removed; with ``remove_on_complete`` also when it ended
                before.
            TimeoutError: No chunk was sent for as long as *timeout*; the job goes on.
            ValueError: *after* is not the id of a chunk.
        """
        given = None if timeout is None else milliseconds(timeout, field="timeout")
        seconds = None if given is None else given / 1000
        return StreamReader(self, Position.after(after), seconds).chunks()

    # -- events ----------------------------------------------------------------

    async def events(self) -> AsyncIterator[Event]:
        """
        Yield what happens to the job, up to and including its end.

        A job that has ended yields its last event.

        Raises:
            JobNotFound: There is no such job (any more).
        """
        async with aclosing(self._follow()) as steps:
            async for event, _ in steps:
                yield event

    async def _follow(self) -> AsyncGenerator[tuple[Event, Job | None], None]:
        """Yield events; with the last one the job as it was read then, None if gone."""
        async with self._connection.store.watch([self.id]) as events:
            # Read only after subscribing: an earlier end was not sent to us.
            job = await self.refresh()
            while job.spec.quiet and not job.state.is_final:
                # Its end is not published.
                await asyncio.sleep(QUIET_SECONDS)
                job = await self.refresh()
            if ended := _final_event(job):
                yield ended, job
                return
            async for event in events:
                if event.kind.is_final:
                    # An event has only the id, which may belong to another job by now.
                    yield event, await self._fetch()
                    return
                yield event, None
                # What we missed may have been the end.
                if event.kind is Kind.LAGGED:
                    job = await self.refresh()
                    if ended := _final_event(job):
                        yield ended, job
                        return
        raise StoreUnavailable(f"the queue was closed while job {self.id} was awaited")

    def on(self, event: str, callback: Callback) -> Self:
        """
        Call *callback* (a function or coroutine function) with each such event.

        Ends by itself once the job has ended.

        Raises:
            ValueError: There is no such event; the message lists those there are.
        """
        kind = kind_of(event)
        if self._callbacks is None:
            self._callbacks = Callbacks(self._connection.errors.report)
            self._connection.background.start(
                self._listen(self._callbacks), f"kue listeners of job {self.id}"
            )
        self._callbacks.add(kind, callback)
        return self

    def off(self, event: str, callback: Callback | None = None) -> Self:
        """Unregister *callback*, or with None all callbacks of *event*."""
        kind = kind_of(event)
        if self._callbacks is not None:
            self._callbacks.remove(kind, callback)
        return self

    async def _notify(self, event: Event) -> None:
        """Call the callbacks for this event; after the last one they are removed."""
        callbacks = self._callbacks
        if event.kind.is_final:
            self._callbacks = None
        if callbacks is not None:
            await callbacks.notify(event)

    async def _end_event(self) -> Event | None:
        """Return the event of its end, ``remove`` if it is gone; None before."""
        try:
            return _final_event(await self.refresh())
        except JobNotFound:
            return await self._removed()

    async def _listen(self, callbacks: Callbacks) -> None:
        caller = f"listeners of job {self.id}"
        await self._connection.store_retry.persist(
            caller, lambda: self._relay(callbacks, caller)
        )
        self._callbacks = None

    async def _relay(self, callbacks: Callbacks, caller: str) -> None:
        try:
            async for event in self.events():
                self._connection.store_retry.recover(caller)
                await callbacks.notify(event)
        except JobNotFound:
            await callbacks.notify(await self._removed())

    async def _removed(self) -> Event:
        now = await self._connection.store.now()
        return Event(kind=Kind.REMOVE, job_id=self.id, type=self.type, at=now)

    # -- progress and log ------------------------------------------------------

    async def log(self, text: object, *args: object, level: str = "info") -> None:
        """Add a line to the job's log, whatever its state; *args* fill its %s."""
        attempt = self._job.attempts if self._job else 0
        line = progress_module.line(text, *args, level=level, attempt=attempt)
        word = await self._connection.store.log(
            self.id, [line], created_at=self._created_at
        )
        check(self.id, word, wanted="be logged to")

    async def progress(
        self, done: float, total: float = 100, data: JSON = None
    ) -> None:
        """
        Report the progress of the running job.

        Raises:
            InvalidTransition: It does not run.
        """
        update = progress_module.progress(self.id, done, total, data)
        update = msgspec.structs.replace(update, created_at=self._created_at)
        [word] = await self._connection.store.progress([update])
        await self._check(word, "report progress")

    # -- steps and signals -----------------------------------------------------

    async def steps(self) -> JobSteps:
        """
        Return what the job did and waits for, and the signals sent to it.

        Raises:
            JobNotFound: It was removed, or its id belongs to another job by now.
        """
        steps = await self._connection.store.steps(self.id)
        # If the id is still this job's, it was when the steps were read.
        await self.refresh()
        return steps

    async def signal(self, name: str, data: JSON = None) -> None:
        """
        Send a signal: ``job.wait_for(name)`` in its handler returns *data*.

        It is kept until the job waits for it; a job that waits goes on at once.

        Raises:
            InvalidTransition: It has ended.
            BadPayload: *data* is not JSON, or has more than 64 KiB.
            ValueError: *name* cannot be one, or 1,000 signals were sent to the job.
        """
        await send_signal(
            self._connection, self.id, name, data, created_at=self._created_at
        )

    # -- changing --------------------------------------------------------------

    async def update(
        self,
        *,
        data: JSON | msgspec.UnsetType = msgspec.UNSET,
        priority: PriorityGiven | msgspec.UnsetType = msgspec.UNSET,
        tags: Iterable[str] | msgspec.UnsetType = msgspec.UNSET,
        attempts: AttemptsGiven | msgspec.UnsetType = msgspec.UNSET,
        meta: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        """
        Change what is given; a run in progress keeps the data it started with.

        Fields of *meta* are set, and those not named stay.
        """
        every = {"data": data, "priority": priority, "tags": tags, "attempts": attempts}
        every["meta"] = meta
        given = {
            key: value for key, value in every.items() if value is not msgspec.UNSET
        }
        word = await self._change(given, ExpectedState(self._created_at))
        check(self.id, word, wanted="be changed")

    async def set(self, key: str, value: str) -> None:
        """
        Set a further field of the job, which is kept with it: its ``meta``.

        Text; all fields together have at most 8 KiB.

        Raises:
            JobNotFound: It was removed, or its id belongs to another job by now.
            BadPayload: There is too much of it.
        """
        await self.update(meta={key: value})

    async def get(self, key: str) -> str | None:
        """Return a further field of the job as it is now; None if it was never set."""
        return (await self.refresh()).spec.meta.get(key)

    async def _change(self, given: dict[str, Any], seen: ExpectedState) -> Result:
        options = {name: value for name, value in given.items() if name != "data"}
        valid = self._connection.draft(self.type, given.get("data"), options)
        spec = valid.spec
        change = Change(
            self.id,
            data=spec.data if "data" in given else msgspec.UNSET,
            priority=valid.priority if "priority" in given else msgspec.UNSET,
            tags=spec.tags if "tags" in given else msgspec.UNSET,
            max_attempts=spec.max_attempts if "attempts" in given else msgspec.UNSET,
            meta=spec.meta if "meta" in given else msgspec.UNSET,
            seen=seen,
        )
        [word] = await self._connection.store.update([change])
        return word

    async def cancel(self, reason: str = "") -> bool:
        """
        Cancel the job, and return whether it has ended.

        False means that it runs and its worker was notified: await `result` to be sure.

        Raises:
            InvalidTransition: It is complete or failed already.
        """
        [reply] = await self._connection.store.cancel(
            [self.id], reason=reason, seen=self._seen
        )
        word = check_reply(self.id, reply, wanted="be cancelled")
        if word is not Result.ALREADY:
            return word is Result.DONE
        return (await self.refresh()).state.is_final

    async def remove(self, *, force: bool = False) -> None:
        """
        Delete the job with its log.

        Raises:
            InvalidTransition: It runs; *force* deletes it anyway.
        """
        [reply] = await self._connection.store.remove(
            RemoveRequest([self.id], force=force, seen=self._seen)
        )
        check_reply(self.id, reply, wanted="be removed; cancel it, or use force=True")

    async def retry(self, *, data: JSON | msgspec.UnsetType = msgspec.UNSET) -> bool:
        """
        Requeue an ended job, with other *data* if given; return whether this call did.

        Its attempts start again from 0.  A failed or cancelled job keeps the steps that
        it finished, a complete one begins afresh.  What is retried is the ending that
        this handle read last (now, if it has read none): False means that someone else
        has retried it since, and that the job was left as it is.

        Raises:
            InvalidTransition: It has not ended; or other *data* is given, and it was
                retried since.
            UniqueHeld: Another job holds its unique key.
        """
        job = self._known
        if job is None or not job.state.is_final:
            job = await self.refresh()
        if job.state is State.WAITING and data is msgspec.UNSET:
            return False
        if not job.state.is_final:
            raise InvalidTransition(self.id, job.state, "be retried")
        if data is not msgspec.UNSET:
            changed = await self._change({"data": data}, ExpectedState.of(job))
            await self._check(changed, "be retried with other data")
        word = await self._move(State.WAITING, "be retried", states=FINAL, seen=job)
        self._restarted = job.ending
        return word is Result.DONE

    async def promote(self) -> None:
        """
        Let a job run now that is delayed or waits for others.

        Raises:
            InvalidTransition: It runs or has ended.
        """
        await self._move(State.WAITING, "be promoted", states=PROMOTABLE)

    async def delay(self, delay: Duration | datetime) -> None:
        """
        Let the job run no sooner than after *delay*, or at an aware datetime.

        One that had ended when this handle read it starts again then.

        Raises:
            InvalidTransition: It runs, or has ended or was restarted since this handle
                read it.
            UniqueHeld: It had ended, and another job holds its unique key.
        """
        at = await self._connection.moment(delay, field="delay")
        job = self._known or await self.refresh()
        word = await self._move(State.DELAYED, "be delayed", at=at, seen=job)
        if word is Result.ALREADY:
            now = await self.refresh()
            # Done by us, if the call was repeated after its reply was lost.
            if (now.state, now.promote_at) != (State.DELAYED, at):
                raise InvalidTransition(self.id, now.state, "be delayed")
        self._restarted = job.ending or self._restarted

    @property
    def _known(self) -> Job | None:
        """The job as it was read last, unless this handle restarted it since."""
        job = self._job
        if job is None or (job.ending and job.ending == self._restarted):
            return None
        return job

    async def _check(self, word: Result, wanted: str) -> None:
        """Do `check`, with the state of the job that the store did not report."""
        state = (await self.refresh()).state if word is Result.REFUSED else None
        check(self.id, word, wanted=wanted, state=state)

    async def _move(
        self,
        to: State,
        wanted: str,
        *,
        at: int | None = None,
        states: Collection[State] | None = None,
        seen: Job | None = None,
    ) -> Result:
        known = self._seen if seen is None else {self.id: ExpectedState.of(seen)}
        [reply] = await self._connection.store.move(
            MoveRequest([self.id], to, at=at, states=states, seen=known)
        )
        return check_reply(self.id, reply, wanted=wanted)

    @property
    def _seen(self) -> dict[int, ExpectedState]:
        """Identifies this job, for the store to compare."""
        return {self.id: ExpectedState(self._created_at)}

    def _is_same(self, job: Job) -> bool:
        known = self._job
        if self._created_at not in (None, job.created_at) or job.type != self.type:
            return False
        return known is None or job.spec.address_id == known.spec.address_id


def job_of(handle: JobHandle[Any]) -> Job:
    """Return the job that `kue.Kue.get` has just read."""
    assert handle.job is not None
    return handle.job


def added_handle(
    connection: Connection,
    type: str,
    added: Added,
    reader: Callable[[JSON], T_co] | None = None,
) -> JobHandle[T_co]:
    """Return the handle of a job that was just added."""
    # Of a fail-over connection it is another class, and another connection.
    home = connection if added.__class__ is Added else connection.home_of(added)
    return JobHandle(
        home,
        added.id,
        type,
        created_at=added.created_at,
        is_new=added.new,
        has_replaced=added.replaced,
        reader=reader,
    )


def _final_event(job: Job) -> Event | None:
    """Return the event of the end of *job*; None if it has not ended."""
    if not job.state.is_final:
        return None
    detail: dict[str, Any] = {}
    if job.state is State.FAILED:
        error = job.error or UNKNOWN_ERROR
        detail = {"kind": error.kind, "message": error.message}
    elif job.state is State.CANCELLED:
        detail = {"reason": _reason(job)}
    return Event(
        kind=Kind(job.state.value),
        job_id=job.id,
        type=job.type,
        at=job.updated_at,
        attempt=job.attempts,
        detail=detail,
    )


def _reason(job: Job) -> str:
    return job.history[-1].reason if job.history else ""
