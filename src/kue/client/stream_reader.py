"""
Reading the stream of a job: from a position, and live until the job ends.

Chunks are read from the store; events only announce them.  So a reader that comes late
or misses an event misses no chunk, and it reads none twice: it knows its position.  A
job with ``remove_on_complete`` leaves nothing to read, so its events have the chunks.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from kue.model.errors import JobNotFound, StoreUnavailable, StreamRestarted
from kue.model.events import Event, Kind
from kue.model.job import State
from kue.model.stream import MAX_CHUNKS, Chunk, Position

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kue.client.handle import JobHandle
    from kue.model.job import Job
    from kue.store.contract import Events

#: How often the stream of a job whose events are off is read.
QUIET_SECONDS = 0.5
#: There may be more, of an unknown number.
_UNKNOWN = Position(sys.maxsize)


class StreamReader:
    """Reads the stream of one job, once; *timeout* is the longest silence, in s."""

    def __init__(
        self, handle: JobHandle[Any], after: Position, timeout: float | None
    ) -> None:
        self._handle = handle
        self._store = handle._connection.store
        self._position = after
        #: The position after the newest chunk that is known to be there.
        self._announced = _UNKNOWN
        self._timeout = timeout
        self._deadline: float | None = None

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of one run; raise as `JobHandle.chunks` does."""
        self._restart_clock()
        # Unread events of a job that leaves nothing to read must not be dropped.
        async with self._store.watch([self._handle.id], buffer=MAX_CHUNKS) as events:
            # Read only after subscribing: an earlier end was not sent to us.
            job = await self._handle.refresh()
            while True:
                while page := await self._page(job):
                    for chunk in page:
                        yield chunk
                    self._restart_clock()
                if job.state.is_final:
                    self._check_end(job)
                    return
                news = await self._news(events, job)
                while isinstance(news, list):
                    for chunk in news:
                        yield chunk
                    self._restart_clock()
                    news = await self._news(events, job)
                if news is None:
                    return
                job = news

    def _restart_clock(self) -> None:
        if self._timeout is not None:
            self._deadline = asyncio.get_running_loop().time() + self._timeout

    async def _page(self, job: Job) -> list[Chunk]:
        """Return chunks that can be read now; none if there are no more."""
        if self._position >= self._announced and not job.state.is_final:
            return []
        found = await self._store.chunks(self._handle.id, self._position)
        page = self._accept(found, job)
        if not page and self._announced is _UNKNOWN:
            self._announced = self._position
        return page

    def _accept(self, found: list[Chunk], job: Job) -> list[Chunk]:
        """Return chunks that follow the position, which is then after them."""
        if not found:
            return []
        run = found[0].run
        if self._position.run not in (0, run):
            raise StreamRestarted(self._handle.id)
        if not self._position.run and run < _least_run(job):
            return []
        self._position = found[-1].next
        return found

    def _check_end(self, job: Job) -> None:
        if job.state is not State.COMPLETE:
            # Raises how it ended.
            self._handle._read_result(job)
        elif 0 < self._position.run < _least_run(job):
            # The run that succeeded sent no chunks.
            raise StreamRestarted(self._handle.id)

    # -- waiting ---------------------------------------------------------------

    async def _news(self, events: Events, job: Job) -> list[Chunk] | Job | None:
        """
        Wait for chunks, or for a job whose stream is to be read.

        None when the job has ended and left nothing to read.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                if job.spec.quiet:
                    await asyncio.sleep(QUIET_SECONDS)
                    self._announced = _UNKNOWN
                    return await self._handle.refresh()
                while (event := await anext(events, None)) is not None:
                    if event.kind is Kind.CHUNK:
                        if (news := self._announce(event, job)) != []:
                            return news
                    elif event.kind.is_final or event.kind is Kind.LAGGED:
                        return await self._look(event)
        except TimeoutError:
            raise TimeoutError(
                f"job {self._handle.id} sent no chunk and did not end within "
                f"{self._timeout:g} s"
            ) from None
        raise StoreUnavailable(
            f"the queue was closed while the stream of job {self._handle.id} was read"
        )

    def _announce(self, event: Event, job: Job) -> list[Chunk] | Job:
        """Return the chunks of an event; the job if they have to be read."""
        run, start = event.detail["run"], event.detail["start"]
        values = event.detail.get("values")
        end = Position(run, start + event.detail["number"])
        if end <= self._position or run < _least_run(job):
            return []
        self._announced = max(self._announced, end)
        known = self._position.start if self._position.run == run else 0
        if values is None or start > known:
            return job
        chunks = [
            Chunk(run, index, event.attempt, event.at, value)
            for index, value in enumerate(values, start)
        ]
        return self._accept(chunks[known - start :], job)

    async def _look(self, event: Event) -> Job | None:
        """Return the job as it is after *event*."""
        if event.kind is Kind.LAGGED:
            self._announced = _UNKNOWN
            return await self._handle.refresh()
        job = await self._handle._fetch()
        is_read = self._position >= self._announced
        if job is None and not (event.kind is Kind.COMPLETE and is_read):
            raise JobNotFound(self._handle.id)
        return job


def _least_run(job: Job) -> int:
    """Return the run whose chunks count: those of earlier ones were superseded."""
    if job.token:
        return job.fence
    runs = [attempt.run for attempt in job.history]
    last = max((run.fence for run in runs if run is not None), default=0)
    return last if job.state.is_final else last + 1
