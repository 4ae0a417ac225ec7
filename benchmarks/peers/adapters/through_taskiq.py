"""taskiq with its Redis brokers, a list or a stream, without a result backend."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from taskiq_redis import ListQueueBroker, RedisStreamBroker

from benchmarks.peers.adapters import awaited, tasks
from benchmarks.peers.adapters.connection import URL, VARIANT

broker = (
    # From the beginning: else a group skips jobs sent before its first worker.
    RedisStreamBroker(url=URL, consumer_id="0")
    if VARIANT == "stream"
    else ListQueueBroker(url=URL)
)
TASKS = {
    name: broker.task(task_name=name)(function)
    for name, function in (
        ("noop", tasks.anoop),
        ("nap", tasks.anap),
        ("ping", tasks.aping),
    )
}


def work(task: str, slots: int) -> None:
    """Replace this process by taskiq's command line, with one worker child."""
    program = str(Path(sys.executable).with_name("taskiq"))
    arguments = [program, "worker", f"{__name__}:broker", "--workers", "1"]
    arguments += ["--max-async-tasks", str(slots), "--log-level", "ERROR"]
    os.execv(program, arguments)


class Producer(awaited.Producer):
    async def open(self) -> None:
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()

    async def add(self, task: str, number: int) -> None:
        await TASKS[task].kiq(i=number)


producer = Producer
