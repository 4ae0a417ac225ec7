"""The job a user holds: its id, and everything that can be done with it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import msgspec

from kue import signs
from kue.duration import Duration, epoch_ms, milliseconds
from kue.errors import InvalidTransition, JobNotFound, StoreUnavailable
from kue.events import Event, Kind
from kue.job import FINAL, State
from kue.listeners import Callback, Callbacks, kind_of
from kue.replies import check, check_reply
from kue.store.values import Change, LogLine, Word
from kue.verdict import final_event, result_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from kue.job import Job
    from kue.payload import JSON
    from kue.session import Session

_WAITS = frozenset({State.DELAYED, State.BLOCKED})

T_co = TypeVar("T_co", covariant=True)


class JobHandle(Generic[T_co]):
    """
    A job in the store, whose result is a ``T_co``.

    Making one costs nothing: it knows an id and asks the store when it is asked.  Once
    it has read the job it remembers which one it was.  Ids can be handed out anew after
    a fail-over that lost writes; a handle never mistakes the other job for its own.

    Args:
        reader: Makes the result of the JSON that the store keeps; None: the JSON is it.
    """

    __slots__ = ("_job", "_listener", "_reader", "_session", "id", "is_new", "type")

    def __init__(
        self,
        session: Session,
        job_id: int,
        type: str,
        *,
        job: Job | None = None,
        is_new: bool = True,
        reader: Callable[[JSON], T_co] | None = None,
    ) -> None:
        self._session = session
        self._job = job
        self._reader = reader
        self._listener: Callbacks | None = None
        self.id = job_id
        self.type = type
        #: False when a job with the same unique key answered instead of a new one.
        self.is_new = is_new

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
        [job] = await self._session.store.get([self.id])
        if job is None or not self._is_same(job):
            raise JobNotFound(self.id)
        self._job = job
        return job

    async def logs(self, start: int = 0, stop: int = -1) -> list[LogLine]:
        """Return lines *start* to *stop* of its log, both included."""
        return await self._session.store.logs(self.id, start, stop)

    async def result(self, timeout: Duration | None = None) -> T_co:
        """
        Wait until the job has ended and return its result.

        The store tells us; nothing is polled.  A job with ``remove_on_complete`` leaves
        no result behind: it answers None, or is not found if it had ended before.

        Raises:
            JobFailed, JobCancelled: It ended that way.
            JobNotFound: It was removed.
            TimeoutError: It did not end within *timeout*; it goes on.
            Whatever the reader raises of a result that is not what it expects.
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
            async for event in self.events():
                last = event
            try:
                job = await self.refresh()
            except JobNotFound:
                # Its end was told: remove_on_complete left nothing to read.
                if last.kind is Kind.COMPLETE:
                    return cast("T_co", None)
                raise
            # Someone may have put it back in line before we came to read it.
            if job.state.is_final:
                return self._read(result_of(job))

    def _read(self, stored: JSON) -> T_co:
        if self._reader is None:
            # Whoever made the handle said that JSON is what it results in.
            return cast("T_co", stored)
        return self._reader(stored)

    # -- listening -------------------------------------------------------------

    async def events(self) -> AsyncIterator[Event]:
        """
        Yield what happens to the job, up to and including its end.

        A job that has ended yields its last event.

        Raises:
            JobNotFound: There is no such job (any more).
        """
        async with self._session.store.watch([self.id]) as events:
            # Looked at only now that we listen: an end before was not told to us.
            if ended := final_event(await self.refresh()):
                yield ended
                return
            async for event in events:
                yield event
                if event.kind.is_final:
                    return
                # What we missed may have been the end.
                if event.kind is Kind.LAGGED and (
                    ended := final_event(await self.refresh())
                ):
                    yield ended
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
        if self._listener is None:
            self._listener = Callbacks()
            self._session.background.start(
                self._listen(self._listener), f"kue listeners of job {self.id}"
            )
        self._listener.add(kind, callback)
        return self

    def off(self, event: str, callback: Callback | None = None) -> Self:
        """Call *callback* no more, or none of those registered for *event*."""
        kind = kind_of(event)
        if self._listener is not None:
            self._listener.remove(kind, callback)
        return self

    async def _listen(self, callbacks: Callbacks) -> None:
        who = f"listeners of job {self.id}"
        await self._session.outage.persist(who, lambda: self._relay(callbacks, who))
        self._listener = None

    async def _relay(self, callbacks: Callbacks, who: str) -> None:
        try:
            async for event in self.events():
                self._session.outage.recover(who)
                await callbacks.tell(event)
        except JobNotFound:
            now = await self._session.store.now()
            gone = Event(kind=Kind.REMOVE, job_id=self.id, type=self.type, at=now)
            await callbacks.tell(gone)

    # -- signs of life ---------------------------------------------------------

    async def log(self, text: object, level: str = "info") -> None:
        """Add a line to the job's log, whatever its state."""
        attempt = self._job.attempts if self._job else 0
        line = signs.line(text, level, attempt=attempt)
        word = await self._session.store.log(self.id, [line])
        check(self.id, word, wanted="be logged to")

    async def progress(
        self, done: float, total: float = 100, data: JSON = None
    ) -> None:
        """
        Say how far the running job is.

        Raises:
            InvalidTransition: It does not run.
        """
        update = signs.progress(self.id, done, total, data)
        [word] = await self._session.store.progress([update])
        state = (await self.refresh()).state if word is Word.REFUSED else None
        check(self.id, word, wanted="report progress", state=state)

    # -- operating -------------------------------------------------------------

    async def update(
        self,
        *,
        data: JSON | msgspec.UnsetType = msgspec.UNSET,
        priority: int | str | msgspec.UnsetType = msgspec.UNSET,
        tags: Iterable[str] | msgspec.UnsetType = msgspec.UNSET,
        attempts: int | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        """Change what is given; a run in progress keeps the data it started with."""
        given = {
            name: value
            for name, value in (
                ("data", data),
                ("priority", priority),
                ("tags", tags),
                ("attempts", attempts),
            )
            if value is not msgspec.UNSET
        }
        change = self._change(given)
        await self._guard()
        [word] = await self._session.store.update([change])
        check(self.id, word, wanted="be changed")

    def _change(self, given: dict[str, Any]) -> Change:
        options = {name: value for name, value in given.items() if name != "data"}
        valid = self._session.draft(self.type, given.get("data"), options)
        values = {
            "data": valid.spec.data,
            "priority": valid.priority,
            "tags": valid.spec.tags,
            "attempts": valid.spec.max_attempts,
        }
        known = {name: values[name] for name in given}
        if "attempts" in known:
            known["max_attempts"] = known.pop("attempts")
        return Change(self.id, **known)

    async def cancel(self, reason: str = "") -> bool:
        """
        Cancel the job, and tell whether it has ended.

        False means that it runs and its worker was asked: await `result` to be sure.

        Raises:
            InvalidTransition: It is complete or failed already.
        """
        await self._guard()
        [reply] = await self._session.store.cancel([self.id], reason=reason)
        word = check_reply(self.id, reply, wanted="be cancelled")
        if word is not Word.ALREADY:
            return word is Word.DONE
        return (await self.refresh()).state.is_final

    async def remove(self, *, force: bool = False) -> None:
        """
        Delete the job with its log.

        Raises:
            InvalidTransition: It runs; *force* deletes it all the same.
        """
        await self._guard()
        [reply] = await self._session.store.remove([self.id], force=force)
        check_reply(self.id, reply, wanted="be removed; cancel it, or use force=True")

    async def retry(self) -> None:
        """
        Put an ended job back in line; its attempts count from nothing.

        Raises:
            InvalidTransition: It has not ended.
            UniqueHeld: Another job has taken its unique key.
        """
        await self._move_now(FINAL, "be retried")

    async def promote(self) -> None:
        """
        Let a job that is delayed or waits for others run now.

        Raises:
            InvalidTransition: It runs or has ended.
        """
        await self._move_now(_WAITS, "be promoted")

    async def delay(self, delay: Duration | datetime) -> None:
        """
        Let the job run no sooner than after *delay*, or at an aware datetime.

        Raises:
            InvalidTransition: It runs.
            UniqueHeld: It had ended, and another job has taken its unique key.
        """
        at = await self._moment(delay)
        await self._guard()
        await self._move(State.DELAYED, "be delayed", at=at)

    async def _move_now(self, states: frozenset[State], wanted: str) -> None:
        state = (await self.refresh()).state
        if state is State.WAITING:
            return
        if state not in states:
            raise InvalidTransition(self.id, state, wanted)
        await self._move(State.WAITING, wanted)

    async def _move(self, to: State, wanted: str, *, at: int | None = None) -> None:
        [reply] = await self._session.store.move([self.id], to, at=at)
        check_reply(self.id, reply, wanted=wanted)

    async def _moment(self, delay: Duration | datetime) -> int:
        if isinstance(delay, datetime):
            return epoch_ms(delay, field="delay")
        wait = milliseconds(delay, field="delay")
        return await self._session.store.now() + wait

    async def _guard(self) -> None:
        """Make sure that the id still means our job, if we know which one that is."""
        if self._job is not None:
            await self.refresh()

    def _is_same(self, job: Job) -> bool:
        known = self._job
        if known is None:
            return job.type == self.type
        # The address follows from these; comparing them spares making it each time.
        return (job.created_at, job.type, job.spec.address_id) == (
            known.created_at,
            known.type,
            known.spec.address_id,
        )


def moved(handle: JobHandle[T_co], session: Session) -> JobHandle[T_co]:
    """Return a handle of the same job for *session*, which lives on another loop."""
    if handle._session is session:
        return handle
    return JobHandle(
        session,
        handle.id,
        handle.type,
        job=handle._job,
        is_new=handle.is_new,
        reader=handle._reader,
    )
