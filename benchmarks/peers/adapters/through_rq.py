"""RQ with the worker that does not fork for each job."""

from __future__ import annotations

from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.peers.adapters import blocking, tasks
from benchmarks.peers.adapters.connection import HOST, PORT

connection = Redis(host=HOST, port=PORT)
queue = Queue("bench", connection=connection)
TASKS = {"noop": tasks.noop, "nap": tasks.nap, "ping": tasks.ping}


def work(task: str, slots: int) -> None:
    SimpleWorker([queue], connection=connection).work(logging_level="ERROR")


class Producer(blocking.Producer):
    def add(self, task: str, number: int) -> None:
        queue.enqueue(TASKS[task], kwargs={"i": number})

    def add_many(self, task: str, numbers: range) -> None:
        prepare, function = Queue.prepare_data, TASKS[task]
        queue.enqueue_many(
            [prepare(function, kwargs={"i": number}) for number in numbers]
        )


producer = Producer
