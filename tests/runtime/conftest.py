"""Runtimes on the caller's loop and on threads, with uvloop's loops and asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kue.aio.event_loop import new_event_loop
from kue.runtime import Runtime


@pytest.fixture(params=["here", "threads", "asyncio threads"])
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    """A runtime of each kind; whatever a test did, it must close."""
    is_plain = request.param == "asyncio threads"
    async with Runtime(
        loops=0 if request.param == "here" else 2,
        loop_factory=asyncio.new_event_loop if is_plain else new_event_loop,
    ) as runtime:
        yield runtime


@pytest.fixture
async def threaded() -> AsyncIterator[Runtime]:
    async with Runtime(loops=2) as runtime:
        yield runtime
