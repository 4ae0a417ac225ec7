"""Routes of operations, and dispatch: access, body, response and audit log."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route

from kue.http.auth.access import User, check_scope, identify
from kue.http.framework.operations import Operation, RequestContext
from kue.http.framework.problem import INTERNAL, Refused, bad_request, refused
from kue.http.options import AppOptions
from kue.http.security.audit_log import AuditLog
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.requests import Request
    from starlette.types import Receive, Send
    from starlette.types import Scope as ASGIScope

    from kue.client.queue import Kue
    from kue.http.auth.access import Guard
    from kue.http.auth.roles import Scope
    from kue.http.framework.operations import Section

logger = logging.getLogger(__name__)

Endpoint: TypeAlias = Callable[["Request"], Awaitable[Response]]

_JSON = "application/json"
#: Bytes of a request body, before decoding.
MAX_BODY = 1024 * 1024
_encode = msgspec.json.Encoder().encode

#: The user of operations that need no authentication.
NOBODY = User("")


class OperationRoute(Route):
    """
    Route to one method of one path, among the *others* of the API.

    A literal path is never taken for a parameter: ``/jobs/batch`` is not a job.  A
    wrong method is answered with all allowed ones.
    """

    def __init__(
        self,
        operation: Operation,
        endpoint: Endpoint,
        others: Sequence[Route],
    ) -> None:
        super().__init__(
            operation.path, endpoint, methods=[operation.method], name=operation.name
        )
        self._others = others

    def matches(self, scope: ASGIScope) -> tuple[Match, ASGIScope]:
        match, child = super().matches(scope)
        if match is not Match.NONE and self.param_convertors:
            is_match = any(one is self for one in self._matching(scope))
            return (match, child) if is_match else (Match.NONE, {})
        return match, child

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if self.methods is not None and scope["method"] not in self.methods:
            allowed = set().union(*(one.methods or () for one in self._matching(scope)))
            raise HTTPException(
                HTTPStatus.METHOD_NOT_ALLOWED,
                headers={"Allow": ", ".join(sorted(allowed))},
            )
        await super().handle(scope, receive, send)

    def _matching(self, scope: ASGIScope) -> list[Route]:
        """Return the routes that match the path, whatever the method."""
        found = [
            one
            for one in self._others
            if Route.matches(one, scope)[0] is not Match.NONE
        ]
        return [one for one in found if not one.param_convertors] or found


class Api:
    """The operations of some sections, for one queue."""

    def __init__(self, q: Kue, guard: Guard, options: AppOptions | None = None) -> None:
        self._q = q
        self._guard = guard
        self._options = options or AppOptions()
        self._redaction = self._options.redaction
        self._audit = AuditLog(q, self._redaction)

    def routes(self, sections: Iterable[Section]) -> list[Route]:
        routes: list[Route] = []
        operations = [one for section in sections for one in section.operations]
        for operation in operations:
            endpoint = self.guarded(
                partial(self._answer, operation),
                operation.scope,
                act=operation.act,
                is_open=operation.is_open,
            )
            routes.append(OperationRoute(operation, endpoint, routes))
        return routes

    def guarded(
        self,
        show: Callable[[Request, User], Awaitable[Response]],
        scope: Scope | None,
        *,
        act: str = "",
        is_open: bool = False,
    ) -> Endpoint:
        """
        Return *show*, limited to users with *scope*.

        A change has an *act*: its name in the audit log.
        """

        async def answer(request: Request) -> Response:
            user = NOBODY
            try:
                if not is_open:
                    user = await identify(self._guard, request)
                    check_scope(user, scope)
                if act:
                    self._options.check_change()
                response = await show(request, user)
                status = response.status_code
            except Exception as exc:
                response, status = self._failed(exc, request)
            if act and user is not NOBODY:
                await self._audit.note_change(request, user, act, status)
            return response

        return answer

    def _failed(self, exc: Exception, request: Request) -> tuple[Response, int]:
        """Return the error response for *exc*, and its status for the audit log."""
        response = problem_of(exc, request)
        return response, response.status_code

    async def _answer(
        self, operation: Operation, request: Request, user: User
    ) -> Response:
        body = await self._body(operation, request)
        arguments = operation.arguments(request, body)
        context = RequestContext(
            self._q, user, request, self._guard, self._options, self._audit
        )

        async def make() -> Response:
            result = await operation.handler(context, **arguments)
            if isinstance(result, Response):
                return result
            response = reply(result, operation, request)
            response.headers.update(context.headers)
            if context.status is not None:
                response.status_code = context.status
            return response

        if operation.is_list:
            return await self._options.lists.answer(make)
        return await make()

    async def _body(self, operation: Operation, request: Request) -> bytes:
        if operation.body is None:
            return b""
        headers = request.headers
        is_chunked = "transfer-encoding" in headers
        is_empty = headers.get("content-length", "0") == "0" and not is_chunked
        if operation.is_body_optional and is_empty:
            return b"null"
        kind = headers.get("content-type", "").partition(";")[0].strip()
        if kind.lower() != _JSON:
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"send {_JSON}, not {kind or 'nothing'}",
            )
        body = await read_body(request)
        if operation.is_body_optional and body.strip() == b"null":
            raise bad_request("leave the body out, or give an object", "body")
        return body


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
        known = request.headers.get("if-none-match", "").split(",")
        if tag in (one.strip() for one in known):
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
