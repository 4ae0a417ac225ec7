"""
Status of a node, for `kue.bus.redis.inspector` to read.

It is written with every heartbeat and expires after a lease.  During an inspection,
samples of the messages that the node sends are published as well.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kue.bus.redis import scripts
from kue.bus.sampling import MessageSampler
from kue.bus.stats import NodeStats
from kue.model.errors import StoreError
from kue.model.version import version

if TYPE_CHECKING:
    from kue.bus.metrics import BusMetrics
    from kue.bus.redis.inbox import NodeInbox
    from kue.bus.redis.outbox import NodeOutboxes
    from kue.store.redis.wire.client import RedisClient

logger = logging.getLogger(__name__)

#: Most bytes of a status; addresses are left out until it fits.
MAX_BYTES = 256 * 1024
#: Seconds between two batches of samples.
SAMPLE_SECONDS = 0.25


@dataclass
class NodeStatusReporter:
    """Reports the status of one node, until it is cancelled."""

    client: RedisClient
    root: str
    node: str
    meter: BusMetrics
    inbox: NodeInbox
    outboxes: NodeOutboxes

    async def run(self, heartbeat: float, lease: float) -> None:
        """Report with every *heartbeat*."""
        since = time.time_ns() // 1_000_000
        while True:
            is_inspected = False
            try:
                is_inspected = await self._report(since, lease)
            except StoreError:
                # The listening task logs what is wrong.
                pass
            except Exception:
                logger.exception("a node cannot report its status")
            if is_inspected:
                await self._publish_samples(heartbeat)
            else:
                await asyncio.sleep(heartbeat)

    async def _report(self, since: int, lease: float) -> bool:
        """Write the status; return whether someone inspects messages."""
        facts = NodeStats(
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version(),
            since=since,
            bytes_out=self.outboxes.bytes,
            bytes_in=self.inbox.bytes,
            lost=self.inbox.lost,
            given_up=self.outboxes.given_up,
            bus=self.meter.facts(),
        )
        status, ttl = encode_status(facts), round(lease * 1000)
        reply = await scripts.run(
            self.client, self.root, "node_status", self.node, status, ttl
        )
        return bool(reply == b"SEEN")

    async def _publish_samples(self, seconds: float) -> None:
        """Publish some of the messages that are sent in the next *seconds*."""
        channel = f"{self.root}:samples"
        sampler = MessageSampler(self.node)
        self.meter.outbound.add(sampler)
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                await asyncio.sleep(min(SAMPLE_SECONDS, seconds))
                if taken := sampler.take():
                    samples = msgspec.json.encode(taken)
                    with suppress(StoreError):
                        await self.client.read(self.root, "SPUBLISH", channel, samples)
        finally:
            self.meter.outbound.remove(sampler)


def encode_status(facts: NodeStats) -> bytes:
    """Return *facts* as JSON; if it is long, the least busy addresses are left out."""
    while len(text := msgspec.json.encode(facts)) > MAX_BYTES:
        bus = facts.bus
        half = len(bus.addresses) // 2
        kept = replace(
            bus,
            addresses=bus.addresses[:half],
            rest=bus.rest + len(bus.addresses) - half,
        )
        facts = replace(facts, bus=kept)
        if not half:
            return msgspec.json.encode(facts)
    return text
