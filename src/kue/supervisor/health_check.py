"""Health of the supervisor and its children, for health checks and systemd."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kue.supervisor.options import ProcessCount

if TYPE_CHECKING:
    from kue.supervisor.child_lease_renewal import ChildHeartbeats
    from kue.supervisor.child_pool import ChildPool
    from kue.supervisor.child_process import ChildProcess

#: Without any child for this long, starting more does not help: it is not live.
NO_CHILD_SECONDS = 60.0

State = Literal["starting", "working", "leaving", "silent", "frozen"]


class ChildHealth(msgspec.Struct, frozen=True):
    """Health of one child."""

    number: int
    pid: int
    worker: str | None
    state: State
    #: Seconds since it was started, and since its last tick.
    age: float
    silence: float
    #: Whether the store answered the last heartbeat within the lease.
    store_answers: bool
    #: The status of its worker.
    status: dict[str, Any]


class SupervisorHealth(msgspec.Struct, frozen=True):
    """Health of the supervisor and all children."""

    #: False once a restart of the supervisor may help.
    live: bool
    #: All children are up and tick, the store answers, and nothing fails.
    ready: bool
    #: What keeps it from being ready.
    reasons: tuple[str, ...]
    children: tuple[ChildHealth, ...]
    #: How many processes take jobs, and how many do at least and at most.
    processes: ProcessCount

    @property
    def summary(self) -> str:
        running = sum(child.status.get("running", 0) for child in self.children)
        done = sum(child.status.get("done", 0) for child in self.children)
        counts = f"{len(self.children)} processes, {running} jobs running, {done} done"
        return "; ".join([counts, *self.reasons])


class HealthCheck:
    """Checks the children; called often, it also knows how long there were none."""

    def __init__(self, pool: ChildPool, heartbeats: ChildHeartbeats) -> None:
        self._pool = pool
        self._heartbeats = heartbeats
        self._last_up = time.monotonic()
        self.is_stopping = False

    def check(self) -> SupervisorHealth:
        found = sorted(self._pool.children, key=lambda child: child.pid)
        children = tuple(map(self._child, found))
        reasons = tuple(self._reasons(children))
        return SupervisorHealth(
            live=self._is_live(),
            ready=not reasons,
            reasons=reasons,
            children=children,
            processes=self._pool.count,
        )

    def _is_live(self) -> bool:
        now = time.monotonic()
        if self.is_stopping or any(child.is_up for child in self._pool.children):
            self._last_up = now
        is_new = not self._pool.first.done()
        return is_new or now - self._last_up < NO_CHILD_SECONDS

    def _child(self, child: ChildProcess) -> ChildHealth:
        return ChildHealth(
            number=child.number,
            pid=child.pid,
            worker=child.worker,
            state=_state(child),
            age=round(child.age, 1),
            silence=round(child.silence, 1),
            store_answers=self._heartbeats.has_answer(child),
            status=child.status,
        )

    def _reasons(self, children: tuple[ChildHealth, ...]) -> list[str]:
        reasons = ["stopping"] if self.is_stopping else []
        for slot in self._pool.slots:
            if not slot.is_healthy:
                reasons.append(f"process #{slot.number} is not up")
        for child in children:
            if child.state in ("silent", "frozen"):
                reasons.append(f"process #{child.number} is {child.state}")
            if not child.store_answers:
                reasons.append(f"the store does not answer for #{child.number}")
            if trouble := child.status.get("trouble"):
                reasons.append(f"process #{child.number} fails: {trouble}")
        return reasons


def _state(child: ChildProcess) -> State:
    if child.is_frozen:
        return "frozen"
    if child.hello is None:
        return "starting"
    if child.is_silent:
        return "silent"
    return "leaving" if child.leaving.is_set() else "working"
