"""Running jobs in a test: everything that is due, until nothing is left to do."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from kue.client.declared_schedules import reconcile
from kue.client.sync import SyncKue
from kue.client.task import TaskCalls
from kue.model.duration import Duration, milliseconds
from kue.model.errors import ConfigError, JobFailed
from kue.model.job import UNKNOWN_ERROR, State
from kue.store.values import MAX_BATCH, Claim, ClaimRequest, PageRequest
from kue.testing.clock import Clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable

    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.worker import ActiveJob, Worker

#: More runs than any test needs: a job that adds itself would never end.
MAX_JOBS = 10_000
#: How long to let the event loop work before the worker is asked again.
MOMENT_SECONDS = 0.001


class _Options(NamedTuple):
    types: list[str] | None
    advance: int | None
    raise_errors: bool
    max_jobs: int


@overload
def run_all(
    q: Kue,
    *,
    types: Iterable[str | TaskCalls[..., Any]] | None = ...,
    advance: Duration | None = ...,
    raise_errors: bool = ...,
    max_jobs: int = ...,
) -> Coroutine[Any, Any, int]: ...
@overload
def run_all(
    q: SyncKue,
    *,
    types: Iterable[str | TaskCalls[..., Any]] | None = ...,
    advance: Duration | None = ...,
    raise_errors: bool = ...,
    max_jobs: int = ...,
) -> int: ...
def run_all(
    q: Kue | SyncKue,
    *,
    types: Iterable[str | TaskCalls[..., Any]] | None = None,
    advance: Duration | None = None,
    raise_errors: bool = True,
    max_jobs: int = MAX_JOBS,
) -> Coroutine[Any, Any, int] | int:
    """
    Run all jobs that are due, and those that they add; return how many runs it took.

    A worker of this process runs them, with middleware, hooks and resources.  ``await``
    it; with ``q.sync`` it blocks instead.

    Args:
        types: Only jobs of these tasks; else of all.
        advance: Set the `Clock` of the queue forward by so much, from one moment at
            which something is due to the next, and run what is due at each.
        raise_errors: Raise what a job raised that has failed for good, or an
            `ExceptionGroup` if several have.  Errors before a retry are not raised.
        max_jobs: Give up after so many runs.

    Raises:
        ConfigError: *advance* is given, and the queue has no `Clock`.
        RuntimeError: There were *max_jobs* runs, and more jobs are due.
    """
    names = None if types is None else [_name(one) for one in types]
    ahead = None if advance is None else milliseconds(advance, field="advance")
    options = _Options(names, ahead, raise_errors, max_jobs)
    if isinstance(q, SyncKue):
        return q.call(lambda queue: _run_all(queue, options))
    return _run_all(q, options)


def _name(one: str | TaskCalls[..., Any]) -> str:
    return one.name if isinstance(one, TaskCalls) else one


async def _run_all(q: Kue, options: _Options) -> int:
    clock = q.clock
    if options.advance is not None and not isinstance(clock, Clock):
        raise ConfigError(
            f"{q!r} has no clock to set forward: pass Kue(…, clock=clock), or use "
            "fake(q, clock=clock)"
        )
    store = q.store
    # A worker does so in the background.
    await reconcile(store, q._handlers.schedules, q._handlers.modules)
    before = {job.id for job in await _failed(store)} if options.raise_errors else set()
    runs = 0
    async with _raised_errors(q) as errors:
        is_done = False
        while not is_done:
            async with q.work(types=options.types) as worker:
                drain = _Drain(store, worker, options.max_jobs - runs)
                await drain.run(clock, options.advance)
            runs += worker.done
            options = options._replace(advance=None)
            # Stopping requeues what was claimed at the last moment.
            is_done = not await store.wait(worker.types, 0)
    if options.raise_errors:
        _raise([job for job in await _failed(store) if job.id not in before], errors)
    return runs


class _Drain:
    """Lets *worker* run what is due."""

    def __init__(self, store: Store, worker: Worker, max_jobs: int) -> None:
        self._store = store
        self._worker = worker
        self._max_jobs = max_jobs

    async def run(self, clock: Any, advance: int | None) -> None:
        await self._run_due()
        if advance is None:
            return
        end = clock.now_ms() + advance
        while clock.now_ms() < end:
            moment = await self._next_moment(clock.now_ms(), end)
            clock.advance(timedelta(milliseconds=moment - clock.now_ms()))
            await self._run_due()

    async def _run_due(self) -> None:
        """Return when nothing is left to do now."""
        await self._tend()
        while not await self._is_quiet():
            if self._worker.is_stopping:
                break
            if self._worker.done > self._max_jobs:
                raise RuntimeError(
                    f"there were {self._worker.done:,} runs, and more jobs are due; "
                    "does a job add itself, or release itself without a delay?"
                )
            await asyncio.sleep(MOMENT_SECONDS)

    async def _is_quiet(self) -> bool:
        if not await self._worker.is_quiet():
            return False
        # Jobs of a claim that was answered just now are started by the next turn.
        await asyncio.sleep(0)
        return await self._worker.is_quiet()

    async def _tend(self) -> None:
        """Fire schedules, expire jobs, and promote what is due."""
        now = await self._store.now()
        while (await self._store.tend(now=now)).more:
            pass

    async def _next_moment(self, now: int, end: int) -> int:
        """Return when the next job or schedule is due, but not after *end*; Unix ms."""
        claim = Claim(secrets.token_hex(4), 1)
        # For no jobs: it returns when time alone may bring some.
        request = ClaimRequest(
            self._worker.types, 0, self._worker.name, claim, lease=60_000
        )
        schedules = await self._store.schedules()
        moments = [one.next_at for one in schedules]
        moments.append((await self._store.claim(request)).next_at)
        # What was due has run; what could not will not do so now.
        return min([end, *(at for at in moments if at is not None and at > now)])


@asynccontextmanager
async def _raised_errors(q: Kue) -> AsyncIterator[dict[int, Exception]]:
    """Yield what the last run of each job raised, by id, as long as it lasts."""
    errors: dict[int, Exception] = {}

    async def record(job: ActiveJob, call_next: Any) -> JSON:
        try:
            result: JSON = await call_next(job)
        except Exception as exc:
            errors[job.id] = exc
            raise
        errors.pop(job.id, None)
        return result

    middleware = q._handlers.middleware
    # The outermost: it sees what the worker sees.
    middleware.insert(0, record)
    try:
        yield errors
    finally:
        middleware.remove(record)


async def _failed(store: Store) -> list[Job]:
    jobs: list[Job] = []
    request = PageRequest(State.FAILED, limit=MAX_BATCH)
    while True:
        page = await store.page(request)
        jobs += page.jobs
        if page.cursor is None:
            return jobs
        request = PageRequest(State.FAILED, limit=MAX_BATCH, cursor=page.cursor)


def _raise(failed: list[Job], errors: dict[int, Exception]) -> None:
    raised = [_error_of(job, errors.get(job.id)) for job in failed]
    if len(raised) == 1:
        raise raised[0]
    if raised:
        raise ExceptionGroup(f"{len(raised)} jobs failed", raised)


def _error_of(job: Job, error: Exception | None) -> Exception:
    if error is None:
        known = job.error or UNKNOWN_ERROR
        return JobFailed(job.id, known.kind, known.message)
    error.add_note(f"raised by job {job.id} of {job.name}, attempt {job.attempts}")
    return error
