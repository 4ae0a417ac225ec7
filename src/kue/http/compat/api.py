"""Routes of a compatible API: access, audit log and the format of its errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from kue.http.auth.access import Scope, User, check_scope, identify
from kue.http.framework.problem import INTERNAL, Refused, bad_request, refused
from kue.http.framework.request_body import read_body
from kue.http.security.audit_log import AuditLog
from kue.http.security.csrf import check_origin

if TYPE_CHECKING:
    from starlette.requests import Request

    from kue.client.queue import Kue
    from kue.http.auth.access import Guard
    from kue.http.framework.read_limit import ReadLimit
    from kue.http.options import AppOptions
    from kue.model.payload import JSON

logger = logging.getLogger(__name__)

Handler: TypeAlias = Callable[["Request"], Awaitable[Response]]

MEDIA_TYPE = "application/json"

_SCOPES = {"GET": Scope.READ, "DELETE": Scope.ADMIN}


class CompatApi:
    """
    Checks the access of requests to one API, and reports errors in its format.

    Users are identified by the guard, which neither original had.
    """

    def __init__(
        self,
        q: Kue,
        guard: Guard,
        options: AppOptions,
        show_error: Callable[[Refused], Response],
        *,
        name: str,
    ) -> None:
        self._guard = guard
        self._options = options
        self._audit = AuditLog(q, options.redaction)
        self._show_error = show_error
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
        """Return the route to *handler*; by default GET is READ and DELETE is ADMIN."""
        needed = scope or _SCOPES.get(method, Scope.MANAGE)
        route = Route(path, self._endpoint(handler, needed, limit), methods=[method])
        if needed is not Scope.READ and route.methods is not None:
            # Starlette adds it to every GET, but it must change nothing.
            route.methods.discard("HEAD")
        return route

    def ranges(self, span: str, handler: Handler) -> list[Route]:
        """Return the routes to ranges: of all jobs, of a state, of a type and state."""
        return [
            self.route(
                "GET", f"/jobs/{whose}{span}{order}", handler, limit=self._options.lists
            )
            for whose in ("", "{state}/", "{type:path}/{state}/")
            for order in ("", "/{order}")
        ]

    def _endpoint(
        self, handler: Handler, needed: Scope, limit: ReadLimit | None
    ) -> Handler:
        act = f"{self._name}.{handler.__name__}"
        is_change = needed is not Scope.READ

        async def answer(request: Request) -> Response:
            user: User | None = None
            try:
                user = await identify(self._guard, request)
                check_scope(user, needed)
                if is_change:
                    self._options.check_change()
                    # `CsrfProtection` goes by methods; one of Kue's GETs is a change.
                    check_origin(request)
                if limit is None:
                    response = await handler(request)
                else:
                    response = await limit.answer(lambda: handler(request))
                status = response.status_code
            except Exception as exc:
                problem = _refusal(exc, request)
                response, status = self._show_error(problem), problem.status
            if is_change and user is not None:
                await self._audit.note_change(request, user, act, status)
            return response

        return answer


def _refusal(exc: Exception, request: Request) -> Refused:
    problem = refused(exc)
    if problem is not None:
        return problem
    logger.error("%s %s failed", request.method, request.url.path, exc_info=exc)
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL)


def reply(
    value: JSON,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    *,
    is_pretty: bool = False,
) -> Response:
    """Return *value* as JSON."""
    content = msgspec.json.encode(value)
    return Response(
        msgspec.json.format(content, indent=2) if is_pretty else content,
        status_code=status,
        headers={"Cache-Control": "no-store", **(headers or {})},
        media_type=MEDIA_TYPE,
    )


async def read_json(request: Request) -> JSON:
    """Return the JSON body of a request; None if it is empty."""
    body = await read_body(request)
    try:
        return msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise bad_request(f"the body is not JSON: {exc}") from exc
