"""Where a consumer lives, when that is not just the loop that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from kue.bus.consumer import Consumer


class ConsumerContext(Protocol):
    """Whoever owns consumers, and ends them when it ends."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop they live in; they may be made in any thread."""

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Know of a task that runs a handler."""

    def report(self, error: BaseException) -> None:
        """Hear what a handler raised."""

    def forget(self, consumer: Consumer) -> None:
        """Hear that a consumer listens no more, in whatever thread."""
