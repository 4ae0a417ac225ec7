"""Dispatch of requests to operations: access, body, response and audit log."""

from __future__ import annotations

import hashlib
import logging
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from kue.http.auth.access import User, check_scope, identify
from kue.http.framework.operations import Operation, RequestContext
from kue.http.framework.problem import INTERNAL, Refused, refused
from kue.http.framework.request_body import MAX_BODY, read_body
from kue.http.framework.routes import OperationRoute
from kue.http.options import AppOptions
from kue.http.security.audit_log import AuditLog
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.requests import Request
    from starlette.routing import Route

    from kue.client.queue import Kue
    from kue.http.auth.access import Guard, Scope
    from kue.http.framework.operations import Section

logger = logging.getLogger(__name__)

_JSON = "application/json"
_encode = msgspec.json.Encoder().encode


#: The user of operations that need no authentication.
NOBODY = User("")


@dataclass
class _Caller:
    """The user of a request, once identified."""

    user: User | None = None


class Api:
    """The operations of some sections, for one queue."""

    def __init__(
        self,
        q: Kue,
        guard: Guard,
        options: AppOptions | None = None,
        *,
        max_body: int = MAX_BODY,
    ) -> None:
        self._q = q
        self._guard = guard
        self._options = options or AppOptions()
        self._audit = AuditLog(q, self._options.redaction)
        self._max_body = max_body

    def routes(self, sections: Iterable[Section]) -> list[Route]:
        routes: list[Route] = []
        routes += [
            OperationRoute(
                operation.path,
                self._endpoint(operation),
                method=operation.method,
                name=operation.name,
                others=routes,
            )
            for section in sections
            for operation in section.operations
        ]
        return routes

    def _endpoint(
        self, operation: Operation
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            caller = _Caller()
            try:
                response = await self._answer(operation, request, caller)
            except Exception as exc:
                response = problem_of(exc, request)
            # Operations without a scope write their own audit entries.
            if operation.is_change and operation.scope is not None and caller.user:
                await self._audit.note_change(
                    request, caller.user, operation.act, response.status_code
                )
            return response

        return answer

    def guarded(
        self, scope: Scope, show: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return *show*, limited to users with *scope*."""

        async def answer(request: Request) -> Response:
            try:
                check_scope(await identify(self._guard, request), scope)
                return await show(request)
            except Exception as exc:
                return problem_of(exc, request)

        return answer

    async def _answer(
        self, operation: Operation, request: Request, caller: _Caller
    ) -> Response:
        if not operation.is_open:
            caller.user = await identify(self._guard, request)
            check_scope(caller.user, operation.scope)
            if operation.is_change and operation.scope is not None:
                self._options.check_change()
        body = await self._body(operation, request)
        arguments = operation.arguments(request, body)
        context = RequestContext(
            self._q,
            caller.user or NOBODY,
            request,
            self._guard,
            self._options,
            self._audit,
        )

        async def make() -> Response:
            result = await operation.handler(context, **arguments)
            if isinstance(result, Response):
                return result
            response = reply(result, operation, request)
            response.headers.update(context.headers)
            return response

        if operation.is_list:
            return await self._options.lists.answer(make)
        return await make()

    async def _body(self, operation: Operation, request: Request) -> bytes:
        if operation.body is None:
            return b""
        if operation.is_body_optional and _is_empty(request):
            return b"null"
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind.lower() != _JSON:
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"send {_JSON}, not {kind or 'nothing'}",
            )
        body = await read_body(request, self._max_body)
        if operation.is_body_optional and body.strip() == b"null":
            raise Refused(
                HTTPStatus.BAD_REQUEST,
                "leave the body out, or give an object",
                field="body",
            )
        return body


def reply(result: Any, operation: Operation, request: Request) -> Response:
    """Return *result* as JSON, or 304 if the client has it already."""
    if result is None and operation.returns in (None, type(None)):
        return Response(status_code=HTTPStatus.NO_CONTENT)
    content = _encode(result)
    headers = {"Cache-Control": "no-store"}
    if operation.method == "GET":
        tag = f'W/"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
        # Cached, but revalidated each time.
        headers = {"Cache-Control": "no-cache", "ETag": tag}
        if tag in _tags(request.headers.get("if-none-match", "")):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(
        content, status_code=operation.status, headers=headers, media_type=_JSON
    )


def problem_of(exc: Exception, request: Request) -> Response:
    """Return the error response for *exc*; internal errors are logged."""
    problem = refused(exc)
    if problem is not None:
        if isinstance(exc, StoreError):
            logger.info("%s %s: %s", request.method, request.url.path, exc)
        return problem.response()
    request_id = secrets.token_hex(8)
    logger.error(
        "%s %s failed, request %s",
        request.method,
        request.url.path,
        request_id,
        exc_info=exc,
    )
    internal = Refused(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL)
    return internal.response(request_id)


def _is_empty(request: Request) -> bool:
    headers = request.headers
    is_chunked = "transfer-encoding" in headers
    return headers.get("content-length", "0") == "0" and not is_chunked


def _tags(header: str) -> set[str]:
    return {part.strip() for part in header.split(",")}
