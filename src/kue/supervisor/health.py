"""How a supervisor and its children are: what health checks and systemd are told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from kue.supervisor.child_heartbeat import ChildHeartbeats
    from kue.supervisor.child_pool import ChildPool
    from kue.supervisor.child_process import ChildProcess

#: Without any child for so long, starting more does not help; someone else should.
LIFELESS_SECONDS = 60.0

State = Literal["starting", "working", "leaving", "silent", "frozen"]


class ChildHealth(msgspec.Struct, frozen=True):
    """How one child is."""

    number: int
    pid: int
    worker: str | None
    state: State
    #: Seconds since it was started, and since its event loop went round.
    age: float
    silence: float
    #: Whether the store answered the last beat within the lease.
    store_answers: bool
    #: What its worker said of itself.
    status: dict[str, Any]


class SupervisorHealth(msgspec.Struct, frozen=True):
    """How all of it is."""

    #: Worth keeping: a restart would not help.
    live: bool
    #: All children are up, their loops go round, the store answers, and nothing fails.
    ready: bool
    #: What keeps it from being ready.
    reasons: tuple[str, ...]
    children: tuple[ChildHealth, ...]

    @property
    def summary(self) -> str:
        running = sum(child.status.get("running", 0) for child in self.children)
        done = sum(child.status.get("done", 0) for child in self.children)
        said = f"{len(self.children)} processes, {running} jobs running, {done} done"
        return "; ".join([said, *self.reasons])


class HealthCheck:
    """Looks at children; looked at often, it also knows how long there were none."""

    def __init__(self, staff: ChildPool, pacemaker: ChildHeartbeats) -> None:
        self._staff = staff
        self._pacemaker = pacemaker
        self._last_life = time.monotonic()
        self.is_stopping = False

    def examine(self) -> SupervisorHealth:
        children = tuple(
            self._child(child)
            for child in sorted(self._staff.children, key=lambda child: child.pid)
        )
        reasons = tuple(self._reasons(children))
        return SupervisorHealth(self._is_live(), not reasons, reasons, children)

    def _is_live(self) -> bool:
        now = time.monotonic()
        if self.is_stopping or any(child.is_up for child in self._staff.children):
            self._last_life = now
        is_new = not self._staff.first.done()
        return is_new or now - self._last_life < LIFELESS_SECONDS

    def _child(self, child: ChildProcess) -> ChildHealth:
        return ChildHealth(
            number=child.number,
            pid=child.pid,
            worker=child.worker,
            state=_state(child),
            age=round(child.age, 1),
            silence=round(child.silence, 1),
            store_answers=self._pacemaker.has_answer(child),
            status=child.status,
        )

    def _reasons(self, children: tuple[ChildHealth, ...]) -> list[str]:
        reasons = ["stopping"] if self.is_stopping else []
        for seat in self._staff.seats:
            if not seat.is_well:
                reasons.append(f"process #{seat.number} is not up")
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
