"""Runtimes on the caller's loop and on threads, with uvloop's loops and asyncio's."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kue.aio.event_loop import new_event_loop
from kue.runtime import Runtime
from tests.support.servers import RedisServer


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
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that only this test uses, and that forgets all when it restarts."""
    server = RedisServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
async def threaded() -> AsyncIterator[Runtime]:
    async with Runtime(loops=2) as runtime:
        yield runtime
