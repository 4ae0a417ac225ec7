"""The fastest event loop there is: uvloop's where that is installed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop.  uvloop is found out late, for it takes long to import."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do what `asyncio.run` does, on that loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
