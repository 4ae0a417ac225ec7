"""
Whether the server that we run in was told to stop.

uvicorn waits for every answer that is under way before it says so to anybody, and an
event stream is under way for ever.  What it does tell is who handles its signals: a
method of itself.
"""

from __future__ import annotations

import asyncio
import signal

#: Seconds between two looks.
LOOK_SECONDS = 0.25


def is_stopping() -> bool:
    """Tell whether a uvicorn of this process stops; False where there is none."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    servers = [getattr(handler, "__self__", None) for handler in handlers]
    return any(getattr(server, "should_exit", False) is True for server in servers)


async def until_stopping() -> None:
    """Return when it does."""
    while not is_stopping():  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(LOOK_SECONDS)
