"""
A node that a test may kill: ``python -m tests.bus.program serve URL PREFIX NAME``.

It says on a line of its own what it hears: ``news N``, ``work N``, ``asked``, and
``left N`` or ``right N`` of what is sent to a pair of consumers.
"""

from __future__ import annotations

import asyncio
import sys

from kue.bus import EventBus, Message
from kue.bus.redis import RedisCluster
from tests.bus.nodes import BEAT, LEASE


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


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
        say("ready")
        say(bus.node)
        await asyncio.Event().wait()


if __name__ == "__main__":
    _, _role, url, prefix, _name = sys.argv
    asyncio.run(serve(url, prefix))
