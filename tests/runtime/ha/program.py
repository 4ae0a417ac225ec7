"""
A node that a test may kill, with the arguments *role*, *url*, *prefix* and *name*.

The role is ``deploy`` or ``wait``; the name has group, quorum and lease, with commas
between them.  It ends when it is told to go on.
"""

from __future__ import annotations

import asyncio
import sys

from kue.bus import EventBus
from kue.bus.redis import RedisCluster
from kue.runtime import HA, Runtime
from tests.bus.nodes import BEAT
from tests.bus.program import say
from tests.runtime.ha.diary import DIARY


async def live(role: str, url: str, prefix: str, name: str) -> None:
    group, quorum, lease = name.split(",")
    bus = EventBus(RedisCluster(url, prefix=prefix, heartbeat=BEAT, lease=float(lease)))
    ha = HA(group=group, quorum=int(quorum), grace=0.2)
    async with Runtime(bus=bus, ha=ha) as runtime:
        if role == "deploy":
            config = {"url": url, "list": f"{prefix}:{group}:diary"}
            await runtime.deploy(DIARY, config=config, ha=True)
        say("ready")
        say(bus.node)
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(live(*sys.argv[1:]))
