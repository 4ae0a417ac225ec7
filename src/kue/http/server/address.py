"""Where a server listens, and whether others than this machine can reach it."""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kue.http.security.hosts import is_loopback, without_zone
from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How a socket in the file system is named instead of a host: ``unix:/run/kue.sock``.
UNIX = "unix:"


class UnprotectedServer(ConfigError):
    """A server would be open to whoever can reach it."""

    def __init__(self, where: str, commands: Sequence[str]) -> None:
        shown = "\n".join(f"  {command}" for command in commands)
        super().__init__(
            f"others than this machine can reach {where}, and nobody would have to log "
            f"in; add a user, then start again:\n{shown}"
        )


@dataclass(frozen=True)
class ListenAddress:
    """Where to listen: names are looked up once, so that what was decided is used."""

    #: As it was given.
    host: str
    family: socket.AddressFamily
    #: What a socket is bound to.
    place: Any

    @classmethod
    def of(cls, host: str, port: int) -> ListenAddress:
        """
        Look *host* up: a name, an IP address, or ``unix:/path``; empty is everywhere.

        Raises:
            ConfigError: There is no such host.
        """
        if host.startswith(UNIX):
            path = host.removeprefix(UNIX)
            return cls(host, socket.AF_UNIX, os.path.abspath(path))
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
        family, _, _, _, place = found[0]
        return cls(host, family, place)

    @classmethod
    def bound(cls, listener: socket.socket, host: str) -> ListenAddress:
        """Return where *listener* does listen, whatever *host* may mean by now."""
        return cls(host, listener.family, listener.getsockname())

    @property
    def is_unix(self) -> bool:
        return self.family is socket.AF_UNIX

    @property
    def is_local(self) -> bool:
        """
        Whether only this machine can reach it.

        A socket in the file system is as private as its permissions.
        """
        return self.is_unix or is_loopback(self.place[0])

    def url(self, *, scheme: str = "http", prefix: str = "") -> str:
        """Return what to type into a browser on this machine."""
        if self.is_unix:
            return f"{scheme}+unix://{self.place}{prefix}/"
        ip = ipaddress.ip_address(without_zone(self.place[0]))
        host = self.host.strip("[]")
        if ip.is_unspecified:
            # It means every address, and browsers do not know it.
            host = "127.0.0.1" if ip.version == 4 else "::1"
        shown = f"[{host}]" if ":" in host else host
        return f"{scheme}://{shown}:{self.place[1]}{prefix}/"
