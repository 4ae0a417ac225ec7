"""
Durable steps: what a job has done so far, and what it waits for.

A handler that uses steps runs several times from the top.  What it finished is kept
with the job, and passed without being repeated: steps with their results, sleeps, and
waits for signals.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal, TypeAlias

import msgspec

from kue.model.duration import MAX_MS

#: Steps, sleeps and waits of one job, and signals sent to it.
MAX_STEPS = 1_000
MAX_SIGNALS = 1_000
#: Lines of the history that suspensions take up at most: errors need the others.
MAX_SUSPENSIONS = 3

StepKind: TypeAlias = Literal["step", "sleep", "wait"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a job did once: a step, a sleep, or a wait for a signal."""

    kind: StepKind
    #: Of the step or the sleep; of a wait, the signal.
    name: str
    #: Which wait for this signal it is, from 1; 0 for steps and sleeps.
    number: int = 0
    #: When the step ended, or the sleep or the wait began, Unix ms.
    at: int
    #: How long the step took, in ms.
    duration: int | None = None
    #: When the sleep ends, or the wait times out, Unix ms; None if it never does.
    until: int | None = None
    #: When the wait ended, Unix ms.
    ended_at: int | None = None
    #: Whether the wait ended without a signal.
    timed_out: bool = False
    #: What the step returned, or the data of the signal.
    result: Any = None

    def is_open(self, now: int) -> bool:
        """Return whether the job still sleeps or waits here."""
        if self.kind == "sleep":
            return self.until is None or self.until > now
        return self.kind == "wait" and self.ended_at is None


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal for a job: a name, and data for the handler that waits for it."""

    name: str
    #: Encoded (`msgspec.Raw`) or plain JSON.
    data: Any = None
    #: The same signal again is recognized by it; empty in one that was read.
    id: str = msgspec.field(default_factory=lambda: secrets.token_hex(8))
    #: When it was sent, Unix ms; set by the engine.
    at: int = 0
    #: Whether a wait has received it.
    received: bool = False


class JobSteps(msgspec.Struct, frozen=True):
    """The steps of a job and its signals, in the order in which they came."""

    steps: tuple[Step, ...] = ()
    signals: tuple[Signal, ...] = ()

    def pending(self, now: int) -> Step | None:
        """Return what the job sleeps or waits for; None if it does not."""
        last = self.steps[-1] if self.steps else None
        return last if last is not None and last.is_open(now) else None


def until_of(at: int, until: int) -> int | None:
    """Return when a sleep or wait ends; None for the longest that there is."""
    return None if until - at >= MAX_MS else until
