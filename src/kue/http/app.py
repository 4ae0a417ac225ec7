"""The ASGI application: API, dashboard and compatible APIs of a queue."""

from __future__ import annotations

import logging
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Match, Mount, Route

from kue import __version__
from kue.http.auth.access import Anyone, guard_of
from kue.http.auth.account_guard import LocalAccountGuard
from kue.http.auth.roles import Scope
from kue.http.auth.startup_token import (
    PARAMETER,
    VARIABLE,
    LocalhostGuard,
    StartupToken,
)
from kue.http.compat import automattic_kue, vertx_kue
from kue.http.dashboard import routes as dashboard
from kue.http.framework.api import Api, problem_of
from kue.http.framework.openapi import BASE, openapi
from kue.http.framework.problem import Refused
from kue.http.options import AppOptions, EnvironmentBadge
from kue.http.security.csrf import ROOT, AllowedHosts, CsrfProtection
from kue.http.security.headers import SecurityHeaders
from kue.http.security.redaction import Redaction
from kue.http.streaming.broadcast import EventBroadcast
from kue.http.streaming.bus_node import ServerBusNode
from kue.http.streaming.bus_samples import BusSamples
from kue.http.v1 import SECTIONS, bulk_actions, events, metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import Scope as ASGIScope

    from kue.client.queue import Kue
    from kue.http.auth.access import Guard, GuardCallback, User

logger = logging.getLogger(__name__)

#: Smaller responses are not compressed: that would cost more than it saves.
GZIP_BYTES = 1024


def create_app(
    q: Kue,
    *,
    guard: Guard | GuardCallback | None = None,
    read_only: bool = False,
    hosts: Iterable[str] | None = None,
    badge: str = "",
    redact: Redaction | Iterable[str] = (),
    live: EventBroadcast | None = None,
) -> Starlette:
    """
    Return the API and dashboard of *q*, to serve alone or mount under any prefix.

    The caller closes the queue, after the event streams: ``app.state.live``.

    Args:
        guard: Identifies the user: an `AccountGuard`, or a plain or async function
            that takes the request and returns a `User` or None.  By default only this
            machine has access, with the start-up token: ``KUE_DASHBOARD_TOKEN``, or a
            random one that is logged.  ``app.state.open_path`` is the path with it.
        read_only: Refuse every change except logging in and out.
        hosts: Host names of the server in addition to those of loopback; ``*`` allows
            any.  By default only loopback is allowed if there is no guard and the app
            is served alone; under a prefix the outer application decides.
        badge: Which environment this is, such as "production".
        redact: Names of keys whose values are hidden in addition to the usual ones, or
            a `Redaction`.
    """
    options = AppOptions(
        read_only=read_only,
        badge=EnvironmentBadge.of(badge),
        redaction=redact if isinstance(redact, Redaction) else Redaction(redact),
    )
    app_guard = LocalhostGuard() if guard is None else guard_of(guard)
    startup = (
        app_guard.startup
        if isinstance(app_guard, LocalhostGuard | LocalAccountGuard)
        else None
    )
    live = live or EventBroadcast(q, redaction=options.redaction)
    app = Starlette(
        routes=[
            Mount(BASE, routes=_native(q, app_guard, options, live)),
            Mount("/kue", routes=automattic_kue.routes(q, app_guard, options)),
            Mount("/vertx-kue", routes=vertx_kue.routes(q, app_guard, options)),
            ScrapeRoute(q, Api(q, app_guard, options)),
            *dashboard(startup),
        ],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(
                CsrfProtection,
                hosts=AllowedHosts(
                    hosts, is_open=isinstance(app_guard, Anyone | LocalhostGuard)
                ),
            ),
            Middleware(GZipMiddleware, minimum_size=GZIP_BYTES),
        ],
        exception_handlers={HTTPException: _no_route, Exception: _fault},
    )
    app.state.live = live
    app.state.alert_monitor = q.alert_monitor
    app.state.node = ServerBusNode(q.settings)
    app.state.samples = BusSamples(q.settings, options.redaction)
    app.state.bulk_tasks = bulk_actions.BulkTasks()
    if isinstance(app_guard, LocalhostGuard):
        app.state.open_path = f"/{app_guard.startup.query}"
        _announce(app_guard.startup)
    live.closing += [app.state.node.close, app.state.samples.close]
    return app


class ScrapeRoute(Route):
    """
    ``/metrics``, where Prometheus looks by default.

    Browsers, which accept HTML, get the dashboard's page of the same path.
    """

    def __init__(self, q: Kue, api: Api) -> None:
        async def show(request: Request, user: User) -> Response:
            return await metrics.exposition(q)

        super().__init__("/metrics", api.guarded(show, Scope.READ), methods=["GET"])

    def matches(self, scope: ASGIScope) -> tuple[Match, ASGIScope]:
        is_page = scope["type"] == "http" and "text/html" in Headers(scope=scope).get(
            "accept", ""
        )
        return (Match.NONE, {}) if is_page else super().matches(scope)


def _announce(startup: StartupToken) -> None:
    """Log how to get access: as a warning, which is shown without any logging setup."""
    shown = f"?{PARAMETER}=${VARIABLE}" if startup.is_given else startup.query
    logger.warning(
        "the dashboard has no guard: access is limited to this machine and needs the "
        "token; add %s to the address, or pass guard= to create_app()",
        shown,
    )


def _native(
    q: Kue, guard: Guard, options: AppOptions, live: EventBroadcast
) -> list[BaseRoute]:
    api = Api(q, guard, options)

    async def show_document(request: Request, user: User) -> Response:
        servers = [{"url": request.scope.get(ROOT, "") + BASE}]
        return JSONResponse({**_document(), "servers": servers})

    return [
        Route("/openapi.json", api.guarded(show_document, Scope.READ)),
        *api.routes(SECTIONS),
        *events.routes(guard, live),
    ]


@cache
def _document() -> dict[str, Any]:
    return openapi(SECTIONS, version=__version__)


async def _no_route(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    status = HTTPStatus(exc.status_code)
    detail = f"there is no {request.method} {request.url.path}"
    return Refused(status, detail, headers=dict(exc.headers or {})).response()


async def _fault(request: Request, exc: Exception) -> Response:
    return problem_of(exc, request)
