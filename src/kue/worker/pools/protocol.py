"""
Protocol between a worker and a child process of its process pool.

Each message is its length (four bytes) and that much JSON.  The worker sends jobs; the
child replies to each with any number of progress reports, log lines, chunks and calls
about its steps, to which the worker replies, and one ending.
"""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias

import msgspec

from kue.model.job import Ending
from kue.model.steps import JobSteps, Step
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


class ChunkSent(msgspec.Struct, frozen=True, tag="chunk"):
    """The handler sent a chunk of its stream."""

    chunk: msgspec.Raw


class RunEnd(msgspec.Struct, frozen=True, tag="end"):
    """The run is over."""

    ending: Ending
    #: The names of the class of what it raised, and of the bases of that.
    raised: tuple[str, ...] = ()


class StepCall(msgspec.Struct, frozen=True, tag="step"):
    """The handler came to a step, or waits for a signal; the worker replies."""

    verb: Literal["read", "record", "receive"]
    name: str = ""
    number: int = 0
    #: Of a step that ended: what it returned, and how long it took, in ms.
    result: msgspec.Raw = msgspec.Raw(b"null")
    duration: int = 0


class StepReply(msgspec.Struct, frozen=True):
    """What the store replied to a `StepCall`."""

    steps: JobSteps | None = None
    wait: Step | None = None
    word: str = ""
    #: Set when the store failed.
    error: str = ""
    #: Whether that is about a payload, so that no retry can help.
    is_refused: bool = False


Message: TypeAlias = LogRecord | ProgressUpdate | ChunkSent | StepCall | RunEnd

_encode = msgspec.json.Encoder().encode
#: Reads what the worker replies to a call about steps.
unpack_reply = msgspec.json.Decoder(StepReply).decode
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def packed(payload: bytes) -> bytes:
    """Return *payload* prefixed with its length."""
    return LENGTH.pack(len(payload)) + payload


def pack(message: Message) -> bytes:
    return packed(_encode(message))


def pack_reply(reply: StepReply) -> bytes:
    return packed(_encode(reply))


def unpack(payload: bytes) -> Message:
    """Raises `msgspec.MsgspecError` when it is not a message."""
    return _decoder.decode(payload)
