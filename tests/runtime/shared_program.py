"""
A process that uses shared data, and that a test may kill.

``python -m tests.runtime.shared_program ROLE URL PREFIX NAME``; it says on lines of its
own what it did, and goes on with each line that it is told.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import redis.asyncio as aioredis

from kue.runtime.shared.redis import RedisShared, shared_data

#: What each process does in a race.
ROUNDS = 300

Role = Callable[[RedisShared, aioredis.Redis, str, str], Awaitable[None]]


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def told() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


async def count(
    room: RedisShared, client: aioredis.Redis, prefix: str, name: str
) -> None:
    """Count together with others."""
    counter = await room.counter("visits")
    await told()

    async def some() -> None:
        for _ in range(ROUNDS // 3):
            await counter.increment_and_get()

    await asyncio.gather(some(), some(), some())
    say("counted")


async def race(
    room: RedisShared, client: aioredis.Redis, prefix: str, name: str
) -> None:
    """Say how often it was the first: where nothing was, and in the place of a turn."""
    table = await room.map("prizes")
    await told()
    won = replaced = removed = 0
    for number in range(ROUNDS):
        won += await table.put_if_absent(f"prize {number}", name) is None
        replaced += await table.replace_if_present(f"turn {number}", "free", name)
        removed += await table.remove_if_present(f"left {number}", "free")
    say(won, replaced, removed)


async def enter(
    room: RedisShared, client: aioredis.Redis, prefix: str, name: str
) -> None:
    """Go in and out; Redis counts who is inside."""
    await told()
    most, last = 0, 0
    for _ in range(ROUNDS // 3):
        async with await room.lock("door", timeout="50s") as lock:
            most = max(most, await client.incr(f"{prefix} inside"))
            is_later = lock.fence > last
            last = lock.fence
            before = int(await client.getset(f"{prefix} fence", last) or 0)
            assert is_later
            assert before < last
            await client.decr(f"{prefix} inside")
    say(most)


async def hold(
    room: RedisShared, client: aioredis.Redis, prefix: str, name: str
) -> None:
    """Wait for the lock when told to, say so, and release it when told again."""
    await told()
    lock = await room.lock("door", timeout="50s")
    await client.rpush(f"{prefix} order", name)
    say("held", lock.fence)
    await told()
    say(lock.is_held)
    await lock.release()
    say("released")
    await told()


ROLES: dict[str, Role] = {"count": count, "race": race, "enter": enter, "hold": hold}


# A Redis that restarts takes its time on a busy machine.
shared_data._BUDGET_SECONDS = 30.0


async def main(role: str, url: str, prefix: str, name: str, lease: str) -> None:
    async with (
        aioredis.Redis.from_url(url) as client,
        RedisShared(url, prefix=prefix, lease=float(lease)) as room,
    ):
        say("ready")
        await ROLES[role](room, client, prefix, name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
