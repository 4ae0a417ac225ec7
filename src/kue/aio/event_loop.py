"""Event loops, uvloop's where it is installed, and their signal handlers."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Coroutine, Iterator, Mapping

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop.  uvloop is imported only here, because that is slow."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do what `asyncio.run` does, on such a loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


@contextmanager
def on_signals(actions: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Call these functions for signals, for as long as the context lasts."""
    loop = asyncio.get_running_loop()
    for number, action in actions.items():
        loop.add_signal_handler(number, action)
    try:
        yield
    finally:
        for number in actions:
            loop.remove_signal_handler(number)
