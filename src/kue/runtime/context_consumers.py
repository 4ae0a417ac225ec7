"""The consumers of a context, which end with it."""

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
    Consumers made in one context, from any thread; they live on its loop.

    They are a `kue.bus.consumer.ConsumerContext`.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        #: A dict keeps the order.
        self._consumers: dict[Consumer, None] = {}
        self._lock = threading.Lock()
        #: Whether the verticle is being stopped.
        self.have_ended = False

    def add(
        self, address: str, handler: Handler | None, *, local: bool, **rest: int
    ) -> Consumer:
        """
        Register a consumer of *address*.

        Raises:
            ValueError: The runtime has no bus.
            TypeError: There is no handler, and this code runs on another loop.
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
            raise TypeError("it can only be read on its own loop; give a handler")
        make = context.variables().run
        consumer = make(bus.consumer, address, handler, local=local, home=self, **rest)
        with self._lock:
            self._consumers[consumer] = None
            context.add_close_hook(self.end)
        return consumer

    def end(self) -> None:
        """Unregister all of them; waiting messages are discarded."""
        self.have_ended = True
        for consumer in list(self._consumers):
            consumer.unregister()

    # -- called by the bus -----------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._context.host.loop

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
