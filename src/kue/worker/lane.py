"""
A lane of a worker: the claim loop of one type (claim, execute, settle, rest).

There are two ways to claim:

* Cycle, while there is work.  `Lane.run_loop` makes one call that settles the runs that
  have ended and claims jobs for the free slots (`Store.cycle`).  Batches form by
  themselves: while one cycle is in flight, finished runs collect for the next.  Two
  loops per lane cycle in turn, so that store and handlers work at the same time.  Low
  load gives low latency, high load gives large batches, and there is nothing to tune.
* Idle wait, when a cycle got fewer jobs than it asked for.  The lane calls `on_idle`,
  and `IdleWait` blocks in the store once for all idle lanes of the worker.  It passes
  the jobs that it gets to `Lane.receive`, or wakes the lane.

Either way the jobs are started by `_start`, run by `_run`, and their endings settled by
the next cycle.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, NamedTuple

from kue.model.job import (
    Completed,
    Error,
    Failed,
    Released,
    Retried,
    with_progress,
)
from kue.model.retry_policy import runs_alone
from kue.store.values import (
    MAX_BATCH,
    Claim,
    Claimed,
    ClaimRequest,
    Outcome,
    Result,
    error_line_of,
)
from kue.worker import log_capture
from kue.worker.active_run import ActiveRun, ClaimedRuns
from kue.worker.current_job import CURRENT
from kue.worker.executor import execute, forced_ending
from kue.worker.metrics import RunTimings
from kue.worker.queued_tasks import QueuedTask, QueuedTasks
from kue.worker.work_availability import WorkAvailability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kue.model.job import Ending, Job
    from kue.model.payload import JSON
    from kue.worker.poison_pills import PoisonPills
    from kue.worker.run_services import RunServices
    from kue.worker.shared_context import SharedContext
    from kue.worker.slots import SlotBudget, SlotClaimant

logger = logging.getLogger(__name__)

LOOPS_PER_LANE = 2
#: Endings of runs whose duration is counted, here as in the store.
_WORKED = frozenset({Completed, Failed, Retried})
#: Endings with an error.
_FAILED = frozenset({Failed, Retried})

#: Who pauses a lane unless a handler does: an operator, through the store.
BY_STORE = "store"

STOPPED = Released(reason="the worker stopped")
NO_TURN = Released(1_000, reason="its worker ran others of its task in its ttl")
#: A job with at-most-once delivery cannot be started a second time.
STOPPED_ONCE = Failed(
    Error(
        "WorkerStopped",
        "the worker stopped while it ran this job, which is delivered at most once",
    )
)
#: The same for a worker that cannot know whether its runs are still its own.  They are
#: settled all the same: if they are its own, nobody else would ever end them.
OUT_OF_TOUCH = Released(reason="the worker was out of touch with the store")
OUT_OF_TOUCH_ONCE = Failed(
    Error(
        "OutOfTouch",
        "the worker was out of touch with the store while it ran this job, which is "
        "delivered at most once",
    )
)


class Processor(NamedTuple):
    """The handler of a type, and how many jobs it runs at once."""

    type: str
    slots: int
    handler: Callable[[ActiveRun], Awaitable[JSON]]
    #: Where the handler runs: "loop", "thread" or "process".
    execution: str = "loop"
    #: Its share when types compete for slots.
    weight: int = 1
    #: Tasks whose jobs may wait in this queue, although it has another name.
    tasks: Mapping[str, QueuedTask] = {}
    #: In strict order, those with lower numbers come first.
    rank: int = 0


class LaneContext(NamedTuple):
    """What all lanes of a worker share."""

    worker: SharedContext
    run_services: RunServices
    budget: SlotBudget
    poison_pills: PoisonPills
    #: Called when the store had nothing more.
    on_idle: Callable[[], None]
    #: Called when slots are free that other lanes may need.
    on_freed: Callable[[], None]
    #: Called when no more jobs may be claimed for a lane.
    on_paused: Callable[[], None]
    #: Called for jobs that failed permanently.
    on_failed: Callable[[Outcome], None] | None
    #: Called when a job that belongs to a flow was claimed.
    on_flow: Callable[[], None]


class Lane:
    """Runs jobs of one type, never more at once than there are slots."""

    def __init__(
        self, processor: Processor, claimant: SlotClaimant, context: LaneContext
    ) -> None:
        self.processor = processor
        self.type = processor.type
        self.claimant = claimant
        self.timings = RunTimings(processor.type)
        self._context = context
        self._worker = context.worker.name
        self._lease = context.worker.settings.lease
        self._store = context.worker.store
        self._store_retry = context.worker.store_retry
        self._budget = context.budget
        self._poison_pills = context.poison_pills
        self._types = (processor.type,)
        self._tasks = QueuedTasks(processor.tasks, processor.slots)
        #: The most one cycle claims: half, so that the other loop has something to do.
        self._share = min(-(-processor.slots // LOOPS_PER_LANE), MAX_BATCH)
        self._availability = WorkAvailability()
        self._runs: dict[int, ActiveRun] = {}
        #: Earlier runs of jobs that were reclaimed and came back to us, until they end.
        self._displaced: set[ActiveRun] = set()
        self._ended: list[Outcome] = []
        self._settling = 0
        #: Slots reserved for jobs that `IdleWait` claims for us.
        self._expected = 0
        self._is_stopping = False
        self._runs_late = False
        #: Who paused it.  Until the first heartbeat it is not known whether this worker
        #: may take jobs.
        self._pauses = {BY_STORE}
        #: A run ended, work became available or we are to stop: loops look again.
        self._changed = asyncio.Event()
        #: When time alone may bring work, by the event loop's clock.
        self.due: float | None = None
        #: Runs that have begun, and those that have ended.
        self.begun = 0
        self.done = 0

    @property
    def runs(self) -> list[ActiveRun]:
        return list(self._runs.values())

    @property
    def is_busy(self) -> bool:
        """Whether handlers run whose ending is not known yet."""
        return bool(self._runs or self._displaced)

    @property
    def unsettled(self) -> int:
        """How many outcomes the store has not confirmed."""
        return len(self._ended) + self._settling

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do but to wait for the store."""
        return (
            self._availability.is_empty
            and not self._is_paused
            and not self._is_stopping
            and not self._poison_pills.is_on
        )

    @property
    def is_idle(self) -> bool:
        """Whether the store has nothing for us and nothing runs or awaits settling."""
        return self.is_empty and not self.is_busy and not self.unsettled

    @property
    def is_due(self) -> bool:
        """Whether the time has come that may bring work."""
        return self.due is not None and self.due <= asyncio.get_running_loop().time()

    @property
    def spare(self) -> int:
        """How many slots are free for one more claim."""
        return min(self.claimant.free, self._share)

    def expect(self, slots: int) -> None:
        """Reserve slots for jobs that `IdleWait` claims for us."""
        self.claimant.held += slots
        self._expected += slots

    def receive(self, jobs: Sequence[Job], claimed: Claimed, *, expected: int) -> None:
        """Start jobs claimed for *expected* slots, and free the other slots."""
        self.claimant.held -= expected - len(jobs)
        self._expected -= expected
        self._start(jobs)
        self._note_due(claimed)
        self._changed.set()

    async def run_loop(self) -> None:
        """Cycle until the lane was stopped and all runs are settled."""
        name, seq = secrets.token_hex(4), 0
        while (work := await self._next_work()) is not None:
            outcomes, room = work
            if room:
                seq += 1
                await self._cycle(outcomes, room, Claim(name, seq))
            else:
                await self._settle(outcomes)
            # Lets new runs take their first step: short ones finish here, and the very
            # next cycle settles them.
            await asyncio.sleep(0)

    def wake(self) -> None:
        """Claim again: there may be work, or slots for it."""
        # A time that passed without a job (its type is paused, say) must not make us
        # ask again and again.
        self.due = None
        self._availability.wake()
        self.claimant.may_have_work = True
        self._changed.set()

    def look_again(self) -> None:
        """Note that slots which all types share are free."""
        self._changed.set()

    @property
    def _is_paused(self) -> bool:
        return bool(self._pauses)

    def pause(self, by: str = BY_STORE) -> None:
        """Claim no more until `resume` by the same; running jobs go on."""
        if not self._pauses:
            self._context.on_paused()
        self._pauses.add(by)

    def resume(self, by: str = BY_STORE) -> None:
        if by in self._pauses:
            self._pauses.remove(by)
            self.wake()

    def stop(self, *, runs_late: bool = False) -> None:
        """
        Claim no more; the loops end once all runs are settled.

        Jobs that a claim in flight still brings are run if *runs_late*, else requeued.
        """
        self._is_stopping = True
        self._runs_late = runs_late
        self._changed.set()

    def requeue_all(self) -> None:
        """Requeue all running jobs, without spending an attempt."""
        self._end_all(STOPPED, STOPPED_ONCE)

    def cancel_all(self) -> None:
        """Cancel every run: we cannot know whether they are still ours."""
        # Logged once, though it may take them a while to end.
        going_on = sum(not run.is_interrupted for run in self._runs.values())
        if going_on:
            logger.warning(
                "the store is unreachable and the lease ends; "
                "cancelling %d running jobs of type %s",
                going_on,
                self.type,
            )
        self._end_all(OUT_OF_TOUCH, OUT_OF_TOUCH_ONCE)

    def _end_all(self, ending: Ending, once: Ending) -> None:
        for run in self._runs.values():
            is_spent = run.job.once and run.has_begun
            run.interrupt(once if is_spent else ending)
        self._poison_pills.look_again()

    def lose(self, job: Job) -> None:
        """Cancel the run of *job*, as claimed: it is no longer ours."""
        run = self._runs.get(job.id)
        # By token: by now the job may have ended and been claimed by us again.
        if run is None or self._poison_pills.is_beginning(run):
            return
        if run.job.token == job.token:
            logger.warning(
                "job %d no longer belongs to this worker; cancelling its run",
                job.id,
                extra={"job_id": job.id},
            )
            run.interrupt(None)
            self._poison_pills.look_again()

    def cancel(self, job_id: int, ending: Ending) -> None:
        """Cancel a run on request."""
        run = self._runs.get(job_id)
        if run is not None:
            run.interrupt(ending)
            self._poison_pills.look_again()

    # -- what to do next -------------------------------------------------------

    async def _next_work(self) -> tuple[list[Outcome], int] | None:
        while True:
            outcomes = self._take_ended()
            room = self._reserve(has_outcomes=bool(outcomes))
            if outcomes or room:
                return outcomes, room
            if self._is_stopping and not self.is_busy and not self._expected:
                return None
            # Nothing is awaited between the checks above and the wait: no change is
            # missed.
            self._changed.clear()
            await self._changed.wait()

    def _take_ended(self) -> list[Outcome]:
        taken, self._ended = self._ended[:MAX_BATCH], self._ended[MAX_BATCH:]
        self._settling += len(taken)
        return taken

    def _reserve(self, *, has_outcomes: bool) -> int:
        """Reserve slots for a claim, if it is worth a call or a call is made anyway."""
        if self._poison_pills.is_on:
            # Every change makes the loops look again, and so gets here.
            self._poison_pills.look_again()
            return 0
        if self._is_stopping or self._is_paused:
            return 0
        if not has_outcomes and not self._availability.is_worth_asking:
            return 0
        return self._budget.take(self.claimant, self._share)

    # -- with the store --------------------------------------------------------

    async def _cycle(self, outcomes: list[Outcome], room: int, claim: Claim) -> None:
        question = self._availability.ask()
        # Repeated with the same claim until it is answered.  An abandoned claim could
        # have got jobs that nobody runs and whose lease our heartbeat would renew.
        results, claimed = await self._store_retry.persist(
            f"cycle {claim.lane}",
            lambda: self._store.cycle(
                outcomes,
                ClaimRequest(
                    self._types,
                    room,
                    worker=self._worker,
                    claim=claim,
                    lease=self._lease,
                ),
            ),
        )
        self._confirm(outcomes, results)
        unused = room - len(claimed.jobs)
        self._start(claimed.jobs)
        self._note_due(claimed)
        self._availability.answer(question, was_full=not unused)
        self.claimant.may_have_work = not self._availability.is_empty
        if unused:
            self._budget.give_back(self.claimant, unused)
            self._context.on_freed()
        self._note_change()

    async def _settle(self, outcomes: list[Outcome]) -> None:
        results = await self._store_retry.persist(
            f"settle {self.type}", lambda: self._store.settle(outcomes)
        )
        self._confirm(outcomes, results)
        self._note_change()

    def _note_change(self) -> None:
        self._changed.set()
        if self._availability.is_empty:
            self._context.on_idle()

    def _note_due(self, claimed: Claimed) -> None:
        self.due = None
        if claimed.next_at is not None:
            ahead = (claimed.next_at - claimed.now) / 1000
            self.due = asyncio.get_running_loop().time() + ahead

    def _confirm(self, outcomes: Sequence[Outcome], results: Sequence[Result]) -> None:
        self._settling -= len(outcomes)
        on_failed = self._context.on_failed
        for outcome, result in zip(outcomes, results, strict=True):
            if result is Result.DONE:
                if on_failed is not None and type(outcome.ending) is Failed:
                    on_failed(outcome)
            elif result is not Result.ALREADY:
                logger.warning(
                    "outcome of job %d dropped: %s",
                    outcome.job.id,
                    "it was reclaimed" if result is Result.LOST else "it was removed",
                    extra={"job_id": outcome.job.id},
                )

    # -- runs ------------------------------------------------------------------

    def _start(self, jobs: Sequence[Job]) -> None:
        if jobs:
            ClaimedRuns([self._begin(job) for job in jobs], self._run).start()

    def _begin(self, job: Job) -> ActiveRun:
        self.begun += 1
        self.timings.count_wait(job)
        if job.flow is not None:
            self._context.on_flow()
        run = ActiveRun(job, self._context.run_services, self)
        earlier = self._runs.get(job.id)
        if earlier is not None:
            # Reclaimed from us and claimed by us again: the earlier run is void.
            earlier.interrupt(None)
            self._displaced.add(earlier)
            self._poison_pills.look_again()
        self._runs[job.id] = run
        if self._is_stopping and not self._runs_late:
            run.interrupt(STOPPED)
        return run

    async def _run(self, run: ActiveRun) -> None:
        is_alone = runs_alone(run.job)
        if is_alone:
            await self._poison_pills.enter(run)
        task, turn, handler = run.job.spec.task, None, self.processor.handler
        if task is not None:
            handler, turn = self._tasks.handler(task), self._tasks.turn(task)
        has_turn = turn is not None and await self._take_turn(run, turn)
        before = CURRENT.set(run)
        ending = await execute(run, handler)
        CURRENT.reset(before)
        if turn is not None and has_turn:
            turn.release()
        if run.partial:
            log_capture.finish(run)
        if type(ending) in _FAILED and not run.is_abandoned:
            self._log_error(run, ending)
        # Its progress and log lines are written before its ending.
        progress_sender = self._context.run_services.progress_sender
        if progress_sender.has_pending(run):
            await progress_sender.flush(run)
        if not run.is_abandoned:
            self._end(run, ending)
        self.claimant.held -= 1
        if is_alone:
            self._poison_pills.leave(run)
        self._context.on_freed()
        self._changed.set()

    async def _take_turn(self, run: ActiveRun, turn: asyncio.Semaphore) -> bool:
        """Wait until *run* may begin; return False if it is interrupted before that."""
        if run.is_interrupted:
            return False
        if not turn.locked():
            return await turn.acquire()
        taking = run.task = asyncio.create_task(turn.acquire())
        # Its ttl counts from the claim.
        seconds = run.job.ttl / 2000 if run.job.ttl else None
        await asyncio.wait({taking}, timeout=seconds)
        run.task = None
        if taking.done() and not taking.cancelled():
            return True
        taking.cancel()
        if not run.is_interrupted:
            run.interrupt(NO_TURN)
        return False

    def abandon(self, run: ActiveRun) -> None:
        """Settle a run whose handler goes on although it was interrupted."""
        ending = forced_ending(run)
        self._log_error(run, ending)
        self._end(run, ending)
        self._changed.set()

    def _log_error(self, run: ActiveRun, ending: Ending | None) -> None:
        """Add the error of a run to the job's log, if it has one."""
        line = None if ending is None else error_line_of(Outcome(run.job, ending))
        if line is not None:
            self._context.run_services.progress_sender.send(run, line)

    def _end(self, run: ActiveRun, ending: Ending | None) -> None:
        self.done += 1
        if type(ending) in _WORKED:
            self.timings.count_run(run)
        if ending is not None:
            if run.reached is not None:
                ending = with_progress(ending, run.reached.percent, run.reached.data)
            self._ended.append(Outcome(run.job, ending))
        if run in self._displaced:
            self._displaced.discard(run)
        else:
            del self._runs[run.job.id]
