"""The figures of Redis: Kue compared with bare scripts, on a separate server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from redis.asyncio import Redis
from tests.support.servers import RedisServer

from benchmarks.bare_redis import BareRedis, bodies
from benchmarks.idle import IdleFigures
from benchmarks.kue_figures import BacklogFigure, FacadeFigures
from benchmarks.memory import MemoryFigures
from benchmarks.rivals import Rival, compete
from benchmarks.scale import MILLION, WEIGHED
from benchmarks.steps import Step, in_turn
from benchmarks.through_store import drafts, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AsyncExitStack

    from benchmarks.readings import Readings
    from benchmarks.scale import Scale

#: Adds in flight that are tried for the bare script; the best counts.
FLIGHTS = (1, 2, 3)


class RedisFigures:
    """Measures on a Redis without persistence."""

    def __init__(
        self, readings: Readings, scale: Scale, cleanup: AsyncExitStack
    ) -> None:
        self._readings = readings
        self._scale = scale
        self._cleanup = cleanup
        self._server = self._start_server()
        self._redis = self._client_of(self._server)
        self._drafts = drafts(scale.jobs)
        self._bodies = bodies(scale.jobs)
        self._flights = 1
        self._facade = FacadeFigures("redis", self._empty, readings, scale)
        self._backlog = BacklogFigure("redis", readings, scale)
        self._memory = MemoryFigures("redis", self._empty, readings)
        self._idle = IdleFigures(self._redis, self._server.url, readings)

    @property
    def steps(self) -> list[Step]:
        steps = [
            Step("Redis: adds in flight for the bare script", self._choose_flights)
        ]
        for number in range(self._scale.rounds):
            label = f"Redis: round {number + 1} of {self._scale.rounds}"
            steps += [
                Step(label, self._compete),
                Step(label, self._facade.measure_work),
                Step(label, self._facade.measure_one_by_one),
                Step(label, self._facade.measure_together),
            ]
        return [
            *steps,
            Step("Redis: memory", self._measure_memory),
            Step("Redis: an idle worker", self._idle.measure),
            Step("Redis: memory of a worker", self._memory.measure),
            Step("Redis: a million jobs", self._fill_backlog),
            *self._backlog.steps("Redis"),
        ]

    def derive(self) -> None:
        """Add the figures that follow from others."""
        ratio = self._readings.ratio
        ratio("redis.add_of_bare", "redis.add_bulk", "redis.add_bare")
        ratio("redis.cycle_of_bare", "redis.cycle", "redis.cycle_bare")

    async def version(self) -> str:
        """Return the name and version of the server."""
        return f"Redis {(await self._redis.info('server'))['redis_version']}"

    async def _choose_flights(self) -> None:
        taken: dict[int, list[float]] = {flights: [] for flights in FLIGHTS}
        for number in range(self._scale.jobs // self._scale.piece):
            for flights in in_turn(FLIGHTS, number):
                await self._redis.flushall()
                async with self._bare(flights) as bare:
                    taken[flights].append(await bare.add(0, self._scale.piece))
        self._flights = min(FLIGHTS, key=lambda flights: median(taken[flights]))

    async def _compete(self) -> None:
        url = await self._empty()
        async with self._bare(self._flights) as bare, opened(url, self._drafts) as kue:
            await compete(
                (
                    Rival(bare, "redis.add_bare", "redis.cycle_bare"),
                    Rival(kue, "redis.add_bulk", "redis.cycle"),
                ),
                self._readings,
                jobs=self._scale.jobs,
                piece=self._scale.piece,
            )

    async def _measure_memory(self) -> None:
        async with opened(await self._empty(), drafts(WEIGHED)) as store:
            before = await _memory(self._redis)
            await store.add(0, WEIGHED)
            used = await _memory(self._redis) - before
        self._readings.add("redis.bytes_per_waiting_job", used / WEIGHED)

    async def _fill_backlog(self) -> None:
        # Separate servers: in one keyspace the long backlog would slow the short one.
        other = self._start_server()
        client = self._client_of(other)
        before = await _memory(client)
        await self._backlog.fill(await self._empty(), other.url, self._cleanup)
        used = await _memory(client) - before
        self._readings.add("redis.memory_1m_mb", used / MILLION)

    async def _empty(self) -> str:
        await self._redis.flushall()
        return self._server.url

    @asynccontextmanager
    async def _bare(self, flights: int) -> AsyncIterator[BareRedis]:
        bare = BareRedis(self._server.port, self._bodies, flights=flights)
        try:
            await bare.open()
            yield bare
        finally:
            await bare.close()

    def _start_server(self) -> RedisServer:
        folder = self._cleanup.enter_context(TemporaryDirectory())
        server = RedisServer(Path(folder))
        self._cleanup.callback(server.stop)
        return server

    def _client_of(self, server: RedisServer) -> Redis:
        client = Redis(port=server.port)
        self._cleanup.push_async_callback(client.aclose)
        return client


async def _memory(client: Redis) -> int:
    return int((await client.info("memory"))["used_memory"])
