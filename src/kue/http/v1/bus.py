"""
Event bus: its nodes, its addresses, samples of its messages, and sending one.

A bus of several processes needs Redis.  With SQLite there is none, and all operations
but the first return 404.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta

from kue.bus import RequestFailed
from kue.bus.cluster import NEEDS_REDIS, can_cluster
from kue.bus.message import MAX_ADDRESS
from kue.bus.sampling import JsonTruncation
from kue.bus.stats import summed, sums
from kue.client.new_job import Span
from kue.http.auth.roles import Scope
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import input_errors, not_found
from kue.http.security.redaction import MASK
from kue.http.streaming.bus_samples import MAX_KEPT, SampledMessage, hidden_text
from kue.model.duration import milliseconds
from kue.model.histogram import Percentiles, percentiles
from kue.model.view_struct import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.bus import EventBus, Message
    from kue.bus.redis import inspector
    from kue.bus.stats import AddressStats
    from kue.http.streaming.bus_node import ServerBusNode
    from kue.http.streaming.bus_samples import BusSamples

section = Section("bus", "The event bus of all processes.", prefix="/bus")

#: The longest wait for a reply, in ms.
MAX_TIMEOUT = 30_000
#: Bytes of a reply that is not truncated.
MAX_REPLY = 256 * 1024
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


class AddressQuery(Input, frozen=True, kw_only=True):
    """Which addresses to show."""

    #: A part of the name, ignoring case.
    text: Annotated[str, Meta(max_length=MAX_ADDRESS)] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_ADDRESSES)] = 100


class SampleQuery(Input, frozen=True, kw_only=True):
    """Which messages to show."""

    #: The id of the last known message.
    after: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class SampleList(msgspec.Struct, frozen=True):
    """Some of the messages that were sent, the oldest first."""

    messages: Annotated[list[SampledMessage], Meta(max_length=MAX_KEPT)]
    #: To be given as *after* for newer ones.
    last: int


class NewMessage(Input, frozen=True, kw_only=True):
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


@section.get("")
async def show_bus(context: RequestContext) -> BusView:
    """Nodes of the bus and their rates; without Redis, that there is no bus."""
    if not _has_bus(context):
        return BusView(available=False, reason=NEEDS_REDIS, nodes=[], total=_rates([]))
    found = await _nodes(context)
    totals = [node.facts.bus.total for node in found if node.facts is not None]
    return BusView(
        available=True,
        reason="",
        nodes=[_node(node) for node in found],
        total=_rates(totals),
    )


@section.get("/addresses")
async def list_addresses(context: RequestContext, query: AddressQuery) -> AddressList:
    """Addresses with their consumers, rates and latency, the busiest first."""
    found = [
        (node.name, node.facts.bus)
        for node in await _nodes(context)
        if node.facts is not None
    ]
    wanted = query.text.lower()
    matching = [one for one in sums(found) if wanted in one.address.lower()]
    return AddressList(
        addresses=[
            AddressView.of(one, latency=percentiles(one.waits))
            for one in matching[: query.limit]
        ],
        found=len(matching),
        rest=sum(bus.rest for _, bus in found),
    )


@section.get("/samples")
async def list_samples(context: RequestContext, query: SampleQuery) -> SampleList:
    """
    Samples of the messages that are sent.

    Each node samples up to 20 per second, from a second after the first request on, as
    long as there is a request at least every ten seconds.  Bodies are cut to 500
    characters, secrets are hidden, values of headers are not shown.
    """
    _check_bus(context)
    samples: BusSamples = context.request.app.state.samples
    return SampleList(samples.since(query.after), samples.last)


@section.post("/messages", scope=Scope.ADMIN)
async def send_message(context: RequestContext, body: NewMessage) -> SendResult:
    """
    Send a message, and wait for the reply if it is a request.

    A missing reply is not an error here but a result: `failure` has the reason.  The
    server joins the bus for it, and leaves a minute after the last message.
    """
    _check_bus(context)
    with input_errors("body.timeout"):
        timeout = milliseconds(body.timeout, field="timeout")
        if not 0 < timeout <= MAX_TIMEOUT:
            most = MAX_TIMEOUT // 1000
            raise ValueError(f"timeout must be more than 0 and at most {most} seconds")
    node: ServerBusNode = context.request.app.state.node
    async with node.use() as bus:
        assert bus.cluster is not None
        nodes = len(await bus.cluster.look_up(body.address))
        if body.kind == "request":
            return await _request(context, bus, body, timeout / 1000, nodes)
        send = bus.publish if body.kind == "publish" else bus.send
        with input_errors("body.body"):
            send(body.address, body.body, headers=body.headers)
        await bus.flush()
    return SendResult(nodes=nodes)


async def _request(
    context: RequestContext,
    bus: EventBus,
    body: NewMessage,
    timeout: float,
    nodes: int,
) -> SendResult:
    began = time.monotonic()
    reply: ReplyView | None = None
    failure: FailureView | None = None
    try:
        with input_errors("body.body"):
            message = await bus.request(
                body.address, body.body, headers=body.headers, timeout=timeout
            )
        reply = _reply(context, message)
    except RequestFailed as exc:
        failure = FailureView(
            cast("FailureName", exc.kind.name),
            exc.code,
            context.redaction.text(exc.text),
        )
    took = round((time.monotonic() - began) * 1000, 1)
    return SendResult(nodes=nodes, reply=reply, failure=failure, took_ms=took)


def _reply(context: RequestContext, message: Message) -> ReplyView:
    hide = context.redaction
    is_json = message.codec.name == "json"
    body = message.body if is_json else None
    cut = JsonTruncation()
    if len(msgspec.json.encode(body)) > MAX_REPLY:
        body = cut.value(body)
    if isinstance(body, str):
        body = hidden_text(hide, body, is_cut=cut.is_cut)
    return ReplyView(
        body=hide.hide(body),
        codec=message.codec.name,
        is_cut=cut.is_cut,
        headers={
            name: [
                MASK if hide.is_secret(name, value) else value
                for value in message.headers.all(name)
            ]
            for name in list(message.headers)[:MAX_HEADERS]
        },
    )


# -- reading -------------------------------------------------------------------


def _has_bus(context: RequestContext) -> bool:
    return context.q.is_shared and can_cluster(context.q.settings.url)


def _check_bus(context: RequestContext) -> None:
    if not _has_bus(context):
        raise not_found(NEEDS_REDIS)


async def _nodes(context: RequestContext) -> list[inspector.ClusterNode]:
    _check_bus(context)
    # Imported late: a server on SQLite needs no redis.
    from kue.bus.redis import inspect

    settings = context.q.settings
    budget = settings.budget / 1000
    async with inspect(settings.url, settings.prefix, budget=budget) as cluster:
        return await cluster.nodes()


def _node(node: inspector.ClusterNode) -> NodeView:
    facts = node.facts
    if facts is None:
        return NodeView.of(node)
    flow = _rates([facts.bus.total])
    return NodeView.of(node, facts, flow=flow, waiting=facts.bus.waiting)


def _rates(parts: Sequence[AddressStats]) -> MessageRates:
    total = summed("", parts)
    return MessageRates.of(total, latency=percentiles(total.waits))
