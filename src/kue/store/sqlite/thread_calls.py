"""Calls on their way to a thread and back to the event loops that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class ThreadCall:
    """Something to be done in another thread, and who waits for it."""

    __slots__ = (
        "_error",
        "_result",
        "call",
        "future",
        "is_durable",
        "is_new",
        "loop",
        "now",
    )

    def __init__(
        self,
        call: Callable[..., Any],
        now: int | None = None,
        is_durable: bool = False,
        is_new: bool = False,
    ) -> None:
        self.call = call
        self.now = now
        self.is_durable = is_durable
        #: Brings new jobs, which a full disk does not take.
        self.is_new = is_new
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self._result: Any = None
        self._error: Exception | None = None

    def succeed(self, result: Any) -> None:
        self._result = result

    def fail(self, error: Exception) -> None:
        self._error = error

    def _resolve(self) -> None:
        # Whoever waited may have given up; what was done stays done.
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)


def resolve(tasks: list[ThreadCall]) -> None:
    """Tell everyone who waits, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[ThreadCall]] = {}
    for task in tasks:
        by_loop.setdefault(task.loop, []).append(task)
    for loop, mine in by_loop.items():
        # A loop that is closed by now waits for nothing.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve_all, mine)


def _resolve_all(tasks: list[ThreadCall]) -> None:
    for task in tasks:
        task._resolve()
