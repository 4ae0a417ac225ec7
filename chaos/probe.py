"""Finds workers that live and do not work: the deaf ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from chaos.facts import Attempted, Came, Started
from chaos.journal import Journal, Reader, now_ms
from chaos.plan import Chore
from kue.model.draft import draft

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.fleet import Fleet
    from kue.store.contract import Store

TYPE = "probe"
#: A worker has one slot for these, so that it leaves the others to the others.
SECONDS = 0.5
ROUNDS = 12


class Probe:
    """Adds a job for each worker, again and again until each has run one."""

    def __init__(self, store: Store, fleet: Fleet, folder: Path) -> None:
        self._store = store
        self._fleet = fleet
        self._folder = folder
        self._journal = Journal(folder / "attempted-probe.jsonl")

    async def deaf(self) -> set[int]:
        """Return the worker processes that live and took no job."""
        deaf = self._deaf()
        for number in range(ROUNDS):
            if not deaf:
                break
            await self._add(number, len(self._fleet.pids))
            # As long as the jobs take, and a little more.
            await asyncio.sleep(SECONDS * 1.5)
            deaf = self._deaf()
        return deaf

    async def _add(self, number: int, count: int) -> None:
        keys = [f"probe-{number}-{index}" for index in range(count)]
        chores = [Chore(key, TYPE, "return", SECONDS) for key in keys]
        drafts = [draft(TYPE, msgspec.to_builtins(chore)) for chore in chores]
        at = now_ms()
        added = await self._store.add(drafts, producer=TYPE, seq=number + 1)
        for key, one in zip(keys, added, strict=True):
            self._journal.write(Attempted(key, at, now_ms(), one.id))

    def _deaf(self) -> set[int]:
        came = {one.pid for one in Reader(Came).read(self._folder, "came-*.jsonl")}
        runs = Reader(Started).read(self._folder, "started-*.jsonl")
        heard = {run.pid for run in runs if run.type == TYPE}
        # One that is only starting cannot hear yet.
        return came.intersection(self._fleet.pids) - heard
