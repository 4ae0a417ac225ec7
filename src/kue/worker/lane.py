"""
The loop of a worker: claim, execute, settle, rest.

Batches come about by themselves.  While one cycle is on its way to the store, runs that
end collect; the next cycle settles all of them and fills the free slots.  Two lanes
cycle in turn, so that store and handlers work at the same time.  Low load gives low
latency, high load gives large batches, and there is nothing to tune.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import TYPE_CHECKING, NamedTuple

from kue.model.histogram import Timing, bucket, ready_at
from kue.model.job import Completed, Error, Failed, Released, Retried
from kue.model.retry_policy import runs_alone
from kue.store.values import MAX_BATCH, Claim, Claimed, Outcome, Result
from kue.worker import log_capture
from kue.worker.claimed_runs import ClaimedRuns
from kue.worker.current_job import CURRENT
from kue.worker.executor import ending_instead, execute
from kue.worker.run import ActiveRun
from kue.worker.slots import SlotClaimant
from kue.worker.work_available import WorkAvailability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kue.aio.retry import StoreRetry
    from kue.model.job import Ending, Job
    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.worker.isolation import Isolation
    from kue.worker.run_resources import RunResources
    from kue.worker.slots import SlotBudget

logger = logging.getLogger(__name__)

LANES = 2
#: Endings of runs whose time is counted, here as by the store.
_WORKED = (Completed, Failed, Retried)

STOPPED = Released(reason="the worker stopped")
#: A job that is to be delivered at most once cannot be begun a second time.
STOPPED_ONCE = Failed(
    Error(
        "WorkerStopped",
        "the worker stopped while it ran this job, which is delivered at most once",
    )
)
#: The same for a worker that cannot know whether its runs are still its own.  It says
#: so when it can: if they are, nobody else would ever end them.
OUT_OF_TOUCH = Released(reason="the worker was out of touch with the store")
OUT_OF_TOUCH_ONCE = Failed(
    Error(
        "OutOfTouch",
        "the worker was out of touch with the store while it ran this job, which is "
        "delivered at most once",
    )
)


class Processor(NamedTuple):
    """Who handles jobs of a type, and how many at once."""

    type: str
    slots: int
    handler: Callable[[ActiveRun], Awaitable[JSON]]
    #: Where the handler runs: "loop", "thread" or "process".
    execution: str = "loop"
    #: Its share when types compete for slots.
    weight: int = 1


class Lane:
    """Runs jobs of one type, never more than there are slots."""

    def __init__(
        self,
        store: Store,
        processor: Processor,
        *,
        worker: str,
        lease: int,
        outage: StoreRetry,
    ) -> None:
        self.processor = processor
        self.type = processor.type
        self.claimant = SlotClaimant(processor.slots, processor.weight)
        self._store = store
        self._worker = worker
        self._lease = lease
        self._outage = outage
        self._types = (processor.type,)
        #: The most one cycle takes: half, so that the other lane has something to do.
        self._share = min(-(-processor.slots // LANES), MAX_BATCH)
        self._supply = WorkAvailability()
        self._runs: dict[int, ActiveRun] = {}
        #: Runs of jobs that were handed on and came back to us, while they still end.
        self._displaced: set[ActiveRun] = set()
        self._ended: list[Outcome] = []
        self._settling = 0
        #: Slots kept for jobs that somebody else claims for us.
        self._expected = 0
        self._is_stopping = False
        #: Until the first beat nobody knows whether this worker may take jobs.
        self._is_paused = True
        #: A run ended, the supply changed or we are to stop: lanes look again.
        self._changed = asyncio.Event()
        #: When time alone may bring work, by the event loop's clock.
        self.due: float | None = None
        #: Runs that have begun, and those that have ended.
        self.begun = 0
        self.done = 0
        self._waits: dict[int, int] = {}
        self._run_times: dict[int, int] = {}

    def join(
        self,
        crew: RunResources,
        budget: SlotBudget,
        isolation: Isolation,
        *,
        on_rest: Callable[[], None],
        on_freed: Callable[[], None],
        on_paused: Callable[[], None],
        on_failed: Callable[[Outcome], None] | None = None,
    ) -> None:
        """
        Take part in the life of a worker.

        *on_rest* hears that the store had nothing more, *on_freed* that slots which
        others may want are free, *on_paused* that no more jobs may be taken for us,
        *on_failed* of jobs that failed for good.
        """
        self._crew = crew
        self._budget = budget
        self._isolation = isolation
        self._on_rest = on_rest
        self._on_freed = on_freed
        self._on_paused = on_paused
        self._on_failed = on_failed

    @property
    def in_hand(self) -> list[ActiveRun]:
        """The runs in hand."""
        return list(self._runs.values())

    @property
    def runs(self) -> list[Job]:
        """The jobs in hand, as they were claimed."""
        return [run.job for run in self._runs.values()]

    @property
    def is_busy(self) -> bool:
        """Whether handlers run whose ending is not known."""
        return bool(self._runs or self._displaced)

    @property
    def unsettled(self) -> int:
        """How many outcomes the store has not confirmed."""
        return len(self._ended) + self._settling

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do but to wait for the store."""
        return (
            self._supply.is_empty
            and not self._is_paused
            and not self._is_stopping
            and not self._isolation.is_on
        )

    @property
    def is_at_rest(self) -> bool:
        """Whether the store has nothing for us and we have nothing in hand."""
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
        """Keep slots for jobs that somebody else claims for us."""
        self.claimant.held += slots
        self._expected += slots

    def receive(self, jobs: Sequence[Job], claimed: Claimed, *, expected: int) -> None:
        """Start jobs that came for *expected* slots, and give back the others."""
        self.claimant.held -= expected - len(jobs)
        self._expected -= expected
        self._start(jobs)
        self._note_due(claimed)
        self._changed.set()

    async def lane(self) -> None:
        """Cycle until the loop was stopped and everything in hand is settled."""
        name, seq = secrets.token_hex(4), 0
        while (turn := await self._turn()) is not None:
            outcomes, room = turn
            if room:
                seq += 1
                await self._cycle(outcomes, room, Claim(name, seq))
            else:
                await self._settle(outcomes)
            # Lets new runs take their first step: short ones end here and are settled
            # by the very next cycle.
            await asyncio.sleep(0)

    def take_timing(self) -> Timing | None:
        """Return how long jobs waited and ran since the last call, if any did."""
        if not self._waits and not self._run_times:
            return None
        timing = Timing(self.type, self._waits, self._run_times)
        self._waits, self._run_times = {}, {}
        return timing

    def wake(self) -> None:
        """Ask again: there may be work, or slots for it."""
        # A time that passed without a job (its type is paused, say) is no reason to
        # ask again and again.
        self.due = None
        self._supply.wake()
        self.claimant.is_hungry = True
        self._changed.set()

    def look_again(self) -> None:
        """Slots that all types share are free."""
        self._changed.set()

    def pause(self) -> None:
        """Claim no more until `resume`; what runs goes on."""
        if not self._is_paused:
            self._is_paused = True
            self._on_paused()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.wake()

    def stop(self) -> None:
        """Claim no more; the lanes end once everything in hand is settled."""
        self._is_stopping = True
        self._changed.set()

    def hand_back(self) -> None:
        """Put what still runs back in line, without spending its attempt."""
        self._end_all(STOPPED, STOPPED_ONCE)

    def let_go(self) -> None:
        """Cancel every run: we cannot know whether they are ours."""
        # Told once, though it may take them a while to end.
        going_on = sum(not run.is_interrupted for run in self._runs.values())
        if going_on:
            logger.warning(
                "the store is out of reach and the lease ends; "
                "%d of type %s are cancelled",
                going_on,
                self.type,
            )
        self._end_all(OUT_OF_TOUCH, OUT_OF_TOUCH_ONCE)

    def _end_all(self, ending: Ending, once: Ending) -> None:
        for run in self._runs.values():
            is_spent = run.job.once and run.has_begun
            run.interrupt(once if is_spent else ending)
        self._isolation.look_again()

    def lose(self, job: Job) -> None:
        """Cancel the run of *job*, as it was claimed, that is no longer ours."""
        run = self._runs.get(job.id)
        # By token: while we were told, the job may have ended and come to us again.
        if run is None or self._isolation.is_beginning(run):
            return
        if run.job.token == job.token:
            logger.warning(
                "job %d is no longer ours; its run is cancelled",
                job.id,
                extra={"job_id": job.id},
            )
            run.interrupt(None)
            self._isolation.look_again()

    def cancel(self, job_id: int, ending: Ending) -> None:
        """Cancel a run because someone asked for it."""
        run = self._runs.get(job_id)
        if run is not None:
            run.interrupt(ending)
            self._isolation.look_again()

    # -- what to do next -------------------------------------------------------

    async def _turn(self) -> tuple[list[Outcome], int] | None:
        while True:
            outcomes = self._take_ended()
            room = self._reserve(has_outcomes=bool(outcomes))
            if outcomes or room:
                return outcomes, room
            if self._is_stopping and not self.is_busy and not self._expected:
                return None
            # Nothing is awaited between the look above and the wait: no change is lost.
            self._changed.clear()
            await self._changed.wait()

    def _take_ended(self) -> list[Outcome]:
        taken, self._ended = self._ended[:MAX_BATCH], self._ended[MAX_BATCH:]
        self._settling += len(taken)
        return taken

    def _reserve(self, *, has_outcomes: bool) -> int:
        """Take slots for a claim, if one is worth a call or a call is made anyway."""
        if self._isolation.is_on:
            # Every change makes lanes look, and so comes by here.
            self._isolation.look_again()
            return 0
        if self._is_stopping or self._is_paused:
            return 0
        if not has_outcomes and not self._supply.is_worth_asking:
            return 0
        return self._budget.take(self.claimant, self._share)

    # -- with the store --------------------------------------------------------

    async def _cycle(self, outcomes: list[Outcome], room: int, claim: Claim) -> None:
        question = self._supply.ask()
        # Repeated with the same claim until it is answered.  A claim that was given up
        # could have got jobs that nobody runs and our own beat would keep alive.
        words, claimed = await self._outage.persist(
            f"cycle {claim.lane}",
            lambda: self._store.cycle(
                outcomes,
                self._types,
                room,
                worker=self._worker,
                claim=claim,
                lease=self._lease,
            ),
        )
        self._confirm(outcomes, words)
        unused = room - len(claimed.jobs)
        self._start(claimed.jobs)
        self._note_due(claimed)
        self._supply.answer(question, was_full=not unused)
        self.claimant.is_hungry = not self._supply.is_empty
        if unused:
            self._budget.give_back(self.claimant, unused)
            self._on_freed()
        self._look()

    async def _settle(self, outcomes: list[Outcome]) -> None:
        words = await self._outage.persist(
            f"settle {self.type}", lambda: self._store.settle(outcomes)
        )
        self._confirm(outcomes, words)
        self._look()

    def _look(self) -> None:
        self._changed.set()
        if self._supply.is_empty:
            self._on_rest()

    def _note_due(self, claimed: Claimed) -> None:
        self.due = None
        if claimed.next_at is not None:
            ahead = (claimed.next_at - claimed.now) / 1000
            self.due = asyncio.get_running_loop().time() + ahead

    def _confirm(self, outcomes: Sequence[Outcome], words: Sequence[Result]) -> None:
        self._settling -= len(outcomes)
        for outcome, word in zip(outcomes, words, strict=True):
            if word is Result.DONE:
                if self._on_failed is not None and type(outcome.ending) is Failed:
                    self._on_failed(outcome)
            elif word is not Result.ALREADY:
                logger.warning(
                    "outcome of job %d dropped: %s",
                    outcome.job.id,
                    "it was handed on" if word is Result.LOST else "it was removed",
                    extra={"job_id": outcome.job.id},
                )

    # -- runs ------------------------------------------------------------------

    def _start(self, jobs: Sequence[Job]) -> None:
        if jobs:
            ClaimedRuns([self._begin(job) for job in jobs], self._run).start()

    def _begin(self, job: Job) -> ActiveRun:
        self.begun += 1
        since = ready_at(job)
        if since is not None:
            # Of a run in hand, the last change is its start.
            waited = bucket(job.updated_at - since)
            self._waits[waited] = self._waits.get(waited, 0) + 1
        run = ActiveRun(job, self._crew, self._abandon)
        earlier = self._runs.get(job.id)
        if earlier is not None:
            # Taken back from us and claimed by us again: the earlier run is void.
            earlier.interrupt(None)
            self._displaced.add(earlier)
            self._isolation.look_again()
        self._runs[job.id] = run
        if self._is_stopping:
            run.interrupt(STOPPED)
        return run

    async def _run(self, run: ActiveRun) -> None:
        is_alone = runs_alone(run.job)
        if is_alone:
            await self._isolation.enter(run)
        before = CURRENT.set(run)
        ending = await execute(run, self.processor.handler)
        CURRENT.reset(before)
        if run.partial:
            log_capture.finish(run)
        # What the run said comes before its end.
        if self._crew.telling.owes(run):
            await self._crew.telling.flush(run)
        if not run.is_abandoned:
            self._end(run, ending)
        self.claimant.held -= 1
        if is_alone:
            self._isolation.leave(run)
        self._on_freed()
        self._changed.set()

    def _abandon(self, run: ActiveRun) -> None:
        self._end(run, ending_instead(run))
        self._changed.set()

    def _end(self, run: ActiveRun, ending: Ending | None) -> None:
        self.done += 1
        if isinstance(ending, _WORKED):
            took = bucket((time.monotonic() - run.began) * 1000)
            self._run_times[took] = self._run_times.get(took, 0) + 1
        if ending is not None:
            self._ended.append(Outcome(run.job, ending))
        if run in self._displaced:
            self._displaced.discard(run)
        else:
            del self._runs[run.id]
