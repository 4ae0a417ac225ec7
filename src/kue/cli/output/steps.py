"""Steps of a job in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.cli.output.listing import Cell, Column, Listing
from kue.cli.output.text import both, iso, json_text, words

if TYPE_CHECKING:
    from kue.model.steps import JobSteps, Signal, Step


def _when(at: int) -> Cell:
    moment = iso(at)
    return Cell(moment[:19], moment)


def _took(step: Step) -> str:
    if step.kind == "wait" and step.ended_at is not None:
        return words(max(0, step.ended_at - step.at))
    return "" if step.duration is None else words(step.duration)


def _outcome(step: Step) -> str:
    if step.timed_out:
        return "timed out"
    if step.kind == "step" or step.ended_at is not None:
        return json_text(step.result)
    return "" if step.until is None else f"until {iso(step.until)[:19]}"


STEPS: Listing[Step] = Listing(
    (
        Column("kind", lambda one: one.kind),
        Column("name", lambda one: one.name, wraps=True),
        Column("at", lambda one: _when(one.at), rank=2),
        Column("took", _took, is_number=True, rank=3),
        Column("result", _outcome, is_long=True),
    ),
    msgspec.to_builtins,
)


def step_facts(found: JobSteps, now: int) -> dict[str, str]:
    """Return what the job waits for, and which signals it has not received yet."""
    pending = found.pending(now)
    unread = [_signal(one) for one in found.signals if not one.received]
    facts = {"signals": ", ".join(unread)}
    if pending is None:
        return facts
    text = "the time" if pending.kind == "sleep" else f"signal {pending.name!r}"
    if pending.until is not None:
        return facts | {"waits for": f"{text}, until {both(pending.until, now)}"}
    # The store has a time for it, a hundred years from now.
    return facts | {"waits for": text, "due": ""}


def _signal(signal: Signal) -> str:
    return (
        signal.name
        if signal.data is None
        else (f"{signal.name} {json_text(signal.data)}")
    )
