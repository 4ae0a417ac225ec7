"""Authentication cookies: for this application only, out of reach of scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from kue.http.security.csrf import ROOT

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


def cookie_for(connection: HTTPConnection, name: str, secret: str, seconds: int) -> str:
    """Return the Set-Cookie header that makes a browser keep *secret* for *seconds*."""
    # Where the application is mounted: others on the same host do not get it.
    path = quote(connection.scope.get(ROOT) or "/", safe="/-._~!$&'()*+,=:@%")
    is_secure = connection.scope.get("scheme") in ("https", "wss")
    return (
        f"{name}={secret}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        + ("; Secure" if is_secure else "")
    )
