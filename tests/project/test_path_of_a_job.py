"""The path of a job through the code stays short: see ARCHITECTURE.md."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from kue import Kue
from kue.store.redis.wire.connection import RedisConnection
from tests.support.servers import RedisServer

SOURCE = Path(sys.modules["kue"].__file__ or "").parent


def path_of(frame: FrameType | None) -> list[CodeType]:
    """Return the functions of Kue that *frame* was called by, the last first."""
    codes: list[CodeType] = []
    while frame is not None:
        if SOURCE in Path(frame.f_code.co_filename).parents:
            codes.append(frame.f_code)
        frame = frame.f_back
    return codes


async def test_an_enqueued_job_is_sent_within_14_functions_in_9_files(
    redis_server: RedisServer,
) -> None:
    paths: list[list[CodeType]] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is RedisConnection.call.__code__:
            paths.append(path_of(frame))

    async with Kue(redis_server.url, prefix="path") as q:

        @q.task
        async def hello(name: str) -> None: ...

        # Connected, and known to be a single caller.
        for name in ("ann", "bob"):
            await hello.enqueue(name)
        sys.setprofile(profile)
        await hello.enqueue("cleo")
        sys.setprofile(None)

    # The others are of the same call, when it is resumed.
    path = paths[0]
    assert path[-1].co_qualname == "TaskCalls.enqueue"
    assert len(path) <= 14
    assert len({code.co_filename for code in path}) <= 9
