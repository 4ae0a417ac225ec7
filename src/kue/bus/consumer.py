"""
Consumers: their event loop, handler and buffer of waiting messages.

A consumer belongs to the event loop it was made in and runs only there.  Messages wait
in its buffer and are handled in the order they arrived.  A plain function is called
with each; an ``async def`` runs in a task, *concurrency* of them at once;
without a handler, ``async for message in consumer`` reads them.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from kue.aio.callbacks import is_async
from kue.aio.loop_calls import LoopCalls, call_in, running
from kue.aio.tasks import cancel_all
from kue.bus.errors import RequestFailed, discarded, raised

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import Future

    from kue.bus.interceptors import InterceptorChain
    from kue.bus.message import Message

logger = logging.getLogger(__name__)
#: How many messages may wait, unless the consumer sets another limit.
DEFAULT_BUFFER = 1000
MAX_BUFFER = 1_000_000
#: How many may wait for a plain function that is not paused: it catches up in each
#: iteration of the loop, so these were all sent in one, or from other threads.
BACKLOG = 100_000
#: Messages that are handled before other tasks of the loop run.
_BATCH = 64
Handler = Callable[["Message"], Awaitable[None] | None]
#: Held by threads that share a consumer; briefly, and seldom.
_threads_lock = threading.Lock()


class ConsumerContext(Protocol):
    """An owner of consumers other than a loop; unregisters them when it ends."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Their event loop; they may be made in any thread."""

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep track of a task that runs a handler."""

    def report(self, error: BaseException) -> None:
        """Handle an exception raised by a handler."""

    def forget(self, consumer: Consumer) -> None:
        """Handle the end of a consumer, in any thread."""


class Consumer:
    """
    One consumer of one address, until `unregister`.

    When *buffer* messages wait because it is paused or slow, further ones are
    discarded: `discarded` counts them, `on_discard` is called with each, the first is
    logged, and the requester gets a TIMEOUT at once.  A plain function that is not
    paused lags by what one iteration of its loop brings, at most `BACKLOG`.
    """

    def __init__(
        self,
        address: str,
        handler: Handler | None,
        *,
        is_local: bool,
        buffer: int,
        concurrency: int,
        inbound: InterceptorChain,
        on_unregister: Callable[[Consumer], None],
        home: ConsumerContext | None = None,
    ) -> None:
        if not 1 <= buffer <= MAX_BUFFER:
            raise ValueError(f"buffer must be 1 to {MAX_BUFFER:,}, not {buffer}")
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency}")
        self.address = address
        #: Whether only this node can reach it.
        self.is_local = is_local
        self.loop = asyncio.get_running_loop() if home is None else home.loop
        self.is_registered = True
        #: How many messages found the buffer full.
        self.discarded = 0
        #: Called with each of them, in the thread that found it full.
        self.on_discard: Callable[[Message], object] | None = None
        #: Called once, when it is unregistered.
        self.on_end: Callable[[], object] | None = None
        self._handler = handler
        self._is_async = handler is not None and is_async(handler)
        self._buffer = buffer
        is_plain = handler is not None and not self._is_async
        #: How many may wait while it is not paused.
        self._backlog = max(buffer, BACKLOG) if is_plain else buffer
        self._concurrency = concurrency
        self._inbound = inbound
        self._on_unregister = on_unregister
        self._home = home
        self._waiting: deque[Message] = deque()
        #: Messages from other threads, once there were any.
        self._cross_thread: LoopCalls[Message] | None = None
        #: How many more it may get; None is any number.
        self._demand: int | None = None
        #: A plain function will be called in the next iteration of the loop.
        self._is_scheduled = False
        self._is_full = False
        #: Handlers see the context variables of their registration, not of the sender.
        self._context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Tasks that will look for another message; one that is ending does not count.
        self._workers = 0
        #: Awaited by a reader; done when a message arrives.
        self._arrival: asyncio.Future[None] | None = None
        #: Done once the cluster knows the address.
        self.announced: Future[None] | None = None

    @property
    def waiting(self) -> int:
        """How many messages wait to be handled."""
        return len(self._waiting)

    async def ready(self) -> None:
        """Wait until every node knows the address."""
        if self.announced is not None:
            await asyncio.shield(asyncio.wrap_future(self.announced))

    def pause(self) -> None:
        """Receive nothing until `resume` or `fetch`; all three from any thread."""
        call_in(self.loop, self._set_demand, 0)

    def resume(self) -> None:
        """Receive everything."""
        call_in(self.loop, self._set_demand, None)

    def fetch(self, count: int) -> None:
        """Receive *count* more messages, then pause again."""
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        call_in(self.loop, self._fetch, count)

    def unregister(self) -> None:
        """
        Stop receiving, from any thread; waiting messages are discarded.

        Handlers that are running continue to their end.
        """
        if self.is_registered:
            self.is_registered = False
            self._on_unregister(self)
            if self._home is not None:
                self._home.forget(self)
            call_in(self.loop, self._end)

    def deliver(self, message: Message) -> None:
        """Receive a message that belongs to this consumer, from any thread."""
        if running() is self.loop:
            self._receive(message)
        elif self.loop.is_closed():
            reply_discarded(message)
        elif not (self._cross_thread or self._open_cross_thread()).put(message):
            self._discard(message)

    async def stop(self) -> None:
        """Unregister, and cancel running handlers.  In its own loop."""
        self.unregister()
        # The caller may be a handler, which is not cancelled.
        await cancel_all(self._tasks - {asyncio.current_task()})

    def __aiter__(self) -> Consumer:
        if self._handler is not None:
            raise TypeError("a consumer with a handler cannot be read as well")
        return self

    async def bodies(self) -> AsyncIterator[Any]:
        """Read bodies instead of messages."""
        async for message in self:
            yield message.body

    async def __anext__(self) -> Message:
        while not (self._waiting and self._demand != 0):
            if not self.is_registered:
                raise StopAsyncIteration
            if self._arrival is None:
                self._arrival = self.loop.create_future()
            await asyncio.shield(self._arrival)
        return self._next()

    def _set_demand(self, demand: int | None) -> None:
        self._demand = demand
        # Messages may have waited: begin as many runs as *concurrency* allows.
        for _ in range(min(self._concurrency, len(self._waiting))):
            self._schedule()

    def _fetch(self, count: int) -> None:
        if self._demand is not None:
            self._set_demand(self._demand + count)

    def _receive(self, message: Message) -> None:
        if self._inbound.links:
            self._inbound.run(message, lambda: self._enqueue(message))
        else:
            self._enqueue(message)

    def _enqueue(self, message: Message) -> None:
        if not self.is_registered:
            reply_discarded(message)
            return
        if len(self._waiting) >= self._buffer and len(self._waiting) >= self._limit:
            self._discard(message)
            return
        self._waiting.append(message)
        self._schedule()

    def _open_cross_thread(self) -> LoopCalls[Message]:
        with _threads_lock:
            if self._cross_thread is None:
                self._cross_thread = LoopCalls(
                    self.loop, self._receive, limit=self._backlog
                )
            return self._cross_thread

    @property
    def _limit(self) -> int:
        """How many may wait: more where each waits at most one loop iteration."""
        return self._backlog if self._demand is None else self._buffer

    def _schedule(self) -> None:
        if not self._waiting or self._demand == 0:
            return
        if self._handler is None:
            if self._arrival is not None:
                self._arrival.set_result(None)
                self._arrival = None
        elif self._is_async:
            if self._workers < self._concurrency:
                self._workers += 1
                task = self.loop.create_task(
                    self._work(),
                    name=f"kue-bus-{self.address}",
                    context=self._context.copy(),
                )
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                if self._home is not None:
                    self._home.keep(task)
        elif not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._run_batch, context=self._context)

    def _run_batch(self) -> None:
        """Call a plain function with waiting messages."""
        for _ in range(_BATCH):
            if not self._waiting or self._demand == 0:
                self._is_scheduled = False
                return
            message = self._next()
            try:
                self._handler(message)  # type: ignore[misc]
            except Exception as exc:
                self._report(message, exc)
        self.loop.call_soon(self._run_batch, context=self._context)

    async def _work(self) -> None:
        """Run an async function on waiting messages, until there are none."""
        count = 0
        try:
            while self._waiting and self._demand != 0:
                await self._run(self._next())
                count += 1
                if count % _BATCH == 0:
                    # The handler may never have yielded to the loop.
                    await asyncio.sleep(0)
        finally:
            # In the same iteration: a message that arrives next must start a worker.
            self._workers -= 1

    async def _run(self, message: Message) -> None:
        try:
            await self._handler(message)  # type: ignore[misc]
        except asyncio.CancelledError as exc:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something that the handler awaited was cancelled, not the handler.
            self._report(message, exc)
        except Exception as exc:
            self._report(message, exc)

    def _next(self) -> Message:
        if self._demand is not None:
            self._demand -= 1
        if self._is_full and len(self._waiting) <= self._buffer // 2:
            self._is_full = False
        return self._waiting.popleft()

    def _report(self, message: Message, exc: BaseException) -> None:
        if isinstance(exc, RequestFailed):
            message.fail(exc.code, exc.text)
        else:
            if self._home is not None:
                self._home.report(exc)
            else:
                logger.error("the consumer of %s failed", self.address, exc_info=exc)
            message.reply(raised(self.address, exc))

    def _discard(self, message: Message) -> None:
        with _threads_lock:
            self.discarded += 1
            is_first, self._is_full = not self._is_full, True
        if is_first:
            logger.warning(
                "Discarding message as more than %d buffered in paused consumer. "
                "address: %s",
                self._limit,
                self.address,
            )
        reply_discarded(message)
        _call(self.on_discard, message)

    def _end(self) -> None:
        while self._waiting:
            reply_discarded(self._waiting.popleft())
        if self._arrival is not None:
            self._arrival.set_result(None)
            self._arrival = None
        _call(self.on_end)


def reply_discarded(message: Message) -> None:
    """Reply to a request that it was discarded."""
    if message.reply_address is not None:
        message.reply(discarded(message.reply_address, message.address))


def _call(hook: Callable[..., object] | None, *args: Any) -> None:
    if hook is not None:
        try:
            hook(*args)
        except Exception:
            logger.exception("a consumer's hook failed")
