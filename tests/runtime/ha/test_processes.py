"""Processes on one Redis: what one of them had deployed outlives it."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import redis

from tests.faults.processes import Process
from tests.support.patience import until
from tests.support.servers import RedisServer

logger = logging.getLogger(__name__)

PROGRAM = "tests.runtime.ha.program"
#: Seconds; none that lives, however slowly, is to be taken for dead.
LEASE = 20.0


class Village(AsyncExitStack):
    """Nodes in processes of their own, and the diaries of what they run."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__()
        self.server = server
        self.prefix = f"ha-{uuid.uuid4().hex[:12]}"
        self.client: redis.Redis = self.enter_context(server.client())
        self.processes: dict[str, Process] = {}

    async def start(
        self, role: str, *, group: str = "a", quorum: int = 1, lease: float = LEASE
    ) -> str:
        """Start a node; return its name."""
        where = (self.server.url, self.prefix, f"{group},{quorum},{lease}")
        process = Process(role, *where, program=PROGRAM)
        await self.enter_async_context(process)
        node = await process.line()
        self.processes[node] = process
        return node

    async def kill(self, node: str) -> None:
        process = self.processes.pop(node)
        process.kill()
        await process.ended()

    def diary(self, group: str = "a") -> list[str]:
        """Return what the verticle of a group wrote down."""
        key = f"{self.prefix}:{group}:diary"
        return [text(line) for line in self.client.lrange(key, 0, -1)]

    async def says(self, *lines: str, group: str = "a") -> None:
        """Wait until just that is written down."""
        wanted = list(lines)
        try:
            await until(lambda: self.diary(group) == wanted)
        except TimeoutError:
            assert self.diary(group) == wanted
            raise

    def holders(self, group: str = "a") -> list[str]:
        """Return which nodes have a duty."""
        root = f"{{{self.prefix}:bus}}:duty:{group}"
        held = self.client.hgetall(f"{root}:holders")
        return sorted(text(node) for node in held.values())


def text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


@pytest.fixture
async def village(redis_server: RedisServer) -> AsyncIterator[Village]:
    async with Village(redis_server) as village:
        yield village


def up(*nodes: str) -> list[str]:
    """Return what a verticle writes that started on these nodes, one by one."""
    return [f"{word} {node}" for node in nodes for word in ("begin", "start")]


async def survivor(village: Village, *before: str) -> str:
    """Wait until another node runs it; return that."""
    await until(lambda: len(village.diary()) == 2 * len(before) + 2)
    node = village.diary()[-1].split()[1]
    assert village.diary() == up(*before, node)
    return node


async def test_a_killed_nodes_verticle_runs_again_once(village: Village) -> None:
    first = await village.start("deploy")
    others = [await village.start("wait"), await village.start("wait")]
    assert village.diary() == up(first)

    # The first dies, and one of two takes over.
    began = time.monotonic()
    await village.kill(first)
    second = await survivor(village, first)
    logger.info("redeployed %.2f s after the kill", time.monotonic() - began)
    assert second in others
    assert village.holders() == [second]

    # So does the second: had the third started it before, it would have said so.
    await village.kill(second)
    third = await survivor(village, first, second)
    assert {second, third} == set(others)
    assert village.holders() == [third]


async def test_groups_leave_each_others_verticles_alone(village: Village) -> None:
    a = await village.start("deploy", group="a")
    b = await village.start("deploy", group="b")
    heir = await village.start("wait", group="b")

    await village.kill(a)
    await village.kill(b)
    await village.says(*up(b, heir), group="b")

    # Nobody of its group is left: it stays written down, for the next to come.
    assert village.diary("a") == up(a)
    assert village.holders("a") == [a]
    late = await village.start("wait", group="a")
    await village.says(*up(a, late), group="a")
    assert village.diary("b") == up(b, heir)


async def test_below_the_quorum_it_stops_and_above_it_starts(village: Village) -> None:
    first = await village.start("deploy", quorum=2)
    assert village.diary() == []
    second = await village.start("wait", quorum=2)
    await village.says(*up(first))

    await village.kill(second)
    await village.says(*up(first), f"stop {first}")

    third = await village.start("wait", quorum=2)
    await village.says(*up(first), f"stop {first}", *up(first))

    # Nobody takes over below the quorum, either.
    await village.kill(first)
    fourth = await village.start("wait", quorum=2)
    await until(lambda: len(village.diary()) == 7)
    assert village.diary()[-1].split()[1] in (third, fourth)


async def test_a_survivor_that_dies_while_it_takes_over_is_taken_over(
    village: Village,
) -> None:
    first = await village.start("deploy")
    await village.start("wait")
    await village.start("wait")
    gate = f"{village.prefix}:a:diary:gate"
    village.client.set(gate, 1)

    await village.kill(first)
    await until(lambda: len(village.diary()) == 3)
    word, second = village.diary()[-1].split()
    assert word == "begin"
    await village.kill(second)
    village.client.delete(gate)

    [third] = village.processes
    await village.says(*up(first), f"begin {second}", *up(third))
    assert village.holders() == [third]


async def test_a_node_that_was_frozen_gives_up_what_was_taken_over(
    village: Village,
) -> None:
    first = await village.start("deploy", lease=2)
    second = await village.start("wait", lease=2)

    village.processes[first].freeze()
    await village.says(*up(first, second))
    village.processes[first].thaw()

    await village.says(*up(first, second), f"stop {first}")
    assert village.holders() == [second]


async def test_a_node_that_leaves_takes_its_verticle_with_it(village: Village) -> None:
    first = await village.start("deploy")
    await village.start("wait")

    leaving = village.processes.pop(first)
    leaving.tell()
    await leaving.ended()

    assert village.diary() == [*up(first), f"stop {first}"]
    assert village.holders() == []


async def test_a_restart_of_redis_moves_nothing(own_redis: RedisServer) -> None:
    """It keeps nothing on disk: what runs is written down anew, and goes on."""
    async with Village(own_redis) as village:
        first = await village.start("deploy")
        second = await village.start("wait")

        own_redis.kill()
        await asyncio.to_thread(own_redis.restart)
        village.client = village.enter_context(own_redis.client())
        await until(lambda: village.holders() == [first])

        # The diary is lost with the rest; what follows is all that happened since.
        await village.kill(first)
        await village.says(*up(second))
