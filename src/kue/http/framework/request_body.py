"""Request bodies, read up to a maximum size."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from kue.http.framework.problem import Refused, bad_request

if TYPE_CHECKING:
    from starlette.requests import Request

#: Bytes, before decoding.
MAX_BODY = 1024 * 1024


async def read_body(request: Request) -> bytes:
    """Return the body of *request*; nothing is read if it is declared as too large."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MAX_BODY:
        raise _too_large()
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                raise _too_large()
    except ClientDisconnect:
        # Nobody reads this response, and it is not an error of the server.
        raise bad_request(
            "the client disconnected before the end of the body"
        ) from None
    # For the audit log, which keeps an excerpt.
    request.state.body = bytes(body)
    return bytes(body)


def _too_large() -> Refused:
    # The server does not wait for the rest of the body.
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"a body has at most {MAX_BODY:,} bytes",
        headers={"Connection": "close"},
    )
