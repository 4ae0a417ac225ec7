"""
Protocol between a worker and a child process of its process pool.

Each message is its length (four bytes) and that much JSON.  The worker sends jobs; the
child replies to each with any number of progress reports and log lines, and one ending.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import msgspec

from kue.model.job import Ending
from kue.store.values import LogLine, Progress

LENGTH = struct.Struct(">I")
#: More than any ending, log line or progress can have; a child that sends more is
#: broken.
MAX_MESSAGE = 4 * 1024 * 1024


class LogRecord(msgspec.Struct, frozen=True, tag="line"):
    """The handler logged or printed."""

    line: LogLine


class ProgressUpdate(msgspec.Struct, frozen=True, tag="progress"):
    """The handler reported its progress."""

    update: Progress


class RunEnd(msgspec.Struct, frozen=True, tag="end"):
    """The run is over."""

    ending: Ending
    #: The names of the class of what it raised, and of the bases of that.
    raised: tuple[str, ...] = ()


Message: TypeAlias = LogRecord | ProgressUpdate | RunEnd

_encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def packed(payload: bytes) -> bytes:
    """Return *payload* prefixed with its length."""
    return LENGTH.pack(len(payload)) + payload


def pack(message: Message) -> bytes:
    return packed(_encode(message))


def unpack(payload: bytes) -> Message:
    """Raises `msgspec.MsgspecError` when it is not a message."""
    return _decoder.decode(payload)
