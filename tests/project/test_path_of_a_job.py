"""The path of a job through the code stays short: see ARCHITECTURE.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import kue
from kue.store.redis.wire.connection import Command, RedisConnection
from tests.support.servers import RedisServer

SOURCE = Path(kue.__file__).parent


def path_to(frame: FrameType | None) -> list[CodeType]:
    """Return the functions of Kue that led to *frame*, the last first."""
    codes: list[CodeType] = []
    while frame is not None:
        if SOURCE in Path(frame.f_code.co_filename).parents:
            codes.append(frame.f_code)
        frame = frame.f_back
    return codes


async def test_an_enqueued_job_is_sent_within_14_functions_in_9_files(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[list[CodeType]] = []
    call = RedisConnection.call

    async def recorded(
        self: RedisConnection, commands: Sequence[Command], deadline: float
    ) -> list[Any]:
        paths.append([call.__code__, *path_to(sys._getframe())])
        return await call(self, commands, deadline)

    async with kue.Kue(redis_server.url, prefix="path") as q:

        @q.task
        async def hello(name: str) -> None: ...

        # Connected, and known to be a single caller.
        for name in ("ann", "bob"):
            await hello.enqueue(name)
        monkeypatch.setattr(RedisConnection, "call", recorded)
        await hello.enqueue("cleo")
        monkeypatch.undo()

    [path] = paths
    assert path[-1].co_qualname == "TaskCalls.enqueue"
    assert len(path) <= 14
    assert len({code.co_filename for code in path}) <= 9
