"""What a message is between nodes: a frame, in a batch of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.bus.headers import Headers
from kue.bus.message import MAX_ADDRESS, Message

if TYPE_CHECKING:
    from kue.bus.codecs import Codecs
    from kue.bus.message import MessageSender

#: Bytes of body and headers, unless the bus says otherwise.  Redis cuts off a
#: subscriber that has 32 MB waiting.
MAX_SIZE = 12 * 1024 * 1024
#: What a bus may say.
LARGEST_SIZE = 32 * 1024 * 1024


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A message as it travels."""

    address: str
    body: bytes
    codec: str
    is_send: bool
    reply_address: str | None = None
    headers: list[tuple[str, str]] | None = None


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """
    What one node sends another at once.

    A sender numbers the frames of each stream to a node from 1 on: a number that was
    seen before is a repetition, one that is left out is a loss.
    """

    sender: str
    stream: str
    #: That of its first frame; without frames, that of the next one to come.
    number: int
    frames: list[Frame]
    #: The receiver's own stream to the sender: which, and the last number heard.
    heard: tuple[str, int] | None = None
    #: Whether the sender wants to know what the receiver has heard.
    asks: bool = False
    #: The stream to the receiver that went before, and the last number in it.
    before: tuple[str, int] | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Batch)


def pack(batch: Batch) -> bytes:
    return _encoder.encode(batch)


def unpack(packed: bytes) -> Batch:
    """
    Read what `pack` wrote.

    Raises:
        msgspec.DecodeError: It is something else.
    """
    return _decoder.decode(packed)


def frame(message: Message, limit: int = MAX_SIZE) -> Frame:
    """
    Write a message down.

    Raises:
        ValueError: It is larger than *limit*.
    """
    body = message.codec.encode(message.body)
    headers = list(message.headers.items()) if message.has_headers else None
    total = len(body) + _size(headers)
    if total > limit:
        raise ValueError(
            f"a message to {message.address} is {total:,} bytes, and the limit is "
            f"{limit:,}; keep large things elsewhere and send a reference"
        )
    return Frame(
        message.address,
        body,
        message.codec.name,
        message.is_send,
        message.reply_address,
        headers,
    )


def size(frame: Frame) -> int:
    """Return about how many bytes a frame takes."""
    return len(frame.body) + len(frame.address) + _size(frame.headers)


def _size(headers: list[tuple[str, str]] | None) -> int:
    if headers is None:
        return 0
    return sum(len(name.encode()) + len(value.encode()) for name, value in headers)


def message(frame: Frame, bus: MessageSender, codecs: Codecs) -> Message:
    """
    Read a message.

    Raises:
        ValueError: Its codec is not known here, or cannot read it.
    """
    if not 1 <= len(frame.address) <= MAX_ADDRESS:
        raise ValueError(f"an address of {len(frame.address)} letters")
    codec = codecs.named(frame.codec)
    return Message(
        bus,
        frame.address,
        codec.decode(frame.body),
        codec,
        headers=Headers(frame.headers) if frame.headers else None,
        reply_address=frame.reply_address,
        is_send=frame.is_send,
    )
