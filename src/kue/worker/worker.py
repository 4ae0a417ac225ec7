"""A worker: the loops that run jobs, the beat and the upkeep, from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from kue.aio.retry import StoreRetry
from kue.model.errors import ConfigError, StoreError, StoreFull, StoreUnavailable
from kue.model.job import State
from kue.model.names import check_path_name
from kue.worker.heartbeat import (
    Heartbeat,
    Maintenance,
    Obey,
    Sleep,
    StoreCheck,
    TimingReporter,
)
from kue.worker.heartbeat_thread import pulse
from kue.worker.idle_wait import IdleWait
from kue.worker.isolation import Isolation
from kue.worker.lane import LANES, Lane, Processor
from kue.worker.log_capture import captured
from kue.worker.loop_monitor import WorkerLoopMonitor
from kue.worker.lost_settles import LostSettles
from kue.worker.run_resources import RunResources
from kue.worker.slots import SlotBudget
from kue.worker.stacks import stacks
from kue.worker.status import StatusCollector
from kue.worker.unhandled_types import warn_of_unhandled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.store.values import Outcome

logger = logging.getLogger(__name__)

GRACE_SECONDS = 30.0
IDLE_GRACE_SECONDS = 1.0
#: How often a worker that is to end by itself looks whether it is time.
BURST_SECONDS = 0.05


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker is to work."""

    #: How the store knows it; None for a name of its own.
    name: str | None = None
    #: How long runs may go on after `Worker.stop`, in seconds.
    grace: float = GRACE_SECONDS
    #: Slots that all types share; None when each has its own.
    concurrency: int | None = None
    #: Types that share slots get them in the order given, not each its share.
    strict: bool = False
    #: Stop when there is nothing left to do.
    burst: bool = False
    #: Stop after this many runs.
    max_jobs: int | None = None
    #: Another process beats for this one.
    supervised: bool = False


