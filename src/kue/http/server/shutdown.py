"""
Shutdown of the uvicorn server that the application runs in, detected by polling.

uvicorn waits for every unfinished response before it notifies the application, and an
event stream never finishes.  But its signal handlers are methods of the server, which
has a flag.
"""

from __future__ import annotations

import asyncio
import signal

#: Seconds between two checks.
POLL_SECONDS = 0.25


def is_stopping() -> bool:
    """Return whether a uvicorn of this process is stopping; False if there is none."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    servers = [getattr(handler, "__self__", None) for handler in handlers]
    return any(getattr(server, "should_exit", False) is True for server in servers)


async def until_stopping() -> None:
    """Return once it is stopping."""
    while not is_stopping():  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(POLL_SECONDS)
