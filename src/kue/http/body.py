"""The body of a request: so much of it, and no more."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from kue.http.problem import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

#: Bytes, before anything is made of them.
MAX_BODY = 1024 * 1024


async def read_body(request: Request, limit: int = MAX_BODY) -> bytes:
    """
    Return the body of *request*.

    Raises:
        Refused: It is larger than *limit*; no more than that was read.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a body has at most {limit:,} bytes",
            )
    # For the audit log, which tells in short what was asked for.
    request.state.body = bytes(body)
    return bytes(body)
