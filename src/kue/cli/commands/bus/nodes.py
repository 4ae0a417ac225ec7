"""``kue bus nodes`` and ``addresses``: the nodes of the bus, and their traffic."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import click
import msgspec

from kue.bus.stats import sums
from kue.cli.commands.bus.context import inspects
from kue.cli.context import json_option
from kue.cli.output.console import Command, print_message
from kue.cli.output.listing import Column, Listing, Row, ago
from kue.cli.output.text import words
from kue.model.histogram import percentiles

if TYPE_CHECKING:
    from kue.bus.redis import ClusterInspector
    from kue.bus.redis.inspector import ClusterNode
    from kue.bus.stats import AddressTotals, BusStats
    from kue.model.payload import JSON

NODES = (
    Column("node", wraps=True),
    Column("host", wraps=True, rank=5),
    Column("pid", is_number=True),
    Column("since", rank=4),
    Column("consumers", is_number=True),
    Column("out/s", is_number=True),
    Column("in/s", is_number=True),
    Column("waiting", is_number=True, rank=3),
    Column("lost", is_number=True, rank=1),
    Column("given up", is_number=True, rank=2),
)
ADDRESSES = (
    Column("address", is_long=True),
    Column("nodes", is_number=True, rank=2),
    Column("consumers", is_number=True),
    Column("out/s", is_number=True),
    Column("in/s", is_number=True),
    Column("sent", is_number=True, rank=5),
    Column("p50", is_number=True, rank=4),
    Column("p95", is_number=True, rank=3),
    Column("failures", is_long=True, rank=1),
)


@click.command(cls=Command)
@json_option(help="Write one JSON object per line, one for each node.")
@inspects
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
    Listing(*NODES, as_json=as_json).show([_node_row(node) for node in found])
    if not found:
        print_message("no process has joined the bus")


@click.command(cls=Command)
@click.option("--find", default="", help="Only addresses that contain this text.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    help="At most this many, the busiest first; else 100.",
)
@json_option(help="Write one JSON object per line, one for each address.")
@inspects
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
    Listing(*ADDRESSES, as_json=as_json).show(
        [_address_row(one) for one in wanted[:limit]]
    )
    if not wanted:
        print_message(
            "no node reports such an address" if found else "the bus has no traffic"
        )
    elif len(wanted) > limit:
        print_message(f"{len(wanted) - limit:,} more are less busy; --limit shows more")


def _node_row(node: ClusterNode) -> Row:
    facts = node.facts
    if facts is None:
        blank = [""] * (len(NODES) - 1)
        return Row([node.name, *blank], partial(_node_item, node))
    total = facts.bus.total
    head = [node.name, facts.host, str(facts.pid)]
    rest = [
        str(total.consumers),
        _rate(total.send_rate),
        _rate(total.receive_rate),
        str(facts.bus.waiting),
        str(facts.lost),
        str(facts.given_up),
    ]
    now = time.time_ns() // 1_000_000
    return Row([*head, ago(facts.since, now), *rest], partial(_node_item, node))


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


def _address_row(one: AddressTotals) -> Row:
    latency = percentiles(one.waits)
    failures = (f"{number} {kind}" for kind, number in sorted(one.failures.items()))
    return Row(
        [
            one.address,
            str(len(one.nodes)),
            str(one.consumers),
            _rate(one.send_rate),
            _rate(one.receive_rate),
            str(one.sent),
            "" if latency is None else words(latency.p50),
            "" if latency is None else words(latency.p95),
            ", ".join(failures),
        ],
        partial(msgspec.to_builtins, one, str_keys=True),
    )


def _rate(rate: float) -> str:
    return f"{rate:.1f}"
