"""Routes of a compatible API: access, audit log and the format of its errors."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from kue.http.auth.roles import Scope
from kue.http.compat import jobs
from kue.http.framework.api import Api, read_body
from kue.http.framework.problem import INTERNAL, Refused, bad_request, refused
from kue.http.security.csrf import check_origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from kue.http.auth.access import User
    from kue.http.framework.api import Endpoint
    from kue.http.framework.concurrent_reads import ReadLimit
    from kue.model.payload import JSON

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/json"

_SCOPES = {"GET": Scope.READ, "DELETE": Scope.ADMIN}


class CompatApi(Api):
    """
    One API: its handlers are methods, and `show_error` has the format of its errors.

    Users are identified by the guard, which neither original had.
    """

    #: In the audit log.
    name: ClassVar[str]
    is_pretty: ClassVar[bool] = False

    @property
    def searches(self) -> ReadLimit:
        return self._options.searches

    def show_error(self, problem: Refused, request: Request) -> Response:
        raise NotImplementedError

    def route(
        self,
        method: str,
        path: str,
        handler: Endpoint,
        *,
        scope: Scope | None = None,
        limit: ReadLimit | None = None,
    ) -> Route:
        """Return the route to *handler*; by default GET is READ and DELETE is ADMIN."""
        needed = scope or _SCOPES.get(method, Scope.MANAGE)
        is_change = needed is not Scope.READ

        async def show(request: Request, user: User) -> Response:
            if is_change:
                # `CsrfProtection` goes by methods; one of Kue's GETs is a change.
                check_origin(request)
            if limit is None:
                return await handler(request)
            return await limit.answer(lambda: handler(request))

        act = f"{self.name}.{handler.__name__}" if is_change else ""
        route = Route(path, self.guarded(show, needed, act=act), methods=[method])
        if is_change and route.methods is not None:
            # Starlette adds it to every GET, but it must change nothing.
            route.methods.discard("HEAD")
        return route

    def ranges(self, span: str, handler: Endpoint) -> list[Route]:
        """Return the routes to ranges: of all jobs, of a state, of a type and state."""
        return [
            self.route(
                "GET", f"/jobs/{whose}{span}{order}", handler, limit=self._options.lists
            )
            for whose in ("", "{state}/", "{type:path}/{state}/")
            for order in ("", "/{order}")
        ]

    def reply(
        self,
        value: JSON,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return *value* as JSON."""
        content = msgspec.json.encode(value)
        return Response(
            msgspec.json.format(content, indent=2) if self.is_pretty else content,
            status_code=status,
            headers={"Cache-Control": "no-store", **(headers or {})},
            media_type=MEDIA_TYPE,
        )

    async def types(self, request: Request) -> Response:
        return self.reply(await self._q.types())

    async def search(self, request: Request) -> Response:
        """Search for a text, which is in the path or in the query."""
        in_query = request.query_params.get("q", "")
        text = request.path_params.get("text", in_query)
        found, headers = await jobs.search(self._q, text, self._redaction)
        return self.reply(found, headers=headers)

    def _failed(self, exc: Exception, request: Request) -> tuple[Response, int]:
        problem = refused(exc)
        if problem is None:
            logger.error("%s %s failed", request.method, request.url.path, exc_info=exc)
            problem = Refused(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL)
        return self.show_error(problem, request), problem.status


async def read_json(request: Request) -> JSON:
    """Return the JSON body of a request; None if it is empty."""
    body = await read_body(request)
    try:
        return msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise bad_request(f"the body is not JSON: {exc}") from exc
