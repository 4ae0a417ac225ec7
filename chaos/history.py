"""The history of a run, as values: the input of all checks."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import msgspec

from chaos.facts import Attempted, Away, Came, Died, Given, Idled, Loss, Started
from chaos.journal import read_journals
from chaos.sink import Effect, Sink
from kue import Event, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

T = TypeVar("T")

#: A call whose answer was lost is repeated, and the first may still arrive: an order
#: can take effect for this long after it was answered, ms.
LATE_MS = 3_000
#: Orders that remove a job from the store.
REMOVALS = frozenset({"remove", "force_remove"})


class History(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What all processes recorded, and the final contents of the store."""

    attempted: tuple[Attempted, ...] = ()
    started: tuple[Started, ...] = ()
    effects: tuple[Effect, ...] = ()
    given: tuple[Given, ...] = ()
    came: tuple[Came, ...] = ()
    idled: tuple[Idled, ...] = ()
    died: tuple[Died, ...] = ()
    away: tuple[Away, ...] = ()
    losses: tuple[Loss, ...] = ()
    #: Events in the order in which a listener received them.
    events: tuple[Event, ...] = ()
    #: All jobs in the store after all faults had ended and it had drained.
    jobs: tuple[Job, ...] = ()
    #: What `Store.check` found wrong.
    findings: tuple[str, ...] = ()
    #: What went wrong with the processes themselves.
    mishaps: tuple[str, ...] = ()

    @cached_property
    def job(self) -> dict[int, Job]:
        return {job.id: job for job in self.jobs}

    @cached_property
    def acknowledged(self) -> list[Attempted]:
        """Adds that were answered with an id."""
        return [one for one in self.attempted if one.id]

    @cached_property
    def runs(self) -> dict[int, list[Started]]:
        """Handlers called, by job, in the order of their fences."""
        ordered = sorted(self.started, key=lambda one: one.fence)
        return _grouped(ordered, lambda one: one.id)

    @cached_property
    def effects_of(self) -> dict[int, list[Effect]]:
        return _grouped(self.effects, lambda one: one.job)

    @cached_property
    def orders(self) -> dict[int, list[Given]]:
        """
        Orders by job, whatever the answer.

        Even one that was refused may have taken effect: a call whose answer is lost is
        repeated, and the second time there is nothing left to do.
        """
        return _grouped((one for one in self.given if one.id), lambda one: one.id)

    def ordered(self, job_id: int, *verbs: str) -> list[Given]:
        """Return the orders of these kinds for the job."""
        return [one for one in self.orders.get(job_id, ()) if one.verb in verbs]

    def may_be_retried(self, job_id: int, since: int, until: int) -> bool:
        """Return whether an operator may have requeued the job in this time."""
        return any(
            order.at <= until and order.ended + LATE_MS >= since
            for order in self.ordered(job_id, "retry", "promote")
        )

    def retried(self, job_id: int) -> set[str]:
        """Return the endings of the job that were retried, whatever the answer."""
        return {order.ending for order in self.ordered(job_id, "retry")}

    def may_be_removed(self, job_id: int) -> bool:
        return bool(self.ordered(job_id, *REMOVALS))


def _grouped(things: Iterable[T], key: Callable[[T], int]) -> dict[int, list[T]]:
    groups: dict[int, list[T]] = defaultdict(list)
    for thing in things:
        groups[key(thing)].append(thing)
    return groups


def read(folder: Path) -> History:
    """Return what the processes recorded; the rest is left empty."""
    return History(
        attempted=_latest(read_journals(Attempted, folder, "attempted-*.jsonl")),
        started=read_journals(Started, folder, "started-*.jsonl"),
        given=read_journals(Given, folder, "given.jsonl"),
        came=read_journals(Came, folder, "came-*.jsonl"),
        idled=read_journals(Idled, folder, "idled.jsonl"),
        died=read_journals(Died, folder, "died-*.jsonl"),
        effects=Sink(folder).effects(),
    )


def _latest(attempted: Iterable[Attempted]) -> tuple[Attempted, ...]:
    """Return the last entry of each key: it is written before and after the call."""
    return tuple({one.key: one for one in attempted}.values())
