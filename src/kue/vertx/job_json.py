"""
Jobs as JSON of Vert.x Kue, for its REST API and the event bus.

``priority`` and ``state`` are names in capitals, ``attempts`` and ``max_attempts``
numbers, times Unix ms and 0 when there is none yet; ``backoff``, ``error`` and
``result`` are left out when there is none.

Vert.x Kue and Automattic's Kue have five states: inactive, active, complete, failed and
delayed.  There a blocked job is inactive, and a cancelled one failed.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kue.model.draft import MAX_ATTEMPTS
from kue.model.job import Priority, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.client.queries import Order
    from kue.client.queue import Kue
    from kue.model.job import Job

#: The names of states in both, and the states of this Kue.
STATES: Mapping[str, tuple[State, ...]] = MappingProxyType(
    {
        "inactive": (State.WAITING, State.BLOCKED),
        "complete": (State.COMPLETE,),
        "active": (State.ACTIVE,),
        "failed": (State.FAILED, State.CANCELLED),
        "delayed": (State.DELAYED,),
    }
)
_NAMES = {state: name for name, states in STATES.items() for state in states}


def name_of(state: State) -> str:
    """Return the name of *state* in both."""
    return _NAMES[state]


def attempts_made(job: Job) -> int:
    """Return how many attempts have ended; a running one does not count."""
    return job.attempts - 1 if job.state is State.ACTIVE else job.attempts


def max_attempts(job: Job) -> int:
    """Return the most attempts; neither original has jobs without a limit."""
    return job.max_attempts or MAX_ATTEMPTS


def reason_of(job: Job) -> str | None:
    """Return the failure message of a cancelled job; None for others."""
    if job.state is not State.CANCELLED:
        return None
    reason = job.history[-1].reason if job.history else ""
    return f"cancelled: {reason}" if reason else "cancelled"


def due_at(job: Job) -> int:
    """Return when the job may run first, or could have."""
    return job.promote_at or job.created_at + job.spec.delay


def show(job: Job) -> dict[str, Any]:
    """Return a job as JSON of Vert.x Kue."""
    optional = {
        "backoff": msgspec.to_builtins(job.spec.backoff),
        "error": job.error.message if job.error else reason_of(job),
        "result": job.result,
    }
    shown = {
        "address_id": job.address_id,
        "attempts": attempts_made(job),
        "created_at": job.created_at,
        "data": {} if job.data is None else job.data,
        "delay": job.spec.delay,
        "duration": job.duration or 0,
        "failed_at": job.failed_at or 0,
        "id": job.id,
        "max_attempts": max_attempts(job),
        "priority": _level(job.priority),
        "progress": job.progress,
        "promote_at": due_at(job),
        "removeOnComplete": job.spec.remove_on_complete,
        "started_at": job.started_at or 0,
        "state": name_of(job.state).upper(),
        "ttl": job.ttl,
        "type": job.type,
        "updated_at": job.updated_at,
        "zid": f"{len(str(job.id)):02}|{job.id}",
    }
    given = {name: value for name, value in optional.items() if value is not None}
    return dict(sorted({**shown, **given}.items()))


def _level(priority: int) -> str:
    """Return the name of the level nearest to *priority*: Vert.x Kue has five."""
    return min(Priority, key=lambda level: abs(level - priority)).name


# -- queries by these states ---------------------------------------------------


async def counts(q: Kue, type: str | None = None) -> dict[str, int]:
    """Return how many jobs of *type* (None: of all types) are in each state."""
    counted = await q.counts(type)
    return {
        name: sum(counted[state] for state in states) for name, states in STATES.items()
    }


async def part(
    q: Kue,
    skip: int,
    wanted: int,
    order: Order,
    *,
    name: str | None = None,
    type: str | None = None,
) -> list[Job]:
    """Return up to *wanted* jobs after the first *skip*, of the state called *name*."""
    if name is None:
        return await q.range(skip, skip + wanted - 1, order)
    counted = await q.counts(type)
    states = STATES[name] if order == "asc" else STATES[name][::-1]
    jobs: list[Job] = []
    for state in states:
        if left := wanted - len(jobs):
            jobs += await q.range(skip, skip + left - 1, order, state=state, type=type)
        skip = max(0, skip - counted[state])
    return jobs


def read_state(text: str) -> str:
    """Return the state that Vert.x Kue calls *text*, in any case, or raise."""
    name = text.lower()
    if name not in STATES:
        known = ", ".join(name.upper() for name in STATES)
        raise ValueError(f"state {text[:40]!r} is unknown; there are {known}")
    return name


def read_order(text: str) -> Order:
    """Return the order of a list: asc or desc, in any case."""
    order = text.lower()
    if order not in ("asc", "desc"):
        raise ValueError(f"order must be asc or desc, not {text[:40]!r}")
    return cast("Order", order)
