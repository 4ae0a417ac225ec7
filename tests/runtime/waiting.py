"""Signals that any thread may give, and a test on its own loop may await."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any


class Signal:
    """Something that will be told once, from whatever thread."""

    def __init__(self) -> None:
        self._told: Future[Any] = Future()

    def tell(self, value: object = None) -> None:
        if not self._told.done():
            self._told.set_result(value)

    @property
    def is_told(self) -> bool:
        return self._told.done()

    async def told(self) -> Any:
        async with asyncio.timeout(50):
            return await asyncio.shield(asyncio.wrap_future(self._told))

    def wait(self) -> Any:
        """Block the thread until it is told."""
        return self._told.result(45)


def thread() -> str:
    return threading.current_thread().name
