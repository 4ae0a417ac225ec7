"""Celery with a pool of threads, results ignored."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.peers.adapters import blocking, tasks
from benchmarks.peers.adapters.connection import URL

app = Celery("bench", broker=URL)
app.conf.update(
    task_ignore_result=True,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)
TASKS = {
    name: app.task(name=name)(function)
    for name, function in (
        ("noop", tasks.noop),
        ("nap", tasks.nap),
        ("ping", tasks.ping),
    )
}


def work(task: str, slots: int) -> None:
    app.worker_main(
        [
            *("worker", "--pool", "threads", "--concurrency", str(slots)),
            *("--loglevel", "ERROR", "--hostname", f"bench{os.getpid()}"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ]
    )


class Producer(blocking.Producer):
    def add(self, task: str, number: int) -> None:
        TASKS[task].delay(i=number)

    def add_many(self, task: str, numbers: range) -> None:
        """Publish over one channel: its groups do the same, more slowly."""
        with app.producer_or_acquire() as channel:
            for number in numbers:
                TASKS[task].apply_async(kwargs={"i": number}, producer=channel)


producer = Producer
