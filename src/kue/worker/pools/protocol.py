"""
What a worker and a child process say to each other.

Each message is its length (four bytes) and that much JSON.  The worker sends jobs; the
child answers each with any number of signs of life and one ending.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import msgspec

from kue.model.job import Ending
from kue.store.values import LogLine, Progress

LENGTH = struct.Struct(">I")
#: More than any ending, log line or progress can have; a child that sends more is mad.
MAX_MESSAGE = 4 * 1024 * 1024


class LogRecord(msgspec.Struct, frozen=True, tag="line"):
    """The handler logged or printed."""

    line: LogLine


class ProgressUpdate(msgspec.Struct, frozen=True, tag="progress"):
    """The handler says how far it is."""

    update: Progress


class RunEnd(msgspec.Struct, frozen=True, tag="end"):
    """The run is over."""

    ending: Ending


Message: TypeAlias = LogRecord | ProgressUpdate | RunEnd

_encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def packed(payload: bytes) -> bytes:
    """Return *payload* with its length before it."""
    return LENGTH.pack(len(payload)) + payload


def pack(message: Message) -> bytes:
    return packed(_encode(message))


def unpack(payload: bytes) -> Message:
    """Raises `msgspec.MsgspecError` when it is no message."""
    return _decoder.decode(payload)
