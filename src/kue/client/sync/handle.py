"""Blocking job handle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kue.aio.loop_thread import refuse_on_a_loop
from kue.client.sync.connection import T_co
from kue.client.sync.event_iterator import iterate
from kue.client.sync.handle_methods import SyncHandleMethods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kue.client.subscriptions import Callback
    from kue.model.duration import Duration
    from kue.model.events import Event
    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.model.stream import Chunk


class SyncJobHandle(SyncHandleMethods[T_co]):
    """
    A job in the store, whose result is a ``T_co``; `kue.JobHandle`, blocking.

    May be used from any thread.  It goes on after a fork, in either process.
    """

    __slots__ = ()

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
        """False when a job with the same unique key existed, and none was added."""
        return self._handle.is_new

    @property
    def has_replaced(self) -> bool:
        """True when that job had not started, and got this add's data and options."""
        return self._handle.has_replaced

    @property
    def job(self) -> Job | None:
        """The job as it was when last read; None before the first `refresh`."""
        return self._handle.job

    @property
    def address_id(self) -> str | None:
        """The UUID of this very job; None before the first `refresh`."""
        return self._handle.address_id

    def events(self) -> Iterator[Event]:
        """Yield what happens to the job, up to and including its end."""
        return iterate(
            self._calls,
            lambda queue: self._on(queue).events(),
            instead="async for event in job.events(): …",
        )

    def stream(self, *, timeout: Duration | None = None) -> Iterator[JSON]:
        """Yield what the job sends while it runs; see `kue.JobHandle.stream`."""
        return iterate(
            self._calls,
            lambda queue: self._on(queue).stream(timeout=timeout),
            instead="async for chunk in job.stream(): …",
        )

    def chunks(
        self, *, after: str = "", timeout: Duration | None = None
    ) -> Iterator[Chunk]:
        """Yield the same with ids, from a position; see `kue.JobHandle.chunks`."""
        return iterate(
            self._calls,
            lambda queue: self._on(queue).chunks(after=after, timeout=timeout),
            instead="async for chunk in job.chunks(): …",
        )

    def on(self, event: str, callback: Callback) -> Self:
        """
        Call *callback* with each such event, on the thread of `q.sync`.

        It must not block, nor call `q.sync`: it may be a coroutine function.
        """
        refuse_on_a_loop("job.on(…)")
        self._call(lambda handle: on_the_loop(lambda: handle.on(event, callback)))
        return self

    def off(self, event: str, callback: Callback | None = None) -> Self:
        """Unregister *callback*, or with None all callbacks of *event*."""
        refuse_on_a_loop("job.off(…)")
        self._call(lambda handle: on_the_loop(lambda: handle.off(event, callback)))
        return self


async def on_the_loop(function: Callable[[], object]) -> None:
    """Call something that must be called on the loop."""
    function()
