"""Shared data of many processes: they race, wait for each other, freeze and die."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kue.runtime.shared.redis import RedisShared
from tests.faults.processes import Process
from tests.runtime.shared_program import ROUNDS
from tests.support.leases import PATIENT_LEASE_SECONDS, SHORT_LEASE_SECONDS
from tests.support.patience import until
from tests.support.servers import RedisServer

PROGRAM = "tests.runtime.shared_program"


class Room(AsyncExitStack):
    """Processes that share data with this one, in a place of their own."""

    def __init__(self, server: RedisServer, lease: float = SHORT_LEASE_SECONDS) -> None:
        super().__init__()
        self.server = server
        # The types of redis-py have each answer be awaitable as well.
        self.client: Any = self.enter_context(server.client())
        self.lease = lease
        self.prefix = uuid.uuid4().hex

    async def shared(self) -> RedisShared:
        return await self.enter_async_context(
            RedisShared(self.server.url, prefix=self.prefix, lease=self.lease)
        )

    async def start(self, role: str, *names: str) -> list[Process]:
        return list(await asyncio.gather(*(self._start(role, it) for it in names)))

    async def race(self, role: str) -> list[Process]:
        """Start two, and have them begin together."""
        processes = await self.start(role, "a", "b")
        for process in processes:
            process.tell()
        return processes

    async def in_line(self, count: int) -> None:
        """Wait until so many are in the line of the door, the holder too."""
        line = f"{{{self.prefix}:locks}}:line:door"
        await until(lambda: self.client.zcard(line) == count)

    async def renewed(self) -> None:
        """Wait until every process has renewed its lease."""
        steps = self._steps()
        assert steps
        await until(lambda: not steps & self._steps())

    def order(self) -> list[str]:
        """Return who held the door, in this order."""
        names = self.client.lrange(f"{self.prefix} order", 0, -1)
        return [name.decode() for name in names]

    def _steps(self) -> set[tuple[str, bytes]]:
        """Return the number of each process's last step."""
        root = f"{{{self.prefix}:locks}}"
        processes = self.client.zrange(f"{root}:processes", 0, -1)
        names = [name.decode() for name in processes]
        return {(it, self.client.hget(f"{root}:of:{it}", "step")) for it in names}

    async def _start(self, role: str, name: str) -> Process:
        where = (self.server.url, self.prefix, name, str(self.lease))
        process = Process(role, *where, program=PROGRAM)
        return await self.enter_async_context(process)


