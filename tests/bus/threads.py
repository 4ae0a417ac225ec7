"""An event loop in a thread, beside that of the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    async def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Run a coroutine function there."""

        async def run() -> Any:
            return await call()

        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(run(), self.loop)
        )

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
