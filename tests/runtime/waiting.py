"""Signals that any thread may give, and what takes its time until one is given."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

from kue.runtime import Runtime, Verticle
from tests.support.patience import PATIENCE_SECONDS


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
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.shield(asyncio.wrap_future(self._told))

    def wait(self) -> Any:
        """Block the thread until it is told."""
        return self._told.result(45)


class Lingering:
    """An async function that runs until it is cancelled."""

    def __init__(self) -> None:
        self.begun, self.ended = Signal(), Signal()

    async def __call__(self) -> None:
        self.begun.tell()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.tell()


class SlowToStop(Verticle):
    """Takes until it is told to go on."""

    def __init__(self) -> None:
        self.stopping, self.go_on = Signal(), Signal()

    async def stop(self) -> None:
        self.stopping.tell()
        await self.go_on.told()


async def pass_time(runtime: Runtime, seconds: float) -> None:
    """Wait for a timer: those that were due before it have called."""
    later = Signal()
    runtime.set_timer(seconds, later.tell)
    await later.told()


def thread() -> str:
    return threading.current_thread().name
