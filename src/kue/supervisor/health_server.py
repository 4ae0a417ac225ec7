"""Health checks: a file that exists while all is well, and a small HTTP server."""

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

    from kue.supervisor.health import SupervisorHealth

logger = logging.getLogger(__name__)

#: A client that is slower than this is not a health check.
REQUEST_SECONDS = 5.0
MAX_HEADERS = 100


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
