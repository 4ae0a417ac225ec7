"""Blocking calls to the queue on a background loop, opened by the first call."""

from __future__ import annotations

from copy import copy
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeVar,
)

from kue.aio.loop_calls import running
from kue.aio.loop_thread import BackgroundLoop, open_lock, refuse_on_a_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kue.client.handle import JobHandle
    from kue.client.queue import Kue

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: What to await instead of these coroutines; all others are methods of the queue.
_AWAITED = {"BaseJobBuilder._save": "await builder.save(…)"}


class SyncConnection(NamedTuple):
    """A background loop, and the queue that lives on it."""

    loop: BackgroundLoop
    queue: Kue


class BlockingCalls:
    """Makes calls to a twin of *queue*, which lives on its own background loop."""

    def __init__(self, queue: Kue) -> None:
        self._queue = queue
        self._sync_connection: SyncConnection | None = None

    def call(
        self,
        verb: Callable[Concatenate[Kue, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """
        Run a coroutine function with the queue, and return or raise what it does.

        It may be your own, which should use the queue that it is passed::

            async def fill(q: Kue, n: int) -> None: ...

            q.sync.call(fill, 5)

        Raises:
            RuntimeError: This thread runs an event loop: await the method instead.
        """
        if running() is not None:
            # Called only for its name.
            refuse_on_a_loop(_awaited(verb(self._queue, *args, **kwargs)))
        connection = self._connected()
        return connection.loop.call(verb(connection.queue, *args, **kwargs))

    @property
    def is_open(self) -> bool:
        """Whether there is a thread to be closed."""
        return self._current() is not None

    def close(self) -> None:
        """
        Let pending adds arrive, stop workers and subscriptions, end the thread.

        The next call opens it again.  Closing the queue closes this side of it, too.
        """
        refuse_on_a_loop("await q.close()")
        with open_lock:
            connection, self._sync_connection = self._current(), None
        if connection is not None:
            connection.loop.close()

    def _current(self) -> SyncConnection | None:
        """Return the connection of this process; not one of a parent process."""
        connection = self._sync_connection
        return connection if connection and connection.loop.is_ours else None

    def _connected(self) -> SyncConnection:
        if connection := self._current():
            return connection
        with open_lock:
            # Another thread may have been faster.
            connection = self._current()
            if connection is None:
                queue = self._queue._twin()
                connection = SyncConnection(BackgroundLoop(queue.close), queue)
                self._sync_connection = connection
            return connection


class BlockingHandle(Generic[T_co]):
    """Makes calls to a handle that lives on the loop of a blocking queue."""

    __slots__ = ("_calls", "_handle")

    def __init__(self, calls: BlockingCalls, handle: JobHandle[T_co]) -> None:
        self._calls = calls
        self._handle = handle

    def _call(self, verb: Callable[[JobHandle[T_co]], Coroutine[Any, Any, T]]) -> T:
        return self._calls.call(lambda queue: verb(self._on(queue)))

    def _on(self, queue: Kue) -> JobHandle[T_co]:
        """Return the handle for *queue*, which is another one after a fork."""
        ours = self._handle._connection
        connection = queue._connection.counterpart(ours)
        if ours is not connection:
            self._handle = copy(self._handle)
            self._handle._connection, self._handle._callbacks = connection, None
        return self._handle


def _awaited(work: Coroutine[Any, Any, object]) -> str:
    """Return what to await instead of *work*, which is closed."""
    name: str = getattr(work, "__qualname__", type(work).__name__)
    work.close()
    owner, _, verb = name.rpartition(".")
    subject = "job" if owner == "JobHandle" else "q"
    return _AWAITED.get(name) or f"await {subject}.{verb}(…)"
