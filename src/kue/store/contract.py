"""
The store contract: what every engine does, verb by verb.

A feature that needs atomicity is a verb here, written once per engine and proven by
the contract suite in ``tests/store``.  One that does not is written once, in a layer
above.

Verbs take batches and return results in the same order; a single job is a batch of one.
Every verb is atomic per job and idempotent, except where its docstring states
otherwise.  *now* (Unix ms) is for tests that control the clock; by default the engine's
clock is read once per call.

All verbs raise `StoreUnavailable` when the engine cannot be reached within its budget;
the same call may then be repeated with the same arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kue.model.errors import ConfigError
from kue.model.events import Event
from kue.model.settings import LEASE_MS, Keep
from kue.model.stream import BEGINNING
from kue.store import search
from kue.store.search import SearchRequest
from kue.store.values import (
    MAX_BATCH,
    MAX_SCAN,
    NOTHING_SEEN,
    Added,
    AuditEntry,
    AuditPage,
    Change,
    Claimed,
    ClaimRequest,
    Errors,
    ExpectedState,
    Failure,
    Filter,
    FlowCounts,
    HeartbeatReply,
    KeepRequest,
    Limits,
    LimitUse,
    LogLine,
    MaintenanceResult,
    MoveRequest,
    Outcome,
    Page,
    PageRequest,
    Pause,
    PauseRequest,
    Progress,
    RemoveRequest,
    RenewRequest,
    Reply,
    Report,
    Result,
    Stacks,
    Stat,
    StoreFacts,
    WorkerStatus,
    sort_key,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from msgspec import Raw

    from kue.model.failure_rule import FailureRule
    from kue.model.histogram import Timing
    from kue.model.job import Draft, Job, State
    from kue.model.named_limits import StoredLimit
    from kue.model.schedule import Schedule
    from kue.model.steps import JobSteps, Signal, Step
    from kue.model.stream import Chunk, Position, SentChunks
    from kue.store.search import Redactor

#: Called with (done, total) while a check runs.
OnProgress = Callable[[int, int], None]
Events = AsyncIterator[Event]


class Store(ABC):
    """
    Where jobs are kept.

    Constructing one does no I/O.  Every verb opens the store if it is not open.
    """

    #: For messages: the address without credentials.
    name: str

    @property
    def losses(self) -> int:
        """How many calls were not answered so far, including repeated ones."""
        return 0

    def spans_shards(self, types: Iterable[str]) -> bool:
        """Return whether jobs of *types* cannot be added in one atomic step."""
        return False

    @abstractmethod
    async def open(self) -> str:
        """
        Connect, check that the engine is suitable, and return how durable it is.

        The return value is a sentence for people.

        Raises:
            StoreRefused: It is too old, evicts keys, is a replica, or holds data of a
                newer schema or another number of shards; the message has advice.
            StoreCorrupt: The file is not a database or is damaged.
            StoreUnavailable: It cannot be reached.
        """

    async def verify(self) -> None:
        """
        Check that this is still the store that was opened, and still suitable.

        Raises:
            StoreRefused: It was emptied or replaced, or now evicts keys; the message
                has advice.
            StoreUnavailable: It cannot be reached.
        """
        await self.open()

    @abstractmethod
    async def close(self) -> None:
        """Close connections, threads and files.  Closing twice is fine."""

    def twin(self) -> Store:
        """
        Return a store on the same jobs for another event loop, such as a thread's.

        It is not open yet, and is closed separately.  Only the twin of a store in
        memory closes with the original.

        Raises:
            ConfigError: This store cannot be shared with another event loop.
        """
        raise ConfigError(
            f"{self.name} serves one event loop, so its queue has no blocking methods; "
            "await the async ones, or create the queue from a URL"
        )

    @abstractmethod
    async def now(self) -> int:
        """Return the engine's clock, Unix ms."""

    # -- producing -------------------------------------------------------------

    @abstractmethod
    async def reserve(
        self, types: Sequence[str], *, now: int | None = None
    ) -> list[int]:
        """
        Return new ids for drafts of these types, for `Draft.id`; they grow as in `add`.

        For callers that must know an id before its job is added.  An id that is not
        used is never given to another job.  Not idempotent: called again it returns
        other ids.

        Raises:
            ValueError: More than `MAX_BATCH` types.
            StoreFull: No memory or disk left.
        """

    @abstractmethod
    async def add(
        self,
        drafts: Sequence[Draft],
        *,
        producer: str,
        seq: int,
        durable: bool = False,
        now: int | None = None,
    ) -> list[Added]:
        """
        Store drafts; ids grow in the order given.

        A draft becomes ``delayed`` when its time (``at``, else now + ``spec.delay``) is
        in the future, ``blocked`` when it has to wait for another job, else
        ``waiting``.  The delay of a blocked job counts from when it is released.

        A blocked job waits for the jobs of ``spec.after``, its parents, and for those
        that were added with it in ``before``.  ``on_parent_failure`` decides what the
        end of one does to it:

        ===============  =========  =========  ========  ===========================
        the parent       "block"    "cancel"   "run"     "only"
        ===============  =========  =========  ========  ===========================
        is complete      one less   one less   one less  one less
        has failed       waits on   cancelled  one less  released; waits for no other
        was cancelled    cancelled  cancelled  one less  one less
        none is left     released   released   released  cancelled: none has failed
        ===============  =========  =========  ========  ===========================

        A job that is cancelled has the reason in its history, and so on downwards.  A
        parent that was removed counts as complete if it was, else as cancelled; that
        is known of the last `REMEMBERED_IDS` ids, and an older one counts as cancelled.
        Parents that ended before the draft is added count in the same way.

        A number -k in ``spec.after``, ``before`` or ``flow`` stands for the k-th draft
        of this call, which must be an earlier one; ``flow`` may name the draft itself.
        The stored job has its id, or that of the job which holds its unique key; as the
        positions in ``spec.after`` stay, an id may be there twice.  A draft that refers
        to a refused one is refused.

        The jobs in ``before`` must be blocked.  They wait for the new job as well,
        though it is not in their ``spec.after``.  A draft of this call that is named
        there is stored as blocked, unless its parents cancel it.  A draft that adds no
        job makes none wait: if nothing else does, the jobs are released at the end.
        One that is cancelled at once counts as a cancelled parent, with the next
        maintenance pass at the latest.

        A job with ``flow`` is a member of that job's flow: see `members`.  If that job
        does not exist (any more), it is stored with ``flow`` all the same.

        A draft whose unique key is held (by an unfinished job of the type, or within
        that job's ``unique_for``) adds nothing, and the holder's id is returned;
        within one call the first draft with a key holds it.  A holder with
        ``unique_until="start"`` has it until it is first claimed, one with
        ``unique_at_most`` no longer than that.  With ``on_conflict="replace"`` a
        holder that is neither active nor ended becomes that draft: it keeps id,
        creation time, log, dependants and history (with a line ``replaced``), and is
        due as the draft says, but no later than ``debounce_max`` after its creation.
        Rejecting (``"reject"``) is up to the caller.

        A draft that would wait while as many jobs of its type do as `Limits` allow is
        `REFUSED`, and adds nothing; how to go on is up to the caller.  With
        ``when_full="drop-oldest"`` it is added, and then the oldest jobs of the lowest
        priority are cancelled, up to 1,000 in one call: those that a limit holds back
        only when no others wait.  Nothing else that makes a job wait is refused.

        `Added` has the time at which the job was created: ids are reused after a
        fail-over that lost writes, and verbs that are given the time (`ExpectedState`)
        act on no other job.

        A draft with an ``id`` gets that one, which `reserve` returned for its type.

        A producer has one call in flight; *seq* grows with each new call.  A repeated
        (producer, seq) returns the same result and adds nothing; a lower seq than the
        last raises `ValueError`.

        Raises:
            ValueError: More than `MAX_BATCH` drafts, or a number in ``spec.after``,
                ``before`` or ``flow`` that is neither an id nor an earlier draft.
            IdNotReserved: An ``id`` was not reserved for its type (or the store has
                lost that since), or was used.  Nothing was added.
            UnknownParent: A job of ``spec.after`` was never added.  Nothing was added.
            JobNotFound: A job of ``before`` does not exist.  Nothing was added.
            InvalidTransition: A job of ``before`` is not blocked.  Nothing was added.
            StoreFull: No memory or disk left.  Nothing was added, unless the drafts
                have more than `MAX_CALL_BYTES`: those are stored in parts, each whole
                or not at all, and the same call again adds the missing parts.
            DurabilityUnknown: *durable* was requested and not confirmed in time.
        """

    # -- running ---------------------------------------------------------------

    @abstractmethod
    async def claim(self, request: ClaimRequest, *, now: int | None = None) -> Claimed:
        """
        Start the best waiting jobs that *request* asks for, by (priority, id).

        A type may have another order, see `Limits`.  In a fair one each job gets a
        virtual time when it begins to wait: that of the first waiting job of its
        priority that is not held, or a turn after the last one of its group, whichever
        is later.  One that comes back from a run, or whose attempts or stalls were
        counted before, gets the former, and its group pays with a turn.  With ageing a
        job begins to wait at some time, and starts by that time plus *ageing* for each
        step of its priority; beside jobs of other types it has the priority that it has
        reached by now.  Groups at the same virtual time, and calls of the same
        millisecond, are in no particular order; the jobs of one call are.

        First promotes due delayed jobs of these types.  Each claimed job becomes active
        with a new fencing token and attempt + 1, and the worker's lease runs until now
        + the lease.  Jobs past their ``expires`` become failed (`retry_policy.EXPIRED`)
        instead; ids without a usable record are parked and reported (event ``error``).
        Paused types give nothing.  Limits apply, and a job over its group's limit or a
        named one is held (still ``waiting``, with `Job.held`) until a run under that
        limit ends or its rate allows one more; jobs under other keys start before it.

        The same claim again returns those of its jobs that are still running; an
        older one of its lane returns none.  With a limit of 0 it claims nothing, then
        or later.  Jobs beyond about `MAX_CALL_BYTES` are left for the next claim, and
        ``next_at`` is now.  With several shards the order holds within a shard.
        """

    @abstractmethod
    async def settle(
        self, outcomes: Sequence[Outcome], *, now: int | None = None
    ) -> list[Result]:
        """
        Settle runs: record how each one ended.

        ``Completed`` → complete, or removed with ``remove_on_complete``; ``Failed`` →
        failed; ``Cancelled`` → cancelled; ``Retried``, ``Released`` and ``Stalled`` →
        waiting, or delayed when their delay is positive.  But a run that was asked to
        cancel and ends as one of these three becomes cancelled
        (`retry_policy.after_cancel`).  Adds one line to the history, counts attempts
        and stalls, clears progress (a complete job shows 100), releases the unique key
        (final endings, unless ``unique_for`` lasts), the slots of group and type, and
        dependants, and starts retention.

        A ``Released`` run that is *suspended* also begins that sleep or wait, and the
        job is delayed until its end; if it waits for a signal that is there, it becomes
        waiting.  Of such lines the history keeps the last `MAX_SUSPENSIONS` only.

        DONE; ALREADY when this very run was settled before (the first ending stands,
        whatever this one is); LOST when the run was reclaimed; GONE when the job was
        removed.
        """

    @abstractmethod
    async def cycle(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest,
        *,
        now: int | None = None,
    ) -> tuple[list[Result], Claimed]:
        """Do `settle` and then `claim` in one round trip: the hot path."""

    @abstractmethod
    async def renew(
        self, request: RenewRequest, *, now: int | None = None
    ) -> HeartbeatReply:
        """
        Renew the lease on everything a worker runs: its heartbeat.

        Late is fine: a run remains the worker's until it is reclaimed.  Returns which
        of the given runs are no longer the worker's, which others are to be cancelled,
        whether the worker is paused, and whether maintenance is overdue.
        """

    @abstractmethod
    async def measure(
        self, timings: Sequence[Timing], *, now: int | None = None
    ) -> None:
        """
        Add how long jobs waited and ran to the current minute's counters.

        Unlike other verbs it is not idempotent: called twice, it counts twice, also
        when it is repeated after a lost reply.  That is a few seconds of one worker's
        jobs, and percentiles hardly move; deduplication would cost more than it is
        worth.

        Raises:
            ValueError: A bucket is not one of `histogram.BOUNDS`, or counts below 0.
        """

    @abstractmethod
    async def begin(
        self, job: Job, *, alone: bool, now: int | None = None
    ) -> Job | Result:
        """
        Record that a claimed job which was held back begins now, *alone* or not.

        For jobs that a worker must run alone (`retry_policy.runs_alone`): a worker lost
        before this call counts as neither attempt nor stall.  The run starts now, and
        so does its ttl; the returned job has its new token.  `Result.LOST` when the run
        was reclaimed or the job is gone, `Result.REFUSED` when its type is now paused:
        the caller has to release it.  Repeated, it starts the same run again.
        """

    @abstractmethod
    async def leave(self, worker: str, *, now: int | None = None) -> None:
        """Deregister *worker*: the next `tend` reclaims what it still runs."""

    @abstractmethod
    async def tend(
        self,
        *,
        limit: int = MAX_BATCH,
        keep: Keep | None = None,
        lease: int = LEASE_MS,
        now: int | None = None,
    ) -> MaintenanceResult:
        """
        Make one bounded pass of maintenance.

        Any process may call it at any time.  A store needs about one pass per second,
        from any process: if another process has just made one, or nothing is due,
        nothing is done and the result is `quiet`.  If another process made the last
        one, the result is `elsewhere`, too: that process makes the next pass, and
        `renew` reports to the others when it is overdue.  With *now* a pass is always
        made.

        Promotes due jobs, requeues or fails stalled jobs, whose worker's lease has
        expired (`retry_policy.after_lost_worker`), and runs whose ttl has passed
        (`retry_policy.after_ttl`), fails expired jobs that do not run (a worker ends
        its own runs), prunes what *keep* and retention no longer keep, fires due
        schedules (each firing by exactly one process), relays what spans shards, wakes
        workers for anything ready, ends pauses, forgets lost workers and old
        subscriptions, adds full minutes of the statistics to their hours (each once),
        and forgets types without jobs that had none for a day.

        After a gap of `grace_gap` of *lease* without maintenance, the store or all
        processes were away, and leases look expired that are not.  Every lease is then
        extended by half of *lease*, at most once in ten times that long, so that live
        workers can renew before their jobs are reclaimed.  When the clock stepped back,
        leases are reset to now + *lease*.
        """

    @abstractmethod
    async def wait(self, types: Sequence[str], timeout: float) -> frozenset[str]:
        """
        Wait until there may be work of *types*, at most *timeout* seconds.

        Returns the types that may have some; none after a timeout.  It may return
        early, and name types without work.  It never misses a job that was added, a
        delayed job that became due, a pause that was lifted or a limit that freed,
        unless another waiter was woken for it.  What became ready in other types than
        those returned is found by the next call, which checks before it waits.
        """

    async def stand_by(self, request: ClaimRequest, *, timeout: float) -> Claimed:
        """
        Wait as `wait` does, then `claim`: for callers that know there is no work now.

        One step where the store can do it in one.  A call that was not answered, or was
        cancelled, may have claimed jobs: the same claim with a limit of 0 returns
        them, and prevents it from claiming any later.
        """
        if not await self.wait(request.types, timeout):
            return Claimed([], 0, None)
        return await self.claim(request)

    # -- progress and logs -----------------------------------------------------

    @abstractmethod
    async def progress(
        self, updates: Sequence[Progress], *, now: int | None = None
    ) -> list[Result]:
        """
        Write progress of active jobs and restart their ttl.

        DONE; LOST for a token that is not the current one; REFUSED when the job is not
        active and no token was given; GONE, also when the id belongs to another job
        than the one created at `Progress.created_at`.
        """

    @abstractmethod
    async def log(
        self,
        job_id: int,
        lines: Sequence[LogLine],
        *,
        created_at: int | None = None,
        now: int | None = None,
    ) -> Result:
        """
        Append lines to the log of a job in any state; keeps MAX_LOG_LINES.

        GONE when the job does not exist, or *created_at* is that of another one.
        """

    # -- streams ---------------------------------------------------------------

    @abstractmethod
    async def append_chunks(
        self, sent: Sequence[SentChunks], *, now: int | None = None
    ) -> list[Result]:
        """
        Append to the streams of running jobs, each named once.

        A stream has the chunks of one run: with the first one of a later run, those of
        the earlier run are deleted.  `SentChunks.start` makes a repeated call a no-op.
        Subscribers to the job itself, and no others, get an event.  It has the chunks
        only where nothing is left to read after the end, with ``remove_on_complete``.

        DONE; REFUSED when chunks before *start* are missing; LOST when the run is not
        the current one; GONE.
        """

    @abstractmethod
    async def chunks(
        self, job_id: int, after: Position = BEGINNING, *, limit: int = MAX_BATCH
    ) -> list[Chunk]:
        """
        Return the chunks of a job's stream that follow a position; none: no more yet.

        If the stream is that of another run than the position's, from its beginning.
        A page ends once it has about `MAX_CALL_BYTES`, with at least one chunk.
        """

    # -- steps and signals -----------------------------------------------------

    @abstractmethod
    async def steps(self, job_id: int) -> JobSteps:
        """Return what a job did and waits for, and its signals; empty for no job."""

    @abstractmethod
    async def record_step(
        self, job: Job, name: str, result: Raw, *, duration: int, now: int | None = None
    ) -> Result:
        """
        Keep what a step of a running job returned, for later runs.

        DONE; ALREADY when there is a step of that name, whose result stands; REFUSED
        when there are `MAX_STEPS`; LOST when the run is not the current one; GONE.
        """

    @abstractmethod
    async def receive(
        self, job: Job, signal: str, number: int, *, now: int | None = None
    ) -> Step | Result | None:
        """
        Return the *number*-th wait of a running job for *signal*, if it has begun.

        A wait receives the oldest signal of its name that none has received yet, and
        times out once its time has passed without one; either is recorded here, once,
        and then returned whenever it is asked for.  A wait that was not begun by a
        suspension (`settle`) begins here only if a signal is there.  LOST when the run
        is not the current one; GONE.
        """

    @abstractmethod
    async def signal(
        self,
        job_id: int,
        signal: Signal,
        *,
        created_at: int | None = None,
        now: int | None = None,
    ) -> Reply:
        """
        Send a signal to a job: it is kept until a wait of the job receives it.

        A job that was suspended for it becomes waiting at once.  DONE; ALREADY for a
        signal with an id that the job has; REFUSED with the state of a job that has
        ended, or with none when it has `MAX_SIGNALS`; GONE, also when *created_at* is
        that of another job.
        """

    # -- administration --------------------------------------------------------

    @abstractmethod
    async def update(
        self, changes: Sequence[Change], *, now: int | None = None
    ) -> list[Result]:
        """
        Edit jobs in any state; a run in progress keeps the data it started with.

        With `Change.seen`, GONE for another job, and REFUSED for one whose ending
        differs from the one that was seen.
        """

    @abstractmethod
    async def move(
        self, request: MoveRequest, *, now: int | None = None
    ) -> list[Reply]:
        """
        Move jobs to ``waiting``, ``delayed`` or ``blocked`` (see `MOVES_BY_HAND`).

        The states and what was *seen* are checked atomically with the move: a job that
        ended since it was read does not run again.  A job that was seen to have ended
        is moved from that ending alone: if it was restarted since, the result is
        ALREADY, whatever its state is now.  So of two retries of one ending the second
        is a no-op, and a call repeated after a lost reply moves nothing twice.  A job
        that was seen unfinished and has ended since is REFUSED.

        A finished job is requeued afresh: attempts and stalls count from 0, its history
        continues with a line ``restarted``, and its unique key is taken again (HELD if
        another job has it).  Steps of a failed or cancelled job are kept, without a
        wait that ended it; those of a complete one are forgotten.  A blocked job no
        longer waits for its parents.  Moving a waiting job to waiting is ALREADY.

        A finished job that is moved to ``blocked`` waits for the jobs of its
        ``spec.after`` that it would wait for if it were added now.  If there are none,
        it becomes waiting, or delayed by its own delay; if one would cancel it, it is
        REFUSED.
        """

    @abstractmethod
    async def cancel(
        self,
        job_ids: Sequence[int],
        *,
        reason: str = "",
        seen: Mapping[int, ExpectedState] = NOTHING_SEEN,
        now: int | None = None,
    ) -> list[Reply]:
        """
        Cancel jobs: immediately (DONE) unless active; an active one is ASKED.

        The worker of an active job receives the request with its next `renew`, with the
        *reason*, and ends the run; if the run succeeds first, that stands.  ALREADY
        when cancelled or asked before, REFUSED when complete or failed.  Another job
        than the one *seen* is GONE.
        """

    @abstractmethod
    async def remove(
        self, request: RemoveRequest, *, now: int | None = None
    ) -> list[Reply]:
        """
        Delete jobs with log, keys and links; for dependants they count as cancelled.

        A job whose ending differs from the one that was *seen* is REFUSED.
        """

    @abstractmethod
    async def pause(self, request: PauseRequest, *, now: int | None = None) -> None:
        """
        Start no more jobs of a type, a worker or all, until resumed.

        A worker receives its pause with its next `renew` and claims no more; claims do
        not check it.  It goes by name, and the worker need not be known: one that comes
        back under its name is still paused, however long it was away.

        Raises:
            ValueError: Both a type and a worker are given.
        """

    @abstractmethod
    async def resume(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        now: int | None = None,
    ) -> bool:
        """
        End a pause and wake workers; return whether there was one.

        A worker learns from its next `renew` that its own pause is over.

        Raises:
            ValueError: Both a type and a worker are given.
        """

    @abstractmethod
    async def paused(self) -> list[Pause]:
        """Return the pauses in force: of every type, of types, of workers; by name."""

    @abstractmethod
    async def order(self, worker: str, order: str, *, now: int | None = None) -> bool:
        """
        Send an order with a live worker's next `renew`; return whether it is alive.

        Orders are in `ORDERS`; the same one twice is one.  An order that the worker
        does not receive within `ORDER_MS` is dropped.

        Raises:
            ValueError: The order does not exist.
        """

    @abstractmethod
    async def write_stacks(
        self, worker: str, text: str, *, now: int | None = None
    ) -> None:
        """Keep a known worker's stacks, the first `MAX_STACKS` bytes, for a while."""

    @abstractmethod
    async def stacks(self, worker: str, *, now: int | None = None) -> Stacks | None:
        """Return the stacks a worker last wrote, unless that is too long ago."""

    @abstractmethod
    async def limit(
        self, type: str, limits: Limits | None, *, now: int | None = None
    ) -> None:
        """
        Set the limits of *type* (None: no limits); release jobs no longer held.

        When ageing changes, or a type is no longer fair, the jobs that wait are given
        other ranks, in several steps; until the last one some start out of order.  With
        ageing such a job counts from its creation.  A type that becomes fair goes on
        with the jobs that wait as they are.
        """

    @abstractmethod
    async def limits(self) -> dict[str, Limits]:
        """Return the limits in force, by type."""

    @abstractmethod
    async def set_named_limit(
        self,
        name: str,
        limit: StoredLimit | None,
        *,
        types: Sequence[str] = (),
        now: int | None = None,
    ) -> None:
        """
        Set a limit that jobs share by name and key (None: delete it).

        Runs that began before count, and held jobs that it now lets start are released.
        *types* are those known to share it.  With several shards a limit holds within
        each.

        Raises:
            ValueError: *types* live on several shards, or the name cannot be one.
        """

    @abstractmethod
    async def named_limits(self) -> dict[str, StoredLimit]:
        """Return the limits that jobs share by name and key, by name."""

    @abstractmethod
    async def limit_use(
        self, name: str, *, limit: int = 100, now: int | None = None
    ) -> list[LimitUse]:
        """
        Return how keys of a limit are used, those with the most held jobs first.

        Keys without running and held jobs are left out.  Up to *limit* of them; of
        very many, those that are found first.
        """

    @abstractmethod
    async def set_failure_rule(
        self, type: str | None, rule: FailureRule | None, *, now: int | None = None
    ) -> None:
        """
        Set what is done about jobs of *type* (None: of any) that fail from now on.

        The store itself notes such jobs for `failures`, whichever way they fail; the
        rest is up to workers.  An empty rule, or None, deletes it.

        Raises:
            ValueError: The rule makes no sense.
        """

    @abstractmethod
    async def failure_rules(self) -> dict[str | None, FailureRule]:
        """Return the rules of types, and that of all types as None."""

    @abstractmethod
    async def failures(self, *, limit: int = MAX_BATCH, skip: int = 0) -> list[Failure]:
        """
        Return jobs that failed for good and are to be reported, the oldest first.

        The oldest *skip* of them are left out.

        Each is noted in the transition that fails it, if its type has a rule or there
        is one for all types; never for types that begin with ``kue.``.  While there is
        any rule, jobs of a task that waited in another queue are noted as well: the
        rule may be that of the task.  More may be noted than have a rule in the end.
        """

    @abstractmethod
    async def forget_failures(
        self, failures: Sequence[Failure], *, now: int | None = None
    ) -> None:
        """Delete failures that were reported."""

    @abstractmethod
    async def clear(
        self,
        type: str | None,
        states: Iterable[State],
        *,
        limit: int = MAX_BATCH,
        now: int | None = None,
    ) -> int:
        """
        Remove up to *limit* jobs of *type* (None: any) in *states*; return how many.

        Call until it returns 0.  ``active`` raises `ValueError`.  Dependants of removed
        jobs are cancelled, unless they are in *states* and are removed first.
        """

    @abstractmethod
    async def schedule(
        self, schedule: Schedule, *, expected: Schedule | None = None
    ) -> bool:
        """
        Write a schedule if the stored one of its name still is *expected*.

        None: there must be none.  Returns whether it was written: a schedule that has
        fired or was changed since it was read is left as it is.

        With several shards a schedule is kept on that of its jobs' type; to change
        the type, delete it first.

        Raises:
            ValueError: The type differs from the expected one, or there are
                `MAX_SCHEDULES` already.
        """

    @abstractmethod
    async def unschedule(self, name: str) -> bool:
        """Delete a schedule; return whether there was one."""

    @abstractmethod
    async def schedules(self, name: str | None = None) -> list[Schedule]:
        """Return all schedules, by name, or only the one that has this *name*."""

    @abstractmethod
    async def fire(self, name: str, *, now: int | None = None) -> Added | None:
        """
        Add the job of a schedule at once, whatever it is due for; None: there is none.

        The schedule has it among its ticks, and fires at its next time all the same.
        """

    # -- reading ---------------------------------------------------------------

    @abstractmethod
    async def get(self, job_ids: Sequence[int]) -> list[Job | None]:
        """
        Return jobs as they are now; None for each that does not exist.

        Large jobs are read in parts, and so not in one snapshot.
        """

    @abstractmethod
    async def page(self, request: PageRequest) -> Page:
        """
        Return jobs in order.

        Order: waiting in the order in which they start, which is by (priority, id)
        unless the type is fair or has ageing; delayed by (promote_at, id); complete,
        failed and cancelled by (time they ended, id); active, blocked and all states
        together by id.  A job that does not move is on exactly one page, whatever
        happens to others between two calls.

        A page has as many jobs as requested, or fewer: it ends once it has
        `MAX_PAGE_BYTES`, with at least one job and a cursor to continue.
        """

    @abstractmethod
    async def members(
        self, flow: int, *, limit: int = 50, cursor: str | None = None
    ) -> Page:
        """
        Return jobs that were added with this ``flow``, by id.

        Those that were removed are left out.  There are none once the job *flow* was
        removed, or if there never was one.  With several shards a job that was just
        added may be missing from a page that was read before.
        """

    @abstractmethod
    async def flow_counts(self, flows: Sequence[int]) -> list[FlowCounts]:
        """
        Return how many members flows have, by state; all 0 where there is no flow.

        The numbers are counters, kept by everything that moves a job.  A member that is
        removed after it has ended still counts; one that is removed before counts as
        cancelled.
        """

    @abstractmethod
    async def parents(self, job_ids: Sequence[int]) -> list[list[int]]:
        """
        Return for each job, if it is blocked, the jobs that it waits for now, by id.

        Those that were added with it in ``before`` are among them.  At most
        `kue.model.job.MAX_PARENTS` of each are returned.
        """

    @abstractmethod
    async def count(self) -> dict[str, dict[State, int]]:
        """Return how many jobs there are: type → state → number, for every type."""

    @abstractmethod
    async def types(self) -> list[str]:
        """Return the types, sorted; one that was idle for a day is forgotten."""

    @abstractmethod
    async def logs(self, job_id: int, start: int = 0, stop: int = -1) -> list[LogLine]:
        """Return lines *start* to *stop* of a log, both included, -1 the last."""

    @abstractmethod
    async def newest_logs(
        self, job_ids: Sequence[int], lines: int
    ) -> list[list[LogLine]]:
        """Return the newest *lines* of each job's log, the oldest of them first."""

    @abstractmethod
    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        """Return the workers the store knows, by name, on all shards together."""

    @abstractmethod
    async def stats(self, since: int, until: int) -> list[Stat]:
        """Return per-minute counters from minute *since* to *until*, both included."""

    @abstractmethod
    async def hours(
        self, since: int, until: int, *, now: int | None = None
    ) -> list[Stat]:
        """
        Return per-hour counters from hour *since* to *until* (Unix time in hours).

        `Stat.minute` is the hour's first.  Minutes that maintenance has not yet added
        to their hour are included.
        """

    @abstractmethod
    async def work_time(self, *, now: int | None = None) -> int:
        """Return how long all successful runs ever took, in ms."""

    @abstractmethod
    async def facts(self) -> StoreFacts:
        """Return the engine's name, version and size, and its round-trip time."""

    @abstractmethod
    async def errors(self, type: str | None = None, *, limit: int = 50) -> Errors:
        """
        Return the error groups of jobs that are failed now, the most frequent first.

        A group exists while it has jobs.  A job that was retried or removed no longer
        counts, but may still be the one named as the group's last, and the source of
        its times.  Jobs that failed before errors had fingerprints are in no group.
        """

    @abstractmethod
    async def check(
        self, *, repair: bool = False, on_progress: OnProgress | None = None
    ) -> Report:
        """
        Check every invariant of the live store; with *repair*, repair unambiguous ones.

        Safe while the store is in use: a suspicion is checked again before it counts.
        """

    async def find(
        self,
        wanted: Filter,
        *,
        limit: int = 50,
        cursor: str | None = None,
        descending: bool = False,
        scan: int = MAX_SCAN,
        accept: Callable[[Job], bool] | None = None,
        redact: Redactor | None = None,
    ) -> Page:
        """
        Return up to *limit* jobs that match, in the order of `page`.

        *accept* is a second condition.  *redact* hides secrets, which are not searched.
        Neither page nor cursor depends on the jobs that these two leave out.

        Looks at no more than *scan* jobs and about `MAX_SCAN_BYTES` per call, and
        returns no more than about `MAX_PAGE_BYTES`: a page may be short, even empty,
        and still have a cursor.
        """
        request = SearchRequest(
            wanted=wanted,
            limit=limit,
            cursor=cursor,
            descending=descending,
            scan=scan,
            accept=accept,
            redact=redact,
        )
        return await search.find(self, request)

    @staticmethod
    def cursor_after(job: Job, state: State | None) -> str:
        """Return the cursor of what follows *job* on pages of *state*."""
        return f"{sort_key(job, state)}:{job.id}"

    # -- small records ---------------------------------------------------------

    @abstractmethod
    async def keep(self, request: KeepRequest, *, now: int | None = None) -> bool:
        """
        Write a small record; return whether it has the new value.

        Raises:
            ValueError: The room is not one word, the name is not a valid name or the
                value is too large.
        """

    @abstractmethod
    async def kept(self, room: str, name: str, *, now: int | None = None) -> str | None:
        """Return a record; None when there is none, or it has expired."""

    @abstractmethod
    async def all_kept(self, room: str, *, now: int | None = None) -> dict[str, str]:
        """Return the records of a room, by name."""

    @abstractmethod
    async def forget(self, room: str, name: str, *, now: int | None = None) -> bool:
        """Delete a record; return whether there was one."""

    @abstractmethod
    async def note(self, act: AuditEntry, *, now: int | None = None) -> int:
        """
        Append to the audit log; return the number.

        The newest of each of the `RINGS` are kept: a client that has no rights, or may
        only add jobs, cannot push out what others did.
        Number and time of *act* are set here.
        """

    @abstractmethod
    async def acts(self, limit: int = 50, cursor: str | None = None) -> AuditPage:
        """Return a page of the audit log, the newest first."""

    # -- events ----------------------------------------------------------------

    @abstractmethod
    def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AbstractAsyncContextManager[Events]:
        """
        Subscribe to events of some jobs, or of all.

        From the moment the context is entered no event is missed.  When more than
        *buffer* events are unread, the oldest are dropped and a ``lagged`` event
        reports how many.
        """
