"""
KMQueue's monitor of safe queues: retries hung tasks, hands over failed ones.

Consumers that died need no monitor: their lease ends, and the maintenance of any
process that uses the queue requeues their tasks.  A pass looks at the running and the
failed tasks of its queues; several monitors may make passes at the same time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

from kue.km.manager import RETRY_TIMES, BaseBuilder, checked_times
from kue.km.records import begin_handing, end_handing, safe_queues
from kue.km.task import KMTask
from kue.model.duration import Duration, milliseconds
from kue.model.errors import ConfigError
from kue.model.job import SEALED, Error, Failed, Stalled, State
from kue.model.retry_policy import EXPIRED, expired_run
from kue.model.sealed_payload import refusal_of
from kue.store.values import Outcome, PageRequest, RemoveRequest, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.client.queue import Kue, RedisClient
    from kue.model.job import Ending, Job
    from kue.store.values import Page

logger = logging.getLogger(__name__)

#: Tasks read at a time.
PAGE = 100


class Pipeline(Protocol):
    """Receives tasks that failed for good: the dead letters."""

    def process(self, queue: str, task: KMTask) -> object: ...


class AliveDetectHandler(Protocol):
    """Decides whether a task that runs for long is still being handled."""

    def check(self, monitor: BackupQueueMonitor, task: KMTask) -> bool: ...


class MonitorReport(msgspec.Struct):
    """What one pass did, by the ids of tasks."""

    #: Given to another consumer.
    retried: list[str] = []
    #: Failed for good by this pass.
    failed: list[str] = []
    #: Overdue, and left alone because they are alive.
    alive: list[str] = []
    #: Handed to the pipeline, and removed.
    handed_over: list[str] = []


class MonitorBuilder(BaseBuilder):
    """Options of a monitor; each method returns the builder."""

    def __init__(self, where: Kue | str | RedisClient, *rest: Any) -> None:
        super().__init__(where, *rest)
        if len(self.names) != 1:
            raise ConfigError(
                "a monitor is given the one name of its queues: "
                "gen_back_up_queue_name(…)"
            )
        self.alive_ms = self.protected_ms = 0
        self.retry_times = RETRY_TIMES
        self.pipeline: Pipeline | None = None
        self.alive_detect_handler: AliveDetectHandler | None = None

    def set_alive_timeout(self, timeout: Duration) -> Self:
        """Fail a running task that was pushed longer ago; 0 for no limit."""
        self.alive_ms = milliseconds(timeout, field="alive timeout")
        return self

    def set_protected_timeout(self, timeout: Duration) -> Self:
        """Retry a task that was popped longer ago; 0 for no limit."""
        self.protected_ms = milliseconds(timeout, field="protected timeout")
        return self

    def set_retry_times(self, number: int) -> Self:
        """Retry a task *number* times at most."""
        self.retry_times = checked_times(number)
        return self

    def set_pipeline(self, pipeline: Pipeline | None) -> Self:
        """Hand tasks that failed for good to *pipeline*, and remove them."""
        self.pipeline = pipeline
        return self

    def register_alive_detect_handler(self, handler: AliveDetectHandler | None) -> Self:
        """Ask *handler* before a task is retried; None retries without asking."""
        self.alive_detect_handler = handler
        return self

    def build(self) -> BackupQueueMonitor:
        return BackupQueueMonitor(self)


class BackupQueueMonitor:
    """Monitors the safe queues that a manager has declared."""

    Builder = MonitorBuilder

    def __init__(self, builder: MonitorBuilder) -> None:
        self._options = builder
        self.q = builder.queue()
        self.name: str = builder.names[0]

    def monitor(self) -> MonitorReport:
        """
        Make one pass, and return what it did; to be called again and again.

        The pipeline and the alive-detect handler are called in this thread, and so may
        block.

        Raises:
            ConfigError: No manager has declared these queues.
        """
        report = MonitorReport()
        for queue in self.q.sync.call(self._begin):
            for job in self._jobs(State.ACTIVE, queue):
                self._look_at(job, report)
            if self._options.pipeline is not None:
                for job in self._jobs(State.FAILED, queue):
                    self._hand_over(job, self._options.pipeline, report)
        return report

    def close(self) -> None:
        """Disconnect, unless the queue was given."""
        if self._options.is_owner:
            self.q.sync.close()

    async def _begin(self, q: Kue) -> list[str]:
        """Return the queues to look at, after the maintenance that is due."""
        queues = await safe_queues(q, self.name)
        settings = q.settings
        while (await q.store.tend(keep=settings.keep, lease=settings.lease)).more:
            pass
        return queues

    def _jobs(self, state: State, queue: str) -> Iterator[Job]:
        cursor: str | None = None
        while True:
            page = self.q.sync.call(_page, state, queue, cursor)
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

    def _look_at(self, job: Job, report: MonitorReport) -> None:
        """Retry a running task, fail it, or leave it alone: one of these."""
        ending = self._ending(job, self.q.sync.call(_now), report)
        if ending is None:
            return
        # By its token: a task that was finished in the meantime is left alone.
        if self.q.sync.call(_settle, job, ending) is Result.DONE:
            done = report.retried if isinstance(ending, Stalled) else report.failed
            done.append(KMTask.of(job).id)

    def _ending(self, job: Job, now: int, report: MonitorReport) -> Ending | None:
        options = self._options
        if options.alive_ms and now - job.created_at > options.alive_ms:
            return Failed(Error(EXPIRED.kind, expired_run(options.alive_ms)))
        popped_at = job.started_at or now
        if not options.protected_ms or now - popped_at <= options.protected_ms:
            return None
        task = KMTask.of(job)
        handler = options.alive_detect_handler
        if handler is not None and handler.check(self, task):
            report.alive.append(task.id)
            return None
        error = Error("ProtectedTimeout", "it was not finished in its protected time")
        return Failed(error) if job.stalls >= options.retry_times else Stalled(error)

    def _hand_over(self, job: Job, pipeline: Pipeline, report: MonitorReport) -> None:
        if job.spec.sealed == SEALED:
            # It stays: the pipeline would get nothing of its data, which is then gone.
            logger.error(
                "job %d is not handed to the pipeline: %s", job.id, refusal_of(job.spec)
            )
            return
        if not self.q.sync.call(begin_handing, job):
            return
        task = KMTask.of(job)
        try:
            pipeline.process(job.type, task)
        except Exception:
            logger.exception("the pipeline raised for task %s", task.id)
            self.q.sync.call(end_handing, job)
            return
        report.handed_over.append(task.id)
        # The note that it was handed over stays for a while: another monitor may have
        # read the task before it is removed.
        self.q.sync.call(_remove, job)


async def _page(q: Kue, state: State, queue: str, cursor: str | None) -> Page:
    request = PageRequest(state=state, type=queue, limit=PAGE, cursor=cursor)
    return await q.store.page(request)


async def _now(q: Kue) -> int:
    return await q.store.now()


async def _settle(q: Kue, job: Job, ending: Ending) -> Result:
    [result] = await q.store.settle([Outcome(job, ending)])
    return result


async def _remove(q: Kue, job: Job) -> None:
    await q.store.remove(RemoveRequest([job.id], states={State.FAILED}))
