"""
Snapshots of a queue for ``kue top``: counts, rates, workers and warnings.

Each takes the same few reads, however many jobs there are.  What takes a read per queue
is read only for the queues that are shown.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from kue.cli.output.text import jobs
from kue.http.v1.rates import (
    MINUTE_MS,
    NOTHING,
    QUIET_MINUTES,
    recent_of,
    sums_by_type,
)
from kue.http.v1.stats import PauseView
from kue.http.v1.warnings import Concern, warnings_of
from kue.model.job import State
from kue.store.values import Stat, summed
from kue.worker.waiting_time import oldest_waits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.store.values import Errors, Limits, Pause, StoreFacts, WorkerStatus

#: Running jobs that are read to show what workers do.
MAX_RUNNING = 100
#: Priorities of a queue among which its oldest job is searched: one read each.
MAX_PRIORITIES = 3
#: Errors of the queue whose details are shown.
MAX_ERRORS = 20
#: The trend of a queue: its completed jobs in each of the last minutes.
TREND_MINUTES = QUIET_MINUTES


class PerMinute(NamedTuple):
    """Jobs that were added, completed and failed in the last 60 seconds, about."""

    added: float = 0
    complete: float = 0
    failed: float = 0


class QueueFacts(NamedTuple):
    """One type of jobs."""

    type: str
    counts: Mapping[State, int] = {}
    per_minute: PerMinute = PerMinute()
    #: Completed jobs by minute, the last 60 seconds last.
    trend: tuple[int, ...] = ()
    #: Counters of the last five minutes.
    recent: Stat = NOTHING
    #: Its own pause, and that of everything.
    pause: Pause | None = None
    all_paused: bool = False
    #: What is wrong with it: the code of a warning.
    concern: str = ""

    def count(self, state: State) -> int:
        return self.counts.get(state, 0)

    @property
    def is_paused(self) -> bool:
        return self.pause is not None or self.all_paused


class Snapshot(NamedTuple):
    """The queue at one moment."""

    #: By the store's clock, Unix ms.
    now: int
    queues: dict[str, QueueFacts] = {}
    workers: dict[str, WorkerStatus] = {}
    concerns: Sequence[Concern] = ()
    #: How long it took to read.
    took_ms: int = 0

    @property
    def all_paused(self) -> bool:
        return any(
            one.code == "paused" and one.queue is None and one.worker is None
            for one in self.concerns
        )

    def total(self, state: State) -> int:
        return sum(queue.count(state) for queue in self.queues.values())


class Wanted(NamedTuple):
    """What is shown, and therefore read in detail."""

    types: Sequence[str] = ()
    #: Whether what workers run is shown.
    running: bool = False
    #: The queue whose details are shown.
    queue: str | None = None


class Details(NamedTuple):
    """What is read only of what is shown."""

    #: By type, in ms.
    oldest: Mapping[str, int] = {}
    #: By worker; not all, if more jobs run than are read.
    running: Mapping[str, Sequence[Job]] = {}
    limits: Limits | None = None
    errors: Errors | None = None


class SnapshotReader:
    """Reads snapshots; full minutes of statistics are read once and kept."""

    def __init__(self, q: Kue, types: Collection[str] = ()) -> None:
        self._q = q
        self._types = frozenset(types)
        self._minutes: dict[int, list[Stat]] = {}
        self._facts: StoreFacts | None = None

    async def facts(self) -> StoreFacts:
        """Return facts about the store, which are read once."""
        if self._facts is None:
            self._facts = await self._q.facts()
        return self._facts

    async def read(self) -> Snapshot:
        """Return the queue as it is now."""
        await self.facts()
        began = time.perf_counter()
        now = await self._q.now()
        counts, workers, pauses, limits, stats = await asyncio.gather(
            self._q.counts_by_type(),
            self._q.workers(),
            self._q.paused(),
            self._q.limits(),
            self._stats(now // MINUTE_MS),
        )
        late = recent_of(stats, now)
        views = [PauseView.of(pause) for pause in pauses]
        found = warnings_of(counts, workers, views, late, limits)
        paused = {one.type for one in pauses if one.worker is None}
        concerns = [one for one in found if self._concerns(one, paused)]
        known = _Known(now, counts, pauses, concerns, stats, sums_by_type(late.all))
        names = counts.keys() | {one.type for one in pauses if one.type is not None}
        queues = {type: known.queue(type) for type in names if self._shows(type)}
        by_name = {worker.name: worker for worker in workers}
        took = round((time.perf_counter() - began) * 1000)
        shown = concerns if any(w.alive for w in workers) else _joined(concerns, queues)
        return Snapshot(now, queues, by_name, shown, took)

    async def details(self, snapshot: Snapshot, wanted: Wanted) -> Details:
        """Return the details of what is shown."""
        oldest, running = await asyncio.gather(
            self._oldest(snapshot, wanted.types), self._running(wanted.running)
        )
        if wanted.queue is None:
            return Details(oldest, running)
        limits, errors = await asyncio.gather(
            self._q.limits(), self._q.errors(wanted.queue, limit=MAX_ERRORS)
        )
        return Details(oldest, running, limits.get(wanted.queue), errors)

    def _shows(self, type: str | None) -> bool:
        return not self._types or type in self._types

    def _concerns(self, one: Concern, paused: Collection[str | None]) -> bool:
        """Return whether a warning is about what is shown, and not due to a pause."""
        if one.queue is None:
            return True
        is_due = None in paused or one.queue in paused
        return self._shows(one.queue) and (one.code == "paused" or not is_due)

    async def _stats(self, minute: int) -> list[Stat]:
        """Return the counters of the last minutes; only the latest two may change."""
        first = minute - TREND_MINUTES
        known = max(self._minutes, default=first)
        since = max(first, min(known, minute - 1))
        by_minute: dict[int, list[Stat]] = {one: [] for one in range(since, minute + 1)}
        for stat in await self._q.stats(since, minute):
            by_minute.setdefault(stat.minute, []).append(stat)
        kept = self._minutes | by_minute
        self._minutes = {one: kept[one] for one in kept if first <= one <= minute}
        return [stat for one in sorted(self._minutes) for stat in self._minutes[one]]

    async def _oldest(self, snapshot: Snapshot, types: Iterable[str]) -> dict[str, int]:
        waiting = [
            type
            for type in types
            if type in snapshot.queues and snapshot.queues[type].count(State.WAITING)
        ]
        found = await asyncio.gather(*(self._oldest_of(snapshot, t) for t in waiting))
        return {t: ms for t, ms in zip(waiting, found, strict=True) if ms is not None}

    async def _oldest_of(self, snapshot: Snapshot, type: str) -> int | None:
        return await oldest_waits(
            self._q.store, snapshot.now, type, priorities=MAX_PRIORITIES, per_priority=1
        )

    async def _running(self, is_wanted: bool) -> dict[str, list[Job]]:
        found: dict[str, list[Job]] = {}
        if is_wanted:
            page = await self._q.page(State.ACTIVE, limit=MAX_RUNNING)
            for job in page.jobs:
                found.setdefault(job.worker or "", []).append(job)
        return found


def _joined(
    concerns: Iterable[Concern], queues: Mapping[str, QueueFacts]
) -> list[Concern]:
    """Return one warning for all queues that no worker takes, as there is none."""
    unserved = [one.queue for one in concerns if one.code == "no-worker"]
    others = [one for one in concerns if one.code != "no-worker"]
    if not unserved:
        return others
    waiting = sum(queues[type].count(State.WAITING) for type in unserved if type)
    message = f"no live worker, and {jobs(waiting)} wait; kue worker starts one"
    return [Concern("no-worker", message), *others]


class _Known:
    """What was read, by type."""

    def __init__(
        self,
        now: int,
        counts: Mapping[str, Mapping[State, int]],
        pauses: Iterable[Pause],
        concerns: Sequence[Concern],
        stats: Iterable[Stat],
        sums: Mapping[str, Stat],
    ) -> None:
        self._minute, left = divmod(now, MINUTE_MS)
        #: How much of the previous minute is within the last 60 seconds.
        self._share = 1 - left / MINUTE_MS
        self._counts = counts
        self._sums = sums
        self.pauses = {one.type: one for one in pauses if one.worker is None}
        # Of several the first counts, which is the worst.
        worst_last = (one for one in reversed(concerns) if one.code != "paused")
        self._codes = {one.queue: one.code for one in worst_last}
        self._stats: dict[str, dict[int, Stat]] = {}
        for stat in stats:
            by_minute = self._stats.setdefault(stat.type, {})
            known = by_minute.get(stat.minute)
            if known is not None:
                # Each shard of a store has counters of its own.
                stat = summed(stat.minute, stat.type, [known, stat])
            by_minute[stat.minute] = stat

    def queue(self, type: str) -> QueueFacts:
        stats = self._stats.get(type, {})
        rates = self._per_minute(stats)
        before = range(self._minute - TREND_MINUTES + 1, self._minute)
        trend = [stats.get(minute, NOTHING).complete for minute in before]
        return QueueFacts(
            type,
            self._counts.get(type, {}),
            rates,
            # The current minute has just begun: as many as in 60 seconds.
            (*trend, round(rates.complete)),
            self._sums.get(type, NOTHING),
            self.pauses.get(type),
            None in self.pauses,
            self._codes.get(type, ""),
        )

    def _per_minute(self, stats: Mapping[int, Stat]) -> PerMinute:
        current = stats.get(self._minute, NOTHING)
        before = stats.get(self._minute - 1, NOTHING)
        return PerMinute(
            current.added + before.added * self._share,
            current.complete + before.complete * self._share,
            current.failed + before.failed * self._share,
        )
