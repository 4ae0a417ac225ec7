"""JSON of jobs: what the API returns, what it takes to add one, and filters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from kue.http.framework.operations import Input
from kue.http.framework.problem import bad_request
from kue.model.draft import MAX_STALLS
from kue.model.job import (
    MAX_HISTORY,
    MAX_PARENTS,
    MAX_TAGS,
    Delivery,
    OnConflict,
    UniqueUntil,
)
from kue.model.job_json import JobView
from kue.model.named_limits import MAX_LIMITS
from kue.model.names import Name
from kue.model.options import AttemptsGiven
from kue.model.payload import value_of
from kue.model.view_struct import View
from kue.store.values import MAX_NUMBER, MAX_PATHS, DataPath, Filter, Priority

if TYPE_CHECKING:
    from kue.client.handle import JobHandle
    from kue.http.security.redaction import Redaction

#: The last moment that a datetime can represent, Unix ms.
MAX_MOMENT = 253_402_300_799_999
#: The most jobs or lines that one page has.
MAX_PAGE = 200
#: Delays in one backoff.
MAX_DELAYS = 1_000

DataText: TypeAlias = Annotated[str, Meta(max_length=1_000)]
JobId: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Tags: TypeAlias = Annotated[list[Name], Meta(max_length=MAX_TAGS)]
#: Their bytes are limited, too: `kue.model.named_limits.MAX_REF`.
LimitedBy: TypeAlias = Annotated[dict[str, str], Meta(max_length=MAX_LIMITS)]
#: Seconds, or text such as "1h30m".
Span: TypeAlias = float | Annotated[str, Meta(max_length=50)]
#: Unix ms, or ISO 8601 with a time zone.
Moment: TypeAlias = (
    Annotated[int, Meta(ge=0, le=MAX_MOMENT)] | Annotated[datetime, Meta(tz=True)]
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, and the cursor of the next page."""

    jobs: list[JobView]
    #: To be given for the next page; null at the end.
    cursor: str | None
    #: Of a search: how many jobs it looked at for this page, and how many there are of
    #: the state and type.
    looked_at: int | None = None
    total: int | None = None


class LogLineView(View, frozen=True, kw_only=True):
    """One line of a job's log."""

    text: str
    level: str
    #: The attempt that logged it; 0 before the first.
    attempt: int
    at: int | None


class Log(msgspec.Struct, frozen=True):
    """Some lines of a job's log."""

    lines: list[LogLineView]
    #: The *start* of the next page; null at the end.
    next: int | None


class AddedView(msgspec.Struct, frozen=True):
    """The result of adding one job."""

    id: int
    #: False if there was a job with the same unique key: the id is that job's.
    is_new: bool
    #: True if that job had not started, and got the data and options of this one.
    has_replaced: bool

    @classmethod
    def of(cls, handle: JobHandle[Any]) -> AddedView:
        """Return the result of the add that returned *handle*."""
        return cls(handle.id, handle.is_new, handle.has_replaced)


class NewBackoff(Input, frozen=True, kw_only=True, omit_defaults=True):
    """How long to wait between attempts; durations are ms."""

    type: Literal["fixed", "exponential", "list", "named"] = "fixed"
    #: For fixed and exponential; the job's own delay if omitted.
    delay: int | None = None
    max: int | None = None
    #: A share from 0 to 1 by which waits vary at random.
    jitter: float = 0.0
    #: For list; the last is repeated.
    delays: Annotated[list[int], Meta(max_length=MAX_DELAYS)] | None = None
    #: For named: a strategy that workers have registered.
    name: Name | None = None


class NewJob(Input, frozen=True, kw_only=True):
    """A job to add.  Durations are seconds, or text such as "1h30m"."""

    type: Name
    data: Any = None
    #: Where it waits, if not in the queue that is named like its type.
    queue: Name | None = None
    #: A number from -1024 (first) to 1023, or a name such as "high".
    priority: Priority = 0
    delay: Span = 0
    at: Moment | None = None
    attempts: AttemptsGiven = 1
    max_exceptions: Annotated[int, Meta(ge=1, le=MAX_HISTORY)] | None = None
    #: A duration since the job was added, or ISO 8601 with a time zone.
    retry_until: Span | None = None
    backoff: (
        bool
        | Span
        | Annotated[list[Span], Meta(min_length=1, max_length=MAX_DELAYS)]
        | NewBackoff
        | None
    ) = None
    timeout: Span | None = None
    #: The handler is asked to stop after this long, and may clean up.
    soft_timeout: Span | None = None
    #: How many lost workers it survives; the next loss fails it.
    max_stalls: Annotated[int, Meta(ge=0, le=MAX_STALLS)] | None = None
    ttl: Span | None = None
    expires: Span | None = None
    unique: Name | None = None
    unique_for: Span = 0
    unique_until: UniqueUntil | None = None
    unique_at_most: Span | None = None
    on_conflict: OnConflict | None = None
    #: At most one job per unique key and this time.
    throttle: Span | None = None
    #: The delay, counted from the last add with the unique key.
    debounce: Span | None = None
    debounce_max: Span | None = None
    group: Name | None = None
    #: Names of limits, and the key of each: "" for a limit without keys.
    limited_by: LimitedBy = {}
    tags: Tags = []
    after: Annotated[list[JobId], Meta(max_length=MAX_PARENTS)] = []
    after_any: bool = False
    remove_on_complete: bool = False
    retention: Span | None = None
    delivery: Delivery = "at-least-once"
    meta: dict[str, str] = {}
    #: Whether events of it are published; null: by the settings of the server.
    events: bool | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `kue.model.draft.draft` after type and data."""
        given = msgspec.structs.asdict(self)
        del given["type"], given["data"]
        if self.at is not None:
            given["at"] = to_datetime(self.at)
        if isinstance(self.retry_until, str):
            given["retry_until"] = _moment_or_span(self.retry_until)
        if isinstance(self.backoff, NewBackoff):
            given["backoff"] = msgspec.to_builtins(self.backoff)
        return given


class JobFilter(Filter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects jobs; `filter` checks what JSON schemas cannot express."""

    def __post_init__(self) -> None:
        """Leave the values as they were given."""

    @property
    def filter(self) -> Filter:
        """The filter, with all values checked."""
        names = Filter.__struct_fields__
        return Filter(**{name: getattr(self, name) for name in names})


class JobsQuery(JobFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to show, and how many."""

    #: As text: JSON if it is valid JSON.
    data: Annotated[dict[DataPath, DataText], Meta(max_length=MAX_PATHS)] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    #: The one of the previous page.
    cursor: Annotated[str, Meta(pattern=r"^-?[0-9]{1,16}:[0-9]{1,16}$")] | None = None
    order: Literal["asc", "desc"] = "desc"

    @property
    def filter(self) -> Filter:
        """The filter, with all values checked and those of the data read."""
        values = {path: value_of(text) for path, text in (self.data or {}).items()}
        return replace(super().filter, data=values or None)


def check_paths(job_filter: JobFilter, redaction: Redaction, location: str) -> None:
    """Raise `Refused` if a path leads to hidden values, which it would find out."""
    for path in job_filter.data or ():
        if any(redaction.is_secret(step) for step in path.split(".")):
            raise bad_request(
                f"the value of {path!r} is hidden, and cannot be searched for",
                f"{location}.data.{path}",
            )


def to_datetime(given: int | datetime) -> datetime:
    if isinstance(given, datetime):
        return given
    return _EPOCH + timedelta(milliseconds=given)


def _moment_or_span(text: str) -> datetime | str:
    """Read ISO 8601; anything else is a duration, which the draft checks."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text
