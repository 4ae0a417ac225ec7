"""The context that owns a consumer, if that is not just the loop that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from kue.bus.consumer import Consumer


class ConsumerContext(Protocol):
    """An owner of consumers, which unregisters them when it ends."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Their event loop; they may be made in any thread."""

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep track of a task that runs a handler."""

    def report(self, error: BaseException) -> None:
        """Handle an exception raised by a handler."""

    def forget(self, consumer: Consumer) -> None:
        """Handle the end of a consumer, in any thread."""
