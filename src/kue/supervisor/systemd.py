"""systemd notifications: the protocol of sd_notify, without a library."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class SystemdNotifier:
    """Writes states to $NOTIFY_SOCKET; without one it does nothing."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._status = ""
        #: Seconds within which systemd expects a notification, or None.
        self.watchdog = _watchdog(environ)

    def ready(self) -> None:
        self._send("READY=1")

    def reloading(self) -> None:
        # The time lets systemd distinguish this reload from an earlier one.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def alive(self) -> None:
        if self.watchdog is not None:
            self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Show *text* in ``systemctl status``; the same again is not sent."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.setblocking(False)
            # systemd is not there or too busy: our work does not depend on it.
            with contextlib.suppress(OSError):
                link.sendto("\n".join(lines).encode(), self._address)


def _address(name: str) -> str | None:
    if name.startswith("@"):
        # A name outside of the file system begins with a zero byte.
        return f"\0{name[1:]}"
    return name if name.startswith("/") else None


def _watchdog(environ: Mapping[str, str]) -> float | None:
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        return int(environ["WATCHDOG_USEC"]) / 1_000_000
    except (KeyError, ValueError):
        return None
