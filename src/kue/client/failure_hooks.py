"""Failure hooks: the handler of the jobs that call them, wherever the job failed."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from kue.aio.callbacks import awaited
from kue.model.errors import Fail, Release, Skip
from kue.store.values import Failure
from kue.worker.failure_reporter import TYPE
from kue.worker.lane import Processor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kue.client.hooks import FailureHook
    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.worker.active_run import ActiveRun

    HooksOf = Callable[[str], Sequence[FailureHook]]

logger = logging.getLogger(__name__)

#: How many are called at once by one worker.
SLOTS = 10
#: How long a job waits for a worker that has its hooks, doubled each time up to this.
MAX_WAIT_SECONDS = 60


def processor(store: Store, hooks_of: HooksOf) -> Processor:
    """Return the built-in handler that calls the hooks of failed jobs."""

    async def call(run: ActiveRun) -> JSON:
        failure = _failure(run.job)
        [job] = await store.get([failure.job_id])
        failed = failure.of(job)
        if failed is None:
            raise Skip(f"job {failure.job_id} was removed before its hooks were called")
        hooks = hooks_of(failed.name)
        if not hooks:
            # Another program has them, which shares this store.
            wait = min(MAX_WAIT_SECONDS, 2 ** min(run.job.releases, 6))
            raise Release(
                timedelta(seconds=wait),
                reason=f"this worker has no failure hooks for {failed.name!r}",
            )
        await _call(run, hooks, failed)
        return None

    return Processor(TYPE, SLOTS, call)


async def _call(run: ActiveRun, hooks: Sequence[FailureHook], failed: Job) -> None:
    """Call the hooks in order; the next attempt calls those again that raised."""
    done = _done_before(run.job)
    raised: Exception | None = None
    for number, hook in enumerate(hooks):
        if number in done:
            continue
        error = await call_hook(hook, failed)
        if error is None:
            done.append(number)
        raised = raised or error
    if raised is not None:
        run.progress(len(done), len(hooks), {"done": done})
        raise raised


async def call_hook(hook: FailureHook, failed: Job) -> Exception | None:
    """Call one hook; return what it raised, which is logged."""
    assert failed.error is not None
    try:
        await awaited(hook(failed, failed.error))
    except Exception as exc:
        logger.exception("failure hook %r raised", hook, extra={"job_id": failed.id})
        return exc
    return None


def _failure(job: Job) -> Failure:
    try:
        return msgspec.convert(job.data, Failure)
    except msgspec.ValidationError as exc:
        raise Fail(f"this is not a failure of a job: {exc}") from None


def _done_before(job: Job) -> list[int]:
    """Return the numbers of the hooks that earlier attempts called."""
    for attempt in reversed(job.history):
        data = attempt.progress.data if attempt.progress else None
        if isinstance(data, dict) and isinstance(data.get("done"), list):
            return [int(number) for number in data["done"]]
    return []
