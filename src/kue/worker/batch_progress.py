"""
Progress of a batch: a job that calls back while members of the batch end.

A job of the type ``kue.progress`` looks at the figures of its batch every now and then,
and adds the callbacks when they have changed.  Members do not know of it, so a batch of
any size costs one look at a time, and a batch without such callbacks nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

import msgspec

from kue.model.errors import Cancel, Release
from kue.model.job import Draft, State
from kue.store.values import Change, MoveRequest

if TYPE_CHECKING:
    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.store.values import FlowCounts
    from kue.worker.active_run import ActiveRun

PROGRESS = "kue.progress"
#: The pause after a look, and the longest: it doubles while nothing changes.
FIRST_LOOK_SECONDS, MAX_LOOK_SECONDS = 0.5, 5.0
#: Pauses while a batch waits for its last report: five seconds in all.
REPORT_PAUSES_SECONDS = tuple(0.005 * 2**number for number in range(10))


class ProgressReports(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of such a job."""

    batch: int
    #: The callbacks, with the id of the batch in their data.
    calls: list[Draft]
    #: The figures of the last call: complete, failed, cancelled.
    figures: tuple[int, int, int] = (0, 0, 0)
    #: How often nothing had changed since.
    idle: int = 0

    def to_json(self) -> JSON:
        plain: JSON = msgspec.json.decode(msgspec.json.encode(self))
        return plain


async def report_progress(store: Store, run: ActiveRun) -> JSON:
    """Handle a look at a batch: call back if members have ended since the last one."""
    last = msgspec.convert(run.data, ProgressReports)
    [batch] = await store.get([last.batch])
    if batch is None:
        raise Cancel("its batch is gone")
    [counts] = await store.flow_counts([last.batch])
    now = await _reported(store, last, counts)
    await store.update([Change(run.id, data=now.to_json())])
    is_reported = now.figures == _figures(counts)
    # Members can be added for as long as the batch is blocked.
    if is_reported and not counts.unfinished and batch.state is not State.BLOCKED:
        return None
    delay = FIRST_LOOK_SECONDS * 2 ** min(max(now.idle - 1, 0), 10)
    reason = f"{counts.unfinished:,} jobs have not ended"
    raise Release(min(delay, MAX_LOOK_SECONDS), reason=reason)


async def report_end(store: Store, job_id: int, counts: FlowCounts) -> None:
    """
    Have such a job report *counts* before its batch ends.

    It may pause, have reported an earlier end, or fail, as after an outage of the
    store: then it looks now.  If it cannot do so for five seconds, it reports later.
    While some members are unfinished, that it looks again is enough.
    """
    if not job_id:
        return
    states = (State.DELAYED, State.COMPLETE)
    for pause in REPORT_PAUSES_SECONDS:
        [job] = await store.get([job_id])
        if job is None or (not counts.unfinished and _has_reported(job, counts)):
            return
        await store.move(MoveRequest([job_id], State.WAITING, states=states))
        # One that is looking may have read older figures.
        if counts.unfinished and job.state is not State.ACTIVE:
            return
        await asyncio.sleep(pause)


def _has_reported(job: Job, counts: FlowCounts) -> bool:
    last = msgspec.convert(job.data, ProgressReports)
    return job.state is State.COMPLETE and last.figures == _figures(counts)


async def _reported(
    store: Store, last: ProgressReports, counts: FlowCounts
) -> ProgressReports:
    """Add the callbacks if there is something new; return what was reported by now."""
    figures = _figures(counts)
    if figures == last.figures:
        return msgspec.structs.replace(last, idle=last.idle + 1)
    added = await store.add(last.calls, producer=secrets.token_hex(8), seq=1)
    if any(one.is_refused for one in added):
        # A cap of waiting jobs is reached: the next look tries again.
        return msgspec.structs.replace(last, idle=last.idle + 1)
    return msgspec.structs.replace(last, figures=figures, idle=0)


def _figures(counts: FlowCounts) -> tuple[int, int, int]:
    return counts.complete, counts.failed, counts.cancelled
