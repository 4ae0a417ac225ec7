"""Slow clients, perhaps slow on purpose: limits on how long they hold connections."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

from kue.http.framework.problem import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Seconds for the headers of a request, from the first byte on.
HEADER_SECONDS = 10.0
#: Seconds for its body.
BODY_SECONDS = 30.0
#: Seconds within which a client must read some of a response.
READ_SECONDS = 60.0


class SlowClientProtocol(H11Protocol):
    """Disconnects a client that does not end its headers, or does not read."""

    _header_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None
    header_seconds = HEADER_SECONDS
    read_seconds = READ_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._check_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._check_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._header_timer)
        _cancel(self._read_timer)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_timer = self.loop.call_later(self.read_seconds, self._abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._read_timer)

    def _abort(self) -> None:
        # close() would wait until everything is read.
        if self in self.connections:
            self.transport.abort()

    def _check_headers(self) -> None:
        has_request = self.cycle is not None and not self.cycle.response_complete
        if has_request:
            _cancel(self._header_timer)
            self._header_timer = None
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_seconds, self._close)

    def _close(self) -> None:
        self._header_timer = None
        # A connection that became a WebSocket is no longer among them.
        if self in self.connections:
            self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class SlowBodyLimit:
    """Refuses a request whose body does not arrive in time."""

    def __init__(self, app: ASGIApp, *, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds
        is_whole = False

        async def receive_promptly() -> Message:
            nonlocal is_whole
            # After the body comes only the disconnection of the client, at any time.
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise Refused(
                    HTTPStatus.REQUEST_TIMEOUT,
                    f"the body did not arrive within {self._seconds:g} s",
                    headers={"Connection": "close"},
                ) from None
            is_whole = not message.get("more_body", False)
            return message

        await self._app(scope, receive_promptly, send)
