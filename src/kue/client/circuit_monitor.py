"""
Circuit monitor: what one worker knows of a circuit breaker, and reports to the others.

Reads and changes of all runs go through one queue: those that come while a call is in
flight go together with the next one.  What was read counts for `FRESH_SECONDS`, so that
runs under a closed circuit make no call to the store, and a worker learns within that
time that another one opened it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import time
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from kue.aio.coalesced_calls import CoalescedCalls
from kue.aio.throttled_log import ThrottledLog
from kue.client.circuit_records import CircuitRecords
from kue.model import circuit
from kue.model.circuit import CircuitRecord, CircuitRun
from kue.model.errors import Release

if TYPE_CHECKING:
    from kue.model.circuit import CircuitPolicy
    from kue.worker.active_run import ActiveRun
    from kue.worker.run_services import RunServices

logger = logging.getLogger(__name__)

#: How long a worker relies on what it has read of a circuit.
FRESH_SECONDS = 1.0

Edit: TypeAlias = Callable[[CircuitRecord], CircuitRecord]
#: The circuit after an edit; None if the store could not be asked.
Reply: TypeAlias = asyncio.Future[CircuitRecord | None]


class CircuitMonitor:
    """Admits runs to one circuit, and counts their failures."""

    def __init__(self, name: str, services: RunServices) -> None:
        self._name = name
        self._store = services.store
        self._records = CircuitRecords(services.store)
        self._known = CircuitRecord()
        self._read_at = -math.inf
        self._reading: Reply | None = None
        self._edits: list[tuple[Edit, int, Reply]] = []
        # Not in the context of a run: what is logged here is not the job's.
        self._calls = CoalescedCalls(
            self._apply_all, "kue circuit", context=contextvars.Context()
        )
        #: A probe that is no longer running, though it has not reported.
        self._lost_probe: CircuitRun | None = None
        #: How many jobs wait since when.
        self._waiting = 0
        self._waiting_since: int | None = None
        self._log = ThrottledLog(logger)

    async def admit(self, run: ActiveRun) -> bool:
        """
        Return whether *run* is the probe; else it may run without further ado.

        Raises:
            Release: The circuit is open, or another job probes.
        """
        record = await self._current(run.now_ms)
        if not record.is_due(run.now_ms):
            return self._admit_to(record, run)
        # Its own: the circuit may be around the queue and around the task.
        if record.probe not in (None, self._lost_probe, run_of(run)):
            raise self._release(record, run.now_ms)
        return self._admit_to(await self._take_probe(run), run)

    async def report_failure(
        self, run: ActiveRun, policy: CircuitPolicy, error: str
    ) -> None:
        me, now = run_of(run), run.now_ms
        await self._change(
            lambda record: circuit.after_failure(record, policy, error, me, now), now
        )

    async def report_success(self, run: ActiveRun) -> None:
        """Close the circuit: its probe succeeded."""
        me, now = run_of(run), run.now_ms
        await self._change(lambda record: circuit.after_success(record, me, now), now)

    async def drop_probe(self, run: ActiveRun) -> None:
        """Let another job be the probe: *run* ended without showing anything."""
        me = run_of(run)
        await self._change(lambda record: circuit.without_probe(record, me), run.now_ms)

    # -- decisions -------------------------------------------------------------

    def _admit_to(self, record: CircuitRecord, run: ActiveRun) -> bool:
        if record.is_closed:
            return False
        if record.probe == run_of(run):
            return True
        raise self._release(record, run.now_ms)

    async def _take_probe(self, run: ActiveRun) -> CircuitRecord:
        """Return the circuit, with *run* as its probe if no other was faster."""
        me, now, lost = run_of(run), run.now_ms, self._lost_probe
        taken = await self._change(
            lambda record: circuit.with_probe(record, me, now, lost=lost), now
        )
        return CircuitRecord() if taken is None else taken

    def _release(self, record: CircuitRecord, now: int) -> Release:
        if self._waiting_since != record.opened_at:
            self._waiting, self._waiting_since = 0, record.opened_at
        wait = circuit.wait_ms(record, self._waiting, now)
        self._waiting += 1
        seen = circuit.seen(self._name, record, now)
        reason = f"circuit {self._name} {seen.summary}"
        return Release(timedelta(milliseconds=wait), reason=reason)

    # -- with the store --------------------------------------------------------

    async def _current(self, now: int) -> CircuitRecord:
        """Return the circuit, not read more than a second ago."""
        if time.monotonic() - self._read_at >= FRESH_SECONDS:
            if self._reading is None or self._reading.done():
                self._reading = self._change(lambda record: record, now)
            # Shared by all that wait: the end of one must not be that of the others.
            await asyncio.shield(self._reading)
        return self._known

    def _change(self, edit: Edit, now: int) -> Reply:
        reply: Reply = asyncio.get_running_loop().create_future()
        self._edits.append((edit, now, reply))
        self._calls.start()
        return reply

    async def _apply_all(self) -> None:
        while self._edits:
            batch, self._edits = self._edits, []
            after = await self._apply([edit for edit, _, _ in batch], batch[-1][1])
            for _, _, reply in batch:
                if not reply.done():
                    reply.set_result(after)

    async def _apply(self, edits: list[Edit], now: int) -> CircuitRecord | None:
        def edit(record: CircuitRecord) -> CircuitRecord:
            return reduce(lambda edited, one: one(edited), edits, record)

        after = None
        try:
            after = await self._records.change(self._name, edit, now)
            await self._look_for_probe(after)
            self._log_change(after, now)
        except Exception as exc:
            # A circuit that cannot be read must not keep jobs from running.
            self._log.warning("circuit %s is taken for closed: %s", self._name, exc)
        self._known = after or CircuitRecord()
        self._read_at = time.monotonic()
        return after

    def _log_change(self, after: CircuitRecord, now: int) -> None:
        """Log that it opened or closed, here or in another worker."""
        if after.opened_at == self._known.opened_at:
            return
        if after.is_closed:
            logger.warning("circuit %s is closed again", self._name)
        else:
            seen = circuit.seen(self._name, after, now)
            logger.warning("circuit %s %s", self._name, seen.summary)

    async def _look_for_probe(self, record: CircuitRecord) -> None:
        """
        Find out whether the probe of a half-open circuit still runs.

        The lease of its job is that of the probe: when its worker dies, the job is
        reclaimed, and its fencing token changes.
        """
        probe = record.probe
        if probe is None or probe == self._lost_probe:
            return
        [job] = await self._store.get([probe.job])
        # Only an active job has a token.
        if job is None or job.fence != probe.fence:
            self._lost_probe = probe


#: By worker, and by name.
_monitors: WeakKeyDictionary[RunServices, dict[str, CircuitMonitor]]
_monitors = WeakKeyDictionary()


def monitor_of(run: ActiveRun, name: str) -> CircuitMonitor:
    """Return the monitor of circuit *name* that all runs of this worker share."""
    monitors = _monitors.setdefault(run.services, {})
    if name not in monitors:
        monitors[name] = CircuitMonitor(name, run.services)
    return monitors[name]


def run_of(run: ActiveRun) -> CircuitRun:
    return CircuitRun(run.id, run.fence)
