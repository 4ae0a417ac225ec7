"""``kue bus``: inspect the event bus, send and receive messages."""

from __future__ import annotations

import base64
import time
from contextlib import asynccontextmanager
from functools import partial, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.aio.event_loop import run
from kue.bus import EventBus, RequestFailed
from kue.bus.cluster import NEEDS_REDIS, can_cluster
from kue.bus.message import MAX_TIMEOUT
from kue.bus.sampling import kind_of
from kue.bus.stats import sums
from kue.cli.context import as_usage_error, command, json_option, noun, settings_here
from kue.cli.input import STDIN, read_all, read_argument
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import Column, Listing, ago, show_json, show_one
from kue.cli.output.text import json_text, words
from kue.cli.params import DURATION, POSITIVE, options
from kue.model.errors import ConfigError
from kue.model.histogram import percentiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import timedelta

    from kue.bus import Message
    from kue.bus.redis import ClusterInspector
    from kue.bus.redis.inspector import ClusterNode
    from kue.bus.stats import AddressTotals, BusStats
    from kue.model.payload import JSON


def _connected(
    connect: Callable[[], AbstractAsyncContextManager[Any]],
    function: Callable[..., Awaitable[int | None]],
    *,
    is_endless: bool = False,
) -> click.Command:
    @wraps(function)
    def call(**given: Any) -> int | None:
        async def call_with_bus() -> int | None:
            async with connect() as bus:
                return await function(bus, **given)

        try:
            return run(call_with_bus())
        except KeyboardInterrupt:
            if is_endless:
                # The normal way to stop.
                return DONE
            raise

    return command(call)


def _inspector() -> ClusterInspector:
    # Imported here, so that commands on SQLite do not need redis.
    from kue.bus.redis import inspect

    config = settings_here()
    if not can_cluster(config.url):
        raise ConfigError(f"{NEEDS_REDIS}; give --url redis://localhost:6379/0")
    return inspect(config.url, config.prefix, budget=config.budget / 1000)


@asynccontextmanager
async def _node() -> AsyncIterator[EventBus]:
    from kue.bus.redis import RedisCluster

    # This reports an unavailable Redis sooner: joining keeps retrying.
    async with _inspector() as inspector:
        await inspector.nodes()
    config = settings_here()
    async with EventBus(RedisCluster(config.url, prefix=config.prefix)) as bus:
        yield bus


#: Makes a command of a function: passes it an inspector of the cluster.
inspects = partial(_connected, _inspector)
#: Makes a command of a function: passes it a node of the cluster.
joins = partial(_connected, _node)


def _fact(
    name: str, show: Callable[[Any], Any] = lambda value: value
) -> Callable[[ClusterNode], Any]:
    """Return a column's value: a fact of a node, or nothing if it reports none."""
    read = attrgetter(name)
    return lambda node: None if node.facts is None else show(read(node.facts))


def _rate(rate: float) -> str:
    return f"{rate:.1f}"


def _latency(name: str) -> Callable[[AddressTotals], str]:
    def text(one: AddressTotals) -> str:
        latency = percentiles(one.waits)
        return "" if latency is None else words(getattr(latency, name))

    return text


def _failures(one: AddressTotals) -> str:
    return ", ".join(
        f"{number} {kind}" for kind, number in sorted(one.failures.items())
    )


NODES: tuple[Column[ClusterNode], ...] = (
    Column("node", lambda node: node.name, wraps=True),
    Column("host", _fact("host"), wraps=True, rank=5),
    Column("pid", _fact("pid"), is_number=True),
    Column("since", _fact("since", ago), rank=4),
    Column("consumers", _fact("bus.total.consumers"), is_number=True),
    Column("out/s", _fact("bus.total.send_rate", _rate), is_number=True),
    Column("in/s", _fact("bus.total.receive_rate", _rate), is_number=True),
    Column("waiting", _fact("bus.waiting"), is_number=True, rank=3),
    Column("lost", _fact("lost"), is_number=True, rank=1),
    Column("given up", _fact("given_up"), is_number=True, rank=2),
)
ADDRESSES: tuple[Column[AddressTotals], ...] = (
    Column("address", lambda one: one.address, is_long=True),
    Column("nodes", lambda one: len(one.nodes), is_number=True, rank=2),
    Column("consumers", lambda one: one.consumers, is_number=True),
    Column("out/s", lambda one: _rate(one.send_rate), is_number=True),
    Column("in/s", lambda one: _rate(one.receive_rate), is_number=True),
    Column("sent", lambda one: one.sent, is_number=True, rank=5),
    Column("p50", _latency("p50"), is_number=True, rank=4),
    Column("p95", _latency("p95"), is_number=True, rank=3),
    Column("failures", _failures, is_long=True, rank=1),
)


