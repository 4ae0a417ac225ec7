"""Probe: finds workers that are alive and run no jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from chaos.facts import Attempted, Came, Started
from chaos.journal import Journal, now_ms, read_journals
from chaos.plan import Chore
from kue.model.draft import draft

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.fleet import Fleet
    from kue.store.contract import Store

TYPE = "probe"
#: How long a probe runs.  A worker has one slot for them, so each worker gets one.
SECONDS = 0.5
ROUNDS = 12


class Probe:
    """Adds a job for each worker, repeatedly until each has run one."""

    def __init__(self, store: Store, fleet: Fleet, folder: Path) -> None:
        self._store = store
        self._fleet = fleet
        self._folder = folder
        self._journal = Journal(folder / "attempted-probe.jsonl")

    async def idle_workers(self) -> set[int]:
        """Return the worker processes that are alive and ran no job."""
        idle = self._idle_workers()
        for number in range(ROUNDS):
            if not idle:
                break
            await self._add(number, len(self._fleet.pids))
            # As long as the jobs take, and a little more.
            await asyncio.sleep(SECONDS * 1.5)
            idle = self._idle_workers()
        return idle

    async def _add(self, number: int, count: int) -> None:
        keys = [f"probe-{number}-{index}" for index in range(count)]
        chores = [Chore(key, TYPE, "return", SECONDS) for key in keys]
        drafts = [draft(TYPE, msgspec.to_builtins(chore)) for chore in chores]
        at = now_ms()
        added = await self._store.add(drafts, producer=TYPE, seq=number + 1)
        for key, one in zip(keys, added, strict=True):
            self._journal.write(Attempted(key, at, now_ms(), one.id))

    def _idle_workers(self) -> set[int]:
        came = {one.pid for one in read_journals(Came, self._folder, "came-*.jsonl")}
        runs = read_journals(Started, self._folder, "started-*.jsonl")
        ran = {run.pid for run in runs if run.type == TYPE}
        # A worker that is still starting does not count.
        return came.intersection(self._fleet.pids) - ran
