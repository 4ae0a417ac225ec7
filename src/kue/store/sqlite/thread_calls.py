"""Thread calls: functions run in another thread, with results for the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class ThreadCall:
    """A call for another thread, and the future that waits for it."""

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
        #: Whether it adds new jobs, which a full disk does not take.
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
        # The caller may have been cancelled; what was done stays done.
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)


def resolve(tasks: list[ThreadCall]) -> None:
    """Resolve the futures of *tasks*, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[ThreadCall]] = {}
    for task in tasks:
        by_loop.setdefault(task.loop, []).append(task)
    for loop, mine in by_loop.items():
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve_all, mine)


def _resolve_all(tasks: list[ThreadCall]) -> None:
    for task in tasks:
        task._resolve()
