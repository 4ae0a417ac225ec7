"""A worker: the loops that run jobs, the beat and the upkeep, from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from typing import TYPE_CHECKING, Any

from kue.errors import ConfigError, StoreError, StoreUnavailable
from kue.outage import Outage
from kue.worker.loop import LANES, Loop, Processor
from kue.worker.services import Heart, Upkeep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kue.settings import Settings
    from kue.store.base import Store

logger = logging.getLogger(__name__)

GRACE_SECONDS = 30.0
IDLE_GRACE_SECONDS = 1.0


class Worker:
    """Runs jobs until it is stopped; no other loop of it has an exit."""

    def __init__(
        self,
        store: Store,
        processors: Sequence[Processor],
        settings: Settings,
        *,
        name: str | None = None,
        grace: float = GRACE_SECONDS,
    ) -> None:
        if not processors:
            raise ConfigError(
                "there is nothing to work on: register a handler with "
                "q.process(type, n, handler) first"
            )
        self.name = (
            name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        )
        self._store = store
        self._settings = settings
        self._grace = grace
        self._outage = Outage(store.name)
        self._loops = [
            Loop(
                store,
                processor,
                worker=self.name,
                lease=settings.lease,
                outage=self._outage,
            )
            for processor in processors
        ]
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()

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
        for loop in self._loops:
            loop.stop()
        self._stopping.set()

    async def run(self) -> None:
        """
        Work until `stop`.  Cancelling it hands everything back at once.

        Raises:
            StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
        """
        try:
            # A store that is away is waited for by everything that needs it; one that
            # is not fit should be heard of at once.
            with contextlib.suppress(StoreUnavailable):
                await self._store.open()
            await self._work()
        finally:
            self._ended.set()

    async def _work(self) -> None:
        logger.info("worker %s started on %s", self.name, self._store.name)
        try:
            async with asyncio.TaskGroup() as group:
                await self._live(group)
        finally:
            await self._leave()
        logger.info("worker %s stopped", self.name)

    async def ended(self) -> None:
        """Return once `run` is over."""
        await self._ended.wait()

    async def _live(self, group: asyncio.TaskGroup) -> None:
        lanes = [
            group.create_task(loop.lane(), name=f"kue {loop.processor.type} {number}")
            for loop in self._loops
            for number in range(LANES)
        ]
        watches = [
            group.create_task(loop.watch(), name=f"kue {loop.processor.type} watch")
            for loop in self._loops
        ]
        services = [
            group.create_task(self._heart().run(), name="kue beat"),
            group.create_task(self._upkeep().run(), name="kue upkeep"),
        ]
        grace = 0.0
        try:
            await self._stopping.wait()
            grace = self._grace
        finally:
            # Also when we are cancelled: leaving jobs to their lease would be slower.
            for loop in self._loops:
                loop.stop()
            _cancel(watches)
            await self._wind_down(lanes, grace)
            # The last to go: until here our jobs must not be taken from us.
            _cancel(services)

    async def _wind_down(self, lanes: list[asyncio.Task[None]], grace: float) -> None:
        """Let runs end, hand back the others, write down how all of them ended."""
        # With empty hands there is only a claim on its way; a store that is away must
        # not keep us for it.
        _, working = await asyncio.wait(
            lanes, timeout=grace if self._in_hand else IDLE_GRACE_SECONDS
        )
        if working and self._in_hand:
            self._hand_back()
            # Past its lease the store takes everything back by itself.
            lease = self._settings.lease / 1000
            _, working = await asyncio.wait(working, timeout=lease)
        if working and self._in_hand:
            self._give_up()
        _cancel(working)

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
            logger.warning("worker %s could not take its leave: %s", self.name, exc)

    def _heart(self) -> Heart:
        return Heart(
            self._store,
            self._loops,
            worker=self.name,
            lease=self._settings.lease,
            outage=self._outage,
            info=self._info,
        )

    def _upkeep(self) -> Upkeep:
        return Upkeep(
            self._store,
            keep=self._settings.keep,
            lease=self._settings.lease,
            outage=self._outage,
        )

    def _info(self) -> dict[str, Any]:
        """What `workers` shows of us."""
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "slots": {
                loop.processor.type: loop.processor.slots for loop in self._loops
            },
            "running": self.running,
        }


def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
