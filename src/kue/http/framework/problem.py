"""
Error responses of the API: problem details (RFC 9457), without internals.

Internal errors are logged, with the request id that the client gets.
"""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from kue.http.auth.account_records import NameTaken, NoSuchAccount
from kue.model.errors import (
    BadPayload,
    DuplicateJob,
    InvalidTransition,
    JobNotFound,
    PayloadRefused,
    QueueFull,
    ScheduleDeclared,
    ScheduleNotFound,
    StoreError,
    StoreFull,
    UniqueHeld,
    UnknownParent,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT_TYPE = "application/problem+json"
#: The detail of errors of the store.
UNAVAILABLE = "the store cannot be reached, or does not answer as it should"
#: The detail of internal errors.
INTERNAL = "something went wrong here; the server's log has more"
#: Seconds after which clients should retry while the store is unavailable, or full, or
#: a cap is reached.
RETRY_AFTER = "1"


class Problem(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Why a request failed (problem details, RFC 9457)."""

    #: The phrase of the HTTP status.
    title: str
    status: int
    #: What is wrong with this request, in a sentence.
    detail: str = ""
    #: Which part of the input it is about: ``query.limit``, ``body.priority``.
    field: str = ""
    #: Identifies the request in the server's log.
    request_id: str = ""


class Refused(Exception):
    """Ends a request with an error response."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str = "",
        *,
        field: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.field = field
        self.headers = headers or {}

    def response(self, request_id: str = "") -> Response:
        problem = Problem(
            title=self.status.phrase,
            status=self.status.value,
            detail=self.detail,
            field=self.field,
            request_id=request_id,
        )
        return Response(
            msgspec.json.encode(problem),
            status_code=self.status.value,
            headers={"Cache-Control": "no-store", **self.headers},
            media_type=CONTENT_TYPE,
        )


def bad_request(detail: str, field: str = "") -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, detail, field=field)


def unauthorized(detail: str) -> Refused:
    headers = {"WWW-Authenticate": "Bearer"}
    return Refused(HTTPStatus.UNAUTHORIZED, detail, headers=headers)


def forbidden(detail: str, field: str = "") -> Refused:
    return Refused(HTTPStatus.FORBIDDEN, detail, field=field)


def not_found(detail: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, detail)


def try_later(status: HTTPStatus, detail: str) -> Refused:
    return Refused(status, detail, headers={"Retry-After": RETRY_AFTER})


def refused(error: Exception) -> Refused | None:
    """Return the error response for *error*; None for an internal error."""
    match error:
        case Refused():
            return error
        case JobNotFound() | ScheduleNotFound() | NoSuchAccount():
            return not_found(str(error))
        case InvalidTransition() | UniqueHeld() | DuplicateJob() | UnknownParent():
            return Refused(HTTPStatus.CONFLICT, str(error))
        case NameTaken() | ScheduleDeclared() | PayloadRefused():
            return Refused(HTTPStatus.CONFLICT, str(error))
        case BadPayload():
            return bad_request(str(error), error.field)
        case QueueFull():
            return try_later(HTTPStatus.TOO_MANY_REQUESTS, _full_text(error))
        # The address of the store is only for the server's log.
        case StoreFull():
            return try_later(HTTPStatus.INSUFFICIENT_STORAGE, "the store is full")
        case StoreError():
            return try_later(HTTPStatus.SERVICE_UNAVAILABLE, UNAVAILABLE)
    return None


def _full_text(error: QueueFull) -> str:
    if not error.added:
        return str(error)
    return f"{error}; {error.added:,} of the jobs had been added"


@contextmanager
def input_errors(field: str = "") -> Iterator[None]:
    """Turn a `ValueError` or `TypeError` inside into a 400 about *field*."""
    try:
        yield
    except (ValueError, TypeError) as exc:
        name = exc.field if isinstance(exc, BadPayload) else field
        raise bad_request(str(exc), name) from exc
