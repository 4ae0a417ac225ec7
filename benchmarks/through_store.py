"""Measurements through the store contract, on any engine, without a worker."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from benchmarks.delivery import check_count, check_once
from benchmarks.readings import stopwatch
from benchmarks.traffic import LANES, Quota, batches, send
from kue.model import settings
from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.store import store_for
from kue.store.values import Claim, ClaimRequest, Outcome, Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.model.job import Draft
    from kue.store.contract import Store

TYPE, WORKER = "noop", "bench-1"
#: Calls of `add` in flight.
FLIGHTS = 2


def drafts(count: int) -> list[Draft]:
    """Return drafts, so that making them is not measured."""
    return [draft(TYPE, {"i": i}, attempts=3) for i in range(count)]


@asynccontextmanager
async def opened(url: str, prepared: Sequence[Draft]) -> AsyncIterator[ThroughStore]:
    """Open the store at *url*, which must be empty, for adding *prepared*."""
    store = store_for(settings.load(environ={}, url=url))
    await store.open()
    try:
        yield ThroughStore(store, prepared)
    finally:
        await store.close()


class ThroughStore:
    """A store, and the jobs that were added and ran so far."""

    def __init__(self, store: Store, prepared: Sequence[Draft]) -> None:
        self._store = store
        self._prepared = prepared
        self._added: list[int] = []
        self._ran: list[int] = []
        self._calls = 0

    async def add(self, first: int, last: int) -> float:
        producers = [uuid.uuid4().hex for _ in range(FLIGHTS)]
        seqs = [0] * FLIGHTS

        async def call(flight: int, piece: Sequence[Draft]) -> None:
            seqs[flight] += 1
            added = await self._store.add(
                piece, producer=producers[flight], seq=seqs[flight]
            )
            self._added += [one.id for one in added if one.new]

        before, pieces = len(self._added), batches(self._prepared[first:last])
        with stopwatch() as watch:
            await send(pieces, call, flights=FLIGHTS)
        check_count(len(self._added) - before, last - first, "jobs added")
        return watch.seconds

    async def drain(self, jobs: int) -> float:
        quota, before = Quota(jobs), len(self._ran)
        with stopwatch() as watch:
            words = await asyncio.gather(*(self._lane(quota) for _ in range(LANES)))
        check_count(len(self._ran) - before, jobs, "jobs claimed")
        check_count(sum(words), jobs, "jobs settled as done")
        return watch.seconds

    async def _lane(self, quota: Quota) -> int:
        """Cycle until the quota is used up; return how many runs were settled."""
        self._calls += 1
        lane, seq, done = f"lane-{self._calls}", 0, 0
        outcomes: list[Outcome] = []
        while (take := quota.take()) or outcomes:
            seq += 1
            words, claimed = await self._store.cycle(
                outcomes,
                ClaimRequest([TYPE], take, worker=WORKER, claim=Claim(lane, seq)),
            )
            done += words.count(Result.DONE)
            self._ran += [job.id for job in claimed.jobs]
            outcomes = [Outcome(job, Completed()) for job in claimed.jobs]
        return done

    async def check_all_ran(self) -> None:
        check_once(self._added, self._ran, self._store.name)
        await self._check_states(complete=len(self._added), waiting=0)

    async def check_first_ran(self) -> None:
        """Raise `Undelivered` unless the oldest ran, once each, and the rest waits."""
        count = len(self._ran)
        check_once(sorted(self._added)[:count], self._ran, self._store.name)
        await self._check_states(complete=count, waiting=len(self._added) - count)

    async def _check_states(self, *, complete: int, waiting: int) -> None:
        states = (await self._store.count())[TYPE]
        wanted = {State.COMPLETE: complete, State.WAITING: waiting}
        for state in State:
            what = f"{state} jobs in {self._store.name}"
            check_count(states.get(state, 0), wanted.get(state, 0), what)
