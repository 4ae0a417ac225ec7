"""What travels on the bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kue.bus.errors import FailureKind, RequestFailed
from kue.bus.headers import Headers

if TYPE_CHECKING:
    from kue.bus.codecs import Codec
    from kue.bus.headers import Given

#: How long a request waits for its reply, unless it says otherwise, in seconds.
DEFAULT_TIMEOUT = 30.0
MAX_TIMEOUT = 86_400.0
#: Letters of an address.
MAX_ADDRESS = 1000


class MessageSender(Protocol):
    """What a message needs of its bus in order to be answered."""

    def answer(
        self,
        reply_address: str,
        body: Any = None,
        *,
        headers: Given | None = None,
        codec: str | None = None,
    ) -> None: ...

    async def request(
        self,
        address: str,
        body: Any = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        headers: Given | None = None,
        codec: str | None = None,
    ) -> Message: ...


class Message:
    """
    A message on its way, or as one consumer got it.

    Each consumer has its own, with a body and headers that nobody else sees.
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
        bus: MessageSender,
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
        #: What copies the body, and writes it for other nodes.
        self.codec = codec
        #: Where a reply is awaited, if one is.
        self.reply_address = reply_address
        #: Whether it is for one consumer; else it was published, for all.
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
        """Answer a request.  Without one, or when it is answered, nothing happens."""
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
        Answer a request and wait for the answer to the answer.

        Raises:
            RequestFailed: None came.
            ValueError: This message awaits no reply.
        """
        if self.reply_address is None:
            raise ValueError(f"the message to {self.address} awaits no reply")
        return await self._bus.request(
            self.reply_address, body, timeout=timeout, headers=headers, codec=codec
        )

    def fail(self, code: int, text: str) -> None:
        """Answer a request with a failure; who asked gets a RECIPIENT_FAILURE."""
        self.reply(RequestFailed(text, code=code, kind=FailureKind.RECIPIENT_FAILURE))

    def own(self) -> Message:
        """Make this its one recipient's: the sender keeps the body it gave."""
        self.body = self.codec.copy(self.body)
        return self

    def copy(self) -> Message:
        """Return one that shares nothing with this."""
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
