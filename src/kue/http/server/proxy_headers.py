"""X-Forwarded-* headers, honoured only from trusted proxies."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from kue.http.framework.path_prefix import below, is_plain
from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST = re.compile(r"[A-Za-z0-9.-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?")
_SCHEMES = {"http": "ws", "https": "wss"}


class ProxyHeaders:
    """
    Takes client, scheme, host and prefix from X-Forwarded-For, -Proto, -Host, -Prefix.

    Args:
        proxies: Trusted addresses and networks; headers from others are ignored.
        is_unix: Requests come through a Unix socket: every client that may open it is
            trusted.
    """

    def __init__(
        self, app: ASGIApp, proxies: Iterable[str], *, is_unix: bool = False
    ) -> None:
        self._app = app
        self._networks = [_network(proxy) for proxy in proxies]
        self._is_unix = is_unix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and self._is_proxy(scope["client"]):
            scope = self._as_sent(scope)
        await self._app(scope, receive, send)

    def _is_proxy(self, client: tuple[str, int] | None) -> bool:
        return self._is_unix if client is None else self._is_trusted(client[0])

    def _is_trusted(self, address: str) -> bool:
        ip = _ip(address)
        return ip is not None and any(ip in network for network in self._networks)

    def _as_sent(self, scope: Scope) -> Scope:
        """Return the request as the client sent it."""
        headers = Headers(scope=scope)
        scope = dict(scope)
        if client := self._client(_values(headers, "x-forwarded-for")):
            scope["client"] = (client, 0)
        # The last value comes from the proxy next to this server.
        scheme = _last(headers, "x-forwarded-proto").lower()
        if scheme in _SCHEMES:
            is_socket = scope["type"] == "websocket"
            scope["scheme"] = _SCHEMES[scheme] if is_socket else scheme
        host = _last(headers, "x-forwarded-host")
        if _HOST.fullmatch(host):
            others = [(k, v) for k, v in scope["headers"] if k.lower() != b"host"]
            scope["headers"] = [(b"host", host.encode()), *others]
        prefix = _last(headers, "x-forwarded-prefix").rstrip("/")
        return below(scope, prefix) if is_plain(prefix) else scope

    def _client(self, addresses: list[str]) -> str | None:
        """Return the last address that is not a trusted proxy: others may be forged."""
        for address in reversed(addresses):
            if not self._is_trusted(address):
                return address if _ip(address) else None
        return addresses[0] if addresses else None


def _values(headers: Headers, name: str) -> list[str]:
    values = ",".join(headers.getlist(name)).split(",")
    return [value.strip() for value in values if value.strip()]


def _last(headers: Headers, name: str) -> str:
    values = _values(headers, name)
    return values[-1] if values else ""


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(proxy: str) -> Network:
    try:
        return ipaddress.ip_network(proxy, strict=False)
    except ValueError as exc:
        raise ConfigError(
            f"the proxy {proxy!r} is not an address; write 10.0.0.7 or 10.0.0.0/8"
        ) from exc
