"""
Protection against cross-site request forgery (CSRF) and DNS rebinding.

A browser attaches cookies, and its place in the network, to every request of a page.
So a change, or a WebSocket, must come from a page of the same origin or from no page
at all.  And a host name that an attacker points at this machine (DNS rebinding) must
not pass for one of its own.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket

from kue.http.framework.problem import Refused, forbidden
from kue.http.security.loopback import host_of, is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Scope key: where the application is mounted, for cookies; root_path changes inside.
ROOT = "kue_root"
#: Instead of host names: allows any.
ANY_HOST = "*"
#: Bytes of a request line with its headers.
MAX_HEADERS = 32 * 1024
#: Bytes around the name and the value of a header: colon, blank, end of line.
_AROUND = 4
#: The close code of WebSockets for what is not allowed.
NOT_ALLOWED = 1008


class AllowedHosts:
    """
    The host names a server answers to: those of loopback, and those it was given.

    If none were given and no login is needed, only loopback is allowed.  A mounted
    application leaves the check to the outer one.  With logins it is not needed:
    cookies are bound to the true name.
    """

    def __init__(self, names: Iterable[str] | None, *, is_open: bool) -> None:
        self._names = None if names is None else {name.lower() for name in names}
        self._is_open = is_open

    def check(self, connection: HTTPConnection) -> None:
        """Raise `Refused` if a request is for another host name."""
        if self._names is None:
            is_checked = self._is_open and not connection.scope.get("root_path")
        else:
            is_checked = ANY_HOST not in self._names
        if not is_checked:
            return
        name = host_of(connection.headers.get("host", ""))
        if not (is_loopback(name) or name in (self._names or ())):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this server does not answer to {name[:60]!r}; add it to hosts=",
            )


class CsrfProtection:
    """Checks the head, host and origin of requests to *app*."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        scope[ROOT] = scope.get("root_path", "")
        connection = HTTPConnection(scope)
        try:
            check_head(connection)
            self._hosts.check(connection)
            if scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS:
                check_origin(connection)
        except Refused as problem:
            if scope["type"] == "http":
                await problem.response()(scope, receive, send)
            else:
                # Accepted first: browsers do not show why a handshake failed.
                websocket = WebSocket(scope, receive, send)
                await websocket.accept()
                await websocket.close(NOT_ALLOWED, problem.detail)
        else:
            await self._app(scope, receive, send)


def check_head(connection: HTTPConnection) -> None:
    """
    Check that the head of a request is not too long, and has one length of the body.

    Servers stop reading a head that is too long, but not one that came at once.  With
    two lengths, a proxy may have seen the end of the request elsewhere.  So after the
    error response the connection is closed.
    """
    scope = connection.scope
    size = sum(len(name) + len(value) + _AROUND for name, value in scope["headers"])
    path = scope.get("raw_path") or scope["path"].encode()
    if size + len(path) + len(scope.get("query_string", b"")) > MAX_HEADERS:
        raise Refused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the head of a request has at most {MAX_HEADERS:,} bytes",
            headers={"Connection": "close"},
        )
    headers = connection.headers
    if "transfer-encoding" in headers and "content-length" in headers:
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            "give Content-Length or Transfer-Encoding, not both",
            headers={"Connection": "close"},
        )


def check_origin(connection: HTTPConnection) -> None:
    """Raise `Refused` if a request comes from a page of another origin."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None:
        is_ours = site in ("same-origin", "none")
    else:
        # Older browsers send the origin of the page instead, and programs neither.
        origin = connection.headers.get("origin")
        is_ours = origin is None or _is_same(origin, connection)
    if not is_ours:
        raise forbidden("the request is from a page of another origin")


def _is_same(origin: str, connection: HTTPConnection) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    host = connection.headers.get("host", "").lower()
    if not host or parts.netloc.lower() != host:
        return False
    scheme = connection.scope.get("scheme", "http").replace("ws", "http")
    # A proxy that terminates TLS may not report it; never the other way round.
    return parts.scheme in {scheme, "https"}
