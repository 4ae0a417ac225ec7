"""
A queue on the bus, in a process that a test may kill.

``python -m tests.vertx.program serve URL PREFIX NAME``
"""

from __future__ import annotations

import asyncio
import sys

from kue.bus import EventBus
from kue.bus.redis import RedisCluster
from kue.runtime import Runtime
from kue.runtime.shared.redis import RedisShared
from kue.vertx import KueVerticle
from tests.bus.nodes import BEAT, LEASE


async def serve(url: str, prefix: str) -> None:
    bus = EventBus(RedisCluster(url, prefix=prefix, heartbeat=BEAT, lease=LEASE))
    shared = RedisShared(url, prefix=prefix, lease=LEASE)
    async with Runtime(bus=bus, shared=shared) as runtime:
        await runtime.deploy(KueVerticle, config={"url": url, "prefix": prefix})
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    _, _role, url, prefix, _name = sys.argv
    asyncio.run(serve(url, prefix))
