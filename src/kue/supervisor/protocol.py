"""Protocol between supervisor and child: one line of JSON per message, on a socket."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from kue.model.settings import Settings
from kue.supervisor.options import ProcessCount, SupervisorOptions

#: A line may carry a traceback, but never grows beyond this.
MAX_LINE = 1_000_000


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """A child has loaded the queue and starts to work."""

    worker: str
    #: How to reach the store, with credentials: only ever sent over this socket.
    settings: Settings
    #: The store's address without credentials.
    store: str
    #: How durable the store is, or why it does not answer.
    durability: str
    #: One line per type: how many at once, and how they are run.
    types: tuple[str, ...]
    concurrency: int
    #: Whether the child renews its own lease, because the supervisor cannot.
    beats_itself: bool
    #: Whether that is because its jobs are in its memory.
    is_private: bool
    #: The folder that the target's code is in.
    folder: str | None
    status: dict[str, Any] = {}


class LaneLoad(NamedTuple):
    """How many jobs of a type a child runs, and how many runs it has ended."""

    running: int
    done: int


class ChildStatus(msgspec.Struct, frozen=True, tag="status"):
    """The child's event loop is running."""

    status: dict[str, Any]
    is_leaving: bool
    #: It was ordered to stop through the store, and is not to be replaced.
    is_dismissed: bool = False
    #: By type, for a supervisor that scales.
    loads: dict[str, LaneLoad] = {}


class StartFailed(msgspec.Struct, frozen=True, tag="failure"):
    """The child could not start; *detail* is for people and may have many lines."""

    message: str
    detail: str = ""


class Bye(msgspec.Struct, frozen=True, tag="bye"):
    """The child stops cleanly."""

    reason: Literal["asked", "dismissed", "drained", "spent"]


class StartOrder(msgspec.Struct, frozen=True, tag="orders"):
    """The first line a child receives: its number and its options."""

    number: int
    options: SupervisorOptions


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """
    Claim no more jobs and exit once the running ones have ended.

    After *grace* seconds they are requeued; None waits as long as it takes.
    """

    grace: float | None


class Scaled(msgspec.Struct, frozen=True, tag="scaled"):
    """How many processes the supervisor has, to be shown with the child's status."""

    processes: ProcessCount


FromChild = Hello | ChildStatus | StartFailed | Bye
ToChild = StartOrder | Leave | Scaled

_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
_to_child: msgspec.json.Decoder[ToChild] = msgspec.json.Decoder(ToChild)
decode_from_child, decode_to_child = _from_child.decode, _to_child.decode


def encode(message: FromChild | ToChild) -> bytes:
    return msgspec.json.encode(message) + b"\n"
