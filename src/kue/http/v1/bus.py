"""
The event bus: its nodes, its addresses, some of its messages, and one of one's own.

A bus of several processes meets in Redis.  Where jobs are kept in SQLite there is none
to look at, and all but the first of these say so with 404.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import msgspec

from kue.bus import RequestFailed
from kue.bus.cluster_url import NEEDS_REDIS, can_cluster
from kue.bus.sampling import JsonTruncation
from kue.bus.stats import counted, sums
from kue.http.auth.access import Scope
from kue.http.framework.operations import RequestContext, Section
from kue.http.framework.problem import Refused, given
from kue.http.security.redaction import MASK
from kue.http.streaming.bus_samples import hidden_text
from kue.http.v1.bus_json import (
    MAX_HEADERS,
    AddressList,
    AddressQuery,
    AddressView,
    BusView,
    FailureName,
    FailureView,
    MessageRates,
    NewMessage,
    NodeView,
    ReplyView,
    SampleList,
    SampleQuery,
    SendResult,
)
from kue.model.duration import milliseconds
from kue.model.histogram import added, percentiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.bus import Message
    from kue.bus.redis import inspector
    from kue.bus.stats import AddressStats, AddressTotals
    from kue.http.streaming.bus_node import JoinedBus, ServerBusNode
    from kue.http.streaming.bus_samples import BusSamples

section = Section("bus", "The event bus of all processes.", prefix="/bus")

#: How long a reply is waited for at most, in ms.
MAX_TIMEOUT = 30_000
#: Bytes of a reply that is shown whole.
MAX_REPLY = 256 * 1024


@section.get("")
async def show_bus(call: RequestContext) -> BusView:
    """Who has joined the bus, and what passes; without Redis, that there is none."""
    if not _has_bus(call):
        return BusView(available=False, reason=NEEDS_REDIS, nodes=[], total=_flow([]))
    found = await _nodes(call)
    told = [node.facts.bus.total for node in found if node.facts is not None]
    return BusView(
        available=True,
        reason="",
        nodes=[_node(node) for node in found],
        total=_flow(told),
    )


@section.get("/addresses")
async def list_addresses(call: RequestContext, query: AddressQuery) -> AddressList:
    """Addresses with their consumers, rates and latency, the busiest first."""
    found = [
        (node.name, node.facts.bus)
        for node in await _nodes(call)
        if node.facts is not None
    ]
    wanted = query.text.lower()
    matching = [one for one in sums(found) if wanted in one.address.lower()]
    return AddressList(
        addresses=[
            AddressView(
                address=one.address,
                nodes=one.nodes,
                **msgspec.structs.asdict(_flow([one])),
            )
            for one in matching[: query.limit]
        ],
        found=len(matching),
        rest=sum(bus.rest for _, bus in found),
    )


@section.get("/samples")
async def list_samples(call: RequestContext, query: SampleQuery) -> SampleList:
    """
    Some of the messages that are sent, as they are sent.

    Nodes show up to 20 a second each, while someone asks for them here at least every
    ten seconds, and from a second after the first time on.  Bodies are cut to 500
    characters, secrets are hidden, values of headers are not shown.
    """
    _check(call)
    samples: BusSamples = call.request.app.state.samples
    return SampleList(samples.since(query.after), samples.last)


@section.post("/messages", scope=Scope.ADMIN)
async def send_message(call: RequestContext, body: NewMessage) -> SendResult:
    """
    Send a message, and wait for the reply if it is a request.

    That there is none is no error here but the outcome: `failure` says why.  The server
    becomes a node of the bus for it, and leaves a minute after the last message.
    """
    _check(call)
    with given("body.timeout"):
        timeout = milliseconds(body.timeout, field="timeout")
        if not 0 < timeout <= MAX_TIMEOUT:
            most = MAX_TIMEOUT // 1000
            raise ValueError(f"timeout is more than 0 and at most {most} seconds")
    node: ServerBusNode = call.request.app.state.node
    async with node.use() as joined:
        heard = len(await joined.cluster.look_up(body.address))
        if body.kind == "request":
            return await _ask(call, joined, body, timeout / 1000, heard)
        send = joined.bus.publish if body.kind == "publish" else joined.bus.send
        with given("body.body"):
            send(body.address, body.body, headers=body.headers)
        await joined.bus.flush()
    return SendResult(nodes=heard)


async def _ask(
    call: RequestContext,
    joined: JoinedBus,
    body: NewMessage,
    timeout: float,
    nodes: int,
) -> SendResult:
    began = time.monotonic()
    reply: ReplyView | None = None
    failure: FailureView | None = None
    try:
        with given("body.body"):
            message = await joined.bus.request(
                body.address, body.body, headers=body.headers, timeout=timeout
            )
        reply = _reply(call, message)
    except RequestFailed as exc:
        failure = FailureView(
            cast("FailureName", exc.kind.name),
            exc.code,
            call.redaction.text(exc.text),
        )
    took = round((time.monotonic() - began) * 1000, 1)
    return SendResult(nodes=nodes, reply=reply, failure=failure, took_ms=took)


def _reply(call: RequestContext, message: Message) -> ReplyView:
    hide = call.redaction
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


def _has_bus(call: RequestContext) -> bool:
    return call.q.is_shared and can_cluster(call.q.settings.url)


def _check(call: RequestContext) -> None:
    if not _has_bus(call):
        raise Refused(HTTPStatus.NOT_FOUND, NEEDS_REDIS)


async def _nodes(call: RequestContext) -> list[inspector.ClusterNode]:
    _check(call)
    # Imported late: a server on SQLite needs no redis.
    from kue.bus.redis import inspect

    known = call.q.settings
    async with inspect(known.url, known.prefix, budget=known.budget / 1000) as looking:
        return await looking.nodes()


def _node(node: inspector.ClusterNode) -> NodeView:
    facts = node.facts
    if facts is None:
        return NodeView(name=node.name, silent_ms=node.silent_ms)
    return NodeView(
        name=node.name,
        silent_ms=node.silent_ms,
        host=facts.host,
        pid=facts.pid,
        version=facts.version,
        since=facts.since,
        flow=_flow([facts.bus.total]),
        waiting=facts.bus.waiting,
        bytes_out=facts.bytes_out,
        bytes_in=facts.bytes_in,
        lost=facts.lost,
        given_up=facts.given_up,
    )


def _flow(parts: Sequence[AddressStats | AddressTotals]) -> MessageRates:
    return MessageRates(
        consumers=sum(one.consumers for one in parts),
        send_rate=round(sum(one.send_rate for one in parts), 2),
        receive_rate=round(sum(one.receive_rate for one in parts), 2),
        sent=sum(one.sent for one in parts),
        received=sum(one.received for one in parts),
        latency=percentiles(added(one.waits for one in parts)),
        failures=counted(one.failures for one in parts),
    )
