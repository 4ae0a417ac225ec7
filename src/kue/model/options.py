"""Options of a job, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kue.model.duration import Duration
    from kue.model.job import Delivery, PriorityGiven


class Identified(Protocol):
    """Anything with the id of a job: handles, blocking or not, and jobs."""

    @property
    def id(self) -> int: ...


class JobOptions(TypedDict, total=False):
    """Options of one job: see `kue.model.draft.draft` for what they mean."""

    priority: PriorityGiven
    delay: Duration | datetime
    at: datetime
    attempts: int
    backoff: Any
    timeout: Duration
    ttl: Duration
    expires: Duration
    #: A key; True: the arguments are the key.
    unique: str | bool
    unique_for: Duration
    group: str
    tags: Iterable[str]
    parent: Identified | int
    after: Iterable[Identified | int]
    after_any: bool
    remove_on_complete: bool
    retention: Duration
    delivery: Delivery
    meta: Mapping[str, str]
