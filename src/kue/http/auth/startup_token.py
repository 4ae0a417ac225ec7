"""
Open mode: access with a start-up token, where there are no users to log in.

That a request comes from this machine proves nothing: a reverse proxy is on this
machine, too, and forwards requests of strangers.  So clients must know a secret, which
is in the terminal, the log or the environment of the server.

A browser sends it once, in the address that is printed at the start.  It gets a cookie
in exchange, and is redirected to the same address without the token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.responses import Response

from kue.http.auth.access import User, bearer_token
from kue.http.auth.roles import Role
from kue.http.auth.sessions import cookie_for
from kue.http.framework.problem import forbidden, unauthorized
from kue.http.security.csrf import ROOT
from kue.http.security.loopback import host_of, is_loopback
from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.requests import HTTPConnection, Request

#: An environment variable with a token; without it, every start has another.
VARIABLE = "KUE_DASHBOARD_TOKEN"
#: The query parameter with the token.
PARAMETER = "token"
#: Its value on the login page, after a token that is not valid.
REFUSED = "refused"
MIN_LENGTH = 16
COOKIE = "kue_open"
WEEK_SECONDS = 604_800
#: Headers that only proxies set.
PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip"})
PROXY_PREFIX = "x-forwarded-"
#: The user of requests with the start-up token.
LOCAL = User("local", Role.ADMIN, is_open=True)

_PRINTABLE = re.compile(r"[!-~]+")
_IN_QUERY = re.compile(r"(?<=[?&]token=)[^&\s\"]+")


class StartupToken:
    """
    The secret of a server in open mode.

    Args:
        secret: The one of an earlier start; by default `VARIABLE`, or else random.
    """

    def __init__(self, secret: str = "") -> None:
        given = secret or os.environ.get(VARIABLE, "")
        if given and (len(given) < MIN_LENGTH or not _PRINTABLE.fullmatch(given)):
            raise ConfigError(
                f"{VARIABLE} must have at least {MIN_LENGTH} characters, ASCII "
                "letters, digits and signs without blanks; openssl rand -hex 24 makes "
                "one"
            )
        #: Whether it was given by the user who started the server.
        self.is_given = bool(given)
        self.secret = given or secrets.token_urlsafe(24)

    @property
    def query(self) -> str:
        """What follows the address of the dashboard."""
        return f"?{PARAMETER}={quote(self.secret, safe='')}"

    def admit(self, connection: HTTPConnection) -> User:
        """Return the user of a request with the token; raise `Refused` without it."""
        refuse_proxied(connection.headers)
        if not self._is_in(connection):
            raise unauthorized(
                "open the address with ?token= that the server printed when it "
                "started, or send the token: Authorization: Bearer ...; "
                f"{VARIABLE} sets one"
            )
        return LOCAL

    def exchange(self, request: Request) -> Response:
        """Redirect to the page without the token, with a cookie if it is valid."""
        root = request.scope.get(ROOT, "")
        others = [
            (name, value)
            for name, value in request.query_params.multi_items()
            if name != PARAMETER
        ]
        path, headers = request.scope["path"], {"Cache-Control": "no-store"}
        if path == f"{root}/login":
            path, others = f"{root}/", []
        if self._is_secret(request.query_params[PARAMETER]):
            headers["Set-Cookie"] = cookie_for(
                request, _cookie_name(request), self._cookie_value, WEEK_SECONDS
            )
        else:
            path, others = f"{root}/login", [(PARAMETER, REFUSED)]
        query = f"?{urlencode(others)}" if others else ""
        # One slash: two would lead to another host.
        headers["Location"] = f"/{quote(path.lstrip('/'))}{query}"
        return Response(status_code=HTTPStatus.SEE_OTHER, headers=headers)

    def _is_in(self, connection: HTTPConnection) -> bool:
        token = bearer_token(connection)
        if token is not None:
            return self._is_secret(token)
        cookie = connection.cookies.get(_cookie_name(connection), "")
        return hmac.compare_digest(cookie.encode(), self._cookie_value.encode())

    def _is_secret(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.secret.encode())

    @property
    def _cookie_value(self) -> str:
        # Browsers keep it in a file; the token itself is not in there.
        return hashlib.sha256(f"kue cookie {self.secret}".encode()).hexdigest()


class LocalhostGuard:
    """
    The default guard of an application: only this machine, with the token.

    Checks the address of the client and the host name it used, though neither proves
    anything about requests that a proxy forwards.
    """

    def __init__(self, startup: StartupToken | None = None) -> None:
        self.startup = startup or StartupToken()

    async def who(self, connection: HTTPConnection) -> User | None:
        # First of all: servers may take the client's address from such headers.
        refuse_proxied(connection.headers)
        client = connection.client
        name = host_of(connection.headers.get("host", ""))
        if client is None or not (is_loopback(client.host) and is_loopback(name)):
            raise forbidden(
                "access is limited to this machine; pass guard= to create_app() to "
                "allow other clients"
            )
        return self.startup.admit(connection)


def refuse_proxied(headers: Headers) -> None:
    """Raise `Refused` if a proxy forwarded a request, as far as its headers show."""
    for name in headers:
        if name in PROXY_HEADERS or name.startswith(PROXY_PREFIX):
            raise forbidden(
                f"a proxy forwarded this request ({name}), but there is no login here; "
                "add a user (kue user add NAME --role admin) and start kue dashboard "
                "with --proxy, or pass guard= to create_app()"
            )


def without_token(text: str) -> str:
    """Return *text*, such as a line of an access log, without the token in it."""
    return _IN_QUERY.sub("...", text) if "token=" in text else text


def _cookie_name(connection: HTTPConnection) -> str:
    # Ports share their cookies: two dashboards on one machine would log each other out.
    _, _, port = connection.headers.get("host", "").rpartition(":")
    return f"{COOKIE}_{port}" if port.isdecimal() and port.isascii() else COOKIE
