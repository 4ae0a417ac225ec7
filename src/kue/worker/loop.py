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
from typing import TYPE_CHECKING, NamedTuple

from kue.job import Error, Failed, Released
from kue.store.values import MAX_BATCH, Claim, Claimed, Outcome, Word
from kue.worker.active import ActiveJob
from kue.worker.executor import Handler, execute
from kue.worker.supply import Supply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.job import Ending, Job
    from kue.outage import Outage
    from kue.store.base import Store

logger = logging.getLogger(__name__)

LANES = 2
#: The store wakes us for any work there is; this is only how long one call may last.
WAIT_SECONDS = 5.0

STOPPED = Released(reason="the worker stopped")
#: A job that is to be delivered at most once cannot be begun a second time.
STOPPED_ONCE = Failed(
    Error(
        "WorkerStopped",
        "the worker stopped while it ran this job, which is delivered at most once",
    )
)


class Processor(NamedTuple):
    """Who handles jobs of a type, and how many at once."""

    type: str
    slots: int
    handler: Handler


class Loop:
    """Runs jobs of one type, never more than there are slots."""

    def __init__(
        self,
        store: Store,
        processor: Processor,
        *,
        worker: str,
        lease: int,
        outage: Outage,
    ) -> None:
        self.processor = processor
        self._store = store
        self._worker = worker
        self._lease = lease
        self._outage = outage
        self._types = (processor.type,)
        self._free = processor.slots
        #: The most one cycle takes: half, so that the other lane has something to do.
        self._share = min(-(-processor.slots // LANES), MAX_BATCH)
        self._supply = Supply()
        self._runs: dict[int, ActiveJob] = {}
        #: Runs of jobs that were handed on and came back to us, while they still end.
        self._displaced: set[ActiveJob] = set()
        self._ended: list[Outcome] = []
        self._settling = 0
        #: When time alone may bring work, by the event loop's clock.
        self._due: float | None = None
        self._is_stopping = False
        #: A run ended, the supply changed or we are to stop: lanes look again.
        self._changed = asyncio.Event()

    @property
    def runs(self) -> list[Job]:
        """The jobs in hand, as they were claimed."""
        return [run.job for run in self._runs.values()]

    @property
    def is_busy(self) -> bool:
        """Whether handlers run."""
        return bool(self._runs or self._displaced)

    @property
    def unsettled(self) -> int:
        """How many outcomes the store has not confirmed."""
        return len(self._ended) + self._settling

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

    async def watch(self) -> None:
        """Sleep with the store whenever it has nothing for us."""
        while True:
            await self._supply.until_empty()
            await self._outage.persist(f"wait {self.processor.type}", self._wait)
            self._supply.wake()
            self._changed.set()

    def stop(self) -> None:
        """Claim no more; the lanes end once everything in hand is settled."""
        self._is_stopping = True
        self._changed.set()

    def hand_back(self) -> None:
        """Put what still runs back in line, without spending its attempt."""
        for run in self._runs.values():
            is_spent = run.job.once and run.has_begun
            run.interrupt(STOPPED_ONCE if is_spent else STOPPED)

    def lose(self, job: Job) -> None:
        """Cancel the run of *job*, as it was claimed, that is no longer ours."""
        run = self._runs.get(job.id)
        # By token: while we were told, the job may have ended and come to us again.
        if run is not None and run.job.token == job.token:
            logger.warning(
                "job %d is no longer ours; its run is cancelled",
                job.id,
                extra={"job_id": job.id},
            )
            run.interrupt(None)

    def cancel(self, job_id: int, ending: Ending) -> None:
        """Cancel a run because someone asked for it."""
        run = self._runs.get(job_id)
        if run is not None:
            run.interrupt(ending)

    # -- what to do next -------------------------------------------------------

    async def _turn(self) -> tuple[list[Outcome], int] | None:
        while True:
            outcomes = self._take_ended()
            room = self._reserve(has_outcomes=bool(outcomes))
            if outcomes or room:
                return outcomes, room
            if self._is_stopping and not self.is_busy:
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
        if self._is_stopping or not (has_outcomes or self._supply.is_worth_asking):
            return 0
        room = min(self._free, self._share)
        self._free -= room
        return room

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
        self._free += room - len(claimed.jobs)
        self._note_due(claimed)
        self._supply.answer(question, was_full=len(claimed.jobs) == room)
        for job in claimed.jobs:
            self._start(job)
        self._changed.set()

    async def _settle(self, outcomes: list[Outcome]) -> None:
        words = await self._outage.persist(
            f"settle {self.processor.type}", lambda: self._store.settle(outcomes)
        )
        self._confirm(outcomes, words)
        self._changed.set()

    async def _wait(self) -> None:
        await self._store.wait(self._types, self._rest_seconds())

    def _note_due(self, claimed: Claimed) -> None:
        self._due = None
        if claimed.next_at is not None:
            ahead = (claimed.next_at - claimed.now) / 1000
            self._due = asyncio.get_running_loop().time() + ahead

    def _rest_seconds(self) -> float:
        if self._due is None:
            return WAIT_SECONDS
        ahead = self._due - asyncio.get_running_loop().time()
        # A time that passed without a job (its type is paused, say) is no reason to
        # ask again and again.
        return min(ahead, WAIT_SECONDS) if ahead > 0 else WAIT_SECONDS

    def _confirm(self, outcomes: Sequence[Outcome], words: Sequence[Word]) -> None:
        self._settling -= len(outcomes)
        for outcome, word in zip(outcomes, words, strict=True):
            if word not in (Word.DONE, Word.ALREADY):
                logger.warning(
                    "outcome of job %d dropped: %s",
                    outcome.job.id,
                    "it was handed on" if word is Word.LOST else "it was removed",
                    extra={"job_id": outcome.job.id},
                )

    # -- runs ------------------------------------------------------------------

    def _start(self, job: Job) -> None:
        run = ActiveJob(self._store, job)
        earlier = self._runs.get(job.id)
        if earlier is not None:
            # Taken back from us and claimed by us again: the earlier run is void.
            earlier.interrupt(None)
            self._displaced.add(earlier)
        self._runs[job.id] = run
        if self._is_stopping:
            run.interrupt(STOPPED)
        task = asyncio.create_task(self._run(run), name=f"kue job {job.id}")
        run.begin(task)

    async def _run(self, run: ActiveJob) -> None:
        ending = await execute(run, self.processor.handler)
        if ending is not None:
            self._ended.append(Outcome(run.job, ending))
        if run in self._displaced:
            self._displaced.discard(run)
        else:
            del self._runs[run.id]
        self._free += 1
        self._changed.set()
