"""
An echo process for the benchmarks of the bus: as a node, or with bare redis-py.

``python -m benchmarks.bus_echo kue URL`` prints a line when it is ready.
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
#: The channels on which the bare program listens and replies.
ASK, ANSWER = "bare:ask", "bare:answer"
#: The same for the blocking program.
ASK_BLOCKING, ANSWER_BLOCKING = "blocking:ask", "blocking:answer"
#: Fewer, or many more, were slower.
CONNECTIONS = 16


async def serve_kue(url: str) -> None:
    async with EventBus(RedisCluster(url, prefix=PREFIX)) as bus:
        bus.consumer("deaf", lambda message: None)
        echo = bus.consumer("echo", lambda message: message.reply(message.body))
        await echo.ready()
        print_line(bus.node)
        await asyncio.Event().wait()


async def serve_bare(url: str) -> None:
    """Publish every message back, each in a task: one by one was slower."""
    tasks: set[asyncio.Task[None]] = set()
    async with bare_client(url) as client, client.pubsub() as pubsub:

        async def answer(body: bytes) -> None:
            await client.publish(ANSWER, body)

        await pubsub.subscribe(ASK)
        print_line("ready")
        async for message in pubsub.listen():
            if message["type"] == "message":
                task = asyncio.create_task(answer(message["data"]), name="answer")
                tasks.add(task)
                task.add_done_callback(tasks.discard)


async def serve_blocking(url: str) -> None:
    """The same without an event loop, one after the other."""
    with redis.Redis.from_url(url) as client, client.pubsub() as pubsub:
        pubsub.subscribe(ASK_BLOCKING)
        print_line("ready")
        for message in pubsub.listen():
            if message["type"] == "message":
                client.publish(ANSWER_BLOCKING, message["data"])


def bare_client(url: str) -> Redis:
    """Return a client of redis-py."""
    pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=60)
    return Redis.from_pool(pool)


def print_line(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, kind, url = sys.argv
    serve = {"kue": serve_kue, "bare": serve_bare, "blocking": serve_blocking}[kind]
    uvloop.run(serve(url))
