"""What a worker does beside running jobs: its beat and the store's upkeep."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreFull, StoreUnavailable
from kue.model.retry_policy import after_cancel
from kue.store.values import MAX_BATCH, HeartbeatReply, MaintenanceResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.aio.retry import StoreRetry
    from kue.model.job import Job
    from kue.model.settings import Keep
    from kue.store.contract import Store
    from kue.worker.lane import Lane

logger = logging.getLogger(__name__)

#: How a service rests; tests that own the clock bring their own.
Sleep = Callable[[float], Awaitable[None]]
#: Does as someone ordered; it is given a store that is for the thread it is called in.
Obey = Callable[["Store", str], Awaitable[None]]

#: Beats in the time of a lease: two may be lost before it is over.
BEATS_PER_LEASE = 3
#: A worker to which nothing happens speaks of itself with one in so many of them.
BEATS_PER_NEWS = 4
#: Where runs end with their lease, they do so a little earlier, by this share of it.
LEASE_MARGIN = 0.1
#: How often a worker tells how long jobs waited and ran.
METER_SECONDS = 5.0
#: How long a worker that leaves tries to tell the rest of it.
LAST_WORD_SECONDS = 1.0
UPKEEP_SECONDS = 1.0
#: How much longer to rest when the store says that nothing is due.
QUIET_RESTS = 2
#: How long, if another worker makes the passes: the beat tells when it does not.
ELSEWHERE_SECONDS = 30.0
#: How often the store is compared with what it was when it was opened.
CHECK_SECONDS = 60.0
#: How soon after its loss and return.
LOSS_SECONDS = 1.0
#: So that many workers do not tend in step.
UPKEEP_JITTER = 0.2


class Heartbeat:
    """Renews the lease on everything the worker runs, and passes on what it hears."""

    def __init__(
        self,
        store: Store,
        loops: Sequence[Lane],
        *,
        worker: str,
        lease: int,
        outage: StoreRetry,
        info: Callable[[], dict[str, Any]],
        sleep: Sleep,
        obey: Obey,
        on_overdue: Callable[[], None],
        strict: bool = False,
    ) -> None:
        self._store = store
        self._loops = loops
        self._worker = worker
        self._lease = lease
        self._outage = outage
        self._info = info
        self._deeds: list[object] = []
        self._beats = 0
        self._sleep = sleep
        self._obey = obey
        self._on_overdue = on_overdue
        self._strict = strict
        #: When the last beat that was answered was sent, by our own clock.
        self._beaten = time.monotonic()

    def silence(self) -> float:
        """Return for how many seconds the store has not heard of us."""
        return time.monotonic() - self._beaten

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self._outage.persist("beat", self._try)
            await self._sleep(self._lease / 1000 / BEATS_PER_LEASE)

    async def beat(self) -> None:
        """Renew the lease once; the first call carries what `workers` shows."""
        jobs = [job for loop in self._loops for job in loop.runs]
        info = self._news()
        # The lease is the worker's and one call prolongs it; more calls only ask about
        # more runs.
        for start in range(0, max(len(jobs), 1), MAX_BATCH):
            asked = jobs[start : start + MAX_BATCH]
            heard = await self._renew(asked, info)
            self._heed(asked, heard)
            if heard.overdue:
                self._on_overdue()
            for order in heard.orders:
                await self._obey(self._store, order)
            info = None

    async def _try(self) -> None:
        sent = time.monotonic()
        try:
            await (self._beat_in_time() if self._strict else self.beat())
        except Exception:
            if self._strict and self._trusted_seconds <= 0:
                for loop in self._loops:
                    loop.let_go()
            raise
        self._beaten = sent

    async def _beat_in_time(self) -> None:
        # A loop that was held may be late: the beat it owes still gets a chance.
        patience = max(self._trusted_seconds, self._lease / 1000 * LEASE_MARGIN)
        try:
            async with asyncio.timeout(patience):
                await self.beat()
        except TimeoutError:
            raise StoreUnavailable("a beat was not answered in time") from None

    @property
    def _trusted_seconds(self) -> float:
        """How long we can still be sure that what runs is ours."""
        lease = self._lease / 1000 * (1 - LEASE_MARGIN)
        return self._beaten + lease - time.monotonic()

    def _news(self) -> dict[str, Any] | None:
        """Return what to say of ourselves; None when nothing happened lately."""
        info = self._info()
        deeds = [info.get(name) for name in ("running", "done", "blocked", "trouble")]
        self._beats += 1
        if deeds == self._deeds and self._beats % BEATS_PER_NEWS:
            return None
        self._deeds = deeds
        return info

    async def _renew(
        self, jobs: list[Job], info: dict[str, Any] | None
    ) -> HeartbeatReply:
        return await self._store.renew(
            self._worker, lease=self._lease, runs=jobs, info=info, orders=True
        )

    def _heed(self, asked: list[Job], beat: HeartbeatReply) -> None:
        lost = set(beat.lost)
        for loop in self._loops:
            if beat.paused:
                loop.pause()
            else:
                loop.resume()
            for job_id, reason in beat.cancel.items():
                loop.cancel(job_id, after_cancel(reason))
            for job in asked:
                if job.id in lost:
                    loop.lose(job)


class TimingReporter:
    """Tells the store how long jobs waited and ran, every few seconds if any did."""

    def __init__(self, store: Store, loops: Sequence[Lane], *, sleep: Sleep) -> None:
        self._store = store
        self._loops = loops
        self._sleep = sleep
        self._log = ThrottledLog(logger)

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._sleep(METER_SECONDS)
            await self._tell()

    async def close(self) -> None:
        """Tell what came in since; a store that is away must not keep us."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await self._tell()

    async def _tell(self) -> None:
        taken = [loop.take_timing() for loop in self._loops]
        timings = [timing for timing in taken if timing is not None]
        # What cannot be told is dropped: numbers of an outage would fall into the wrong
        # minute, and nothing rests on them.
        try:
            for start in range(0, len(timings), MAX_BATCH):
                await self._store.measure(timings[start : start + MAX_BATCH])
        except (StoreUnavailable, StoreFull) as exc:
            logger.debug("measures dropped: %s", exc)
        except Exception as exc:
            self._log.error("measures dropped", exc=exc)


