"""Handlers that are generators: each value they yield is a chunk of the stream."""

from __future__ import annotations

import functools
import inspect
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from kue.model.payload import JSON
    from kue.worker.active_job import ActiveJob


def is_generator(function: Any) -> bool:
    """Return whether calling *function* returns a generator."""
    return inspect.isgeneratorfunction(_plain(function))


def is_async_generator(function: Any) -> bool:
    return inspect.isasyncgenfunction(_plain(function))


def _plain(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


async def send_each(active: ActiveJob, chunks: AsyncGenerator[JSON, Any]) -> None:
    """Send what an async generator yields."""
    async with aclosing(chunks):
        async for chunk in chunks:
            await active.send(chunk)


def send_all(active: ActiveJob, chunks: Generator[JSON, Any, JSON]) -> JSON:
    """Send what a generator yields, in its thread; return what it returns."""
    with closing(chunks):
        while True:
            try:
                chunk = next(chunks)
            except StopIteration as end:
                return end.value
            active.send(chunk)
