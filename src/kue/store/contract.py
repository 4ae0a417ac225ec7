"""
The store contract: what every engine does, verb by verb.

A feature that needs atomicity is a verb here, written once for each engine and proven
by the contract suite in ``tests/store``; one that does not is written once, above.

Verbs take many and answer many, in the order asked; a single job is a batch of one.
Every verb either happened whole or not at all for each job, and saying the same thing
twice is the same as saying it once.  *now* (Unix ms) is for tests that own the clock;
left out, the engine's own clock is read once a call.

All verbs raise `StoreUnavailable` when the engine cannot be reached within its budget;
the same call may then be repeated with the same arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.errors import ConfigError
from kue.model.events import Event
from kue.model.settings import LEASE_MS, Keep
from kue.store.batches import bytes_of_job
from kue.store.values import (
    MAX_BATCH,
    MAX_PAGE_BYTES,
    MAX_SCAN,
    NOTHING_SEEN,
    Added,
    AuditEntry,
    AuditPage,
    Change,
    Claim,
    Claimed,
    Errors,
    ExpectedState,
    Filter,
    HeartbeatReply,
    Limits,
    LogLine,
    MaintenanceResult,
    Outcome,
    Page,
    Pause,
    Progress,
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

    from kue.model.histogram import Timing
    from kue.model.job import Draft, Job, State
    from kue.model.schedule import Schedule

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
        """How many calls it did not answer so far, repeated ones among them."""
        return 0

    @abstractmethod
    async def open(self) -> str:
        """
        Connect, make sure the engine is fit, and say in a sentence how durable it is.

        Raises:
            StoreRefused: It is too old, evicts keys, is a replica, or holds data of a
                newer schema or another number of shards; the message says what to do.
            StoreCorrupt: The file is not a database or is damaged.
            StoreUnavailable: It cannot be reached.
        """

    async def verify(self) -> None:
        """
        Make sure that this is still the store that was opened, and still fit.

        Raises:
            StoreRefused: It was emptied or replaced, or evicts keys by now; the message
                says what to do.
            StoreUnavailable: It cannot be reached.
        """
        await self.open()

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections, threads and files.  Closing twice is fine."""

    def twin(self) -> Store:
        """
        Return a store on the same jobs for another event loop, such as a thread's.

        It is not open yet, and closed by itself; only that of a store in memory ends
        with the first.

        Raises:
            ConfigError: This one cannot be doubled.
        """
        raise ConfigError(
            f"{self.name} serves one event loop, so its queue has no sync side; await "
            "the verbs, or make the queue from a URL"
        )

    @abstractmethod
    async def now(self) -> int:
        """Return the engine's clock, Unix ms."""

    # -- producing -------------------------------------------------------------

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
        in the future, ``blocked`` when a job of ``spec.after`` has not ended well (with
        ``after_any``: not ended), else ``waiting``.  When a parent is cancelled or does
        not exist, an ``after_any`` draft does not wait for it; any other is stored as
        ``cancelled``.  The delay of a blocked job counts from when it is released.  A
        draft whose unique key is held (by an unfinished job of the type, or within
        that job's ``unique_for``) adds nothing and answers with the holder's id;
        within one call the first draft with a key holds it.  The answer has the time
        at which the job was created: ids are given again after a fail-over that lost
        writes, and verbs that are given the time (`ExpectedState`) act on no other job.

        A producer has one call in flight; *seq* grows with each new call.  A repeated
        (producer, seq) answers as the first did and adds nothing; a lower seq than the
        last is refused with `ValueError`.

        Raises:
            StoreFull: No memory or disk left.  Nothing was added, unless the drafts
                have more than `MAX_CALL_BYTES`: those are stored in parts, each whole
                or not at all, and the same call again adds the missing parts.
            DurabilityUnknown: *durable* was asked and not confirmed in time.
        """

    # -- running ---------------------------------------------------------------

    @abstractmethod
    async def claim(
        self,
        types: Sequence[str],
        limit: int,
        *,
        worker: str,
        claim: Claim,
        lease: int = LEASE_MS,
        now: int | None = None,
    ) -> Claimed:
        """
        Take the best *limit* waiting jobs of *types* by (priority, id) and start them.

        First promotes due delayed jobs of these types.  Each job taken becomes active
        with a fresh token and attempt + 1, and the worker's lease runs until now +
        *lease*.  Jobs past their ``expires`` become failed (`policy.EXPIRED`) instead;
        ids without a usable record are parked and told (event ``error``).  Paused types
        give nothing; limits hold back, and a job over its group's limit is set aside
        (still ``waiting``, with `Job.held`) until a run of the group ends.

        The same *claim* again answers with those of its jobs that still run; an older
        one of its lane answers with none.  With a *limit* of 0 it takes nothing, then
        or later.  Jobs beyond about `MAX_CALL_BYTES` are left for the next claim, and
        ``next_at`` is now.  With several shards the order holds within a shard.
        """

    @abstractmethod
    async def settle(
        self, outcomes: Sequence[Outcome], *, now: int | None = None
    ) -> list[Result]:
        """
        End runs.

        ``Completed`` → complete, or removed with ``remove_on_complete``; ``Failed`` →
        failed; ``Cancelled`` → cancelled; ``Retried``, ``Released`` and ``Stalled`` →
        waiting, or delayed when their delay is positive; but a run that was asked to
        cancel and ends as one of these three becomes cancelled (`policy.after_cancel`).
        Adds one line to the story, counts attempts and stalls, forgets progress (a
        complete job shows 100), releases the unique key (final endings, unless
        ``unique_for`` lasts), the group's slot and the type's, releases dependants,
        starts retention.

        DONE; ALREADY when this very run ended before (whatever it is told now: the
        first ending stands); LOST when the run was taken back; GONE when the job was
        removed.
        """

    @abstractmethod
    async def cycle(
        self,
        outcomes: Sequence[Outcome],
        types: Sequence[str],
        limit: int,
        *,
        worker: str,
        claim: Claim,
        lease: int = LEASE_MS,
        now: int | None = None,
    ) -> tuple[list[Result], Claimed]:
        """Do `settle` and then `claim` in one round trip: the hot path."""

    @abstractmethod
    async def renew(
        self,
        worker: str,
        *,
        lease: int = LEASE_MS,
        runs: Sequence[Job] = (),
        info: dict[str, Any] | None = None,
        orders: bool = False,
        now: int | None = None,
    ) -> HeartbeatReply:
        """
        Prolong the lease on everything *worker* runs to now + *lease*.

        Late is fine: until someone took a run back it is still the worker's.  *runs*
        are checked one by one: which are no longer the worker's, and which others
        someone asked to cancel.  *info* replaces what `workers` shows.  Also returns
        whether the worker is paused, and whether maintenance is overdue.

        With *orders*, also what someone ordered it to do.  That is told once, so only
        those may ask who can obey, and a reply that is lost loses it.
        """

    @abstractmethod
    async def measure(
        self, timings: Sequence[Timing], *, now: int | None = None
    ) -> None:
        """
        Add how long jobs waited and ran to the current minute's counters.

        Unlike other verbs, said twice it counts twice, also when it is repeated after a
        lost reply.  That is a few seconds of one worker's jobs, and percentiles hardly
        move; to remember who said what would cost more than it is worth.

        Raises:
            ValueError: A bucket is none of `timings.BOUNDS`, or counts less than 0.
        """

    @abstractmethod
    async def begin(
        self, job: Job, *, alone: bool, now: int | None = None
    ) -> Job | Result:
        """
        Record that a claimed job which was held back begins now, *alone* or not.

        For jobs that a worker must run alone (`policy.runs_alone`): a loss of the
        worker before this call counts nothing.  The run starts now, and so does its
        ttl; the returned job has its new token.  `Word.LOST` when the run was taken
        back or the job is gone, `Word.REFUSED` when its type is paused by now: the
        caller is to release it.  Repeated, it starts the same run again.
        """

    @abstractmethod
    async def leave(self, worker: str, *, now: int | None = None) -> None:
        """End *worker*'s lease: what it still runs is taken back by the next tend."""

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
        Do one bounded pass of maintenance; any number of processes may, at any time.

        A store needs about one pass a second, whichever process makes it: if another
        process has just made one, or nothing is due, nothing is done and the answer is
        `quiet`.  If another process made the last one, it is `elsewhere`, too: that
        process makes the next pass, and `renew` tells the others when it is overdue.
        With *now* a pass is made in any case.

        Promotes due jobs, takes back the runs of workers whose lease is over
        (`policy.after_lost_worker`) and of jobs whose ttl passed (`policy.after_ttl`),
        fails what expired, prunes what *keep* and retention no longer keep, fires due
        schedules (each firing by exactly one process), relays what spans shards, wakes
        workers for anything ready, ends pauses, forgets lost workers and old watches,
        adds full minutes of the statistics to their hours (each once), forgets types
        that have nothing in them and had no job for a day.

        When nobody tended for `grace_gap` of *lease*, the store or everybody was away
        and leases look over that are not: every lease is prolonged by half of *lease*,
        once in ten such times, so that live workers beat before they are robbed.  When
        the clock stepped back, leases are set anew to now + *lease*.
        """

    @abstractmethod
    async def wait(self, types: Sequence[str], timeout: float) -> frozenset[str]:
        """
        Sleep until there may be work of *types*, at most *timeout* seconds.

        Returns the types that may have some: none when nothing but time passed.  It may
        return early and name types for no reason; it never sleeps through a job that
        was added, a delayed job that became due, a pause that was lifted or a limit
        that freed, unless another waiter was woken for it.  What became ready beside
        the types it names is found by the next call, which looks before it sleeps.
        """

    async def stand_by(
        self,
        types: Sequence[str],
        limit: int,
        *,
        worker: str,
        claim: Claim,
        lease: int = LEASE_MS,
        timeout: float,
    ) -> Claimed:
        """
        Wait as `wait` does, then `claim`: for those who know that there is no work.

        One step where the store can do it in one.  A call that was not answered, or
        that is given up, may have got jobs: the same *claim* with a limit of 0 tells
        which, and lets it have none later.
        """
        if not await self.wait(types, timeout):
            return Claimed([], 0, None)
        return await self.claim(types, limit, worker=worker, claim=claim, lease=lease)

    # -- signs of life ---------------------------------------------------------

    @abstractmethod
    async def progress(
        self, updates: Sequence[Progress], *, now: int | None = None
    ) -> list[Result]:
        """
        Write progress of active jobs and start their ttl anew.

        DONE; LOST for a token that is not the current one; REFUSED when the job is not
        active and no token was given; GONE, also for another job than the one created
        at `Progress.created_at`.
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
        Append lines to a job's log, whatever its state; keeps MAX_LOG_LINES.

        GONE when there is no such job, or *created_at* is that of another one.
        """

    # -- operating -------------------------------------------------------------

    @abstractmethod
    async def update(
        self, changes: Sequence[Change], *, now: int | None = None
    ) -> list[Result]:
        """
        Edit jobs in any state; a run in progress keeps the data it started with.

        With `Change.seen`, GONE for another job, and REFUSED for one whose ending is
        not the one that was seen.
        """

    @abstractmethod
    async def move(
        self,
        job_ids: Sequence[int],
        to: State,
        *,
        at: int | None = None,
        states: Iterable[State] | None = None,
        seen: Mapping[int, ExpectedState] = NOTHING_SEEN,
        now: int | None = None,
    ) -> list[Reply]:
        """
        Move jobs to ``waiting``, or ``delayed`` until *at*, as `MOVES_BY_HAND` allows.

        With *states* a job in any other state is REFUSED, at the very moment of the
        move: what ended since it was looked at does not run again.  *seen* has by id
        what the caller knows of a job.  Another job with its id is GONE.  A job that
        was seen to have ended is moved from that ending alone: if it was restarted
        since, the answer is ALREADY, wherever it is now.  So of two retries of one
        ending the second is a no-op, and a call repeated after a lost reply moves
        nothing twice.  A job that was seen unfinished and has ended since is REFUSED.

        A finished job starts anew: attempts and stalls count from nothing, its story
        goes on with a line ``restarted``, its unique key is taken again (HELD if
        another job has it).  A blocked job no longer waits for its parents.  Moving a
        waiting job to waiting is ALREADY.
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
        Cancel jobs: at once (DONE) unless active; an active one is ASKED.

        The worker of an active job hears of it at its next `renew`, with the *reason*,
        and ends it; if it ends well first, that stands.  ALREADY when cancelled or
        asked before, REFUSED when complete or failed.  Another job than the one *seen*
        is GONE.
        """

    @abstractmethod
    async def remove(
        self,
        job_ids: Sequence[int],
        *,
        force: bool = False,
        states: Iterable[State] | None = None,
        seen: Mapping[int, ExpectedState] = NOTHING_SEEN,
        now: int | None = None,
    ) -> list[Reply]:
        """
        Delete jobs with log, keys and links; dependants are told as if cancelled.

        An active job is REFUSED unless *force*; its run then finds it GONE.  With
        *states* a job in any other state is REFUSED: what was put back in line since
        it was looked at is not lost.  So is one whose ending is not the one *seen*;
        another job than the one *seen* is GONE.
        """

    @abstractmethod
    async def pause(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        reason: str = "",
        by: str = "",
        until: int | None = None,
        now: int | None = None,
    ) -> None:
        """
        Hand out no more jobs of *type* (None: of any) until resumed or *until*.

        With *worker*, that worker alone is told by `renew` to claim no more; claims do
        not look at it.  It goes by name and need not be known: a worker that comes back
        under its name is still paused, however long it was away.

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
        End a pause and wake workers; tell whether there was one.

        A worker hears at its next `renew` that its own pause is over.

        Raises:
            ValueError: Both a type and a worker are given.
        """

    @abstractmethod
    async def paused(self) -> list[Pause]:
        """Return the pauses in force: of every type, of types, of workers; by name."""

    @abstractmethod
    async def order(self, worker: str, order: str, *, now: int | None = None) -> bool:
        """
        Have a live worker do something when it next renews; tell whether there is one.

        Orders are in `ORDERS`; the same one twice is one.  A worker that does not hear
        it within `ORDER_MS`, or is gone by then, never does.

        Raises:
            ValueError: There is no such order.
        """

    @abstractmethod
    async def write_stacks(
        self, worker: str, text: str, *, now: int | None = None
    ) -> None:
        """Keep a known worker's stacks, the first `MAX_STACKS` bytes, for a while."""

    @abstractmethod
    async def stacks(self, worker: str, *, now: int | None = None) -> Stacks | None:
        """Return what a worker last wrote down, unless that is too long ago."""

    @abstractmethod
    async def limit(
        self, type: str, limits: Limits | None, *, now: int | None = None
    ) -> None:
        """Set what holds jobs of *type* back (None: nothing); let go what it frees."""

    @abstractmethod
    async def limits(self) -> dict[str, Limits]:
        """Return the limits in force, by type."""

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

        Call until it returns 0.  ``active`` is refused with `ValueError`.  What waits
        for one of them is removed as well, if it is in *states* and its turn comes
        first; else it is cancelled.
        """

    @abstractmethod
    async def schedule(self, schedule: Schedule) -> None:
        """Write a schedule, replacing the one with its name."""

    @abstractmethod
    async def unschedule(self, name: str) -> bool:
        """Delete a schedule; tell whether there was one."""

    @abstractmethod
    async def schedules(self) -> list[Schedule]:
        """Return all schedules, by name."""

    # -- reading ---------------------------------------------------------------

    @abstractmethod
    async def get(self, job_ids: Sequence[int]) -> list[Job | None]:
        """
        Return jobs as they are now; None for each that does not exist.

        Read in parts where they are large, and so not all at one moment.
        """

    @abstractmethod
    async def page(
        self,
        state: State | None = None,
        type: str | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        skip: int = 0,
        descending: bool = False,
    ) -> Page:
        """
        Return jobs in order, from *cursor* on (or after the first *skip*).

        Order: waiting by (priority, id); delayed by (promote_at, id); complete, failed
        and cancelled by (time they ended, id); active, blocked and all states together
        by id.  A job that stays where it is, is on exactly one page, whatever happens
        to others meanwhile.

        A page has *limit* jobs, or fewer: it ends once it has `MAX_PAGE_BYTES`, with at
        least one job and a cursor to go on.
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

        `Stat.minute` is the hour's first.  Minutes that upkeep has not added to their
        hour yet count, too.
        """

    @abstractmethod
    async def facts(self) -> StoreFacts:
        """Return what keeps the jobs, and how fast it answers."""

    @abstractmethod
    async def errors(self, type: str | None = None, *, limit: int = 50) -> Errors:
        """
        Return what jobs that are failed now failed of, the most frequent first.

        A group is there while it has jobs.  One that was retried or removed no longer
        counts, but may still be the one a group names as its last, and have given it
        its times.  Jobs that failed before errors had fingerprints are in none.
        """

    @abstractmethod
    async def check(
        self, *, repair: bool = False, on_progress: OnProgress | None = None
    ) -> Report:
        """
        Prove every invariant on the live store; mend what needs no guessing.

        Safe while others work: a suspicion is looked at a second time before it counts.
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
    ) -> Page:
        """
        Return up to *limit* jobs that match, in the order of `page`.

        *accept*, too, says whether a job that matches is one of them: neither page nor
        cursor depends on those it refuses.

        Looks at no more than about *scan* jobs a call, and returns no more than about
        `MAX_PAGE_BYTES`: a page may be short, even empty, and still have a cursor.
        """
        found: list[Job] = []
        seen, size = 0, 0
        while seen < scan:
            # One job too many cannot be given back to the cursor: ask for no more than
            # still fit, once the page is nearly full, or for plenty while it is empty.
            room = min(MAX_BATCH, max(limit - len(found), 50)) if found else MAX_BATCH
            page = await self.page(
                wanted.state,
                wanted.type,
                limit=room,
                cursor=cursor,
                descending=descending,
            )
            for index, job in enumerate(page.jobs):
                if not wanted.matches(job) or not (accept is None or accept(job)):
                    continue
                found.append(job)
                size += bytes_of_job(job)
                if len(found) == limit or size > MAX_PAGE_BYTES:
                    is_last = index == len(page.jobs) - 1 and page.cursor is None
                    rest = None if is_last else self.cursor_after(job, wanted.state)
                    return Page(found, rest)
            seen += len(page.jobs)
            cursor = page.cursor
            if cursor is None:
                return Page(found, None)
        return Page(found, cursor)

    @staticmethod
    def cursor_after(job: Job, state: State | None) -> str:
        """Return the cursor of what follows *job* on pages of *state*."""
        return f"{sort_key(job, state)}:{job.id}"

    # -- small records ---------------------------------------------------------

    @abstractmethod
    async def keep(
        self,
        room: str,
        name: str,
        value: str,
        *,
        was: str | msgspec.UnsetType | None = msgspec.UNSET,
        until: int | None = None,
        now: int | None = None,
    ) -> bool:
        """
        Write a small record: text of up to MAX_KEPT bytes, by room and name.

        With *was* only if it has that value now (None: if there is none), so that of
        two who change it one is refused; tells whether it is so now.  Past *until* it
        is over: never returned, and swept by `tend`.

        Raises:
            ValueError: The room is not one word, the name is none or the value is
                too large.
        """

    @abstractmethod
    async def kept(self, room: str, name: str, *, now: int | None = None) -> str | None:
        """Return a record; None when there is none, or it is over."""

    @abstractmethod
    async def all_kept(self, room: str, *, now: int | None = None) -> dict[str, str]:
        """Return the records of a room, by name."""

    @abstractmethod
    async def forget(self, room: str, name: str, *, now: int | None = None) -> bool:
        """Delete a record; tell whether there was one."""

    @abstractmethod
    async def note(self, act: AuditEntry, *, now: int | None = None) -> int:
        """
        Append to the audit log; return the number.

        The newest of each of the `RINGS` are kept: a client that may do nothing, or
        only add jobs, cannot push out what others did.
        Number and time of *act* are set here.
        """

    @abstractmethod
    async def acts(self, limit: int = 50, cursor: str | None = None) -> AuditPage:
        """Return a page of the audit log, the newest first."""

    # -- listening -------------------------------------------------------------

    @abstractmethod
    def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AbstractAsyncContextManager[Events]:
        """
        Listen to events of some jobs, or of all.

        From the moment the context is entered no event is missed.  When more than
        *buffer* wait to be read, the oldest go and a ``lagged`` event says how many.
        """
