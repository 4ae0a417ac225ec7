"""The steps of a job as JSON: the view that REST API and command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.steps import StepKind
from kue.model.view_struct import View

if TYPE_CHECKING:
    from kue.model.steps import JobSteps


class StepView(View, frozen=True, kw_only=True):
    """A step, a sleep or a wait for a signal; times are Unix ms, durations ms."""

    kind: StepKind
    #: Of the step or the sleep; of a wait, the signal.
    name: str
    #: Which wait for this signal it is, from 1; 0 for steps and sleeps.
    number: int
    #: When the step ended, or the sleep or wait began.
    at: int
    #: How long the step took; null for sleeps and waits.
    duration: int | None
    #: When the sleep ends or the wait times out; null for never.
    until: int | None
    #: When the wait ended.
    ended_at: int | None
    timed_out: bool
    #: What the step returned, or the data of the signal.
    result: Any


class SignalView(View, frozen=True, kw_only=True):
    """A signal that was sent to a job."""

    name: str
    data: Any
    at: int
    #: Whether a wait of the job has received it.
    received: bool


class StepsView(View, frozen=True, kw_only=True):
    """What a job did and waits for, and the signals sent to it."""

    steps: list[StepView]
    signals: list[SignalView]
    #: The last of the steps, if the job still sleeps or waits there.
    pending: StepView | None


def steps_view(found: JobSteps, now: int) -> StepsView:
    """Return the steps of a job, and what it waits for at *now*."""
    pending = found.pending(now)
    return StepsView(
        steps=[StepView.of(step) for step in found.steps],
        signals=[SignalView.of(signal) for signal in found.signals],
        pending=None if pending is None else StepView.of(pending),
    )
