"""
Loss checks: what must hold for a store that loses acknowledged writes.

A fail-over may lose writes that no replica has received; an emptied Redis has lost
everything.  Adds with `durable=True` that were acknowledged survive every fail-over;
the others got a warning.  Lost jobs may only be from the time of a loss, and for jobs
added after the last loss all rules hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from chaos.breach import Breach
from chaos.delivery import LOST, key_of
from chaos.history import LATE_MS
from kue import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.facts import Attempted, Loss
    from chaos.history import History

#: Clients may continue for this long with replies from before the loss.
SETTLED_MS = LATE_MS


def missing(history: History) -> list[Attempted]:
    """Return acknowledged adds whose jobs are gone without having been removed."""
    there = {key_of(job) for job in history.jobs}
    return [
        attempt
        for attempt in history.acknowledged
        if attempt.is_new
        and attempt.key not in there
        and not history.may_be_removed(attempt.id)
    ]


def lost_without_cause(history: History) -> Iterator[Breach]:
    """Jobs that are gone though they were added outside of every loss, or durably."""
    for attempt in missing(history):
        if not any(_excuses(loss, attempt) for loss in history.losses):
            yield Breach(LOST, f"job {attempt.id} ({attempt.key}) was acknowledged")


def _excuses(loss: Loss, attempt: Attempted) -> bool:
    if attempt.at > loss.until:
        return False
    return loss.is_all or (attempt.ended >= loss.since and not attempt.is_durable)


def held_to_all_rules(history: History) -> History:
    """Return the history of the jobs that were added after the last loss."""
    if not history.losses:
        return history
    since = max(loss.until for loss in history.losses) + SETTLED_MS
    attempted = tuple(one for one in history.attempted if one.at >= since)
    keys = {one.key for one in attempted}
    jobs = tuple(job for job in history.jobs if key_of(job) in keys)
    ids = {job.id for job in jobs} | {one.id for one in attempted if one.is_new}
    # Its events begin in the middle.
    lagged = Event(kind=Kind.LAGGED, job_id=0, type="", at=since)
    events = (
        one
        for one in history.events
        if one.kind is Kind.LAGGED or (one.at >= since and one.job_id in ids)
    )
    return msgspec.structs.replace(
        history,
        attempted=attempted,
        started=tuple(run for run in history.started if run.key in keys),
        effects=tuple(effect for effect in history.effects if effect.key in keys),
        given=tuple(order for order in history.given if order.at >= since),
        events=(lagged, *events),
        jobs=jobs,
        losses=(),
    )
