"""JSON of jobs: what the API returns, and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from kue.http.framework.problem import bad_request
from kue.model.job_json import JobDetail, JobView
from kue.model.payload import value_of
from kue.model.view_struct import View
from kue.store.values import MAX_PATHS, DataPath, Filter

if TYPE_CHECKING:
    from kue.client.handle import JobHandle
    from kue.http.security.redaction import Redaction

#: The most jobs or lines that one page has.
MAX_PAGE = 200

DataText: TypeAlias = Annotated[str, Meta(max_length=1_000)]


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, and the cursor of the next page."""

    jobs: list[JobView]
    #: To be given for the next page; null at the end.
    cursor: str | None
    #: Of a search: how many jobs it looked at for this page, and how many there are of
    #: the state and type.
    looked_at: int | None = None
    total: int | None = None


class ShownJob(JobDetail, frozen=True, kw_only=True):
    """A job as it is now, with its history, and what it waits for in vain."""

    #: Failed jobs that it waits for, until those are retried.
    failed_parents: list[int]


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
