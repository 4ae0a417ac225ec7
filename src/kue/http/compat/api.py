"""The door to an ancestor's API: who may in, and how errors are told."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from starlette.routing import Route

from kue.http.auth.access import Scope, User, check_scope, identify
from kue.http.framework.problem import Refused, refused
from kue.http.framework.request_body import read_body
from kue.http.security.audit_log import AuditLog
from kue.http.security.csrf import check_origin

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kue.client.queue import Kue
    from kue.http.auth.access import Guard
    from kue.http.framework.read_limit import ReadLimit
    from kue.http.options import AppOptions
    from kue.model.payload import JSON

logger = logging.getLogger(__name__)

Handler: TypeAlias = Callable[["Request"], Awaitable["Response"]]

_SCOPES = {"GET": Scope.READ, "DELETE": Scope.ADMIN}


class CompatApi:
    """
    Lets requests in to one API, and tells in its words what is wrong.

    Who asks is told by the guard, which neither ancestor had.
    """

    def __init__(
        self,
        q: Kue,
        guard: Guard,
        rules: AppOptions,
        tell: Callable[[Refused], Response],
        *,
        name: str,
    ) -> None:
        self._guard = guard
        self._rules = rules
        self._audit = AuditLog(q, rules.redaction)
        self._tell = tell
        self._name = name

    def route(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        scope: Scope | None = None,
        limit: ReadLimit | None = None,
    ) -> Route:
        """Return the route to *handler*; by default GET looks and DELETE is admins'."""
        needed = scope or _SCOPES.get(method, Scope.MANAGE)
        if needed is Scope.READ:
            return Route(path, self._looking(handler, limit), methods=[method])
        route = Route(path, self._changing(handler, needed), methods=[method])
        if route.methods is not None:
            # It comes with every GET, but must change nothing.
            route.methods.discard("HEAD")
        return route

    def ranges(self, span: str, handler: Handler) -> list[Route]:
        """Return the routes to parts of lists: all jobs, of a state, of a type too."""
        return [
            self.route(
                "GET", f"/jobs/{whose}{span}{order}", handler, limit=self._rules.lists
            )
            for whose in ("", "{state}/", "{type:path}/{state}/")
            for order in ("", "/{order}")
        ]

    def _looking(self, handler: Handler, limit: ReadLimit | None) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                check_scope(await identify(self._guard, request), Scope.READ)
                if limit is not None:
                    return await limit.answer(lambda: handler(request))
                return await handler(request)
            except Exception as exc:
                return self._tell(_explained(exc, request))

        return answer

    def _changing(self, handler: Handler, needed: Scope) -> Handler:
        act = f"{self._name}.{handler.__name__}"

        async def answer(request: Request) -> Response:
            user: User | None = None
            try:
                user = await identify(self._guard, request)
                check_scope(user, needed)
                self._rules.check_change()
                # The gate looks at methods, and one of Kue's GETs changes something.
                check_origin(request)
                response = await handler(request)
                status = response.status_code
            except Exception as exc:
                problem = _explained(exc, request)
                response, status = self._tell(problem), problem.status
            if user is not None:
                body = getattr(request.state, "body", b"")
                await self._audit.note_change(request, user, act, status, body)
            return response

        return answer


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
