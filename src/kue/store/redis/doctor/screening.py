"""Telling at a glance the jobs that need no closer look: most of them."""

from __future__ import annotations

import re

from kue.store.redis.doctor.chart import Unreadable, read_record
from kue.store.redis.doctor.forms import is_time

#: A header without options: nothing but its state can be wrong with such a job.
_PLAIN = re.compile(rb"(-?\d+)\t\d+\t([^\t\n]+)\n")
_ORDERED_BY_TIME = frozenset({"delayed", "complete", "failed", "cancelled"})


def is_unremarkable(
    job_id: int,
    sequence: int,
    job_type: bytes,
    place: str,
    score: float,
    record: bytes | None,
) -> bool:
    """
    Tell whether a job that was met in *place* has nothing to be looked at besides.

    True promises that its record is sound, of this type and of its score; whether it
    is elsewhere too, and marked as living, the caller must know.
    """
    match = _PLAIN.match(record) if record else None
    if match is None or match[2] != job_type:
        return False
    if place == "waiting":
        is_ordered = score == int(match[1]) * 2**41 + sequence
    else:
        is_ordered = place in _ORDERED_BY_TIME and is_time(score)
    if not is_ordered or record is None:
        return False
    try:
        read_record(job_id, record)
    except Unreadable:
        return False
    return True


def parents_of(job_id: int, record: bytes | None) -> set[int]:
    """Return the jobs that a record says its job waits for."""
    try:
        return set(read_record(job_id, record or b"").spec.after)
    except Unreadable:
        return set()
