"""Which queues and workers ``kue top`` lists, and in which order."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kue.model.job import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kue.cli.commands.top.snapshot import QueueFacts
    from kue.store.values import WorkerStatus


class Sort(StrEnum):
    """What queues are ordered by."""

    NEED = "need"
    NAME = "name"
    WAITING = "waiting"
    ACTIVE = "active"
    FAILED = "failed"
    ADDED = "in/m"
    COMPLETE = "out/m"

    @property
    def next(self) -> Sort:
        """The order that follows when orders are changed in turn."""
        orders = list(Sort)
        return orders[(orders.index(self) + 1) % len(orders)]


def need_of(queue: QueueFacts) -> int:
    """Return how much a queue needs an operator; less is more urgent."""
    needs = (
        queue.concern == "no-worker" and not queue.is_paused,
        queue.per_minute.failed > 0,
        queue.concern in ("full", "backlog"),
        queue.is_paused and queue.count(State.WAITING) > 0,
        queue.count(State.FAILED) > 0,
        queue.count(State.WAITING) + queue.count(State.ACTIVE) > 0,
    )
    return needs.index(True) if True in needs else len(needs)


def _by_need(queue: QueueFacts) -> tuple[int, int]:
    # By order of magnitude: rows that change places all the time cannot be read.
    busy = queue.count(State.WAITING) + queue.count(State.ACTIVE)
    return need_of(queue), -(busy // 10).bit_length()


_KEYS: dict[Sort, Callable[[QueueFacts], Any]] = {
    Sort.NEED: _by_need,
    Sort.NAME: lambda queue: 0,
    Sort.WAITING: lambda queue: -queue.count(State.WAITING),
    Sort.ACTIVE: lambda queue: -queue.count(State.ACTIVE),
    Sort.FAILED: lambda queue: -queue.count(State.FAILED),
    Sort.ADDED: lambda queue: -queue.per_minute.added,
    Sort.COMPLETE: lambda queue: -queue.per_minute.complete,
}


def ordered_queues(
    queues: Iterable[QueueFacts], sort: Sort, pattern: str = ""
) -> list[QueueFacts]:
    """Return the queues with *pattern* in their names, in that order, then by name."""
    key = _KEYS[sort]
    wanted = [queue for queue in queues if matches(queue.type, pattern)]
    return sorted(wanted, key=lambda queue: (key(queue), queue.type))


def ordered_workers(
    workers: Iterable[WorkerStatus], pattern: str = ""
) -> list[WorkerStatus]:
    """Return the workers with *pattern* in their names: those with a problem first."""
    wanted = [worker for worker in workers if matches(worker.name, pattern)]
    return sorted(wanted, key=lambda worker: (_worker_need(worker), worker.name))


def _worker_need(worker: WorkerStatus) -> int:
    needs = (
        worker.lost and worker.active > 0,
        worker.alive and worker.trouble is not None,
        worker.alive and worker.paused,
        worker.alive and worker.active > 0,
        worker.alive,
        worker.lost,
    )
    return needs.index(True) if True in needs else len(needs)


def matches(name: str, pattern: str) -> bool:
    """Return whether *pattern* is in *name*, ignoring case."""
    return pattern.casefold() in name.casefold()