@inspects
@json_option(help="Write one JSON object per line, one for each node.")
async def nodes(inspector: ClusterInspector, as_json: bool) -> None:
    """
    List the nodes of the bus: every process that has joined it.

    "lost" counts batches of messages that did not reach the node, "given up" messages
    that it could not send because its buffer was full; both should be 0.  Columns in a
    pipe: node, host, pid, since, consumers, messages out and in per second, waiting
    requests, lost, given up.

    \b
      kue bus nodes
      kue bus nodes --json
    """
    found = await inspector.nodes()
    now = time.time_ns() // 1_000_000
    Listing(NODES, _node_item, as_json=as_json).show(found, now=now)
    if not found:
        print_message("no process has joined the bus")


@inspects
@click.option("--find", default="", help="Only addresses that contain this text.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    help="At most this many, the busiest first; else 100.",
)
@json_option(help="Write one JSON object per line, one for each address.")
async def addresses(
    inspector: ClusterInspector, find: str, limit: int, as_json: bool
) -> None:
    """
    List addresses of the bus, the busiest first.

    Each node reports its 500 busiest.  "p50" and "p95" are how long replies to requests
    took in the last minutes.  Columns in a pipe: address, nodes that listen, consumers,
    messages out and in per second, sent in total, p50, p95, failures.

    \b
      kue bus addresses
      kue bus addresses --find order --limit 10
    """
    reports = [(node.name, node.facts) for node in await inspector.nodes()]
    found = sums((name, facts.bus) for name, facts in reports if facts is not None)
    wanted = [one for one in found if find.lower() in one.address.lower()]
    to_json = partial(msgspec.to_builtins, str_keys=True)
    Listing(ADDRESSES, to_json, as_json=as_json).show(wanted[:limit])
    if not wanted:
        print_message(
            "no node reports such an address" if found else "the bus has no traffic"
        )
    elif len(wanted) > limit:
        print_message(f"{len(wanted) - limit:,} more are less busy; --limit shows more")


def _node_item(node: ClusterNode) -> JSON:
    item: dict[str, JSON] = {"node": node.name, "silent_ms": node.silent_ms}
    if node.facts is None:
        return item
    facts = msgspec.structs.asdict(node.facts)
    bus: BusStats = facts.pop("bus")
    total = msgspec.structs.asdict(bus.total)
    del total["address"]
    total["waits"] = {str(bound): number for bound, number in bus.total.waits.items()}
    return {**item, **facts, **total, "waiting": bus.waiting}


#: The parameters of a message.
message_options = options(
    click.argument("address"),
    click.argument("body", required=False),
    click.option(
        "-H",
        "--header",
        "headers",
        multiple=True,
        metavar="NAME:VALUE",
        help="A header; may be repeated.",
    ),
    click.option("--text", is_flag=True, help="BODY is text, not JSON."),
)


@joins
@message_options
@click.option("--publish", is_flag=True, help="Send to every consumer, not to one.")
@json_option(help="Write one JSON object: address, kind, nodes.")
async def send(
    bus: EventBus, address: str, publish: bool, as_json: bool, **message: Any
) -> int:
    """
    Send a message to ADDRESS: to one consumer, or with --publish to all.

    BODY is JSON, null if left out; - reads it from standard input.  Exits with 1 when
    no node listens there.

    \b
      kue bus send news '{"title": "rain"}' --publish
      kue bus send greeter ann --text -H lang:en
    """
    body, headers = _read_message(**message)
    assert bus.cluster is not None
    nodes = await bus.cluster.look_up(address)
    with as_usage_error():
        (bus.publish if publish else bus.send)(address, body, headers=headers)
    await bus.flush()
    kind = "publish" if publish else "send"
    if nodes or as_json:
        item = {"address": address, "kind": kind, "nodes": list(nodes)}
        show_one(item, address, kind, str(len(nodes)), as_json=as_json)
    if not nodes:
        print_message(f"nobody listens at {address}")
    return DONE if nodes else REFUSED


