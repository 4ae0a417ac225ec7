"""
FlexiQ on Redis.

As it comes it is told of new jobs (``push_dispatch``), which makes it quick to start a
lone job; but a backlog is then looked at every two seconds only, and drains at 8 jobs a
second.  So it is told where latency is measured, and looks by itself elsewhere.
"""

from __future__ import annotations

from flexiq import Queue

from benchmarks.peers.adapters import blocking, tasks
from benchmarks.peers.adapters.place import URL


def work(task: str, slots: int) -> None:
    queue = make_queue(slots=slots, is_told=task == "ping")
    queue.run_worker()


def make_queue(*, slots: int, is_told: bool) -> Queue:
    queue = Queue(
        backend="redis",
        db_url=URL,
        workers=slots,
        push_dispatch=is_told,
        scheduler_poll_interval_ms=1,
    )
    for function in (tasks.noop, tasks.nap, tasks.ping):
        queue.task(name=function.__name__)(function)
    return queue


class Producer(blocking.Producer):
    def __init__(self) -> None:
        self._queue = make_queue(slots=1, is_told=True)

    def add(self, task: str, number: int) -> None:
        self._queue.enqueue(task, kwargs={"i": number})

    def add_many(self, task: str, numbers: range) -> None:
        self._queue.enqueue_many(task, args_list=[(number,) for number in numbers])


producer = Producer
