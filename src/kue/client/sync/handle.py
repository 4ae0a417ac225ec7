"""The job a user holds, in ordinary code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import msgspec

from kue.aio.loop_thread import refuse_on_a_loop
from kue.client.handle import JobHandle, moved
from kue.client.sync.event_iterator import iterate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from datetime import datetime

    from kue.client.queue import Kue
    from kue.client.subscriptions import Callback
    from kue.client.sync.connection import BlockingCalls
    from kue.model.duration import Duration
    from kue.model.events import Event
    from kue.model.job import Job, PriorityGiven
    from kue.model.payload import JSON
    from kue.store.values import LogLine

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class SyncJobHandle(Generic[T_co]):
    """
    A job in the store, whose result is a ``T_co``; `kue.JobHandle`, blocking.

    May be used from any thread.  It goes on after a fork, in either process.
    """

    __slots__ = ("_calling", "_handle")

    def __init__(self, calling: BlockingCalls, handle: JobHandle[T_co]) -> None:
        self._calling = calling
        self._handle = handle

    def __repr__(self) -> str:
        return f"<Sync{repr(self._handle)[1:]}"

    @property
    def id(self) -> int:
        return self._handle.id

    @property
    def type(self) -> str:
        return self._handle.type

    @property
    def is_new(self) -> bool:
        """False when a job with the same unique key answered instead of a new one."""
        return self._handle.is_new

    @property
    def job(self) -> Job | None:
        """The job as it was when last read; None before the first `refresh`."""
        return self._handle.job

    @property
    def address_id(self) -> str | None:
        """The UUID of this very job; None before the first `refresh`."""
        return self._handle.address_id

    # -- reading ---------------------------------------------------------------

    def refresh(self) -> Job:
        """Read the job as it is now."""
        return self._call(lambda handle: handle.refresh())

    def logs(self, start: int = 0, stop: int = -1) -> list[LogLine]:
        """Return lines *start* to *stop* of its log, both included."""
        return self._call(lambda handle: handle.logs(start, stop))

    def result(self, timeout: Duration | None = None) -> T_co:
        """Wait until the job has ended and return its result."""
        return self._call(lambda handle: handle.result(timeout))

    # -- listening -------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Yield what happens to the job, up to and including its end."""
        return iterate(
            self._calling,
            lambda queue: self._on(queue).events(),
            instead="async for event in job.events(): …",
        )

    def on(self, event: str, callback: Callback) -> Self:
        """
        Call *callback* with each such event, on the thread of `q.sync`.

        It must not block, nor call `q.sync`: it may be a coroutine function.
        """
        refuse_on_a_loop("job.on(…)")
        self._call(lambda handle: _do(lambda: handle.on(event, callback)))
        return self

    def off(self, event: str, callback: Callback | None = None) -> Self:
        """Call *callback* no more, or none of those registered for *event*."""
        refuse_on_a_loop("job.off(…)")
        self._call(lambda handle: _do(lambda: handle.off(event, callback)))
        return self

    # -- signs of life ---------------------------------------------------------

    def log(self, text: object, level: str = "info") -> None:
        """Add a line to the job's log, whatever its state."""
        self._call(lambda handle: handle.log(text, level))

    def progress(self, done: float, total: float = 100, data: JSON = None) -> None:
        """Say how far the running job is."""
        self._call(lambda handle: handle.progress(done, total, data))

    # -- operating -------------------------------------------------------------

    def update(
        self,
        *,
        data: JSON | msgspec.UnsetType = msgspec.UNSET,
        priority: PriorityGiven | msgspec.UnsetType = msgspec.UNSET,
        tags: Iterable[str] | msgspec.UnsetType = msgspec.UNSET,
        attempts: int | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        """Change what is given; a run in progress keeps the data it started with."""
        self._call(
            lambda handle: handle.update(
                data=data, priority=priority, tags=tags, attempts=attempts
            )
        )

    def cancel(self, reason: str = "") -> bool:
        """Cancel the job, and tell whether it has ended."""
        return self._call(lambda handle: handle.cancel(reason))

    def remove(self, *, force: bool = False) -> None:
        """Delete the job with its log."""
        self._call(lambda handle: handle.remove(force=force))

    def retry(self, *, data: JSON | msgspec.UnsetType = msgspec.UNSET) -> bool:
        """Put an ended job back in line; return whether it was done by this call."""
        return self._call(lambda handle: handle.retry(data=data))

    def promote(self) -> None:
        """Let a job that is delayed or waits for others run now."""
        self._call(lambda handle: handle.promote())

    def delay(self, delay: Duration | datetime) -> None:
        """Let the job run no sooner than after *delay*, or at an aware datetime."""
        self._call(lambda handle: handle.delay(delay))

    def _call(self, verb: Callable[[JobHandle[T_co]], Coroutine[Any, Any, T]]) -> T:
        return self._calling.call(lambda queue: verb(self._on(queue)))

    def _on(self, queue: Kue) -> JobHandle[T_co]:
        """Return the handle for *queue*: after a fork it is another one."""
        self._handle = moved(self._handle, queue._session)
        return self._handle


async def _do(function: Callable[[], object]) -> None:
    """Call something that must be called on the loop."""
    function()
