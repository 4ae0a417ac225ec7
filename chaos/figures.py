"""Figures of a run, and all breaches found in its history."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from chaos import delivery, events, job_history, losses, orders, recovery
from chaos.breach import Breach
from kue import State

if TYPE_CHECKING:
    from chaos.history import History
    from chaos.plan import Plan

CHECKS = (*delivery.CHECKS, *job_history.CHECKS, *orders.CHECKS, *events.CHECKS)
#: With fewer acknowledged jobs per second than this, a run is inconclusive.
MIN_RATE = 10.0
#: Breaches that have their own figure.
_COUNTED = frozenset({delivery.LOST, delivery.STUCK, job_history.COMPLETED_TWICE})


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run, in the order they are shown."""

    engine: str
    seed: int
    seconds: float
    ok: bool
    acknowledged: int
    lost: int
    completed_twice: int
    stuck: int
    violations: int
    effects_repeated: int
    #: None when no run counted.
    recovery_p50_s: float | None
    recovery_max_s: float | None
    faults: dict[str, int]
    #: Runs that the two figures of recovery are from.
    recoveries: int = 0
    #: Adds that were not answered, and those of them whose job exists nevertheless.
    indeterminate: int = 0
    recovered: int = 0
    #: Acknowledged jobs that the store lost by a fail-over or when it was emptied, adds
    #: that got a warning about that, and adds that were promised durability.
    lost_by_store: int = 0
    warned: int = 0
    durable: int = 0
    states: dict[str, int] = {}
    runs: int = 0
    #: Jobs that failed because they lost too many workers.
    given_up: int = 0
    orders: dict[str, int] = {}
    events: int = 0
    drain_s: float = 0.0


def breaches(history: History) -> list[Breach]:
    """Return all breaches in *history*."""
    held = losses.held_to_all_rules(history)
    found = list(chain.from_iterable(check(held) for check in CHECKS))
    if history.losses:
        earlier = (*losses.lost_without_cause(history), *delivery.stuck(history))
        found += [breach for breach in earlier if breach not in found]
    found += [Breach("store", finding) for finding in history.findings]
    return found + [Breach("process", mishap) for mishap in history.mishaps]


def effects_repeated(history: History) -> int:
    """Count effects that were repeated without a retry by an operator."""
    return sum(
        max(0, len(effects) - 1 - len(history.retried(job_id)))
        for job_id, effects in history.effects_of.items()
    )


def figures(
    plan: Plan, history: History, faults: Counter[str], *, drain: float
) -> Figures:
    """Return the figures of a run; *faults* are those that struck."""
    rules = Counter(breach.rule for breach in breaches(history))
    held = losses.held_to_all_rules(history)
    times = recovery.times(held)
    acknowledged = len(history.acknowledged)
    return Figures(
        engine=plan.engine,
        seed=plan.seed,
        seconds=plan.seconds,
        ok=not rules and acknowledged >= MIN_RATE * plan.seconds,
        acknowledged=acknowledged,
        lost=rules[delivery.LOST],
        completed_twice=rules[job_history.COMPLETED_TWICE],
        stuck=rules[delivery.STUCK],
        violations=sum(rules.values()) - sum(rules[rule] for rule in _COUNTED),
        effects_repeated=effects_repeated(held),
        recovery_p50_s=recovery.middle(times),
        recovery_max_s=max(times, default=None),
        faults=dict(sorted(faults.items())),
        recoveries=len(times),
        lost_by_store=len(losses.missing(history)) if history.losses else 0,
        warned=sum(one.is_warned for one in history.attempted),
        durable=sum(one.is_durable for one in history.attempted),
        states=dict(Counter(job.state.value for job in history.jobs)),
        runs=len(history.started),
        given_up=_given_up(history),
        orders=dict(Counter(order.verb for order in history.given)),
        events=len(history.events),
        drain_s=round(drain, 3),
        **_unanswered(history),
    )


def _unanswered(history: History) -> dict[str, int]:
    keys = {one.key for one in history.attempted if not one.id}
    there = {delivery.key_of(job) for job in history.jobs}
    return {"indeterminate": len(keys), "recovered": len(keys & there)}


def _given_up(history: History) -> int:
    errors = [job.error for job in history.jobs if job.state is State.FAILED]
    return sum(error is not None and error.kind == "WorkerLost" for error in errors)
