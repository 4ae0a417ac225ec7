"""
Events: one for each transition of a job, published to every subscriber.

Events are published by the transition itself, in the same script or transaction, so an
event can neither precede its fact nor be missing while there is a subscriber.  They
carry the job's id and what changed, never its data or a result that the store keeps:
what must not be stale is read from the store.  Delivery is at most once and to every
subscriber.

When each kind is published, and its detail, is listed in docs/reference/events.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Kind(StrEnum):
    """What happened."""

    ENQUEUE = "enqueue"
    START = "start"
    PROMOTION = "promotion"
    PROGRESS = "progress"
    CHUNK = "chunk"
    FAILED_ATTEMPT = "failed_attempt"
    FAILED = "failed"
    COMPLETE = "complete"
    CANCELLED = "cancelled"
    RELEASE = "release"
    UPDATE = "update"
    REMOVE = "remove"
    ERROR = "error"
    LAGGED = "lagged"
    ALERT = "alert"

    @property
    def is_final(self) -> bool:
        """Whether the job has ended with this event."""
        return self in _FINAL


_FINAL = frozenset({Kind.COMPLETE, Kind.FAILED, Kind.CANCELLED, Kind.REMOVE})


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a job."""

    kind: Kind
    #: 0 for ``lagged`` and ``alert``, which are about a subscriber and a queue.
    job_id: int
    type: str
    #: By the store's clock, Unix ms.
    at: int
    #: The attempt it happened in; 0 before the first.
    attempt: int = 0
    detail: dict[str, Any] = {}
