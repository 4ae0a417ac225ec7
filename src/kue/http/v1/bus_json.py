"""The event bus as JSON: what the API shows of it, and what it takes to send."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from kue.bus.message import MAX_ADDRESS
from kue.http.streaming.bus_samples import MAX_KEPT, SampledMessage
from kue.http.v1.job_json import Span
from kue.model.histogram import Percentiles

#: Addresses in one answer.
MAX_ADDRESSES = 1_000
#: Headers of a message, and how long they are.
MAX_HEADERS, MAX_NAME, MAX_VALUE = 50, 200, 4_000

FailureName: TypeAlias = Literal["TIMEOUT", "NO_HANDLERS", "RECIPIENT_FAILURE", "ERROR"]


class MessageRates(msgspec.Struct, frozen=True, kw_only=True):
    """What passes."""

    consumers: int
    #: Messages in a second, of late.
    send_rate: float
    receive_rate: float
    #: Messages since the nodes that are there joined; a published one counts once.
    sent: int
    received: int
    #: How long replies to requests took in the last minutes; null when there were none.
    latency: Percentiles | None
    #: Requests that failed, by kind.
    failures: dict[str, int]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has joined the bus; null where it says nothing."""

    name: str
    #: How long ago it gave its last sign of life.
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
    #: Messages that did not reach it, and those it could not send for want of room.
    lost: int | None = None
    given_up: int | None = None


class BusView(msgspec.Struct, frozen=True, kw_only=True):
    """The bus as its nodes tell of it."""

    #: Whether the queue has a bus of several processes; why not, if it has none.
    available: bool
    reason: str
    nodes: list[NodeView]
    total: MessageRates


class AddressView(MessageRates, frozen=True, kw_only=True):
    """An address, on all nodes."""

    address: str
    #: The nodes that listen there.
    nodes: list[str]


class AddressList(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses, the busiest first."""

    addresses: list[AddressView]
    #: How many match, of those that nodes tell of.
    found: int
    #: How many more there are on nodes that have too many to tell.
    rest: int


class AddressQuery(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which addresses to show."""

    #: A part of the name, whatever its case.
    text: Annotated[str, Meta(max_length=MAX_ADDRESS)] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_ADDRESSES)] = 100


class SampleQuery(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which messages to show."""

    #: The number of the last one that is known.
    after: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class SampleList(msgspec.Struct, frozen=True):
    """Some of the messages that were sent, the oldest first."""

    messages: Annotated[list[SampledMessage], Meta(max_length=MAX_KEPT)]
    #: To ask for those after it.
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
    """What a consumer answered."""

    #: Null for what is no JSON.
    body: Any
    codec: str
    #: Whether parts of it were left out because it is large.
    is_cut: bool
    headers: dict[str, list[str]]


class FailureView(msgspec.Struct, frozen=True):
    """Why there is no reply."""

    kind: FailureName
    #: The consumer's own; -1 for the others.
    code: int
    text: str


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message."""

    #: How many nodes listen at the address.
    nodes: int
    #: Of a request: one of these.
    reply: ReplyView | None = None
    failure: FailureView | None = None
    #: How long that took.
    took_ms: float | None = None
