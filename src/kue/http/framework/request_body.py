"""Request bodies, read up to a maximum size."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from kue.http.framework.problem import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

#: Bytes, before decoding.
MAX_BODY = 1024 * 1024


async def read_body(request: Request, limit: int = MAX_BODY) -> bytes:
    """
    Return the body of *request*.

    Raises:
        Refused: It is larger than *limit* (nothing is read if the client declares so),
            or the client disconnected before its end.
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
        # Nobody reads this response, and it is not an error of the server.
        raise Refused(
            HTTPStatus.BAD_REQUEST, "the client disconnected before the end of the body"
        ) from None
    # For the audit log, which keeps an excerpt.
    request.state.body = bytes(body)
    return bytes(body)


def _too_large(limit: int) -> Refused:
    # The server does not wait for the rest of the body.
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"a body has at most {limit:,} bytes",
        headers={"Connection": "close"},
    )
