"""
Payloads of events on the bus.

*job* is the job as `kue.vertx.job_json.show` returns it, read after the event: it is
never older than the event, and may be newer.  Of a job that was removed by then only
``address_id``, ``id``, ``type`` and, if it ended, ``state`` are left, and the
``result`` if it was removed because it succeeded.

===================================  =========================  ======================
event                                at the job's address       *extra* at the queue's
===================================  =========================  ======================
enqueue, start, promotion,           *job*                      null
complete, update
failed_attempt, failed               ``{"job", "extra"}``       ``{"message"}``
cancelled, release                   ``{"job", "extra"}``       ``{"reason"}``
progress                             0 to 100                   ``{"progress",
                                                                "data"}``
remove                               ``{"id"}``                 null
error                                ``{"id", "type",           (at ``error``, as at
                                     "message"}``               the job's)
===================================  =========================  ======================

At the queue's address the payload is always ``{"job": job, "extra": extra}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.events import Kind
from kue.vertx.job_json import show

if TYPE_CHECKING:
    from kue.model.events import Event
    from kue.model.job import Job

#: The state of a removed job, by its last event.
_FINAL_STATES = {
    Kind.COMPLETE: "COMPLETE",
    Kind.FAILED: "FAILED",
    Kind.CANCELLED: "FAILED",
}
#: Events with a reason, and the field that has it.
_REASON_FIELDS = {
    Kind.FAILED_ATTEMPT: "message",
    Kind.FAILED: "message",
    Kind.CANCELLED: "reason",
    Kind.RELEASE: "reason",
}
#: Events of failed runs, and of jobs that cannot be used.
FAILURES = frozenset({Kind.FAILED_ATTEMPT, Kind.FAILED, Kind.ERROR})


def shown_job(event: Event, job: Job | None, address_id: str | None) -> dict[str, Any]:
    """Return the job that *event* is about, or what is left of it."""
    if job is not None:
        return show(job)
    left = {
        "address_id": address_id,
        "id": event.job_id,
        "state": _FINAL_STATES.get(event.kind),
        "type": event.type,
        "result": event.detail.get("result"),
    }
    return {name: value for name, value in left.items() if value is not None}


def extra(event: Event) -> dict[str, Any] | None:
    """Return what an event has in addition to the job."""
    if event.kind is Kind.PROGRESS:
        detail = event.detail
        return {"progress": detail.get("progress", 0), "data": detail.get("data")}
    name = _REASON_FIELDS.get(event.kind)
    return None if name is None else {name: event.detail.get(name, "")}


def job_payload(event: Event, job: dict[str, Any]) -> Any:
    """Return the payload at the address of the job."""
    if event.kind is Kind.PROGRESS:
        return event.detail.get("progress", 0)
    if event.kind is Kind.REMOVE:
        return {"id": event.job_id}
    more = extra(event)
    return job if more is None else {"job": job, "extra": more}


def error_payload(event: Event) -> dict[str, Any]:
    """Return the payload at ``error``, of the job and of the queue."""
    message = event.detail.get("message", "")
    return {"id": event.job_id, "type": event.type, "message": message}
