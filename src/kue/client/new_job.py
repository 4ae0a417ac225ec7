"""New jobs as JSON: the body of ``POST /jobs``, and a job of a flow that is added."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from kue.model.draft import MAX_STALLS
from kue.model.job import (
    MAX_HISTORY,
    MAX_PARENTS,
    MAX_TAGS,
    Delivery,
    OnConflict,
    OnParentFailure,
    UniqueUntil,
)
from kue.model.named_limits import MAX_LIMITS
from kue.model.names import Name
from kue.model.options import AttemptsGiven
from kue.store.values import MAX_NUMBER, Priority

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.client.queue import Kue

#: The last moment that a datetime can represent, Unix ms.
MAX_MOMENT = 253_402_300_799_999
#: Delays in one backoff.
MAX_DELAYS = 1_000

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


class NewBackoff(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
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


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    #: What happens when one of those fails.
    on_parent_failure: OnParentFailure = "block"
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


def invalid_option(q: Kue, type: str, options: Mapping[str, Any]) -> tuple[str, str]:
    """Return the first option that is invalid with those before it, and why."""
    tried: dict[str, Any] = {}
    for name, value in {"type": type, **options}.items():
        tried[name] = value
        try:
            q.draft(**tried)
        except (ValueError, TypeError) as exc:
            return name, str(exc)
    raise AssertionError(f"nothing is wrong with {tried!r}")
