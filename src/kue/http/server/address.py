"""Listen address of a server, and whether other machines can reach it."""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import Any

from kue.http.security.loopback import is_loopback, without_zone
from kue.model.errors import ConfigError

#: Prefix of a Unix socket in place of a host: ``unix:/run/kue.sock``.
UNIX = "unix:"


@dataclass(frozen=True)
class ListenAddress:
    """Where to listen; a name is resolved once, so that what was checked is used."""

    #: As it was given.
    host: str
    family: socket.AddressFamily
    #: What a socket is bound to.
    sockaddr: Any

    @classmethod
    def of(cls, host: str, port: int) -> ListenAddress:
        """Resolve a name, an IP address, or ``unix:/path``; empty is everywhere."""
        if host.startswith(UNIX):
            path = os.path.abspath(host.removeprefix(UNIX))
            return cls(host, socket.AF_UNIX, path)
        try:
            found = socket.getaddrinfo(
                host.strip("[]") or None,
                port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_PASSIVE,
            )
        except (OSError, UnicodeError) as exc:
            raise ConfigError(
                f"there is no host {host!r}: {exc}; give another --host"
            ) from exc
        family, _, _, _, sockaddr = found[0]
        return cls(host, family, sockaddr)

    @classmethod
    def bound(cls, listener: socket.socket, host: str) -> ListenAddress:
        """Return where *listener* listens, whatever *host* may resolve to by now."""
        return cls(host, listener.family, listener.getsockname())

    @property
    def is_unix(self) -> bool:
        return self.family is socket.AF_UNIX

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it; a Unix socket has permissions."""
        return self.is_unix or is_loopback(self.sockaddr[0])

    def url(self, *, scheme: str = "http", prefix: str = "") -> str:
        """Return the URL for a browser on this machine."""
        if self.is_unix:
            return f"{scheme}+unix://{self.sockaddr}{prefix}/"
        ip = ipaddress.ip_address(without_zone(self.sockaddr[0]))
        host = self.host.strip("[]")
        if ip.is_unspecified:
            # It means every address, which browsers cannot open.
            host = "127.0.0.1" if ip.version == 4 else "::1"
        shown = f"[{host}]" if ":" in host else host
        return f"{scheme}://{shown}:{self.sockaddr[1]}{prefix}/"
