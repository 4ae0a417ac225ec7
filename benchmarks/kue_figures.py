"""Measurements of Kue itself, the same on every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import through_kue
from benchmarks.backlog import PREPARED, Backlog
from benchmarks.steps import Step
from benchmarks.through_store import drafts, opened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack

    from benchmarks.readings import Readings
    from benchmarks.scale import Scale


class FacadeFigures:
    """
    Measures `kue.Kue` on one engine.

    Args:
        engine: What the names of the figures begin with.
        empty: Returns the URL of an empty store, for each call.
    """

    def __init__(
        self,
        engine: str,
        empty: Callable[[], Awaitable[str]],
        readings: Readings,
        scale: Scale,
    ) -> None:
        self._engine = engine
        self._empty = empty
        self._readings = readings
        self._scale = scale

    async def measure_work(self) -> None:
        await self._measure("work", through_kue.work, self._scale.work)

    async def measure_one_by_one(self) -> None:
        run, jobs = through_kue.add_one_by_one, self._scale.one_by_one
        await self._measure("add_one", run, jobs)

    async def measure_together(self) -> None:
        run, jobs = through_kue.add_together, self._scale.together
        await self._measure("add_gather", run, jobs)

    async def _measure(
        self, name: str, run: Callable[[str, int], Awaitable[float]], jobs: int
    ) -> None:
        seconds = await run(await self._empty(), jobs)
        self._readings.add(f"{self._engine}.{name}", jobs / seconds)


class BacklogFigure:
    """Measures how a million waiting jobs affect the drain rate."""

    def __init__(self, engine: str, readings: Readings, scale: Scale) -> None:
        self._name = f"{engine}.drain_1m_over_1k"
        self._readings = readings
        self._scale = scale
        self._backlog: Backlog | None = None

    async def fill(self, short: str, long: str, cleanup: AsyncExitStack) -> None:
        """Open the stores at two URLs until *cleanup*, and add their backlogs."""
        enter, prepared = cleanup.enter_async_context, drafts(PREPARED)
        self._backlog = Backlog(
            await enter(opened(short, prepared)), await enter(opened(long, prepared))
        )
        await self._backlog.fill()

    def steps(self, engine: str) -> list[Step]:
        """Return the steps that follow `fill`."""
        rounds = self._scale.backlog_rounds
        return [
            *(
                Step(
                    f"{engine}: backlog, round {number + 1} of {rounds}", self._measure
                )
                for number in range(rounds)
            ),
            Step(f"{engine}: delivery from the backlog", self._check),
        ]

    async def _measure(self) -> None:
        assert self._backlog is not None, "it was not filled"
        for ratio in await self._backlog.measure(self._scale.pieces):
            self._readings.add(self._name, ratio)

    async def _check(self) -> None:
        assert self._backlog is not None, "it was not filled"
        await self._backlog.check()
