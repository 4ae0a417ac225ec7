"""
A process that answers, for those who measure the bus: as a node, or with bare redis-py.

``python -m benchmarks.bus_echo kue URL`` says on a line of its own when it is ready.
"""

from __future__ import annotations

import asyncio
import sys

import redis
import uvloop
from redis.asyncio import BlockingConnectionPool, Redis

from kue.bus import EventBus
from kue.bus.redis import RedisCluster

PREFIX = "bench"
#: Where the bare program listens, and where it answers.
ASK, ANSWER = "bare:ask", "bare:answer"
#: The same for the one that blocks.
ASK_BLOCKING, ANSWER_BLOCKING = "blocking:ask", "blocking:answer"
#: Fewer or many more made it slower.
CONNECTIONS = 16


async def serve_kue(url: str) -> None:
    async with EventBus(RedisCluster(url, prefix=PREFIX)) as bus:
        bus.consumer("deaf", lambda message: None)
        echo = bus.consumer("echo", lambda message: message.reply(message.body))
        await echo.ready()
        say(bus.node)
        await asyncio.Event().wait()


async def serve_bare(url: str) -> None:
    """Publish whatever comes again, each in a task: one by one was slower."""
    tasks: set[asyncio.Task[None]] = set()
    async with bare_client(url) as client, client.pubsub() as pubsub:

        async def answer(body: bytes) -> None:
            await client.publish(ANSWER, body)

        await pubsub.subscribe(ASK)
        say("ready")
        async for message in pubsub.listen():
            if message["type"] == "message":
                task = asyncio.create_task(answer(message["data"]), name="answer")
                tasks.add(task)
                task.add_done_callback(tasks.discard)


async def serve_blocking(url: str) -> None:
    """The same without an event loop, one after the other."""
    with redis.Redis.from_url(url) as client, client.pubsub() as pubsub:
        pubsub.subscribe(ASK_BLOCKING)
        say("ready")
        for message in pubsub.listen():
            if message["type"] == "message":
                client.publish(ANSWER_BLOCKING, message["data"])


def bare_client(url: str) -> Redis:
    """Return a client of redis-py."""
    pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=60)
    return Redis.from_pool(pool)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, kind, url = sys.argv
    serve = {"kue": serve_kue, "bare": serve_bare, "blocking": serve_blocking}[kind]
    uvloop.run(serve(url))
