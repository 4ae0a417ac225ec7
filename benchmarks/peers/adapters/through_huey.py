"""Huey on Redis lists, with a consumer of threads."""

from __future__ import annotations

from huey import RedisHuey  # type: ignore[import-untyped]

from benchmarks.peers.adapters import blocking, tasks
from benchmarks.peers.adapters.connection import URL

huey = RedisHuey("bench", url=URL, results=False)
TASKS = {
    function.__name__: huey.task()(function)
    for function in (tasks.noop, tasks.nap, tasks.ping)
}


def work(task: str, slots: int) -> None:
    huey.create_consumer(workers=slots, worker_type="thread", periodic=False).run()


class Producer(blocking.Producer):
    def add(self, task: str, number: int) -> None:
        TASKS[task](i=number)

    def add_many(self, task: str, numbers: range) -> None:
        TASKS[task].map([(number,) for number in numbers])


producer = Producer
