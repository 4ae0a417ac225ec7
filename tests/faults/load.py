"""
Producers and workers of the plainest kind, and the sums that must come out right.

They use the store alone and say each call again until it is answered, as its contract
allows.  Every job is accounted for at the end: what was acknowledged is there once and
ran to one end, whatever happened in between.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from kue.model.draft import draft
from kue.model.errors import StoreFull, StoreUnavailable
from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import Claim, ClaimRequest, Outcome, RemoveRequest, Result
from tests.support.jobs import T0, add, claim, count_of, get_many, outcomes

T = TypeVar("T")
TYPE = "email"
#: Longer than any fault lasts, so that no run is taken back: each job runs once.
LEASE_MS = 120_000


async def fill_up(store: Store, *, size: int = 500, batch: int = 50) -> int:
    """Add jobs of *size* bytes until no more fit; return how many did."""
    added = 0
    while True:
        try:
            await add(store, [draft(TYPE, {"x": "x" * size})] * batch)
        except StoreFull:
            return added
        added += batch


async def work_off(store: Store, *, limit: int = 50, removes: bool = True) -> int:
    """Run every job there is; return how many there were."""
    ended = 0
    while running := await claim(store, TYPE, limit=limit):
        ended_now = [Outcome(job, Completed(None)) for job in running]
        assert set(await store.settle(ended_now, now=T0)) == {Result.DONE}
        if removes:
            await store.remove(RemoveRequest([job.id for job in running]), now=T0)
        ended += len(running)
    return ended


class Load:
    """
    Work on a store that goes on through every fault, from ``async with`` on.

    At its end all that was added is run, and must have come out right.
    """

    def __init__(self, store: Store, *, producers: int = 2, lanes: int = 2) -> None:
        self._store = store
        self._producers = [f"p{number}" for number in range(producers)]
        self._lanes = [f"lane-{number}" for number in range(lanes)]
        self._is_enough = asyncio.Event()
        self._is_all_added = asyncio.Event()
        self._producing: list[asyncio.Task[None]] = []
        self._working: list[asyncio.Task[None]] = []
        #: Ids that the store acknowledged.
        self.added: list[int] = []
        #: How often each job was handed out.
        self.started: Counter[int] = Counter()
        self.words: Counter[Result] = Counter()
        #: Calls that had to be said again.
        self.failures = 0

    async def __aenter__(self) -> Load:
        start = asyncio.create_task
        self._producing = [start(self._produce(name)) for name in self._producers]
        self._working = [start(self._work(name)) for name in self._lanes]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:
            await self._finish()
        for task in (*self._producing, *self._working):
            task.cancel()

    async def reach(self, added: int) -> None:
        """Return once *added* more jobs were acknowledged."""
        target = len(self.added) + added
        while len(self.added) < target:
            for task in (*self._producing, *self._working):
                if task.done():
                    task.result()
            # What is awaited happens in many tasks, call by call.
            await asyncio.sleep(0.005)

    async def _finish(self) -> None:
        """Add no more, run what is there, and see that it all came out right."""
        self._is_enough.set()
        await asyncio.gather(*self._producing)
        self._is_all_added.set()
        await asyncio.gather(*self._working)
        await self._assert_all_done()

    async def _produce(self, name: str) -> None:
        seq = 0
        while not self._is_enough.is_set():
            seq += 1
            batch = [draft(TYPE, {"by": name, "seq": seq})] * (1 + seq % 20)
            answer = await self._persist(
                partial(self._store.add, batch, producer=name, seq=seq)
            )
            self.added += [one.id for one in answer]

    async def _work(self, lane: str) -> None:
        ended: list[Outcome] = []
        seq = 0
        while True:
            seq += 1
            was_all_added = self._is_all_added.is_set()
            request = ClaimRequest([TYPE], 20, "w1", Claim(lane, seq), LEASE_MS)
            cycle = partial(self._store.cycle, ended, request)
            words, claimed = await self._persist(cycle)
            self.words.update(words)
            self.started.update(job.id for job in claimed.jobs)
            if not ended and not claimed.jobs and was_all_added:
                return
            ended = [Outcome(job, Completed(job.id)) for job in claimed.jobs]
            if not ended:
                await asyncio.sleep(0.002)  # nothing to do; ask again soon

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except StoreUnavailable:
                self.failures += 1

    async def _assert_all_done(self) -> None:
        added = Counter(self.added)
        assert max(added.values()) == 1, "an id was given out twice"
        assert added - self.started == Counter(), "jobs were lost"
        assert self.started - added == Counter(), "jobs were handed out twice"
        assert self.words.keys() <= {Result.DONE, Result.ALREADY}
        assert await count_of(self._store, TYPE) == {State.COMPLETE: len(self.added)}
        for job in await get_many(self._store, self.added):
            assert outcomes(job) == ["complete"], job
            assert (job.attempts, job.result) == (1, job.id)
