"""Clients that are slow, perhaps on purpose: each holds a connection, for so long."""

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
#: Seconds within which a client reads some of an answer that waits for it.
READ_SECONDS = 60.0


class SlowClientProtocol(H11Protocol):
    """Hangs up on a client that does not end its headers, or does not read."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    header_seconds = HEADER_SECONDS
    read_seconds = READ_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._relax()
        self._stop_waiting()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_seconds, self._drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting()

    def _drop(self) -> None:
        # To close is to wait until all is read.
        if self in self.connections:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _expect(self) -> None:
        is_asked = self.cycle is not None and not self.cycle.response_complete
        if is_asked:
            self._relax()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.header_seconds, self._hang_up)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        self._deadline = None
        # One that became a WebSocket is no longer among them.
        if self in self.connections:
            self.transport.close()


class SlowBodyLimit:
    """Refuses a request whose body does not come to an end."""

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
            # What comes after the body is that the client left, whenever that is.
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
