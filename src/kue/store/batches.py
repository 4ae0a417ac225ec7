"""
Batches split by size, for one script or transaction each.

A batch has at most `MAX_BATCH` items.  Large items could still block all other clients
for half a second, so the engines send a batch in parts of about `MAX_CALL_BYTES` each.
An item larger than that is sent alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kue.model.job import Completed
from kue.store.codec import encode_json
from kue.store.values import MAX_CALL_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kue.model.job import Draft, Job
    from kue.store.values import Outcome

T = TypeVar("T")

_Raw = msgspec.Raw
#: The size of a job to wait for: looking it up costs as much as this many bytes.
_PARENT_BYTES = 2048


def split(things: Sequence[T], weigh: Callable[[T], int]) -> list[Sequence[T]]:
    """Return *things* in parts that are small enough, in order; at least one part."""
    if sum(map(weigh, things)) <= MAX_CALL_BYTES:
        return [things]
    parts: list[Sequence[T]] = []
    start, total = 0, 0
    for index, weight in enumerate(map(weigh, things)):
        if total and total + weight > MAX_CALL_BYTES:
            parts.append(things[start:index])
            start, total = index, 0
        total += weight
    return [*parts, things[start:]]


def bytes_of_draft(draft: Draft) -> int:
    """Return about how much it costs to store *draft*."""
    # Hot path, for every job that is added: its data is already JSON.
    spec = draft.spec
    data = spec.data
    size = len(data) if type(data) is _Raw else len(encode_json(data))
    if spec.after or draft.before:
        size += _PARENT_BYTES * (len(spec.after) + len(draft.before))
    return size


def bytes_of_outcome(outcome: Outcome) -> int:
    """Return about how much it costs to record how a run ended."""
    ending = outcome.ending
    size = 0 if ending.progress is msgspec.UNSET else _bytes_of(ending.progress.data)
    if type(ending) is Completed:
        return size if ending.result is None else size + _bytes_of(ending.result)
    error = getattr(ending, "error", None)
    return size + len(error.message) + len(error.stack) if error else size


def bytes_of_job(job: Job) -> int:
    """Return about how many bytes *job* has."""
    try:
        return len(encode_json(job))
    except UnicodeEncodeError:
        # Damaged: lone surrogates mark bytes that are not text, and JSON has none.
        return len(repr(job))


def producer_of_part(producer: str, number: int) -> str:
    """
    Return the producer that adds part *number* of a call.

    The first is the producer itself, so that calls out of order are refused.  The same
    call is split into the same parts again, so that each is added once.
    """
    return f"{producer}+{number}" if number else producer


def _bytes_of(value: Any) -> int:
    return len(value) if type(value) is msgspec.Raw else len(encode_json(value))
