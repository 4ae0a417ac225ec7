"""What supervisor and child say to each other: a line of JSON each, over a socket."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kue.model.settings import Settings
from kue.supervisor.options import SupervisorOptions

#: A line may carry a traceback, but never grows beyond this.
MAX_LINE = 1_000_000


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """A child has loaded the queue and starts to work."""

    worker: str
    #: How to reach the store, with its credentials: for this socket alone.
    settings: Settings
    #: The store's address as it may be shown.
    store: str
    #: How durable the store is; what is wrong while it does not answer.
    durability: str
    #: A line for each type: how many at once, and how they are run.
    types: tuple[str, ...]
    concurrency: int
    #: Whether the child renews its own lease, because nobody else can.
    beats_itself: bool
    #: The folder that the target's code is in.
    folder: str | None


class Tick(msgspec.Struct, frozen=True, tag="tick"):
    """The child's event loop goes round."""

    status: dict[str, Any]
    is_leaving: bool
    #: Someone ordered it to stop: nobody is to take its place.
    is_dismissed: bool = False


class StartFailed(msgspec.Struct, frozen=True, tag="failure"):
    """The child could not start; *detail* is for people and may have many lines."""

    message: str
    detail: str = ""


class Bye(msgspec.Struct, frozen=True, tag="bye"):
    """The child leaves in order."""

    reason: Literal["asked", "dismissed", "drained", "spent"]


class StartOrder(msgspec.Struct, frozen=True, tag="orders"):
    """The first line a child hears: which one it is, and what to do."""

    number: int
    options: SupervisorOptions


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """
    Take no more jobs and leave once those in hand have ended.

    After *grace* seconds they are handed back; None waits as long as it takes.
    """

    grace: float | None


FromChild = Hello | Tick | StartFailed | Bye
ToChild = StartOrder | Leave

_encoder = msgspec.json.Encoder()
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
_to_child: msgspec.json.Decoder[ToChild] = msgspec.json.Decoder(ToChild)


def line(message: FromChild | ToChild) -> bytes:
    """Return *message* as it travels."""
    return _encoder.encode(message) + b"\n"


def heard_from_child(data: bytes) -> FromChild:
    return _from_child.decode(data)


def heard_by_child(data: bytes) -> ToChild:
    return _to_child.decode(data)
