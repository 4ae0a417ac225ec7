"""What counts as the same: everything but what the contract leaves to the engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from kue.model.events import Event, Kind
from kue.model.job import Attempt, Job
from kue.store.values import Result
from tests.store_model.ledger import SOME_REASON

T = TypeVar("T")

#: What a repeated claim may answer as it was when it was first made.
LATELY = frozenset({"progress", "progress_data", "cancelling"})
#: Events of a run, which say of which attempt they are.
OF_A_RUN = frozenset(
    {Kind.START, Kind.PROGRESS, Kind.FAILED_ATTEMPT, Kind.COMPLETE, Kind.RELEASE}
)


def same(said: T, wanted: T) -> None:
    """Fail when the store says something else than the model."""
    assert said == wanted, f"the store says {said!r}, the model {wanted!r}"


def among(said: Sequence[Result], allowed: Sequence[set[Result]]) -> None:
    """Fail when the store says a word that it must not."""
    for word, words in zip(said, allowed, strict=True):
        assert word in words, f"the store says {word}, the model {words}"


def same_jobs(
    said: Sequence[Job], wanted: Sequence[Job], *, lately: bool = True
) -> None:
    """Fail when jobs differ in anything but why they are held."""
    same([job.id for job in said], [job.id for job in wanted])
    names = set(Job.__struct_fields__) - {"held"} - (set() if lately else LATELY)
    lines = [
        f"{name} of job {meant.id}: the store says {getattr(job, name)!r}, "
        f"the model {getattr(meant, name)!r}"
        for job, meant in zip(map(_job, said, wanted), wanted, strict=True)
        # The same in all but why it is held, mostly: no need to look at each field.
        if msgspec.structs.replace(job, held=meant.held) != meant
        for name in sorted(names)
        if getattr(job, name) != getattr(meant, name)
    ]
    assert not lines, "\n".join(lines)


def same_events(said: Sequence[Event], wanted: Sequence[Event]) -> None:
    """
    Fail when events differ.

    Those of one job have an order; jobs of one call may be told of in any.
    """
    heard = sorted(said, key=lambda event: event.job_id)
    meant = sorted(wanted, key=lambda event: event.job_id)
    for event, other in zip(heard, meant, strict=True):
        same(_event(event, other), _event(other, other))


def _job(job: Job, wanted: Job) -> Job:
    history = tuple(map(_line, job.history, wanted.history))
    is_longer = len(job.history) > len(history)
    return msgspec.structs.replace(job, history=job.history if is_longer else history)


def _line(line: Attempt, wanted: Attempt) -> Attempt:
    if wanted.reason == SOME_REASON:
        return msgspec.structs.replace(line, reason=SOME_REASON)
    return line


def _event(event: Event, wanted: Event) -> Event:
    """Leave out of which attempt an event is that happened in none."""
    detail = event.detail
    if wanted.detail.get("reason") == SOME_REASON and "reason" in detail:
        detail = {**detail, "reason": SOME_REASON}
    attempt = event.attempt if wanted.kind in OF_A_RUN else 0
    return msgspec.structs.replace(event, detail=detail, attempt=attempt)
