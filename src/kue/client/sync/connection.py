"""How a blocking queue reaches the one on its portal; opened by the first call."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeVar,
)

from kue.aio.loop_thread import BackgroundLoop, opening, refuse_on_a_loop, runs_a_loop
from kue.client.handle import JobHandle, moved

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kue.client.connection import Connection
    from kue.client.queue import Kue

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: How one writes what these coroutines do; anything else is a verb of the queue.
_AWAITED = {"BaseJobBuilder._save": "await builder.save(…)"}


class SyncConnection(NamedTuple):
    """A portal, and the queue that lives on it."""

    portal: BackgroundLoop
    queue: Kue


class BlockingCalls:
    """
    Makes calls to a queue that lives on a portal of its own.

    Args:
        queue: The queue whose blocking side this is.
        twin: Makes another queue on the same jobs, for another event loop.
    """

    def __init__(self, queue: Kue, twin: Callable[[], Kue]) -> None:
        self._queue = queue
        self._twin = twin
        self._line: SyncConnection | None = None

    def call(
        self,
        verb: Callable[Concatenate[Kue, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """
        Run a coroutine function with the queue, and return or raise what it does.

        It may be one of your own, which should use the queue that it is given::

            async def fill(q: Kue, n: int) -> None: ...

            q.sync.call(fill, 5)

        Raises:
            RuntimeError: This thread runs an event loop: await the verb instead.
        """
        if runs_a_loop():
            # Asked for its name only.
            refuse_on_a_loop(_awaited(verb(self._queue, *args, **kwargs)))
        line = self._connected()
        return line.portal.call(verb(line.queue, *args, **kwargs))

    def refuse_here(self, instead: str, *, blocking: str) -> None:
        """
        Refuse to block an event loop.

        Raises:
            RuntimeError: This thread runs one; the message says what to write *instead*
                of what is *blocking*.
        """
        refuse_on_a_loop(instead, blocking=blocking)

    @property
    def is_open(self) -> bool:
        """Whether there is a thread to be closed."""
        return self._current() is not None

    @property
    def session_here(self) -> Connection | None:
        """What whoever awaits the queue on the portal's own thread must use."""
        line = self._line
        return line.queue._session if line and line.portal.is_here else None

    def close(self) -> None:
        """
        Let adds on their way arrive, stop working and listening, end the thread.

        The next call opens it anew.  Closing the queue closes this side of it, too.
        """
        refuse_on_a_loop("await q.close()")
        with opening:
            line, self._line = self._current(), None
        if line is not None:
            line.portal.close()

    def _current(self) -> SyncConnection | None:
        """Return the line of this process; a parent's is none of ours."""
        line = self._line
        return line if line is not None and line.portal.is_ours else None

    def _connected(self) -> SyncConnection:
        return self._current() or self._connect()

    def _connect(self) -> SyncConnection:
        with opening:
            # Another thread may have been quicker.
            line = self._current()
            if line is None:
                queue = self._twin()
                line = self._line = SyncConnection(BackgroundLoop(queue.close), queue)
            return line


class BlockingHandle(Generic[T_co]):
    """Makes calls to a handle that lives on the loop of a blocking queue."""

    __slots__ = ("_calling", "_handle")

    def __init__(self, calling: BlockingCalls, handle: JobHandle[T_co]) -> None:
        self._calling = calling
        self._handle = handle

    def _call(self, verb: Callable[[JobHandle[T_co]], Coroutine[Any, Any, T]]) -> T:
        return self._calling.call(lambda queue: verb(self._on(queue)))

    def _on(self, queue: Kue) -> JobHandle[T_co]:
        """Return the handle for *queue*: after a fork it is another one."""
        self._handle = moved(self._handle, queue._session)
        return self._handle


def _awaited(work: Coroutine[Any, Any, object]) -> str:
    """Return how one writes what *work* would have done; it is not going to."""
    name: str = getattr(work, "__qualname__", type(work).__name__)
    work.close()
    owner, _, verb = name.rpartition(".")
    subject = "job" if owner == "JobHandle" else "q"
    return _AWAITED.get(name) or f"await {subject}.{verb}(…)"
