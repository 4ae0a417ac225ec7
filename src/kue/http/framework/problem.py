"""
Errors as the API tells them: one form, RFC 9457, and never more than is good to tell.

What went wrong inside is logged, with the number the caller is given to ask about it.
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
    InvalidTransition,
    JobNotFound,
    StoreError,
    StoreFull,
    UniqueHeld,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT_TYPE = "application/problem+json"
#: What callers are told of a store that cannot be asked.
AWAY = "the store cannot be reached, or does not answer as it should"
#: Seconds after which asking again makes sense while the store is away.
RETRY_AFTER = "1"


class Problem(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Why a request was not answered as hoped."""

    #: What kind of problem it is, in the words of HTTP.
    title: str
    status: int
    #: What is wrong with this very request, in a sentence.
    detail: str = ""
    #: Which part of the input it is about: ``query.limit``, ``body.priority``.
    field: str = ""
    #: Names the request in the server's log.
    request_id: str = ""


class Refused(Exception):
    """Ends a request with a problem."""

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
        """Return what the caller gets."""
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


def refused(error: Exception) -> Refused | None:
    """Return what *error* means to a caller; None for a fault of ours."""
    match error:
        case Refused():
            return error
        case JobNotFound() | NoSuchAccount():
            return Refused(HTTPStatus.NOT_FOUND, str(error))
        case InvalidTransition() | UniqueHeld() | NameTaken():
            return Refused(HTTPStatus.CONFLICT, str(error))
        case BadPayload():
            return Refused(HTTPStatus.BAD_REQUEST, str(error), field=error.field)
        # Where the store is, is for the server's log.
        case StoreFull():
            return _later(HTTPStatus.INSUFFICIENT_STORAGE, "the store is full")
        case StoreError():
            return _later(HTTPStatus.SERVICE_UNAVAILABLE, AWAY)
    return None


@contextmanager
def given(field: str = "") -> Iterator[None]:
    """Take errors of what is done in here for errors of what the caller gave."""
    try:
        yield
    except (ValueError, TypeError) as exc:
        name = exc.field if isinstance(exc, BadPayload) else field
        raise Refused(HTTPStatus.BAD_REQUEST, str(exc), field=name) from exc


def _later(status: HTTPStatus, detail: str) -> Refused:
    return Refused(status, detail, headers={"Retry-After": RETRY_AFTER})
