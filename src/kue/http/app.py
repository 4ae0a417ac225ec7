"""The HTTP side of a queue as one ASGI application."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from kue import __version__
from kue.http.access import Anyone
from kue.http.api import Api, problem_of
from kue.http.headers import SafeHeaders
from kue.http.openapi import openapi
from kue.http.problem import Refused
from kue.http.v1 import SECTIONS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kue.http.access import Guard
    from kue.queue import Kue

#: Below this, packing an answer costs more than sending it.
GZIP_BYTES = 1024


def create_app(q: Kue, *, guard: Guard | None = None) -> Starlette:
    """
    Return the API of *q*, to be served alone or mounted under any prefix.

    The queue stays the caller's, who also closes it.
    """
    api = Api(q, guard or Anyone())
    document = openapi(SECTIONS, version=__version__)

    async def show_document(request: Request) -> Response:
        return JSONResponse(document)

    routes = [Route("/openapi.json", show_document), *api.routes(SECTIONS)]
    return Starlette(
        routes=[Mount("/api/v1", routes=routes)],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(GZipMiddleware, minimum_size=GZIP_BYTES),
        ],
        exception_handlers={HTTPException: _no_route, Exception: _fault},
    )


async def _no_route(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    status = HTTPStatus(exc.status_code)
    detail = f"there is no {request.method} {request.url.path}"
    return Refused(status, detail, headers=dict(exc.headers or {})).response()


async def _fault(request: Request, exc: Exception) -> Response:
    return problem_of(exc, request)
