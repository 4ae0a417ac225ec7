"""Autoscaler: reads the backlog every second, and adds or gives up processes."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from kue.model.errors import StoreError
from kue.supervisor.protocol import LaneLoad
from kue.supervisor.scaling import BacklogMeter, ScalingRule, SlotReading
from kue.worker.backlog import backlogs, first_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kue.store.contract import Store
    from kue.supervisor.child_lease_renewal import ChildHeartbeats
    from kue.supervisor.child_pool import ChildPool
    from kue.supervisor.child_process import ChildProcess
    from kue.supervisor.options import SupervisorOptions
    from kue.worker.backlog import Backlog

logger = logging.getLogger(__name__)

READ_SECONDS = 1.0
#: The reading of all types that share slots; a type has a name.
SHARED = ""
#: Slots of a child that has not reported for this long are not free.
RESPONSIVE_SECONDS = 2.0


class ProcessSlots(NamedTuple):
    """Slots in one process, as its child reports them."""

    by_type: dict[str, int]
    #: Slots that all types share; None when each type has its own.
    shared: int | None


class Autoscaler:
    """Has the number of processes follow the backlog."""

    def __init__(
        self,
        options: SupervisorOptions,
        pool: ChildPool,
        heartbeats: ChildHeartbeats,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._heartbeats = heartbeats
        self._clock = clock
        self._meter = BacklogMeter()
        self._rule = ScalingRule(
            target_wait=options.target_wait, cooldown=options.cooldown
        )
        #: Runs that a child had ended when it was last read, by type.
        self._done: WeakKeyDictionary[ChildProcess, dict[str, int]] = (
            WeakKeyDictionary()
        )

    async def run(self) -> None:
        """Scale until cancelled; return at once if the store cannot be reached."""
        hello = await self._pool.first
        if hello.beats_itself:
            logger.warning(
                "the number of processes stays at %d: %s %s",
                self._pool.count.now,
                hello.store,
                "is in the memory of each, and cannot be shared"
                if hello.is_private
                else "is given as a client, or needs more than its URL to connect",
            )
            return
        while True:
            await self._look()
            await asyncio.sleep(READ_SECONDS)

    async def _look(self) -> None:
        try:
            await self._scale()
        except StoreError as exc:
            # Heartbeats log an outage; until it is over the number stays as it is.
            self._meter.reset()
            logger.debug("the backlog could not be read: %s", exc)
        except Exception:
            # Jobs run all the same.
            self._meter.reset()
            logger.exception("the number of processes could not be adapted")
        for child in self._pool.children:
            child.show(self._pool.count)

    async def _scale(self) -> None:
        children = [child for child in self._pool.children if child.is_working]
        if not children or children[0].hello is None:
            return
        store = self._heartbeats.store_of(children[0].hello.settings)
        slots = _slots_of(children[0])
        found = await backlogs(store, slots.by_type)
        if self._pool.is_growing:
            # How fast they are is known once they are up.
            self._meter.reset()
            return
        readings = await self._read(store, slots, found, children)
        self._apply(readings)

    async def _read(
        self,
        store: Store,
        slots: ProcessSlots,
        found: Mapping[str, Backlog],
        children: list[ChildProcess],
    ) -> dict[str, SlotReading]:
        loads = self._loads(children)
        readings = {
            type: _reading(slots.by_type[type], backlog, loads.get(type), children)
            for type, backlog in found.items()
        }
        if any(one.waiting for one in readings.values()):
            waits = await first_waits(store, found, now=await store.now(), most=1)
            for type, wait in waits.items():
                readings[type] = readings[type]._replace(first_wait=wait)
        if slots.shared is not None:
            readings[SHARED] = _total(slots.shared, readings)
        return readings

    def _loads(self, children: list[ChildProcess]) -> dict[str, LaneLoad]:
        """Return by type how many jobs run, and how many ended since the last call."""
        sums: dict[str, LaneLoad] = {}
        for child in children:
            before = self._done.get(child, {})
            for type, (running, done) in child.loads.items():
                total = sums.get(type, LaneLoad(0, 0))
                ended = done - before.get(type, 0)
                sums[type] = LaneLoad(total.running + running, total.done + ended)
            self._done[child] = {type: load.done for type, load in child.loads.items()}
        return sums

    def _apply(self, readings: Mapping[str, SlotReading]) -> None:
        now = self._clock()
        loads = self._meter.measure(readings, now)
        count = self._pool.count
        wanted = self._rule.wanted(
            loads, count.now, least=count.least, most=count.most, now=now
        )
        if wanted > count.now:
            is_done = self._pool.grow(wanted - count.now) > 0
        else:
            is_done = wanted < count.now and self._pool.shrink()
        if is_done:
            self._meter.reset()
            _log(count.now, self._pool.count.now, readings)


def _slots_of(child: ChildProcess) -> ProcessSlots:
    slots, shared = child.status.get("slots", {}), child.status.get("concurrency")
    if shared is not None:
        slots = {type: min(number, shared) for type, number in slots.items()}
    return ProcessSlots(slots, shared)


def _reading(
    slots: int,
    backlog: Backlog,
    load: LaneLoad | None,
    children: list[ChildProcess],
) -> SlotReading:
    running, ended = load or (0, 0)
    able = sum(child.silence < RESPONSIVE_SECONDS for child in children)
    waiting = backlog.runnable(running=running, slots=slots * able)
    return SlotReading(slots, waiting, running, ended)


def _total(shared: int, readings: Mapping[str, SlotReading]) -> SlotReading:
    found = readings.values()
    return SlotReading(
        slots=shared,
        waiting=sum(one.waiting for one in found),
        running=sum(one.running for one in found),
        ended=sum(one.ended for one in found),
        first_wait=max((one.first_wait for one in found), default=0.0),
    )


def _log(before: int, after: int, readings: Mapping[str, SlotReading]) -> None:
    types = [one for type, one in readings.items() if type != SHARED]
    waiting = sum(one.waiting for one in types)
    running = sum(one.running for one in types)
    oldest = max((one.first_wait for one in types), default=0.0)
    if after > before:
        jobs = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
        reason = f"{jobs}, the first for {oldest:.0f} s"
    else:
        jobs = "1 job runs" if running == 1 else f"{running or 'no'} jobs run"
        reason = f"no job waits for a slot, and {jobs}"
    logger.info("scaling from %d to %d processes: %s", before, after, reason)
