"""The body of a request: so much of it, and no more."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from kue.http.framework.problem import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

#: Bytes, before anything is made of them.
MAX_BODY = 1024 * 1024


async def read_body(request: Request, limit: int = MAX_BODY) -> bytes:
    """
    Return the body of *request*.

    Raises:
        Refused: It is larger than *limit*, of which no more is read, and nothing if
            the client declares it; or the client left before its end.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > limit:
                raise _too_large(limit)
    except ClientDisconnect:
        # Nobody is there to be answered, and nothing went wrong here.
        raise Refused(
            HTTPStatus.BAD_REQUEST, "the client left before the body had arrived"
        ) from None
    # For the audit log, which tells in short what was asked for.
    request.state.body = bytes(body)
    return bytes(body)


def _too_large(limit: int) -> Refused:
    # The rest of the body is not waited for.
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"a body has at most {limit:,} bytes",
        headers={"Connection": "close"},
    )
