"""
Named thread pools for blocking code.

Threads are daemons: a function that never returns must not keep the program from
exiting.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kue.runtime.errors import RuntimeClosed

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable

    Call = Callable[[], None]

T = TypeVar("T")

MAX_THREADS = 1000


@dataclass(frozen=True, slots=True)
class BusyThread:
    """A thread that runs a call, and since when by the monotonic clock."""

    thread: int
    name: str
    since: float


class ThreadPool:
    """
    At most *size* threads, started when there is work; first come, first served.

    A call must not raise; the caller of `submit` wraps it.
    """

    def __init__(self, name: str, size: int, *, limit: float) -> None:
        if not 1 <= size <= MAX_THREADS:
            raise ValueError(
                f"the pool {name!r} must have 1 to {MAX_THREADS} threads, not {size}"
            )
        self.name = name
        self.size = size
        #: Seconds that a call may hold its thread before that is logged.
        self.limit = limit
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        #: Calls that wait or run; another thread is started when they exceed threads.
        self._open = 0
        self._is_closed = False
        self._busy: dict[int, BusyThread] = {}

    def submit(self, call: Call) -> None:
        """Make *call* on a thread; a closed pool raises `RuntimeClosed`."""
        with self._lock:
            if self._is_closed:
                raise RuntimeClosed(f"the pool {self.name!r} is closed")
            self._open += 1
            if self._open > self._threads and self._threads < self.size:
                self._start()
            self._calls.put(call)

    def busy(self) -> list[BusyThread]:
        """Return the threads that run a call."""
        return list(self._busy.values())

    def close(self) -> None:
        """Accept no more calls; those accepted are still made."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                for _ in range(self._threads):
                    self._calls.put(None)

    def _start(self) -> None:
        name = f"{self.name}-{self._threads}"
        self._threads += 1
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        me = threading.current_thread()
        ident = me.ident or 0
        while (call := self._calls.get()) is not None:
            self._busy[ident] = BusyThread(ident, me.name, time.monotonic())
            call()
            del self._busy[ident]
            # What the last call referenced must not live until the next.
            del call
            with self._lock:
                self._open -= 1


def fulfil(future: Future[T], function: Callable[[], T]) -> None:
    """Call *function*, unless *future* was cancelled, and set its result or error."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except StopIteration as exc:
        # A future of asyncio cannot hold one.
        future.set_exception(RuntimeError(f"the function raised {exc!r}"))
    except BaseException as exc:
        future.set_exception(exc)
    else:
        future.set_result(result)
    finally:
        # An error refers to this frame; the frame must not refer back.
        del future


class OrderedCalls:
    """Makes calls on a pool one after another, in the order they were submitted."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._calls: deque[Call] = deque()
        self._lock = threading.Lock()
        self._is_running = False

    def submit(self, call: Call) -> None:
        with self._lock:
            if self._is_running:
                self._calls.append(call)
                return
            self._pool.submit(partial(self._run, call))
            self._is_running = True

    def _run(self, call: Call) -> None:
        call()
        while (following := self._next()) is not None:
            try:
                # Back to the end of the pool's queue: other calls wait there too.
                self._pool.submit(partial(self._run, following))
                return
            except RuntimeClosed:
                # The pool still makes the calls it accepted, and it accepted this one.
                following()

    def _next(self) -> Call | None:
        with self._lock:
            self._is_running = bool(self._calls)
            return self._calls.popleft() if self._calls else None


def start(pool: ThreadPool | OrderedCalls, function: Callable[[], T]) -> Future[T]:
    """Call *function* on a thread of *pool* and return the future of its result."""
    future: Future[T] = Future()
    pool.submit(partial(fulfil, future, function))
    return future


async def on_thread(
    pool: ThreadPool | OrderedCalls,
    function: Callable[[], T],
    variables: contextvars.Context,
) -> T:
    """Call *function* on a thread of *pool* and return what it returns."""
    if inspect.iscoroutinefunction(getattr(function, "func", function)):
        raise TypeError(f"{function!r} is async; await it instead")
    return await asyncio.wrap_future(start(pool, partial(variables.run, function)))


class ThreadPools:
    """
    The pools of a runtime by name.

    A name has one pool for as long as it is held: the first holder sets its size, and
    the last one to release it closes it.
    """

    def __init__(self, limit: float) -> None:
        #: Of pools for which no other limit is given.
        self._limit = limit
        self._pools: dict[str, ThreadPool] = {}
        self._holders: dict[str, int] = {}
        self._lock = threading.Lock()

    def hold(self, name: str, size: int, limit: float | None = None) -> ThreadPool:
        with self._lock:
            if name not in self._pools:
                limit = self._limit if limit is None else limit
                self._pools[name] = ThreadPool(name, size, limit=limit)
                self._holders[name] = 0
            self._holders[name] += 1
            return self._pools[name]

    def release(self, pool: ThreadPool) -> None:
        with self._lock:
            self._holders[pool.name] -= 1
            if self._holders[pool.name] > 0:
                return
            del self._pools[pool.name], self._holders[pool.name]
        pool.close()

    def all(self) -> list[ThreadPool]:
        with self._lock:
            return list(self._pools.values())

    def close(self) -> None:
        for pool in self.all():
            pool.close()
