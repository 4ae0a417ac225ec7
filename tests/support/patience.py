"""Waiting for facts that announce themselves to nobody."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

#: How long a test waits for what must happen.  Only a failure takes that long, and a
#: machine that is short of memory or of cores can stand still for a minute.  Where
#: failures are expected (tools/mutants.py) less is enough.
PATIENCE_SECONDS = float(os.environ.get("KUE_TEST_PATIENCE", "120"))


async def until(
    is_so: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS
) -> None:
    """Look again and again until *is_so*; where there is an event, wait for that."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


async def eventually(
    ask: Callable[[], Awaitable[T]], *, seconds: float = PATIENCE_SECONDS
) -> T:
    """Ask again and again, and return the first answer that is true."""
    async with asyncio.timeout(seconds):
        while True:
            answer = await ask()
            if answer:
                return answer
            await asyncio.sleep(0.02)


def in_time(function: Callable[[], T], *, seconds: float = PATIENCE_SECONDS) -> T:
    """Call what might block forever, on a thread that nobody waits for then."""
    outcome: Future[T] = Future()

    def call() -> None:
        try:
            outcome.set_result(function())
        except BaseException as exc:
            outcome.set_exception(exc)

    threading.Thread(target=call, daemon=True).start()
    return outcome.result(seconds)
