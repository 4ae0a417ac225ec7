"""Health reports: a file that exists while all is well, systemd, an HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kue.supervisor.health_check import HealthCheck, SupervisorHealth
    from kue.supervisor.systemd import SystemdNotifier

REPORT_SECONDS = 1.0
logger = logging.getLogger(__name__)
#: A client that is slower than this is not a health check.
REQUEST_SECONDS = 5.0
MAX_HEADERS = 100
#: By whether all is well, or None for an unknown path.
STATUSES = {True: "200 OK", False: "503 Service Unavailable", None: "404 Not Found"}


class HealthReporter:
    """Reports health every second."""

    def __init__(
        self,
        health_check: HealthCheck,
        notifier: SystemdNotifier,
        health_file: str | None,
    ) -> None:
        self._health_check = health_check
        self._notifier = notifier
        self._file = HealthFile(health_file) if health_file is not None else None
        self._was_ready = False
        watchdog = math.inf if notifier.watchdog is None else notifier.watchdog
        self._pause = min(REPORT_SECONDS, watchdog / 2)

    async def run(self) -> None:
        try:
            while True:
                await self._report(self._health_check.check())
                await asyncio.sleep(self._pause)
        finally:
            if self._file is not None:
                self._file.remove()

    async def _report(self, health: SupervisorHealth) -> None:
        if self._file is not None:
            # Disks can be slow, and heartbeats must not wait for them.
            await asyncio.to_thread(self._file.show, health)
        if health.ready and not self._was_ready:
            self._was_ready = True
            self._notifier.ready()
        if health.live:
            self._notifier.alive()
        self._notifier.status(health.summary)


class HealthFile:
    """Touched while the supervisor is ready, removed when it is not."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._is_logged = False

    def show(self, health: SupervisorHealth) -> None:
        try:
            if health.ready:
                self._path.touch()
            else:
                self.remove()
            self._is_logged = False
        except OSError as exc:
            if not self._is_logged:
                self._is_logged = True
                logger.error("the health file cannot be written: %s", exc)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


@asynccontextmanager
async def health_server(
    host: str, port: int, check: Callable[[], SupervisorHealth]
) -> AsyncIterator[None]:
    """Answer /healthz and /readyz for as long as the context lasts."""

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(_response(await _request(reader), check()))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, host, port)
    except OSError as exc:
        raise ConfigError(
            f"the health server cannot listen on {host}:{port}: {exc}; "
            "give another --health-port or --health-host"
        ) from exc
    address = "{}:{}".format(*server.sockets[0].getsockname())
    logger.info("serving health checks at http://%s/readyz", address)
    async with server:
        yield


async def _request(reader: asyncio.StreamReader) -> list[bytes]:
    """Return method and path; headers are read and ignored."""
    words = (await reader.readline()).split()
    for _ in range(MAX_HEADERS):
        if not (await reader.readline()).strip():
            break
    return words[:2]


def _response(request: list[bytes], health: SupervisorHealth) -> bytes:
    status = "405 Method Not Allowed"
    if len(request) == 2 and request[0] in (b"GET", b"HEAD"):
        path = request[1].partition(b"?")[0]
        is_well = {b"/healthz": health.live, b"/readyz": health.ready}.get(path)
        status = STATUSES[is_well]
    body = msgspec.json.encode(health) if status[:3] in ("200", "503") else b"{}"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if request[:1] == [b"HEAD"] else body)
