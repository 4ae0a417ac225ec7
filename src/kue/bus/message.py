"""Messages of the event bus, and replies to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.bus.errors import FailureKind, RequestFailed
from kue.bus.headers import Headers

if TYPE_CHECKING:
    from kue.bus.bus import EventBus
    from kue.bus.codecs import Codec
    from kue.bus.headers import Given

#: How long a request waits for its reply by default, in seconds.
DEFAULT_TIMEOUT = 30.0
MAX_TIMEOUT = 86_400.0
#: Most characters of an address.
MAX_ADDRESS = 1000


class Message:
    """
    A message that is being sent, or as one consumer received it.

    Each consumer has its own copy of body and headers.
    """

    __slots__ = (
        "_bus",
        "_headers",
        "address",
        "body",
        "codec",
        "is_send",
        "reply_address",
    )

    def __init__(
        self,
        bus: EventBus,
        address: str,
        body: Any,
        codec: Codec,
        *,
        headers: Headers | None = None,
        reply_address: str | None = None,
        is_send: bool = True,
    ) -> None:
        self._bus = bus
        self._headers = headers
        #: Where it was sent to.
        self.address = address
        self.body = body
        #: Copies the body, and encodes it for other nodes.
        self.codec = codec
        #: The address for a reply, if one is expected.
        self.reply_address = reply_address
        #: Whether it is for one consumer; else it was published to all.
        self.is_send = is_send

    @property
    def headers(self) -> Headers:
        if self._headers is None:
            self._headers = Headers()
        return self._headers

    @property
    def has_headers(self) -> bool:
        return bool(self._headers)

    def reply(
        self,
        body: Any = None,
        *,
        headers: Given | None = None,
        codec: str | None = None,
    ) -> None:
        """Reply to a request.  Does nothing without one, or if it was answered."""
        if self.reply_address is not None:
            self._bus.answer(self.reply_address, body, headers=headers, codec=codec)

    async def reply_and_request(
        self,
        body: Any = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        headers: Given | None = None,
        codec: str | None = None,
    ) -> Message:
        """
        Reply to a request and wait for a reply to that.

        Raises:
            RequestFailed: None came.
            ValueError: This message expects no reply.
        """
        if self.reply_address is None:
            raise ValueError(f"the message to {self.address} expects no reply")
        return await self._bus.request(
            self.reply_address, body, timeout=timeout, headers=headers, codec=codec
        )

    def fail(self, code: int, text: str) -> None:
        """Reply with a failure; the requester gets a RECIPIENT_FAILURE."""
        self.reply(RequestFailed(text, code=code, kind=FailureKind.RECIPIENT_FAILURE))

    def own(self) -> Message:
        """Copy the body for the only recipient: the sender keeps the original."""
        self.body = self.codec.copy(self.body)
        return self

    def copy(self) -> Message:
        """Return a message that shares nothing with this one."""
        headers = self._headers
        return Message(
            self._bus,
            self.address,
            self.codec.copy(self.body),
            self.codec,
            headers=None if headers is None else Headers(headers),
            reply_address=self.reply_address,
            is_send=self.is_send,
        )

    def __repr__(self) -> str:
        kind = "send" if self.is_send else "publish"
        return f"<Message {kind} {self.address!r}>"
