"""Errors of the event bus, with the codes and texts of Vert.x."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from kue.model.errors import KueError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The code of every failure but the recipient's own.
NO_CODE = -1


class FailureKind(IntEnum):
    """Why there is no reply; the numbers are those on the wire."""

    #: No reply came in time, or the request was discarded before it was handled.
    TIMEOUT = 0
    #: The address has no consumer.
    NO_HANDLERS = 1
    #: The recipient replied that it failed, with its own code.
    RECIPIENT_FAILURE = 2
    #: The recipient raised, its node was lost, or the bus closed.
    ERROR = 3


class BusClosed(KueError):
    """The bus is closed, or its cluster has not been joined yet."""


class RequestFailed(KueError):
    """
    A request failed instead of being answered.

    A handler may raise it as well: the requester then gets it as a RECIPIENT_FAILURE.
    """

    def __init__(
        self,
        text: str,
        *,
        code: int = NO_CODE,
        kind: FailureKind = FailureKind.RECIPIENT_FAILURE,
        debug: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.kind = kind
        #: What the recipient reports about the cause, as JSON; see
        #: `kue.vertx.service_binding`.
        self.debug: dict[str, Any] = dict(debug or {})


def timed_out(timeout: float, reply_address: str, address: str) -> RequestFailed:
    return RequestFailed(
        f"Timed out after waiting {round(timeout * 1000)}(ms) for a reply. "
        f"address: {reply_address}, repliedAddress: {address}",
        kind=FailureKind.TIMEOUT,
    )


def discarded(reply_address: str, address: str) -> RequestFailed:
    return RequestFailed(
        f"Discarded the request. address: {reply_address}, repliedAddress: {address}",
        kind=FailureKind.TIMEOUT,
    )


def no_handlers(address: str) -> RequestFailed:
    return RequestFailed(
        f"No handlers for address {address}", kind=FailureKind.NO_HANDLERS
    )


def raised(address: str, exc: BaseException) -> RequestFailed:
    # Its text may hold what the requester must not see; the log has it.
    return RequestFailed(
        f"The consumer of {address} raised {type(exc).__name__}", kind=FailureKind.ERROR
    )


def node_lost(node: str, reply_address: str, address: str) -> RequestFailed:
    return RequestFailed(
        f"Node {node} left before it replied. "
        f"address: {reply_address}, repliedAddress: {address}",
        kind=FailureKind.ERROR,
    )