@joins
@message_options
@click.option(
    "--timeout",
    type=DURATION,
    default="5s",
    help="How long to wait for the reply; else 5s.",
)
@json_option(help="Write one JSON object: address, body, headers, took_ms.")
async def request(
    bus: EventBus, address: str, timeout: timedelta, as_json: bool, **message: Any
) -> int:
    """
    Send a message to one consumer of ADDRESS and print its reply, as JSON.

    BODY is as for "kue bus send".  Exits with 1 when there is no reply: nobody listens
    (NO_HANDLERS), none came in time (TIMEOUT), or the other side failed.

    \b
      kue bus request greeter '{"name": "ann"}'
      kue bus request stock.count '"A-7"' --timeout 30s
    """
    body, headers = _read_message(**message)
    seconds = min(timeout.total_seconds(), MAX_TIMEOUT)
    began = time.monotonic()
    try:
        with as_usage_error():
            reply = await bus.request(address, body, headers=headers, timeout=seconds)
    except RequestFailed as exc:
        code = f" (code {exc.code})" if exc.code != -1 else ""
        print_message(f"{exc.kind.name}: {exc.text}{code}")
        return REFUSED
    took = round((time.monotonic() - began) * 1000, 1)
    item = {"address": address, **_contents(reply), "took_ms": took}
    show_json(item if as_json else item["body"])
    return DONE


def _read_message(
    *, body: str | None, headers: Sequence[str], text: bool
) -> tuple[JSON, list[tuple[str, str]]]:
    """Return body and headers as `message_options` give them."""
    return _read_body(body, is_text=text), [_header(header) for header in headers]


def _read_body(body: str | None, *, is_text: bool) -> JSON:
    """Return the body of a message, read from standard input for ``-``."""
    if body is None:
        return None
    if is_text:
        return read_all().decode(errors="replace") if body == STDIN else body
    return read_argument(body, what="BODY")


def _header(given: str) -> tuple[str, str]:
    name, colon, value = given.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"a header is NAME:VALUE, not {given!r}")
    return name.strip(), value.strip()


def _contents(message: Message) -> dict[str, JSON]:
    """Return body and headers as JSON; a body of bytes as base64."""
    body: Any = message.body
    if isinstance(body, bytes):
        body = {"base64": base64.b64encode(body).decode()}
    headers = {name: list(message.headers.all(name)) for name in message.headers}
    return {"body": body, "headers": headers}


@partial(joins, is_endless=True)
@click.argument("address")
@click.option("--count", type=POSITIVE, help="Stop after this many; else on Ctrl-C.")
@click.option("--reply", metavar="BODY", help="Answer requests with this JSON.")
@json_option(help="Write one JSON object per line: address, kind, body, headers.")
async def listen(
    bus: EventBus, address: str, count: int | None, reply: str | None, as_json: bool
) -> None:
    """
    Print messages to ADDRESS, one per line, until Ctrl-C.

    It is one more consumer there.  It receives all published messages.  Sent messages
    and requests go to one consumer in turn: those it receives, others do not.  Columns
    in a pipe: kind (send, publish or request), body as JSON, headers.

    \b
      kue bus listen news
      kue bus listen stock.count --reply 42 --count 1
    """
    answer = _read_body(reply, is_text=False)
    consumer = bus.consumer(address)
    await consumer.ready()
    print_message(f"listening at {address}")
    received = 0
    async for message in consumer:
        kind, contents = kind_of(message), _contents(message)
        item = {"address": message.address, "kind": kind, **contents}
        named = ", ".join(f"{name}:{value}" for name, value in message.headers.items())
        show_one(item, kind, json_text(contents["body"]), named, as_json=as_json)
        if reply is not None:
            message.reply(answer)
        received += 1
        if received == count:
            return


@noun(nodes, addresses, send, request, listen)
def bus() -> None:
    """
    Inspect the event bus, send messages and requests, and listen.

    The bus connects the processes that use the Redis of the queue, under its prefix
    ($KUE_PREFIX).  To send, request or listen, the command joins it as a node.

    \b
      kue bus nodes
      kue bus addresses --find order
      kue bus request greeter '{"name": "ann"}'
      kue bus listen news
    """
