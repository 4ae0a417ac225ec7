"""Dramatiq on its Redis broker with its default middleware."""

from __future__ import annotations

import signal

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers.adapters import blocking, tasks
from benchmarks.peers.adapters.connection import URL

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)
ACTORS = {
    function.__name__: dramatiq.actor(function)
    for function in (tasks.noop, tasks.nap, tasks.ping)
}


def work(task: str, slots: int) -> None:
    dramatiq.Worker(broker, worker_threads=slots).start()
    signal.pause()


class Producer(blocking.Producer):
    def add(self, task: str, number: int) -> None:
        ACTORS[task].send(i=number)


producer = Producer
