"""Options of a job and of a search for jobs, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kue.model.duration import Duration
    from kue.model.job import Delivery, OnConflict, PriorityGiven, UniqueUntil


#: How often a job may be tried.
AttemptsGiven: TypeAlias = int | Literal["unlimited"]


class Identified(Protocol):
    """Anything with the id of a job: handles, blocking or not, and jobs."""

    @property
    def id(self) -> int: ...


class JobOptions(TypedDict, total=False):
    """
    Options of one job: the one list of them.

    `kue.model.draft.draft` checks them.  The builder's methods, the body of the REST
    API and the options of ``kue job add`` have the same names, which a test compares.
    """

    #: Where it waits, if not in the queue that is named like its type.
    queue: str | None
    priority: PriorityGiven
    delay: Duration | datetime
    at: datetime | None
    attempts: AttemptsGiven
    #: How many runs may raise an error; the store keeps the last 20 of them.
    max_exceptions: int | None
    #: No further attempt starts later: that long after it was added, or this moment.
    retry_until: Duration | datetime | None
    backoff: Any
    timeout: Duration | None
    #: The handler is asked to stop after this long, and may clean up.
    soft_timeout: Duration | None
    #: How many lost workers a job survives; the next loss fails it.
    max_stalls: int | None
    ttl: Duration | None
    expires: Duration | None
    #: A key; True: the arguments are the key.
    unique: str | bool | None
    #: The key is held at least this long after the job was added, even if it ended.
    unique_for: Duration
    #: "start": the key is free once the job was started.
    unique_until: UniqueUntil | None
    #: After this long the key is free even if the job has not ended.
    unique_at_most: Duration | None
    #: What adding a job does while another has its key.
    on_conflict: OnConflict | None
    #: At most one job per key and this time; unique_for and unique_at_most in one.
    throttle: Duration | None
    #: Wait until nothing was added with the key for this long; the newest data wins.
    debounce: Duration | None
    #: The longest wait of a debounced job since the first add.
    debounce_max: Duration | None
    group: str | None
    #: Names of limits, and the key of each: "" for a limit without keys.
    limited_by: Mapping[str, str] | None
    tags: Iterable[str]
    parent: Identified | int | None
    after: Iterable[Identified | int]
    after_any: bool
    remove_on_complete: bool
    retention: Duration | None
    delivery: Delivery
    meta: Mapping[str, str] | None
    #: Whether events of it are published; None: as the setting ``job_events`` says.
    events: bool | None


class FilterOptions(TypedDict, total=False):
    """What `kue.Kue.find` searches by, in addition to the state of jobs."""

    type: str | None
    tag: str | None
    text: str | None
    error: str | None
    worker: str | None
    group: str | None
    priority: PriorityGiven | None
    fingerprint: str | None
    data: dict[str, Any] | None
    since: int | None
    until: int | None
