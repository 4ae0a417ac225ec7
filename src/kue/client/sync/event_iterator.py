"""Blocking iterators over events, and other async iterators of a queue."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

from kue.aio.loop_thread import refuse_on_a_loop
from kue.model.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from kue.aio.loop_thread import BackgroundLoop
    from kue.client.queue import Kue
    from kue.client.sync.connection import BlockingCalls

T = TypeVar("T")


def iterate(
    calls: BlockingCalls, begin: Callable[[Kue], AsyncIterator[T]], *, instead: str
) -> Iterator[T]:
    """
    Iterate over what *begin* returns, waiting in this thread for each.

    Raises:
        RuntimeError: This thread runs an event loop; the message has *instead*.
    """
    refuse_on_a_loop(instead)
    connection = calls._connected()
    # All of Kue's are generators, which can be closed.
    source = cast("AsyncGenerator[T, None]", begin(connection.queue))
    return _iterate(connection.loop, source)


def _iterate(loop: BackgroundLoop, source: AsyncGenerator[T, None]) -> Iterator[T]:
    try:
        while True:
            try:
                item = loop.call(_next(source))
            except StopAsyncIteration:
                return
            yield item
    finally:
        # Not waited for: a generator may be dropped anywhere, even on the loop.
        with suppress(StoreUnavailable):
            loop.start(_close(source))


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source)


async def _close(source: AsyncGenerator[T, None]) -> None:
    await source.aclose()
