"""
Callback API of the queue.

Every verb takes, as its last argument, a ``handler(result, error)``: one of the two is
None.  It is called on the event loop that ran when the verb was called, and may be a
coroutine function.  What it raises is logged and affects nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from kue.aio.callbacks import awaited, is_async
from kue.aio.tasks import BackgroundTasks
from kue.client.queue import Kue
from kue.vertx.job_service import JobService
from kue.worker.handler_adapters import HandlerError, in_thread

if TYPE_CHECKING:
    from kue.client.builder import JobBuilder
    from kue.client.handle import JobHandle
    from kue.client.subscriptions import Callback
    from kue.model.payload import JSON
    from kue.worker import ActiveJob

logger = logging.getLogger(__name__)

#: ``handler(result, error)``.
Reply = Callable[[Any, Exception | None], object]
#: ``handler(job)``, which ends the run with `job_done` or `job_done_fail`.
Work = Callable[["ActiveJob"], object]


class CallbackKue:
    """
    A queue whose verbs call back.

    `process` starts to run jobs at once; `close` ends that.
    """

    def __init__(self, q: Kue) -> None:
        self._q = q
        self._service = JobService(q)
        self._background = BackgroundTasks()
        #: Runs without an outcome yet, by job and fence.
        self._runs: dict[tuple[int, int], asyncio.Future[tuple[Any, Any]]] = {}

    @classmethod
    def create_kue(cls, url: str | None = None, **settings: Any) -> Self:
        """Create a queue; the arguments are those of `Kue`."""
        return cls(Kue(url, **settings))

    def close(self, handler: Reply | None = None) -> None:
        """Requeue running jobs, and close the queue."""
        self._call(handler or (lambda result, error: None), self._q.close)

    # -- jobs ------------------------------------------------------------------

    def create_job(self, type: str, data: JSON = None) -> JobBuilder:
        """Begin a job; `save_job` stores it."""
        return self._q.create_job(type, data)

    def save_job(self, job: JobBuilder, handler: Reply) -> None:
        """Store a job; the result is its handle."""
        self._call(handler, job.save)

    def on(self, event: str, callback: Callback) -> Self:
        """Call *callback* with each such event of any job; see `Kue.on`."""
        self._q.on(event, callback)
        return self

    def job_progress(
        self,
        job: ActiveJob | JobHandle[Any],
        complete: float,
        total: float,
        handler: Reply,
    ) -> None:
        """Report the progress of a job; the result is the job."""

        async def report() -> object:
            await job.progress(complete, total)
            return job

        self._call(handler, report)

    # -- running jobs ----------------------------------------------------------

    def process(self, type: str, n: int, handler: Work) -> None:
        """Run jobs of *type* on the event loop, up to *n* at once."""

        async def call(job: Any) -> None:
            await awaited(handler(job))

        self._work(type, n, call)

    def process_blocking(self, type: str, n: int, handler: Work) -> None:
        """Run jobs of *type* in up to *n* threads."""
        if is_async(handler):
            raise TypeError(f"{handler!r} never blocks; use process({type!r}, …)")
        self._work(type, n, in_thread(handler))

    def job_done(self, job: ActiveJob, result: JSON = None) -> None:
        """Let a run succeed, from any thread; only the first call counts."""
        self._end(job, result, None)

    def job_done_fail(self, job: ActiveJob, error: object) -> None:
        """Let a run fail, from any thread."""
        is_error = isinstance(error, Exception)
        self._end(job, None, error if is_error else HandlerError(str(error)))

    def _work(self, type: str, n: int, call: Callable[[Any], Awaitable[Any]]) -> None:
        async def run(job: ActiveJob) -> JSON:
            # Before the handler begins: it may end the run at once.
            outcome = asyncio.get_running_loop().create_future()
            self._runs[job.id, job.fence] = outcome
            try:
                await call(job)
                result, error = await outcome
            finally:
                del self._runs[job.id, job.fence]
            if error is not None:
                raise error
            return result

        asyncio.get_running_loop()
        self._q.process(type, n, run)
        self._background.start(self._run(type), f"kue {type}")

    async def _run(self, type: str) -> None:
        try:
            await self._q.run(signals=False, types=[type])
        except Exception:
            logger.exception("jobs of type %r are no longer run", type)

    def _end(self, job: ActiveJob, result: JSON, error: object) -> None:
        outcome = self._runs.get((job.id, job.fence))
        if outcome is not None:
            outcome.get_loop().call_soon_threadsafe(_settle, outcome, (result, error))

    # -- the JobService --------------------------------------------------------

    def get_job(self, id: int, handler: Reply) -> None:
        self._call(handler, self._service.get_job, id)

    def remove_job(self, id: int, handler: Reply) -> None:
        self._call(handler, self._service.remove_job, id)

    def exists_job(self, id: int, handler: Reply) -> None:
        self._call(handler, self._service.exists_job, id)

    def get_job_log(self, id: int, handler: Reply) -> None:
        self._call(handler, self._service.get_job_log, id)

    def job_range_by_state(
        self, state: str, from_: int, to: int, order: str, handler: Reply
    ) -> None:
        self._call(handler, self._service.job_range_by_state, state, from_, to, order)

    def job_range_by_type(
        self, type: str, state: str, from_: int, to: int, order: str, handler: Reply
    ) -> None:
        self._call(
            handler, self._service.job_range_by_type, type, state, from_, to, order
        )

    def job_range(self, from_: int, to: int, order: str, handler: Reply) -> None:
        self._call(handler, self._service.job_range, from_, to, order)

    def card_by_type(self, type: str, state: str, handler: Reply) -> None:
        self._call(handler, self._service.card_by_type, type, state)

    def card(self, state: str, handler: Reply) -> None:
        self._call(handler, self._service.card, state)

    def complete_count(self, type: str | None, handler: Reply) -> None:
        self._call(handler, self._service.complete_count, type)

    def failed_count(self, type: str | None, handler: Reply) -> None:
        self._call(handler, self._service.failed_count, type)

    def inactive_count(self, type: str | None, handler: Reply) -> None:
        self._call(handler, self._service.inactive_count, type)

    def active_count(self, type: str | None, handler: Reply) -> None:
        self._call(handler, self._service.active_count, type)

    def delayed_count(self, type: str | None, handler: Reply) -> None:
        self._call(handler, self._service.delayed_count, type)

    def get_all_types(self, handler: Reply) -> None:
        self._call(handler, self._service.get_all_types)

    def get_ids_by_state(self, state: str, handler: Reply) -> None:
        self._call(handler, self._service.get_ids_by_state, state)

    def get_work_time(self, handler: Reply) -> None:
        self._call(handler, self._service.get_work_time)

    # -- calling back ----------------------------------------------------------

    def _call(
        self, handler: Reply, verb: Callable[..., Awaitable[Any]], *args: Any
    ) -> None:
        asyncio.get_running_loop()
        self._background.start(_reply(handler, verb, args), "kue callback")


async def _reply(
    handler: Reply, verb: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
) -> None:
    result, error = None, None
    try:
        result = await verb(*args)
    except Exception as exc:
        error = exc
    try:
        await awaited(handler(result, error))
    except Exception:
        logger.exception("callback %r raised", handler)


def _settle(outcome: asyncio.Future[Any], value: tuple[Any, Any]) -> None:
    if not outcome.done():
        outcome.set_result(value)
