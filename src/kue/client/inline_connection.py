"""
Inline connection, of ``sync://``: the caller that adds a job runs it before it returns.

Jobs are kept in memory and claimed, run and settled as a worker does it, so that
retries, middleware, hooks, results and events are what they are elsewhere.  No time is
spent on waiting: a delay and the backoff between attempts are skipped.  A job that a
limit holds back, that waits for others or that is released stays as it is.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kue.client.batch_handle import JobFlows
from kue.client.connection import Connection
from kue.client.failure_hooks import call_hook
from kue.model.job import PROMOTABLE, Failed, Released, Retried, State, with_progress
from kue.store.values import Claim, ClaimRequest, MoveRequest, Outcome, error_line_of
from kue.worker import log_capture
from kue.worker.active_run import ActiveRun
from kue.worker.current_job import CURRENT
from kue.worker.executor import execute
from kue.worker.flow_jobs import processors
from kue.worker.run_services import RunServices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kue.client.hooks import Hooks
    from kue.client.registry import HandlerRegistry
    from kue.model.job import Draft, Ending, Job
    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.store.values import Added

URL = "sync://"
#: Nobody renews a lease here.
LEASE_MS = 365 * 86_400_000
#: A job that is released without a delay would be claimed again and again.
RELEASED_MS = 1_000


class _NoLane:
    """Stands for the lane of a run: here each run belongs to its caller."""

    def abandon(self, run: ActiveRun) -> None: ...
    def pause(self, by: str) -> None: ...
    def resume(self, by: str) -> None: ...


class InlineConnection(Connection):
    """A connection that runs what is added."""

    def __init__(
        self, store: Store, settings: Settings, handlers: HandlerRegistry, hooks: Hooks
    ) -> None:
        super().__init__(store, settings)
        self._handlers = handlers
        self._hooks = hooks
        self._worker = f"sync-{secrets.token_hex(4)}"
        self._claims = 0
        #: Handlers of what Kue itself adds to flows.
        self._flow_jobs = {one.type: one.handler for one in processors(store)}
        self._services: RunServices | None = None
        #: Jobs that run now, in this task or in others.
        self._running: dict[int, asyncio.Event] = {}

    def twin(self) -> InlineConnection:
        store = self.store.twin()
        return InlineConnection(store, self.settings, self._handlers, self._hooks)

    async def _add(self, draft: Draft, *, durable: bool) -> Added:
        added = await super()._add(draft, durable=durable)
        await self.run_added([draft.type], [added])
        return added

    async def add_batch(
        self, drafts: Sequence[Draft], *, durable: bool = False
    ) -> list[Added]:
        added = await super().add_batch(drafts, durable=durable)
        await self.run_added((draft.type for draft in drafts), added)
        return added

    async def close(self) -> None:
        """Release what runs have used, too."""
        for resource in self._handlers.resources:
            await resource.close()
        if self._services is not None:
            await self._services.close()
        await super().close()

    async def run_added(self, types: Iterable[str], added: Sequence[Added]) -> None:
        ids = [one.id for one in added if one.new]
        await self._promote(ids, frozenset({State.DELAYED}))
        queues = [*types, *self._handlers.own_queues, *self._flow_jobs]
        while job := await self._claim(list(dict.fromkeys(queues))):
            await self._run(job)
        for job_id in ids:
            # Another task of the program may have claimed it.
            if is_done := self._running.get(job_id):
                await is_done.wait()

    async def _promote(self, ids: list[int], states: frozenset[State]) -> None:
        if ids:
            await self.store.move(MoveRequest(ids, State.WAITING, states=states))

    async def _claim(self, queues: list[str]) -> Job | None:
        # Each claim has its own lane: those of tasks at the same time may overtake.
        self._claims += 1
        claim = Claim(f"inline{self._claims}", 1)
        request = ClaimRequest(queues, 1, self._worker, claim, LEASE_MS)
        claimed = await self.store.claim(request)
        return claimed.jobs[0] if claimed.jobs else None

    async def _run(self, job: Job) -> None:
        is_done = self._running[job.id] = asyncio.Event()
        try:
            ending = await self._ending(job)
            if ending is not None:
                await self._settle(Outcome(job, ending))
        finally:
            del self._running[job.id]
            is_done.set()

    async def _ending(self, job: Job) -> Ending | None:
        if self._services is None:
            self._services = RunServices(self.store, self.settings, JobFlows(self))
        run = ActiveRun(job, self._services, _NoLane())
        with ExitStack() as stack:
            if self.settings.capture:
                stack.enter_context(log_capture.captured())
            # In its own task: the end of a run must not cancel its caller.
            ending = await asyncio.create_task(self._execute(run))
        if run.partial:
            log_capture.finish(run)
        if ending is not None and (line := error_line_of(Outcome(job, ending))):
            self._services.progress_sender.send(run, line)
        await self._services.progress_sender.flush(run)
        if ending is not None and run.reached is not None:
            ending = with_progress(ending, run.reached.percent, run.reached.data)
        return ending

    async def _execute(self, run: ActiveRun) -> Ending | None:
        CURRENT.set(run)
        handler = self._flow_jobs.get(run.type) or self._handlers.handler(run.name)
        return await execute(run, handler)

    async def _settle(self, outcome: Outcome) -> None:
        ending = outcome.ending
        if isinstance(ending, Released) and not ending.delay:
            outcome = Outcome(outcome.job, replace(ending, delay=RELEASED_MS))
        await self.store.settle([outcome])
        if isinstance(ending, Retried):
            await self._promote([outcome.job.id], PROMOTABLE)
        if isinstance(ending, Failed):
            await self._call_failure_hooks(outcome.job)

    async def _call_failure_hooks(self, job: Job) -> None:
        hooks = self._handlers.failure_hooks(job.name, self._hooks.failure)
        [failed] = await self.store.get([job.id]) if hooks else [None]
        if failed is not None:
            for hook in hooks:
                await call_hook(hook, failed)
