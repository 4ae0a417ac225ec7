"""What a message is between nodes: a frame, in a batch of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.bus.headers import Headers
from kue.bus.message import MAX_ADDRESS, Message

if TYPE_CHECKING:
    from kue.bus.codecs import Codecs
    from kue.bus.message import Carrier

#: Bytes of a body.  Redis cuts off a subscriber that has 32 MB waiting for it.
MAX_BODY = 16 * 1024 * 1024


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

    A sender numbers the batches of each stream to a node from 1 on: a number that was
    seen before is a repetition, one that is left out is a loss.
    """

    sender: str
    stream: str
    number: int
    frames: list[Frame]


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


def frame(message: Message) -> Frame:
    """Write a message down."""
    body = message.codec.encode(message.body)
    if len(body) > MAX_BODY:
        raise ValueError(
            f"the body of a message to {message.address} is {len(body):,} bytes, and "
            f"the limit is {MAX_BODY:,}; keep large things elsewhere and send a "
            "reference"
        )
    headers = list(message.headers.items()) if message.has_headers else None
    return Frame(
        message.address,
        body,
        message.codec.name,
        message.is_send,
        message.reply_address,
        headers,
    )


def message(frame: Frame, bus: Carrier, codecs: Codecs) -> Message:
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