class Worker:
    """Runs jobs until it is stopped; no other loop of it has an exit."""

    def __init__(
        self,
        store: Store,
        processors: Sequence[Processor],
        settings: Settings,
        plan: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
        *,
        on_failed: Callable[[Outcome], None] | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if not processors:
            raise ConfigError(
                "there is nothing to work on: register a handler with @q.task or "
                "q.process(type, n, handler) first"
            )
        self.name = check_path_name(
            plan.name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}",
            what="worker name",
        )
        self.processors = tuple(processors)
        self._store = store
        self._settings = settings
        self._plan = plan
        self._on_failed = on_failed
        self._sleep = sleep
        self._outage = StoreRetry(store.name)
        self._loops = [
            Lane(
                store,
                processor,
                worker=self.name,
                lease=settings.lease,
                outage=self._outage,
            )
            for processor in processors
        ]
        self.status = StatusCollector(self._loops, self._outage)
        self._stopping = asyncio.Event()
        #: Stopping is not to take any longer.
        self._hurried = asyncio.Event()
        self._ended = asyncio.Event()
        #: A loop has nothing more to do for the moment.
        self._rested = asyncio.Event()
        #: Someone ordered it to stop, and nobody is to take its place.
        self.is_dismissed = False
        #: Called then, instead of `stop`, where somebody else counts the grace.
        self.on_dismissed: Callable[[], None] | None = None

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def running(self) -> int:
        """How many jobs are in hand."""
        return sum(len(loop.runs) for loop in self._loops)

    @property
    def _in_hand(self) -> int:
        return self.running + self._unwritten

    @property
    def _unwritten(self) -> int:
        return sum(loop.unsettled for loop in self._loops)

    def stop(self) -> None:
        """
        Take no more jobs; `run` returns once those in hand have ended.

        After the grace they are handed back, without spending an attempt.  Said a
        second time, they are handed back at once.
        """
        if self.is_stopping:
            self._hand_back()
            self._hurried.set()
        for loop in self._loops:
            loop.stop()
        self._stopping.set()

    def dismiss(self) -> None:
        """Stop because someone ordered it; said twice, nothing is hurried."""
        if self.is_dismissed:
            return
        logger.info("worker %s is ordered to stop", self.name)
        self.is_dismissed = True
        if self.on_dismissed is not None:
            self.on_dismissed()
        elif not self.is_stopping:
            self.stop()

    async def run(self) -> None:
        """
        Work until `stop`.  Cancelling it hands everything back at once.

        Raises:
            StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
        """
        try:
            # A store that is away is waited for by everything that needs it; one that
            # is not fit should be heard of at once.
            with contextlib.suppress(StoreUnavailable, StoreFull):
                await self._store.open()
            await self._work()
        finally:
            self._ended.set()

    async def ended(self) -> None:
        """Return once `run` is over."""
        await self._ended.wait()

    async def _work(self) -> None:
        logger.info("worker %s started on %s", self.name, self._store.name)
        async with AsyncExitStack() as stack:
            crew = RunResources(self._store, self._settings.url)
            stack.push_async_callback(crew.close)
            obey = self._obedience(crew)
            stack.push_async_callback(self._leave)
            meter = TimingReporter(self._store, self._loops, sleep=self._sleep)
            stack.push_async_callback(meter.close)
            upkeep = self._upkeep()
            heart = self._heart(obey, upkeep)
            if not self._plan.supervised:
                lease = self._settings.lease
                beating = pulse(self._store, self.name, lease, heart.silence, obey)
                await stack.enter_async_context(beating)
            if self._settings.capture:
                stack.enter_context(captured())
            self._look_out(stack)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            await self._live(group, crew, heart, upkeep, meter)
        logger.info("worker %s stopped", self.name)

    def _look_out(self, stack: AsyncExitStack) -> None:
        limit = self._settings.blocked
        if limit:
            lookout = self.status.lookout = WorkerLoopMonitor(limit / 1000)
            lookout.start()
            stack.callback(lookout.stop)

    async def _live(
        self,
        group: asyncio.TaskGroup,
        crew: RunResources,
        heart: Heartbeat,
        upkeep: Maintenance,
        meter: TimingReporter,
    ) -> None:
        watch, isolation = self._join(crew)
        lanes = [
            group.create_task(loop.lane(), name=f"kue {loop.type} {number}")
            for loop in self._loops
            for number in range(LANES)
        ]
        patience = self._settings.lease / 1000
        unhandled = warn_of_unhandled(self._store, patience, self._sleep)
        scouts = [
            group.create_task(unhandled, name="kue unhandled types"),
            group.create_task(watch.run(), name="kue watch"),
            group.create_task(self._retire(), name="kue retirement"),
        ]
        check = StoreCheck(self._store, outage=self._outage)
        lost = LostSettles(
            self._store, self._loops, worker=self.name, outage=self._outage
        )
        services = [
            group.create_task(heart.run(), name="kue beat"),
            group.create_task(upkeep.run(), name="kue upkeep"),
            group.create_task(meter.run(), name="kue meter"),
            group.create_task(check.run(), name="kue store check"),
            group.create_task(lost.run(), name="kue lost endings"),
        ]
        grace = 0.0
        try:
            await self._stopping.wait()
            grace = self._plan.grace
        finally:
            # Also when we are cancelled: leaving jobs to their lease would be slower.
            for loop in self._loops:
                loop.stop()
            _cancel(scouts)
            await self._wind_down(lanes, grace)
            isolation.close()
            watch.call_off()
            # The last to go: until here our jobs must not be taken from us.
            _cancel(services)

    def _join(self, crew: RunResources) -> tuple[IdleWait, Isolation]:
        budget = SlotBudget(
            [loop.claimant for loop in self._loops],
            total=self._plan.concurrency,
            runs=self._plan.max_jobs,
            strict=self._plan.strict,
        )
        watch = IdleWait(
            self._store,
            self._loops,
            self._outage,
            self._rested,
            worker=self.name,
            lease=self._settings.lease,
            claims=not budget.is_tight and self._plan.max_jobs is None,
        )
        isolation = Isolation(self._store, self._loops, self._outage, watch.interrupt)
        for loop in self._loops:
            loop.join(
                crew,
                budget,
                isolation,
                on_rest=self._rested.set,
                on_freed=self._look_again if budget.is_tight else _nothing,
                on_paused=watch.interrupt,
                on_failed=self._on_failed,
            )
        return watch, isolation

    def _look_again(self) -> None:
        for loop in self._loops:
            loop.look_again()

    async def _retire(self) -> None:
        """Stop when there is nothing left to do, if that is the plan."""
        if not self._plan.burst and self._plan.max_jobs is None:
            return
        while not self._is_spent and not await self._is_drained():
            await self._sleep(BURST_SECONDS)
        self.stop()

    @property
    def _is_spent(self) -> bool:
        """Whether all runs that there may be have begun."""
        most = self._plan.max_jobs
        return most is not None and sum(loop.begun for loop in self._loops) >= most

    async def _is_drained(self) -> bool:
        if not self._plan.burst or not all(loop.is_at_rest for loop in self._loops):
            return False
        counts = await self._outage.persist("burst", self._store.count)
        # A limit may hold back what waits; it is work all the same.
        waiting = {name for name, count in counts.items() if count[State.WAITING]}
        pauses = await self._outage.persist("burst", self._store.paused)
        paused = {pause.type for pause in pauses if pause.worker is None}
        if None in paused:
            return True
        return not waiting & {loop.type for loop in self._loops} - paused

    async def _wind_down(self, lanes: list[asyncio.Task[None]], grace: float) -> None:
        """Let runs end, hand back the others, write down how all of them ended."""
        # With empty hands there is only a claim on its way; a store that is away must
        # not keep us for it.
        patience = grace if self._in_hand else IDLE_GRACE_SECONDS
        working = await self._still_working(lanes, patience)
        if working:
            self._hand_back()
            # Past its lease the store takes everything back by itself.
            lease = self._settings.lease / 1000
            patience = lease if self._in_hand else IDLE_GRACE_SECONDS
            _, working = await asyncio.wait(working, timeout=patience)
        if working and self._in_hand:
            self._give_up()
        _cancel(working)

    async def _still_working(
        self, lanes: list[asyncio.Task[None]], seconds: float
    ) -> set[asyncio.Task[None]]:
        """Return the lanes that work after *seconds*, or when we are told to hurry."""
        waits = [
            asyncio.create_task(asyncio.wait(lanes), name="kue lanes end"),
            asyncio.create_task(self._hurried.wait(), name="kue hurry"),
        ]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        _cancel(waits)
        return {lane for lane in lanes if not lane.done()}

    def _hand_back(self) -> None:
        for loop in self._loops:
            loop.hand_back()

    def _give_up(self) -> None:
        # It is worse to lose a job than to run it twice: the store will hand these on.
        logger.error(
            "worker %s leaves %d jobs running and %d outcomes unwritten; "
            "the jobs will run again",
            self.name,
            self.running,
            self._unwritten,
        )

    async def _leave(self) -> None:
        try:
            await self._store.leave(self.name)
        except StoreError as exc:
            logger.warning("worker %s could not deregister: %s", self.name, exc)

    def _obedience(self, crew: RunResources) -> Obey:
        """Return what does as it is ordered, in whichever thread it hears of it."""
        loop = asyncio.get_running_loop()

        async def obey(store: Store, order: str) -> None:
            if order == "stop":
                loop.call_soon_threadsafe(self.dismiss)
            elif order == "stacks":
                runs = [run for one in self._loops for run in one.in_hand]
                text = stacks(loop, runs, crew.threads.contexts())
                try:
                    await store.write_stacks(self.name, text)
                except StoreError as exc:
                    logger.warning("the stacks could not be written down: %s", exc)

        return obey

    def _heart(self, obey: Obey, upkeep: Maintenance) -> Heartbeat:
        return Heartbeat(
            self._store,
            self._loops,
            worker=self.name,
            lease=self._settings.lease,
            outage=self._outage,
            info=self.status,
            sleep=self._sleep,
            obey=obey,
            on_overdue=upkeep.wake,
            strict=self._settings.strict_lease,
        )

    def _upkeep(self) -> Maintenance:
        return Maintenance(
            self._store,
            keep=self._settings.keep,
            lease=self._settings.lease,
            outage=self._outage,
            sleep=self._sleep,
        )


def _nothing() -> None:
    """Nobody waits for slots of others."""


def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