@pytest.fixture
async def room(redis_server: RedisServer) -> AsyncIterator[Room]:
    async with Room(redis_server) as room:
        yield room


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that only this test uses, and may restart; it forgets nothing."""
    config = {"appendonly": "yes", "appendfsync": "always"}
    server = RedisServer(tmp_path, config=config)
    yield server
    server.stop()


async def test_no_count_is_lost_between_processes(room: Room) -> None:
    for process in await room.race("count"):
        assert await process.line() == "counted"

    counter = await (await room.shared()).counter("visits")
    assert await counter.get() == 2 * ROUNDS


async def test_each_race_for_an_entry_has_one_winner(room: Room) -> None:
    table = await (await room.shared()).map("prizes")
    for number in range(ROUNDS):
        await table.put(f"turn {number}", "free")
        await table.put(f"left {number}", "free")
    told = [await process.line() for process in await room.race("race")]

    won = [list(map(int, line.split())) for line in told]
    assert [sum(each) for each in zip(*won, strict=True)] == [ROUNDS] * 3
    entries = await table.entries()
    for name, (prizes, turns, _) in zip("ab", won, strict=True):
        mine = [key for key, value in entries.items() if value == name]
        assert len(mine) == prizes + turns
    assert await table.size() == 2 * ROUNDS


async def test_a_lock_excludes_all_other_processes(room: Room) -> None:
    """Redis counts who is inside; and who comes later has the greater number."""
    processes = await room.race("enter")

    assert [await process.line() for process in processes] == ["1", "1"]


async def test_processes_are_served_in_the_order_they_came(room: Room) -> None:
    first = await (await room.shared()).lock("door", timeout="50s")
    processes = await room.start("hold", "a", "b", "c")
    for count, process in enumerate(processes, 2):
        process.tell()
        await room.in_line(count)

    await first.release()
    fences = [first.fence]
    for process in processes:
        held, fence = (await process.line()).split()
        assert held == "held"
        fences.append(int(fence))
        process.tell()

    assert room.order() == ["a", "b", "c"]
    assert fences == sorted(set(fences))


async def test_a_dead_holders_lock_goes_to_the_next_in_line(room: Room) -> None:
    [holder] = await room.start("hold", "holder")
    holder.tell()
    _, fence = (await holder.line()).split()
    shared = await room.shared()
    waiting = asyncio.create_task(shared.lock("door", timeout="30s"))
    await room.in_line(2)

    holder.kill()

    lock = await waiting
    assert lock.is_held
    assert lock.fence > int(fence)


async def test_a_lock_whose_holder_died_unseen_is_free(room: Room) -> None:
    """Nobody was there when its lease ended."""
    [holder] = await room.start("hold", "holder")
    holder.tell()
    await holder.line()
    holder.kill()
    processes = f"{{{room.prefix}:locks}}:processes"
    [(_, ends)] = room.client.zrange(processes, 0, -1, withscores=True)

    def is_over() -> bool:
        seconds, micros = room.client.time()
        return bool(seconds * 1000 + micros // 1000 >= ends)

    await until(is_over)

    async with await (await room.shared()).lock("door", timeout=0):
        pass


async def test_a_waiter_that_died_does_not_hold_up_the_line(room: Room) -> None:
    first = await (await room.shared()).lock("door", timeout="50s")
    dead, alive = await room.start("hold", "dead", "alive")
    dead.tell()
    await room.in_line(2)
    alive.tell()
    await room.in_line(3)

    dead.kill()
    await first.release()

    assert (await alive.line()).startswith("held")
    assert room.order() == ["alive"]


async def test_a_holder_that_was_frozen_learns_that_it_lost_the_lock(
    room: Room,
) -> None:
    [holder] = await room.start("hold", "holder")
    holder.tell()
    await holder.line()
    shared = await room.shared()

    holder.freeze()
    lock = await shared.lock("door", timeout="30s")
    holder.thaw()
    holder.tell()

    assert await holder.line() == "False"
    # To release what it has lost does no harm.
    assert await holder.line() == "released"
    assert lock.is_held
    await room.in_line(1)


@pytest.mark.long
async def test_a_lock_outlives_a_redis_that_was_away_for_longer_than_its_lease(
    own_redis: RedisServer,
) -> None:
    async with Room(own_redis, PATIENT_LEASE_SECONDS) as room:
        holder, waiter = await room.start("hold", "holder", "waiter")
        holder.tell()
        await holder.line()
        waiter.tell()
        await room.in_line(2)
        own_redis.kill()
        before = time.monotonic()
        # Nobody could renew it.
        await until(lambda: time.monotonic() > before + room.lease)
        await asyncio.to_thread(own_redis.restart)
        # The first may have been under way when Redis went, and counts from then;
        # who makes a third has heard of the second.
        for _ in range(3):
            await room.renewed()

        assert room.order() == ["holder"]
        holder.tell()
        assert await holder.line() == "True"
        assert await holder.line() == "released"
        assert (await waiter.line()).startswith("held")
        assert room.order() == ["holder", "waiter"]


async def test_counts_and_entries_go_on_when_redis_restarts(
    own_redis: RedisServer,
) -> None:
    """Those under way are made again, and count once."""
    async with Room(own_redis) as room:
        processes = await room.race("count")
        counter = await (await room.shared()).counter("visits")
        # Nobody is told of it.
        while await counter.get() < ROUNDS // 4:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.to_thread(own_redis.restart)

        for process in processes:
            assert await process.line() == "counted"
        assert await counter.get() == 2 * ROUNDS
