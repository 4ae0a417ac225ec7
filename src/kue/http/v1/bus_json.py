"""JSON of the event bus: what the API returns, and messages to send."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from kue.bus.message import MAX_ADDRESS
from kue.http.streaming.bus_samples import MAX_KEPT, SampledMessage
from kue.http.v1.job_json import Span
from kue.model.histogram import Percentiles
from kue.model.view import View

#: Addresses in one response.
MAX_ADDRESSES = 1_000
#: Headers of a message, and characters of their names and values.
MAX_HEADERS, MAX_NAME, MAX_VALUE = 50, 200, 4_000

FailureName: TypeAlias = Literal["TIMEOUT", "NO_HANDLERS", "RECIPIENT_FAILURE", "ERROR"]


class MessageRates(View, frozen=True, kw_only=True):
    """Consumers, message rates and latency."""

    consumers: int
    #: Recent messages per second.
    send_rate: float
    receive_rate: float
    #: Messages since the current nodes joined; a published one counts once.
    sent: int
    received: int
    #: How long replies to requests took in the last minutes; null if there were none.
    latency: Percentiles | None
    #: Requests that failed, by kind.
    failures: dict[str, int]


class NodeView(View, frozen=True, kw_only=True):
    """A process that has joined the bus; null for what it does not report."""

    name: str
    #: How long ago its last heartbeat was.
    silent_ms: int
    host: str | None = None
    pid: int | None = None
    version: str | None = None
    #: When it joined, Unix ms.
    since: int | None = None
    flow: MessageRates | None = None
    #: Requests that wait for their reply.
    waiting: int | None = None
    bytes_out: int | None = None
    bytes_in: int | None = None
    #: Messages that did not reach it, and those it dropped because of a full buffer.
    lost: int | None = None
    given_up: int | None = None


class BusView(msgspec.Struct, frozen=True, kw_only=True):
    """The bus as its nodes report it."""

    #: Whether the queue has a bus of several processes; if not, why.
    available: bool
    reason: str
    nodes: list[NodeView]
    total: MessageRates


class AddressView(MessageRates, frozen=True, kw_only=True):
    """An address, on all nodes."""

    address: str
    #: The nodes that have consumers there.
    nodes: list[str]


class AddressList(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses, the busiest first."""

    addresses: list[AddressView]
    #: How many match, of those that nodes report.
    found: int
    #: How many more there are on nodes that have too many to report.
    rest: int


class AddressQuery(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which addresses to show."""

    #: A part of the name, ignoring case.
    text: Annotated[str, Meta(max_length=MAX_ADDRESS)] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_ADDRESSES)] = 100


class SampleQuery(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which messages to show."""

    #: The id of the last known message.
    after: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class SampleList(msgspec.Struct, frozen=True):
    """Some of the messages that were sent, the oldest first."""

    messages: Annotated[list[SampledMessage], Meta(max_length=MAX_KEPT)]
    #: To be given as *after* for newer ones.
    last: int


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to send."""

    address: Annotated[str, Meta(min_length=1, max_length=MAX_ADDRESS)]
    body: Any = None
    headers: Annotated[
        dict[
            Annotated[str, Meta(min_length=1, max_length=MAX_NAME)],
            Annotated[str, Meta(max_length=MAX_VALUE)],
        ],
        Meta(max_length=MAX_HEADERS),
    ] = {}
    #: To one consumer, to all, or to one whose reply is waited for.
    kind: Literal["send", "publish", "request"] = "send"
    #: How long to wait for it, at most 30 seconds.
    timeout: Span = 5


class ReplyView(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of a consumer."""

    #: Null if it is not JSON.
    body: Any
    codec: str
    #: Whether parts of it were left out because it is large.
    is_cut: bool
    headers: dict[str, list[str]]


class FailureView(msgspec.Struct, frozen=True):
    """Why there is no reply."""

    kind: FailureName
    #: The code given by the consumer; -1 for other kinds.
    code: int
    text: str


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of sending a message."""

    #: How many nodes have consumers at the address.
    nodes: int
    #: For a request, one of these.
    reply: ReplyView | None = None
    failure: FailureView | None = None
    #: How long that took.
    took_ms: float | None = None
