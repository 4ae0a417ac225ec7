"""
FlexiQ on Redis.

By default it is notified of new jobs (``push_dispatch``), which starts a single job
quickly; but then it polls a backlog only every two seconds, which drains at 8 jobs per
second.  So ``push_dispatch`` is on where latency is measured, and off elsewhere.
"""

from __future__ import annotations

from flexiq import Queue

from benchmarks.peers.adapters import blocking, tasks
from benchmarks.peers.adapters.connection import URL


def work(task: str, slots: int) -> None:
    queue = make_queue(slots=slots, is_notified=task == "ping")
    queue.run_worker()


def make_queue(*, slots: int, is_notified: bool) -> Queue:
    queue = Queue(
        backend="redis",
        db_url=URL,
        workers=slots,
        push_dispatch=is_notified,
        scheduler_poll_interval_ms=1,
    )
    for function in (tasks.noop, tasks.nap, tasks.ping):
        queue.task(name=function.__name__)(function)
    return queue


class Producer(blocking.Producer):
    def __init__(self) -> None:
        self._queue = make_queue(slots=1, is_notified=True)

    def add(self, task: str, number: int) -> None:
        self._queue.enqueue(task, kwargs={"i": number})

    def add_many(self, task: str, numbers: range) -> None:
        self._queue.enqueue_many(task, args_list=[(number,) for number in numbers])


producer = Producer
