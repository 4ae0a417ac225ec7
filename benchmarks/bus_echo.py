"""
A process that answers, for those who measure the bus: as a node, or with bare redis-py.

``python -m benchmarks.bus_echo kue URL`` says on a line of its own when it is ready.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop
from redis.asyncio import BlockingConnectionPool, Redis

from kue.bus import EventBus
from kue.cluster.redis import RedisCluster

PREFIX = "bench"
#: Where the bare program listens, and where it answers.
ASK, ANSWER = "bare:ask", "bare:answer"
CONNECTIONS = int(__import__("os").environ.get("NC", 16))


async def serve_kue(url: str) -> None:
    async with EventBus(RedisCluster(url, prefix=PREFIX)) as bus:
        bus.consumer("deaf", lambda message: None)
        echo = bus.consumer("echo", lambda message: message.reply(message.body))
        await echo.ready()
        say(bus.node)
        await asyncio.Event().wait()


async def serve_bare(url: str) -> None:
    """Publish whatever comes again, each in a task: one by one was slower."""
    tasks: set[asyncio.Task[Any]] = set()
    async with bare_client(url) as redis, redis.pubsub() as pubsub:
        await pubsub.subscribe(ASK)
        say("ready")
        async for message in pubsub.listen():
            if message["type"] == "message":
                task = asyncio.create_task(redis.publish(ANSWER, message["data"]))
                tasks.add(task)
                task.add_done_callback(tasks.discard)


def bare_client(url: str) -> Redis:
    """Return a client of redis-py; more connections made it slower."""
    pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=60)
    return Redis.from_pool(pool)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, kind, url = sys.argv
    uvloop.run({"kue": serve_kue, "bare": serve_bare}[kind](url))
