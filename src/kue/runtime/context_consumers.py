"""The consumers of a context: where its handlers run, until it ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from kue.aio.thread_calls import running

if TYPE_CHECKING:
    import asyncio

    from kue.bus import Consumer, Handler
    from kue.runtime.context import Context


class Consumers:
    """
    Consumers that one context made; they live on its loop, whoever's thread makes them.

    They are a `kue.bus.consumer_context.Home`.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        #: A dict keeps the order.
        self._consumers: dict[Consumer, None] = {}
        self._lock = threading.Lock()
        #: Whether the verticle is being stopped.
        self.are_over = False

    def add(
        self, address: str, handler: Handler | None, *, local: bool, **rest: int
    ) -> Consumer:
        """
        Listen at *address*.

        Raises:
            ValueError: The runtime has no bus.
            TypeError: Without a handler, it could not be read where this code runs.
            RuntimeClosed: The context is closed.
        """
        context = self._context
        context.check()
        bus = context.runtime.bus
        if bus is None:
            raise ValueError("this runtime has no bus; write Runtime(bus=EventBus())")
        if handler is not None:
            handler = context.handler(handler)
        elif running() is not self.loop:
            raise TypeError("it is read on another loop than this; give a handler")
        make = context.variables().run
        consumer = make(bus.consumer, address, handler, local=local, home=self, **rest)
        with self._lock:
            self._consumers[consumer] = None
            context.add_close_hook(self.end)
        return consumer

    def end(self) -> None:
        """Have all of them listen no more; what waits is refused."""
        self.are_over = True
        for consumer in list(self._consumers):
            consumer.unregister()

    # -- what the bus asks -----------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._context.place.loop

    def keep(self, task: asyncio.Task[Any]) -> None:
        self._context.keep(task)

    def report(self, error: BaseException) -> None:
        if self._context.is_worker:
            # Its exception handler may block, as its handlers may.
            self._context.run(self._context.report, error)
        else:
            self._context.report(error)

    def forget(self, consumer: Consumer) -> None:
        with self._lock:
            self._consumers.pop(consumer, None)
            if not self._consumers:
                self._context.remove_close_hook(self.end)