class Maintenance:
    """Tends the store: promotes, rescues, expires, prunes, fires schedules."""

    def __init__(
        self, store: Store, *, keep: Keep, lease: int, outage: StoreRetry, sleep: Sleep
    ) -> None:
        self._store = store
        self._keep = keep
        self._lease = lease
        self._outage = outage
        self._sleep = sleep
        self._is_overdue = asyncio.Event()

    def wake(self) -> None:
        """Look at once: the worker that made the passes is gone."""
        self._is_overdue.set()

    async def run(self) -> None:
        """Tend until cancelled, each second or at once while there is more to do."""
        while True:
            self._is_overdue.clear()
            tended = await self._outage.persist("upkeep", self._tend)
            if tended.elsewhere:
                await self._rest_until_overdue()
            elif not tended.more:
                rests = QUIET_RESTS if tended.quiet else 1
                await self._sleep(_scattered(UPKEEP_SECONDS * rests))

    async def _rest_until_overdue(self) -> None:
        rest = asyncio.ensure_future(self._sleep(_scattered(ELSEWHERE_SECONDS)))
        word = asyncio.ensure_future(self._is_overdue.wait())
        try:
            await asyncio.wait([rest, word], return_when=asyncio.FIRST_COMPLETED)
        finally:
            rest.cancel()
            word.cancel()

    async def _tend(self) -> MaintenanceResult:
        tended = await self._store.tend(keep=self._keep, lease=self._lease)
        if tended:
            logger.debug("upkeep: %s", tended)
        return tended


class StoreCheck:
    """Makes sure that the store is still the one that was opened, and fit."""

    def __init__(self, store: Store, *, outage: StoreRetry) -> None:
        self._store = store
        self._outage = outage
        self._losses = store.losses

    async def run(self) -> None:
        """Check each minute, and when the store was lost and is back."""
        while True:
            await self._rest()
            self._losses = self._store.losses
            await self._outage.persist("store", self._store.verify)

    async def _rest(self) -> None:
        until = time.monotonic() + _scattered(CHECK_SECONDS)
        while self._store.losses == self._losses:
            # Nothing announces a loss: most callers only see a slow answer.
            await asyncio.sleep(min(CHECK_SECONDS, LOSS_SECONDS))
            if time.monotonic() >= until:
                return


def _scattered(seconds: float) -> float:
    return seconds * random.uniform(1, 1 + UPKEEP_JITTER)
