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
from kue.http.ancestors import kue_json, vertx_kue
from kue.http.api import Api, problem_of
from kue.http.dashboard import routes as dashboard
from kue.http.headers import SafeHeaders
from kue.http.live import Live
from kue.http.openapi import openapi
from kue.http.problem import Refused
from kue.http.v1 import SECTIONS, events

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from kue.http.access import Guard
    from kue.queue import Kue

#: Below this, packing an answer costs more than sending it.
GZIP_BYTES = 1024


def create_app(
    q: Kue, *, guard: Guard | None = None, live: Live | None = None
) -> Starlette:
    """
    Return API and dashboard of *q*, to be served alone or mounted under any prefix.

    The queue stays the caller's, who closes it after the streams: ``app.state.live``.
    """
    guard = guard or Anyone()
    live = live or Live(q)
    app = Starlette(
        routes=[
            Mount("/api/v1", routes=_native(q, guard, live)),
            Mount("/kue", routes=kue_json.routes(q, guard)),
            Mount("/vertx-kue", routes=vertx_kue.routes(q, guard)),
            *dashboard(),
        ],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(GZipMiddleware, minimum_size=GZIP_BYTES),
        ],
        exception_handlers={HTTPException: _no_route, Exception: _fault},
    )
    app.state.live = live
    return app


def _native(q: Kue, guard: Guard, live: Live) -> list[BaseRoute]:
    document = openapi(SECTIONS, version=__version__)

    async def show_document(request: Request) -> Response:
        return JSONResponse(document)

    return [
        Route("/openapi.json", show_document),
        *Api(q, guard).routes(SECTIONS),
        *events.routes(guard, live),
    ]


async def _no_route(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    status = HTTPStatus(exc.status_code)
    detail = f"there is no {request.method} {request.url.path}"
    return Refused(status, detail, headers=dict(exc.headers or {})).response()


async def _fault(request: Request, exc: Exception) -> Response:
    return problem_of(exc, request)
