"""The figures of SQLite: Kue compared with bare SQL and Huey, each in a new file."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.bare_sqlite import BareSqlite, bodies
from benchmarks.huey_sqlite import THREADS, HueySqlite
from benchmarks.kue_figures import BacklogFigure, FacadeFigures
from benchmarks.memory import MemoryFigures
from benchmarks.rivals import Rival, compete
from benchmarks.steps import Step, in_turn
from benchmarks.through_store import drafts, opened

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from benchmarks.readings import Readings
    from benchmarks.scale import Scale

#: Name of the comparison, our figure, Huey's.
_AGAINST_HUEY = (
    ("add", "add_bulk", "add"),
    ("add_one", "add_one", "add"),
    ("drain", "drain", "drain"),
    ("work", "work", "drain"),
)


class SqliteFigures:
    """Measures on files in a folder that is removed afterwards."""

    def __init__(
        self, readings: Readings, scale: Scale, cleanup: AsyncExitStack
    ) -> None:
        self._readings = readings
        self._scale = scale
        self._cleanup = cleanup
        self._folder = Path(cleanup.enter_context(TemporaryDirectory()))
        self._numbers = itertools.count()
        self._drafts = drafts(scale.jobs)
        self._bodies = bodies(scale.jobs)
        #: Threads of Huey's consumer, with and without waiting for the disk.
        self._threads = {True: 1, False: 1}
        self._facade = FacadeFigures("sqlite", self._empty, readings, scale)
        self._backlog = BacklogFigure("sqlite", readings, scale)
        self._memory = MemoryFigures("sqlite", self._empty, readings)

    @property
    def steps(self) -> list[Step]:
        steps = [Step("SQLite: threads for Huey's consumer", self._choose_threads)]
        for number in range(self._scale.rounds):
            label = f"SQLite: round {number + 1} of {self._scale.rounds}"
            measures = (
                self._compete,
                self._measure_huey,
                self._facade.measure_work,
                self._facade.measure_one_by_one,
                self._facade.measure_together,
            )
            steps += [Step(label, one) for one in in_turn(measures, number)]
        return [
            *steps,
            Step("SQLite: memory of a worker", self._memory.measure),
            Step("SQLite: a million jobs", self._fill_backlog),
            *self._backlog.steps("SQLite"),
        ]

    def derive(self) -> None:
        """Add the figures that follow from others."""
        readings, rounds = self._readings, self._scale.rounds
        readings.ratio("sqlite.add_of_bare", "sqlite.add_bulk", "sqlite.add_bare")
        readings.ratio("sqlite.drain_of_bare", "sqlite.drain", "sqlite.drain_bare")
        for huey, sync in ("huey", ""), ("unsynced", "_unsynced"):
            for name, ours, theirs in _AGAINST_HUEY:
                # Huey is measured once per round, Kue in bulk many times.
                readings.ratio(
                    f"sqlite.{name}_vs_{huey}",
                    f"sqlite.{ours}",
                    f"huey.{theirs}{sync}",
                    rounds,
                )

    async def version(self) -> str:
        """Return the versions of SQLite and of the peer."""
        return f"SQLite {sqlite3.sqlite_version}, Huey {version('huey')}"

    async def _compete(self) -> None:
        url = await self._empty()
        with closing(BareSqlite(self._new_file(), self._bodies)) as bare:
            async with opened(url, self._drafts) as kue:
                await compete(
                    (
                        Rival(bare, "sqlite.add_bare", "sqlite.drain_bare"),
                        Rival(kue, "sqlite.add_bulk", "sqlite.drain"),
                    ),
                    self._readings,
                    jobs=self._scale.jobs,
                    piece=self._scale.piece,
                )

    async def _choose_threads(self) -> None:
        for synced in self._threads:
            seconds = {n: self._try_huey(n, synced=synced)[1] for n in THREADS}
            self._threads[synced] = min(THREADS, key=seconds.__getitem__)

    async def _measure_huey(self) -> None:
        for synced, sync in (True, ""), (False, "_unsynced"):
            seconds = self._try_huey(self._threads[synced], synced=synced)
            self._readings.add(f"huey.add{sync}", self._scale.huey / seconds[0])
            self._readings.add(f"huey.drain{sync}", self._scale.huey / seconds[1])

    def _try_huey(self, threads: int, *, synced: bool) -> tuple[float, float]:
        """Return the seconds that adding and draining took."""
        jobs = self._scale.huey
        with closing(HueySqlite(self._new_file(), synced=synced)) as huey:
            return huey.add(jobs), huey.drain(jobs, threads=threads)

    async def _fill_backlog(self) -> None:
        await self._backlog.fill(
            await self._empty(), await self._empty(), self._cleanup
        )

    async def _empty(self) -> str:
        return f"sqlite:///{self._new_file()}"

    def _new_file(self) -> Path:
        return self._folder / f"{next(self._numbers)}.db"
