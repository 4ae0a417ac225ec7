"""Frames: the wire format of messages between nodes, sent in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.bus.headers import Headers
from kue.bus.message import MAX_ADDRESS, Message

if TYPE_CHECKING:
    from kue.bus.bus import EventBus
    from kue.bus.codecs import Codecs

#: Bytes of body and headers, unless the bus sets another limit.  Redis cuts off a
#: subscriber that has 32 MB waiting.
MAX_SIZE = 12 * 1024 * 1024
#: Highest limit that a bus may set.
LARGEST_SIZE = 32 * 1024 * 1024


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A message between nodes."""

    address: str
    body: bytes
    codec: str
    is_send: bool
    reply_address: str | None = None
    headers: list[tuple[str, str]] | None = None


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """
    The frames that one node sends another in one message.

    A sender numbers the frames of each stream to a node from 1 on: a number that was
    received before is a repetition, one that is left out is a loss.
    """

    sender: str
    stream: str
    #: Number of its first frame; without frames, that of the next one to come.
    number: int
    frames: list[Frame]
    #: The receiver's own stream to the sender, and the last number received of it.
    ack: tuple[str, int] | None = None
    #: Whether the sender asks for an acknowledgement.
    wants_ack: bool = False
    #: The previous stream to the receiver, and the last number in it.
    previous: tuple[str, int] | None = None


#: Encodes a batch.
pack = msgspec.msgpack.Encoder().encode
#: Decodes one; raises `msgspec.DecodeError` for anything else.
unpack = msgspec.msgpack.Decoder(Batch).decode


def frame(message: Message, limit: int = MAX_SIZE) -> Frame:
    """
    Encode a message.

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
    """Return approximately how many bytes a frame takes."""
    return len(frame.body) + len(frame.address) + _size(frame.headers)


def _size(headers: list[tuple[str, str]] | None) -> int:
    if headers is None:
        return 0
    return sum(len(name.encode()) + len(value.encode()) for name, value in headers)


def message(frame: Frame, bus: EventBus, codecs: Codecs) -> Message:
    """
    Decode a message.

    Raises:
        ValueError: Its codec is not registered here, or cannot decode it.
    """
    if not 1 <= len(frame.address) <= MAX_ADDRESS:
        raise ValueError(f"an address of {len(frame.address)} characters")
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
