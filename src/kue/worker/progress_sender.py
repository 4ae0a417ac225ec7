"""
Progress and log lines of runs, sent to the store in batches.

While one batch is in flight, the next collects: of progress only the newest is kept, of
log lines as many as a log holds.  A single report is sent at once, and a thousand runs
that report at once cost a few calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

from kue.aio.coalesced_calls import CoalescedCalls
from kue.aio.loop_calls import block_on
from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreFull, StoreUnavailable
from kue.store.values import MAX_BATCH, MAX_LOG_LINES, LogLine, Progress, Result
from kue.worker.progress_values import ProgressReply

if TYPE_CHECKING:
    from msgspec import Raw

    from kue.store.contract import Store
    from kue.worker.active_job import ActiveJob
    from kue.worker.chunk_sender import ChunkSender

logger = logging.getLogger(__name__)

Reply = asyncio.Future[Result | None]
#: Logs are written job by job; this many at once.
LOGS_AT_ONCE = 16
#: How long a run that was lost may take to end by itself when the reply reports it.
LOST_SECONDS = 0.1


class _Pending:
    """Progress and log lines of one run that are not written yet."""

    __slots__ = ("lines", "reply", "update")

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.update: Progress | None = None
        # The log would drop more than it keeps anyway.
        self.lines: deque[LogLine] = deque(maxlen=MAX_LOG_LINES)


class ProgressSender:
    """Sends what one worker's runs report; a `ProgressSink` for all of them."""

    def __init__(self, store: Store, chunks: ChunkSender) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._pending: dict[ActiveJob, _Pending] = {}
        self._in_flight: dict[ActiveJob, _Pending] = {}
        # The worker's own context: records logged while sending are not the job's.
        self._sender = CoalescedCalls(
            self._send_batches, "kue progress", context=contextvars.copy_context()
        )
        self._log = ThrottledLog(logger)
        self._chunks = chunks

    def send(self, active: ActiveJob, report: Progress | LogLine) -> ProgressReply:
        """Send *report* with the next batch."""
        wanted = "report progress" if isinstance(report, Progress) else "be logged to"
        if threading.get_ident() == self._thread:
            return ProgressReply(active.id, wanted, self._collect(active, report))
        self._loop.call_soon_threadsafe(self._collect, active, report)
        return ProgressReply(active.id, wanted, None)

    def send_chunk(self, active: ActiveJob, chunk: Raw) -> ProgressReply:
        """
        Append *chunk* to the stream of *active*; a thread waits here for room.

        Raises:
            StreamFull, LeaseLost, JobNotFound, StoreError: As `ChunkSender.add`.
        """
        if threading.get_ident() == self._thread:
            room = self._chunks.add(active, chunk).room
            return ProgressReply(active.id, "send chunks", room)
        block_on(self._loop, self._send_chunk(active, chunk))
        return ProgressReply(active.id, "send chunks", None)

    async def _send_chunk(self, active: ActiveJob, chunk: Raw) -> None:
        await self.send_chunk(active, chunk)

    def has_pending(self, active: ActiveJob) -> bool:
        """Return whether reports of *active* may not be written yet."""
        return (
            active in self._pending
            or active in self._in_flight
            or active.outbox is not None
        )

    async def flush(self, active: ActiveJob) -> None:
        """Return once all reports of *active* so far were written or dropped."""
        while pending := self._in_flight.get(active) or self._pending.get(active):
            await asyncio.shield(pending.reply)
        if active.outbox is not None:
            await active.outbox.finish()

    def _collect(self, active: ActiveJob, report: Progress | LogLine) -> Reply:
        pending = self._pending.get(active)
        if pending is None:
            pending = self._pending[active] = _Pending(self._loop.create_future())
        if isinstance(report, Progress):
            pending.update = active.reached = report
        else:
            pending.lines.append(report)
        self._sender.start()
        return pending.reply

    async def _send_batches(self) -> None:
        while self._pending:
            self._in_flight, self._pending = self._pending, {}
            results = await self._write(self._in_flight)
            batch, self._in_flight = self._in_flight, {}
            for active, pending in batch.items():
                if not pending.reply.done():
                    pending.reply.set_result(results.get(active))

    async def _write(
        self, reports: dict[ActiveJob, _Pending]
    ) -> dict[ActiveJob, Result | None]:
        try:
            results = await self._write_logs(reports)
            results |= await self._write_progress(reports)
        except (StoreUnavailable, StoreFull) as exc:
            logger.warning("progress and log lines dropped: %s", exc)
        except Exception as exc:
            # A report must never end a run, let alone the worker.
            self._log.error("progress and log lines dropped", exc=exc)
        else:
            return results
        return {}

    async def _write_progress(
        self, reports: dict[ActiveJob, _Pending]
    ) -> dict[ActiveJob, Result | None]:
        updates = [(active, p.update) for active, p in reports.items() if p.update]
        results: dict[ActiveJob, Result | None] = {}
        for start in range(0, len(updates), MAX_BATCH):
            batch = updates[start : start + MAX_BATCH]
            replies = await self._store.progress([update for _, update in batch])
            results.update(zip((active for active, _ in batch), replies, strict=True))
        for active, result in results.items():
            if result in (Result.LOST, Result.GONE):
                # A handler that awaits the reply gets the error there first.
                self._loop.call_later(LOST_SECONDS, active.lose)
        return results

    async def _write_logs(
        self, reports: dict[ActiveJob, _Pending]
    ) -> dict[ActiveJob, Result | None]:
        logs = [(active, list(p.lines)) for active, p in reports.items() if p.lines]
        results: dict[ActiveJob, Result | None] = {}
        for start in range(0, len(logs), LOGS_AT_ONCE):
            batch = logs[start : start + LOGS_AT_ONCE]
            replies = await asyncio.gather(*(self._write_log(*log) for log in batch))
            results.update(zip((active for active, _ in batch), replies, strict=True))
        return results

    async def _write_log(
        self, active: ActiveJob, lines: list[LogLine]
    ) -> Result | None:
        result = None
        for start in range(0, len(lines), MAX_BATCH):
            result = await self._store.log(
                active.id,
                lines[start : start + MAX_BATCH],
                created_at=active.job.created_at,
            )
        return result
