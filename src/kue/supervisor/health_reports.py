"""Health reports: a file that exists while all is well, systemd, an HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kue.supervisor.health import HealthCheck, SupervisorHealth
    from kue.supervisor.systemd import SystemdNotifier

REPORT_SECONDS = 1.0
logger = logging.getLogger(__name__)
#: A client that is slower than this is not a health check.
REQUEST_SECONDS = 5.0
MAX_HEADERS = 100


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

    async def run(self) -> None:
        try:
            while True:
                await self._report(self._health_check.check())
                await asyncio.sleep(self._pause)
        finally:
            if self._file is not None:
                self._file.remove()

    @property
    def _pause(self) -> float:
        watchdog = self._notifier.watchdog
        return REPORT_SECONDS if watchdog is None else min(REPORT_SECONDS, watchdog / 2)

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
            self._log_once(exc)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def _log_once(self, exc: OSError) -> None:
        if not self._is_logged:
            self._is_logged = True
            logger.error("the health file cannot be written: %s", exc)


@asynccontextmanager
async def health_server(
    host: str, port: int, check: Callable[[], SupervisorHealth]
) -> AsyncIterator[None]:
    """
    Answer /healthz and /readyz for as long as the context lasts.

    Raises:
        ConfigError: It cannot listen there.
    """

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
        status = _status(request[1].partition(b"?")[0], health)
    body = msgspec.json.encode(health) if status[:3] in ("200", "503") else b"{}"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if request[:1] == [b"HEAD"] else body)


def _status(path: bytes, health: SupervisorHealth) -> str:
    match path:
        case b"/healthz":
            is_well = health.live
        case b"/readyz":
            is_well = health.ready
        case _:
            return "404 Not Found"
    return "200 OK" if is_well else "503 Service Unavailable"
