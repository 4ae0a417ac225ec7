"""The door to an ancestor's API: who may in, and how errors are told."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from starlette.routing import Route

from kue.http.access import Role, admit
from kue.http.body import read_body
from kue.http.problem import Refused, refused

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kue.http.access import Guard
    from kue.payload import JSON

logger = logging.getLogger(__name__)

Handler: TypeAlias = Callable[["Request"], Awaitable["Response"]]

_ROLES = {"GET": Role.VIEWER, "DELETE": Role.ADMIN}


class Door:
    """
    Lets requests in to one API, and tells in its words what is wrong.

    Who asks is told by the guard, which neither ancestor had.
    """

    def __init__(self, guard: Guard, tell: Callable[[Refused], Response]) -> None:
        self._guard = guard
        self._tell = tell

    def route(
        self, method: str, path: str, handler: Handler, *, role: Role | None = None
    ) -> Route:
        """Return the route to *handler*; by default viewers look and admins delete."""
        needed = role or _ROLES.get(method, Role.OPERATOR)

        async def answer(request: Request) -> Response:
            try:
                await admit(self._guard, request, needed)
                return await handler(request)
            except Exception as exc:
                return self._tell(_explained(exc, request))

        route = Route(path, answer, methods=[method])
        if needed is not Role.VIEWER and route.methods is not None:
            # It comes with every GET, but must change nothing.
            route.methods.discard("HEAD")
        return route


def _explained(exc: Exception, request: Request) -> Refused:
    known = refused(exc)
    if known is not None:
        return known
    logger.error("%s %s failed", request.method, request.url.path, exc_info=exc)
    return Refused(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "something went wrong here; the server's log has more",
    )


async def read_json(request: Request) -> JSON:
    """
    Return the body of a request; None of an empty one.

    Raises:
        Refused: It is not JSON, or too much of it.
    """
    body = await read_body(request)
    try:
        return msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {exc}") from exc
