"""
Order checks: the answers to operators must be consistent with what happened.

An order that was acknowledged holds until the next one that reverses it is given.  One
that was not answered may have taken effect, and may not have reversed anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.breach import Breach
from chaos.facts import FOREVER
from chaos.history import LATE_MS, REMOVALS
from kue import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.facts import Given, Started
    from chaos.history import History


def started_after_cancel(history: History) -> Iterator[Breach]:
    """Runs of jobs that were cancelled before they began, by the store's clock."""
    for job_id, orders in history.orders.items():
        for order in orders:
            if order.verb == "cancel" and order.word == "done":
                until = _next(history.ordered(job_id, "retry"), order)
                yield from _between(history, job_id, order, until, "cancelled")


def started_after_remove(history: History) -> Iterator[Breach]:
    """Runs of jobs that were removed."""
    for job_id, orders in history.orders.items():
        for order in orders:
            if order.verb in REMOVALS and order.word == "done":
                yield from _between(history, job_id, order, FOREVER, "removed")


def started_while_paused(history: History) -> Iterator[Breach]:
    """Runs of a type that was paused."""
    changes = [order for order in history.given if order.type]
    for order in changes:
        if order.verb == "pause" and order.word == "done":
            same = [one for one in changes if one.type == order.type]
            until = _next([one for one in same if one.verb == "resume"], order)
            for run in history.started:
                if run.type == order.type and _is_within(run, order, until):
                    yield Breach(
                        "paused", f"job {run.id} began while {run.type} was paused"
                    )


def back_from_removal(history: History) -> Iterator[Breach]:
    """Jobs that were removed and still exist."""
    for job_id in history.job:
        for order in history.ordered(job_id, *REMOVALS):
            if order.word == "done":
                yield Breach("removed", f"job {job_id} was removed and still exists")


def cancelled_unasked(history: History) -> Iterator[Breach]:
    """Jobs that are cancelled though no operator asked for it."""
    for job in history.jobs:
        if job.state is State.CANCELLED and not history.ordered(job.id, "cancel"):
            yield Breach("cancelled", f"job {job.id} was cancelled without an order")


def _next(orders: list[Given], after: Given) -> int:
    """Return when the first of *orders* that can be later than *after* was given."""
    late = (one.at for one in orders if one.ended + LATE_MS >= after.at)
    return min(late, default=FOREVER)


def _between(
    history: History, job_id: int, order: Given, until: int, what: str
) -> Iterator[Breach]:
    for run in history.runs.get(job_id, ()):
        if _is_within(run, order, until):
            late = run.started_at - order.ended
            yield Breach(what, f"job {job_id} began {late} ms after it was {what}")


def _is_within(run: Started, order: Given, until: int) -> bool:
    return order.ended < run.started_at < until


CHECKS = (
    started_after_cancel,
    started_after_remove,
    started_while_paused,
    back_from_removal,
    cancelled_unasked,
)
