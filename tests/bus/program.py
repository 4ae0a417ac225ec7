"""
A node that a test may kill: ``python -m tests.bus.program ROLE URL PREFIX NAME``.

As ``serve`` it says on a line of its own what it hears: ``news N``, ``work N``,
``asked``, and ``left N`` or ``right N`` of what is sent to a pair of consumers.  As
``count`` it listens at ``flood`` and says at ``tally`` what became of it.  As ``spray``
it sends large messages to ``flood`` until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

from kue.bus import EventBus, Message
from kue.bus.redis import RedisCluster
from tests.bus.nodes import BEAT, LEASE

#: A frozen node must not be taken for dead before the test is done with it.
PATIENT_LEASE = 60.0
LARGE = 6_000_000


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def stay(bus: EventBus) -> None:
    say("ready")
    say(bus.node)
    await asyncio.Event().wait()


async def serve(url: str, prefix: str) -> None:
    async with EventBus(
        RedisCluster(url, prefix=prefix, heartbeat=BEAT, lease=LEASE)
    ) as bus:

        async def who(message: Message) -> None:
            message.reply(bus.node)

        async def ask_back(message: Message) -> None:
            """Ask an address of the asker's choice, and reply what came of it."""
            message.reply((await bus.request(message.body)).body)

        bus.consumer("who", who)
        bus.consumer(f"who.{bus.node}", who)
        bus.consumer("ask back", ask_back)
        bus.consumer("pair", lambda message: say("left", message.body))
        bus.consumer("pair", lambda message: say("right", message.body))
        bus.consumer("deaf", lambda message: say("asked"))
        bus.consumer("news", lambda message: say("news", message.body))
        await bus.consumer("work", lambda message: say("work", message.body)).ready()
        await stay(bus)


def cluster(url: str, prefix: str) -> RedisCluster:
    return RedisCluster(url, prefix=prefix, heartbeat=BEAT, lease=PATIENT_LEASE)


def memory() -> int:
    """Return the bytes this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def count(url: str, prefix: str) -> None:
    manager = cluster(url, prefix)
    async with EventBus(manager) as bus:
        heard = 0
        go_on = asyncio.Event()

        def hear(message: Message) -> None:
            nonlocal heard
            heard += 1

        async def dawdle(message: Message) -> None:
            await go_on.wait()

        def tally(message: Message) -> None:
            told: dict[str, Any] = {
                "heard": heard,
                "slow waiting": slow.waiting,
                "slow discarded": slow.discarded,
                "lost": manager.lost,
                "memory": memory(),
            }
            message.reply(told)

        flood = bus.consumer("flood", hear)
        slow = bus.consumer("slow", dawdle)
        for address, handler in (
            ("tally", tally),
            ("deaf", lambda message: say("asked")),
            ("ping", lambda message: message.reply(message.body)),
            (f"ping.{bus.node}", lambda message: message.reply(message.body)),
        ):
            await bus.consumer(address, handler).ready()
        await flood.ready()
        await stay(bus)


async def spray(url: str, prefix: str) -> None:
    async with EventBus(cluster(url, prefix)) as bus:
        say("ready")
        say(bus.node)
        body = os.urandom(LARGE)
        headers = {"sum": str(crc32(body))}
        while True:
            bus.send("flood", body, headers=headers)
            await bus.flush()


if __name__ == "__main__":
    _, role, url, prefix, _name = sys.argv
    asyncio.run({"serve": serve, "count": count, "spray": spray}[role](url, prefix))
