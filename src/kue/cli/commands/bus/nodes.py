"""``kue bus nodes`` and ``addresses``: the nodes of the bus, and their traffic."""

from __future__ import annotations

import time
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.bus.stats import sums
from kue.cli.commands.bus.context import inspects
from kue.cli.context import json_option
from kue.cli.output.console import print_message
from kue.cli.output.listing import Column, Listing, ago
from kue.cli.output.text import words
from kue.model.histogram import percentiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.bus.redis import ClusterInspector
    from kue.bus.redis.inspector import ClusterNode
    from kue.bus.stats import AddressTotals, BusStats
    from kue.model.payload import JSON


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
