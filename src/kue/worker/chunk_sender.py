"""
Chunks of runs, appended to their streams in batches.

While one call is in flight, the next collects.  Unlike progress, no chunk is dropped:
the call is repeated through an outage, and a run that sends faster than the store
writes waits for room.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kue.aio.coalesced_calls import CoalescedCalls
from kue.model.errors import JobNotFound, LeaseLost, StoreCorrupt, StreamFull
from kue.model.stream import MAX_CHUNKS, MAX_STREAM, SentChunks
from kue.store.values import MAX_BATCH, MAX_CALL_BYTES, Result

if TYPE_CHECKING:
    from msgspec import Raw

    from kue.aio.retry import StoreRetry
    from kue.model.job import Job
    from kue.store.contract import Store
    from kue.worker.active_job import ActiveJob

#: A run waits while it has more chunks, or bytes of them, that are not written.
ROOM_CHUNKS, ROOM_BYTES = 250, 64 * 1024
#: How long a run that was lost may take to end by itself.
LOST_SECONDS = 0.1
#: How long a run that did not succeed may take to write its last chunks.
LAST_SECONDS = 5.0


class StreamLimits(NamedTuple):
    """How many chunks a run may send, and how many bytes of JSON in all."""

    chunks: int = MAX_CHUNKS
    size: int = MAX_STREAM


class Outbox:
    """The chunks that one run has sent and that are not written yet."""

    def __init__(self, job: Job, limits: StreamLimits) -> None:
        self._job = job
        self._limits = limits
        self._unwritten: deque[Raw] = deque()
        self._unwritten_bytes = 0
        self._written = 0
        #: Bytes of all chunks.
        self._size = 0
        self._error: Exception | None = None
        self._change: asyncio.Future[Result | None] | None = None

    def add(self, chunk: Raw) -> None:
        """
        Take a chunk.

        Raises:
            StreamFull: It would be more than the limits allow.
            LeaseLost, JobNotFound, StoreError: Earlier chunks could not be written.
        """
        if self._error is not None:
            raise self._error
        self._check_limits(len(chunk))
        self._unwritten.append(chunk)
        self._unwritten_bytes += len(chunk)
        self._size += len(chunk)

    def _check_limits(self, size: int) -> None:
        job_id, limits = self._job.id, self._limits
        if self._written + len(self._unwritten) >= limits.chunks:
            raise StreamFull(
                f"job {job_id} has sent {limits.chunks:,} chunks, which is the limit; "
                "send fewer and larger ones, or raise max_chunks (KUE_MAX_CHUNKS)"
            )
        if self._size + size > limits.size:
            raise StreamFull(
                f"the stream of job {job_id} would have more than {limits.size:,} "
                "bytes, which is the limit; keep large things elsewhere and send a "
                "reference, or raise max_stream (KUE_MAX_STREAM)"
            )

    @property
    def room(self) -> asyncio.Future[Result | None] | None:
        """Done once more chunks are written; None if there is room already."""
        is_full = len(self._unwritten) >= ROOM_CHUNKS
        if not is_full and self._unwritten_bytes < ROOM_BYTES:
            return None
        return self._changed()

    def next_part(self, chunks: int, size: int) -> SentChunks:
        """Return what to write next: at most *chunks*, and about *size* bytes."""
        values: list[Raw] = []
        for value in islice(self._unwritten, chunks):
            size -= len(value)
            if size < 0 and values:
                break
            values.append(value)
        return SentChunks(self._job, self._written, values)

    def confirm(self, sent: SentChunks, word: Result) -> None:
        """Note what the store replied."""
        if word is not Result.DONE:
            self.fail(_error_of(self._job.id, word))
        elif self._error is None:
            for value in sent.values:
                self._unwritten.popleft()
                self._unwritten_bytes -= len(value)
            self._written += len(sent.values)
            self._notify()

    def fail(self, error: Exception) -> None:
        """Drop what is not written, and refuse more."""
        self._error = self._error or error
        self._unwritten.clear()
        self._notify()

    async def flush(self) -> None:
        """Return once all chunks are written; raise what prevents it."""
        while self._unwritten:
            await asyncio.shield(self._changed())
        if self._error is not None:
            raise self._error

    async def finish(self) -> None:
        """Write what is left, for a limited time, and drop the rest."""
        # A run that did not succeed has its own ending.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LAST_SECONDS):
                await self.flush()
        self.fail(RuntimeError(f"job {self._job.id} sends chunks after its run"))

    def _changed(self) -> asyncio.Future[Result | None]:
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    def _notify(self) -> None:
        change, self._change = self._change, None
        if change is not None and not change.done():
            change.set_result(None)


def _error_of(job_id: int, word: Result) -> Exception:
    if word is Result.LOST:
        return LeaseLost(job_id)
    if word is Result.GONE:
        return JobNotFound(job_id)
    return StoreCorrupt(
        f"chunks that job {job_id} has sent are missing in its stream: the store lost "
        "writes, or they were deleted; another run has to send all of them again"
    )


class ChunkSender:
    """Writes the chunks of one worker's runs; only used on its event loop."""

    def __init__(
        self, store: Store, store_retry: StoreRetry, limits: StreamLimits
    ) -> None:
        self._store = store
        self._store_retry = store_retry
        self._limits = limits
        #: Those with chunks to write, the one that has waited longest first.
        self._waiting: dict[Outbox, ActiveJob] = {}
        # The worker's own context: records logged while sending are not the job's.
        self._calls = CoalescedCalls(
            self._write_all, "kue chunks", context=contextvars.copy_context()
        )

    def add(self, active: ActiveJob, chunk: Raw) -> Outbox:
        """Have a chunk written; raises as `Outbox.add` does."""
        if active.outbox is None:
            active.outbox = Outbox(active.job, self._limits)
        active.outbox.add(chunk)
        self._waiting.setdefault(active.outbox, active)
        self._calls.start()
        return active.outbox

    async def _write_all(self) -> None:
        while parts := self._next_parts():
            try:
                words = await self._store_retry.outlast(
                    "chunks", lambda: self._store.append_chunks([*parts.values()])
                )
            except Exception as exc:
                for outbox in parts:
                    outbox.fail(exc)
            else:
                for (outbox, part), word in zip(parts.items(), words, strict=True):
                    outbox.confirm(part, word)
                    if word in (Result.LOST, Result.GONE):
                        self._lose(self._waiting[outbox])

    def _lose(self, active: ActiveJob) -> None:
        # A handler that sends more gets the error there first.
        asyncio.get_running_loop().call_later(LOST_SECONDS, active.lose)

    def _next_parts(self) -> dict[Outbox, SentChunks]:
        """Return what the next call writes."""
        parts: dict[Outbox, SentChunks] = {}
        chunks, size = MAX_BATCH, MAX_CALL_BYTES
        for outbox in [*self._waiting]:
            part = outbox.next_part(chunks, size)
            chunks -= len(part.values)
            size -= sum(map(len, part.values))
            if part.values:
                parts[outbox] = part
                # Behind the others, if it has more.
                self._waiting[outbox] = self._waiting.pop(outbox)
            else:
                del self._waiting[outbox]
            if chunks <= 0 or size <= 0:
                break
        return parts
