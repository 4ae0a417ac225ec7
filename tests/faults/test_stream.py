"""A worker is killed in the middle of a stream; the next run sends all of it."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from kue import JobHandle, Kue, StreamRestarted
from tests.faults.conftest import assert_sound
from tests.faults.processes import Process
from tests.faults.program_stream import CHUNKS, TYPE
from tests.faults.test_durable_steps import reclaim
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer

PROGRAM = "tests.faults.program_stream"


async def read(job: JobHandle[Any], values: list[Any]) -> None:
    async for chunk in job.stream(timeout=PATIENCE_SECONDS):
        values.append(chunk)


async def test_a_reader_learns_that_the_worker_was_killed_and_then_reads_everything(
    redis_server: RedisServer, prefix: str
) -> None:
    url = redis_server.url
    async with asyncio.timeout(PATIENCE_SECONDS), Kue(url, prefix=prefix) as q:
        job = await q.enqueue(TYPE)
        values: list[Any] = []
        reading = asyncio.create_task(read(job, values))
        async with Process("7", url, prefix, "victim", program=PROGRAM) as victim:
            assert await victim.ended() == -signal.SIGKILL
        await until(lambda: len(values) == 7)
        dead = values[0][0]

        await reclaim(q.store, job.id)
        async with Process("0", url, prefix, "heir", program=PROGRAM):
            with pytest.raises(StreamRestarted):
                await reading
            values.clear()
            await read(job, values)

        [fence] = {run for run, _ in values}
        assert fence > dead
        assert [number for _, number in values] == [*range(CHUNKS)]
        await assert_sound(q.store)
