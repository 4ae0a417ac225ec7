"""What a run of flows is to do, its store, its producer, and their faults."""

from __future__ import annotations

import asyncio
import sys
from random import Random
from typing import TYPE_CHECKING

import msgspec

from chaos.cluster_stage import ClusterStage
from chaos.plan import STORE_FAULTS, WORKER_FAULTS, Fault, draw_fault, moments
from chaos.redis_stage import RedisStage
from chaos.run import Injector
from chaos.sqlite_stage import SqliteStage

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

    from chaos.fleet import Fleet
    from chaos.processes import Household
    from chaos.stage import Stage
    from kue.store.redis.store import RedisStore

#: Engine → the plan of its faults, and its shards.
ENGINES = {
    "redis": ("redis", 1),
    "shards": ("redis", 6),
    "cluster": ("cluster", 4),
    "sqlite": ("sqlite", 1),
}
PRODUCER_FAULTS = {"kill_producer": (20.0, (0.0, 0.0))}
#: Seconds between two faults, on average.
FAULT_SECONDS = 0.8


class Wanted(msgspec.Struct, frozen=True):
    """What is to be run."""

    engine: str
    nodes: int
    seconds: float
    seed: int
    calm: bool = False
    #: The worker processes of each supervisor.
    workers: tuple[int, ...] = (3, 2)

    @property
    def faults(self) -> list[Fault]:
        random, (plan, _) = Random(f"faults {self.seed}"), ENGINES[self.engine]
        kinds = {**WORKER_FAULTS, **STORE_FAULTS[plan], **PRODUCER_FAULTS}
        seconds = 0 if self.calm else self.seconds
        return [
            draw_fault(random, at, kinds)
            for at in moments(random, FAULT_SECONDS, seconds)
        ]


def stage_of(wanted: Wanted, household: Household, folder: Path) -> Stage:
    match ENGINES[wanted.engine][0]:
        case "sqlite":
            return SqliteStage(household, folder)
        case "cluster":
            return ClusterStage(folder)
        case _:
            return RedisStage(folder, wanted.seed)


class Producing:
    """The producer process, started again after its death until all is added."""

    def __init__(
        self, household: Household, folder: Path, environ: Mapping[str, str], add: float
    ) -> None:
        self._household = household
        self._folder = folder
        self._environ = environ
        self._seconds = str(add)
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self) -> None:
        while await self._run_once() != 0:
            pass

    async def _run_once(self) -> int:
        command = (sys.executable, "-m", "chaos.flows_producer")
        self._process = self._household.start(
            (*command, str(self._folder), self._seconds),
            self._environ,
            self._folder / "producer.log",
        )
        return await asyncio.to_thread(self._process.wait)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()


async def end_holds(store: RedisStore) -> None:
    """Make holds of jobs, which a producer ends when it is done, look an hour old."""
    db = store._db
    for keys in db.keys:
        outbox = keys.of_shard("outbox")
        for field in await db.client.read(keys.root, "HKEYS", outbox):
            if field.startswith(b"hold:"):
                await db.client.read(keys.root, "HSET", outbox, field, 0)


class FlowInjector(Injector):
    """Injects faults into the producer as well."""

    def __init__(self, fleet: Fleet, stage: Stage, producing: Producing) -> None:
        super().__init__(fleet, stage)
        self._producing = producing

    async def strike(self, fault: Fault) -> None:
        if fault.kind != "kill_producer":
            await super().strike(fault)
            return
        self.struck[fault.kind] += 1
        self._producing.kill()
