"""Values: arguments and results of the store's verbs, and their limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from kue.model.histogram import added
from kue.model.job import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    Ending,
    Job,
    State,
    priority_of,
)
from kue.model.named_limits import LimitRule, read_ref
from kue.model.names import Name
from kue.model.payload import JSON
from kue.model.search_text import missing, needles_of, terms_of, texts_in
from kue.model.settings import LEASE_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The most jobs that one call may name, add or claim.
MAX_BATCH = 500
#: About how many bytes one script or transaction reads or writes: see `store.batches`.
MAX_CALL_BYTES = 1024 * 1024
#: A page ends when its jobs have about this many bytes, however few they are.
MAX_PAGE_BYTES = 8 * 1024 * 1024
#: Lines kept of a job's log; older ones are dropped.
MAX_LOG_LINES = 1000
#: Bytes of a small record.
MAX_KEPT = 64 * 1024
#: The rings of the audit log, and how many entries each keeps; older ones are dropped.
#: Operations open to anyone have separate rings, so that they push out nothing else.
RINGS = {"acts": 10_000, "routine": 1_000, "refusals": 1_000}
#: Characters kept of one log line.
MAX_LOG_TEXT = 4000
#: Without maintenance for this long, the store or all processes were away: see
#: `grace_gap`.
GRACE_GAP_MS = 5_000
#: Maintenance runs every second; a gap shorter than this does not count.
MIN_GRACE_GAP_MS = 2_000
#: Maintenance is overdue this long after it was due.  With a heartbeat interval on top
#: that is still less than the gap after which leases get a grace period.
OVERDUE_MS = 400
#: The largest weight of a group in a fair type, and how many groups have one.
MAX_WEIGHT = 60
MAX_WEIGHTS = 100
#: The longest wait that is worth one step of priority: a week.
MAX_AGEING_MS = 7 * 86_400_000
#: Orders for a worker: shut down gracefully, write its stacks.
ORDERS = ("stop", "stacks")
#: An order that a worker does not receive for this long is dropped.
ORDER_MS = 60_000
#: How many bytes of a worker's stacks are kept, and for how long.
MAX_STACKS = 256 * 1024
STACKS_MS = 600_000
#: How long counters are kept by the minute, and by the hour.
MINUTES_KEPT = 25 * 60
HOURS_KEPT = 90 * 24
#: Minutes that one maintenance pass adds to their hours, at most.
MINUTES_PER_PASS = 120
#: Of this many of the newest ids the store knows whether a removed job had succeeded:
#: one bit each, in all 1.25 MB.
REMEMBERED_IDS = 10_000_000
#: Jobs that one search looks at by default, and about how many bytes of them.
MAX_SCAN, MAX_SCAN_BYTES = 10_000, 32 * 1024 * 1024
#: The most error groups that one call may return.
MAX_ERRORS = 200
#: How many paths of data one filter may have, of how many characters and names each.
MAX_PATHS, MAX_PATH, MAX_PATH_STEPS = 10, 200, 10
#: The largest number that every JSON parser keeps exact.
MAX_NUMBER = 2**53 - 1

#: Names and, in lists, numbers from 0, with dots between them.
DataPath: TypeAlias = Annotated[
    str,
    Meta(max_length=MAX_PATH, pattern=rf"^[^.]+(\.[^.]+){{0,{MAX_PATH_STEPS - 1}}}$"),
]
#: A priority in JSON.
Priority: TypeAlias = (
    Annotated[int, Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]
    | Annotated[str, Meta(max_length=20)]
)
#: A subscription expires this long after it was last renewed.
WATCH_MS = 60_000


class Result(StrEnum):
    """The result of a verb for one job."""

    #: It is done.
    DONE = "done"
    #: It was done before; nothing changed.
    ALREADY = "already"
    #: The run was reclaimed and the job requeued; nothing changed.
    LOST = "lost"
    #: The job does not exist.
    GONE = "gone"
    #: The job's state does not allow it; nothing changed.
    REFUSED = "refused"
    #: A running job was asked to end; its worker learns of it at its next heartbeat.
    ASKED = "asked"
    #: Another unfinished job holds its unique key; nothing changed.
    HELD = "held"


class Reply(NamedTuple):
    """The reply for one job: the result, and what explains it."""

    word: Result
    #: The job's state, if it was REFUSED.
    state: State | None = None
    #: The job that holds the unique key, if it is HELD.
    holder: int | None = None


class ExpectedState(NamedTuple):
    """
    What the caller knows of a job, so that a verb acts on no other.

    Ids are reused after a fail-over that lost writes, and a job that ended may have
    been retried, and have ended again, since it was read.
    """

    #: When it was created, Unix ms; None for any job with the id.
    created_at: int | None = None
    #: `Job.ending` as it was read, empty for a job that had not ended; None for any.
    ending: str | None = None

    @classmethod
    def of(cls, job: Job) -> ExpectedState:
        """Return what is known of a job that was read."""
        return cls(job.created_at, job.ending)


#: Nothing is expected: the id alone counts.
UNSEEN = ExpectedState()
NOTHING_SEEN: Mapping[int, ExpectedState] = MappingProxyType({})


class Added(NamedTuple):
    """The result of adding one draft."""

    id: int
    #: False for the id of the existing job that holds the unique key.
    new: bool
    #: When the job was created, Unix ms: unique together with the id.
    created_at: int | None = None
    #: Whether that job was replaced: it has the data and options of this draft now.
    replaced: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether no job was added, because the cap of its type is reached."""
        return self.id == 0


#: The result of adding a draft that the cap of its type refuses.
REFUSED = Added(0, False)


class Claim(NamedTuple):
    """
    Identifies one call of `claim`, so that it can be repeated.

    A lane is one loop of one worker with at most one claim in flight; *seq* grows by
    one with each new claim of the lane.
    """

    lane: str
    seq: int

    def __str__(self) -> str:
        return f"{self.lane}.{self.seq}"


class ClaimRequest(NamedTuple):
    """What a worker asks for: up to *limit* jobs of *types*, under a lease."""

    types: Sequence[str]
    limit: int
    worker: str
    claim: Claim
    lease: int = LEASE_MS


class RenewRequest(msgspec.Struct, frozen=True):
    """The heartbeat of a worker: its lease then runs until now + *lease* (ms)."""

    worker: str
    lease: int = LEASE_MS
    #: Checked one by one: whether they are still the worker's, or to be cancelled.
    runs: Sequence[Job] = ()
    #: Replaces what `Store.workers` shows; None leaves it.
    info: dict[str, Any] | None = None
    #: Return the orders for the worker, too.  Each is delivered once: a lost reply
    #: loses it, and only a caller that can handle orders may request them.
    orders: bool = False


class MoveRequest(msgspec.Struct, frozen=True):
    """Which jobs to move where, and under which conditions."""

    job_ids: Sequence[int]
    #: ``waiting``, ``delayed`` or ``blocked``.
    to: State
    #: When a delayed job is due, Unix ms.
    at: int | None = None
    #: A job in any other state is REFUSED; None for all states.
    states: Collection[State] | None = None
    #: What the caller knows of a job, by id.  Another job with the id is GONE.
    seen: Mapping[int, ExpectedState] = NOTHING_SEEN


class RemoveRequest(msgspec.Struct, frozen=True):
    """Which jobs to delete, and under which conditions."""

    job_ids: Sequence[int]
    #: Also delete active jobs, whose runs then find them GONE; else they are REFUSED.
    force: bool = False
    #: A job in any other state is REFUSED, so that a job that was requeued since it was
    #: read is not lost; None for all states.
    states: Collection[State] | None = None
    #: What the caller knows of a job, by id.  Another job with the id is GONE.
    seen: Mapping[int, ExpectedState] = NOTHING_SEEN


class PauseRequest(msgspec.Struct, frozen=True):
    """What to pause (a type, a worker or, with neither, every type), and why."""

    type: str | None = None
    worker: str | None = None
    reason: str = ""
    by: str = ""
    #: When it ends by itself, Unix ms.
    until: int | None = None


class PageRequest(msgspec.Struct, frozen=True):
    """Which jobs to list (None: of all states or types), and from where on."""

    state: State | None = None
    type: str | None = None
    limit: int = 50
    #: Of the previous page; without one, the first *skip* jobs are left out.
    cursor: str | None = None
    skip: int = 0
    descending: bool = False
    #: Leave out jobs that have these neither in their record nor in the newest lines
    #: of their log, see `kue.model.search_text`.  Where the page ends then depends on
    #: *scan* and on the size of jobs, not on *limit* or on what is in them; and some
    #: are read in any case, so that time does not show that a hidden text matched.
    needles: tuple[str, ...] = ()
    #: How many jobs to look at.
    scan: int = MAX_SCAN


class KeepRequest(msgspec.Struct, frozen=True):
    """A small record, text of up to `MAX_KEPT` bytes; a room is a namespace."""

    room: str
    name: str
    value: str
    #: Write only if it has this value now (None: if it does not exist), so that one of
    #: two concurrent changes is refused.
    was: str | msgspec.UnsetType | None = msgspec.UNSET
    #: Past this it is expired: never returned, and deleted by maintenance.  Unix ms.
    until: int | None = None


class Claimed(msgspec.Struct, frozen=True):
    """The result of a claim."""

    jobs: list[Job]
    #: The engine's clock, Unix ms.
    now: int
    #: When there may be more without a new job: a delayed job is due or a rate limit
    #: frees.  None when time alone changes nothing.
    next_at: int | None = None


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a run ended.  The job is the one claimed: its fencing token must match."""

    job: Job
    ending: Ending
    #: Set by maintenance, which ends other workers' runs: "lease" or "ttl" must be
    #: overdue at that very moment, or the run goes on and the result is LOST.
    overdue: str = ""


class WhenFull(StrEnum):
    """What happens to a new job when as many wait as the cap of its type allows."""

    #: It is not added, and the caller gets an error.
    REFUSE = "refuse"
    #: The caller waits for room, at most `Limits.full_timeout`.
    WAIT = "wait"
    #: It is added; the oldest waiting job of the lowest priority is cancelled.
    DROP_OLDEST = "drop-oldest"


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    Limits of a job type, and the order in which its jobs start.

    *rate* runs may start per *per* ms, with bursts of up to *rate*; at most
    *concurrency* run at once; at most *per_key* of one group run at once.  At most
    *max_waiting* jobs wait, held ones included; delayed and blocked ones do not count.

    By default jobs start by priority, then by age.  In a *fair* type groups take turns
    within each priority, a group as often as its weight (1 if it has none).  With
    *ageing*, in ms, waiting that long is worth one step of priority.
    """

    concurrency: int | None = None
    rate: int | None = None
    per: int = 1000
    per_key: int | None = None
    max_waiting: int | None = None
    when_full: WhenFull = WhenFull.REFUSE
    full_timeout: int = 30_000
    fair: bool = False
    ageing: int | None = None
    weights: dict[str, int] = {}


class LimitUse(msgspec.Struct, frozen=True):
    """How one key of a named limit is used."""

    key: str
    running: int
    #: Jobs that are held back.
    waiting: int
    #: When its rate lets the next job start, Unix ms; None for a concurrency.
    opens_at: int | None = None


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A pause of a type, a worker or (with neither) everything, and its reason.

    No jobs of a paused type are claimed; a paused worker claims none.
    """

    type: str | None
    at: int
    reason: str = ""
    by: str = ""
    #: When it ends by itself, Unix ms.
    until: int | None = None
    #: With a worker the type is None, and it is not a pause of every type.
    worker: str | None = None


class HeartbeatReply(msgspec.Struct, frozen=True):
    """What a worker receives when it renews its lease."""

    #: Ids of the given runs that are no longer the worker's.
    lost: list[int]
    #: The others that are to be cancelled, with the reason given ("" if none).
    cancel: dict[int, str]
    #: Set while the worker is to start nothing new; claims do not check it.
    paused: Pause | None = None
    #: Orders for the worker, each delivered once: see `ORDERS`.
    orders: tuple[str, ...] = ()
    #: No process makes maintenance passes: see `MaintenanceResult.elsewhere`.
    overdue: bool = False


class MaintenanceResult(msgspec.Struct, frozen=True):
    """What one maintenance pass did."""

    COUNTS: ClassVar = (
        "promoted",
        "rescued",
        "timed_out",
        "expired",
        "pruned",
        "fired",
        "released",
    )

    promoted: int = 0
    #: Stalled jobs: runs reclaimed from lost workers.
    rescued: int = 0
    #: Runs ended because their ttl passed.
    timed_out: int = 0
    #: Jobs that expired while they did not run.
    expired: int = 0
    pruned: int = 0
    #: Jobs added by schedules.
    fired: int = 0
    #: Dependants released whose parent ended in an earlier call or on another shard.
    released: int = 0
    #: There may be jobs that failed and are to be reported: see `Store.failures`.
    failures: bool = False
    #: The limit was reached: there is more to do now.
    more: bool = False
    #: Nothing is due: another process has just made a pass, or the store is idle.
    quiet: bool = False
    #: Nothing is due, and the process that made the last pass makes the next one, too.
    elsewhere: bool = False

    def __bool__(self) -> bool:
        """Whether it did anything."""
        return self.more or any(getattr(self, name) for name in self.COUNTS)


class Failure(msgspec.Struct, frozen=True):
    """A job that failed for good, and when; with the token of the run, if it ran."""

    job_id: int
    type: str
    at: int
    token: str = ""

    @property
    def key(self) -> str:
        """What identifies this failure of the job: every run has its own fence."""
        return f"{self.job_id}:{self.at}:{self.token.partition(':')[0]}"

    def of(self, job: Job | None) -> Job | None:
        """Return *job* as it was then; None if its history does not go back so far."""
        if job is None:
            return None
        for number, line in enumerate(job.history, 1):
            if (line.token, line.at) == (self.token, self.at) and line.error:
                return msgspec.structs.replace(
                    job, state=State.FAILED, token="", history=job.history[:number]
                )
        return None


class Progress(msgspec.Struct, frozen=True):
    """How far a job is.  With a *token* it must be the current run's."""

    job_id: int
    #: 0 to 100
    percent: int
    data: JSON = None
    token: str = ""
    #: When the job was created; None for any job with the id.
    created_at: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.percent <= 100:
            raise ValueError(f"progress must be from 0 to 100, not {self.percent}")


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a job's log."""

    text: str
    level: str = "info"
    attempt: int = 0
    #: By the engine's clock, Unix ms; set by the engine.
    at: int = 0


def error_line_of(outcome: Outcome) -> LogLine | None:
    """Return what a run that failed leaves in the job's log; None if it did not."""
    error = getattr(outcome.ending, "error", None)
    if error is None:
        return None
    return LogLine(error.summary[:MAX_LOG_TEXT], "error", outcome.job.attempts)


class Change(msgspec.Struct, frozen=True):
    """An edit of a job; fields that are UNSET do not change."""

    job_id: int
    #: Encoded (`msgspec.Raw`) or plain JSON.
    data: JSON | msgspec.UnsetType = msgspec.UNSET
    #: Whether that is sealed: `Spec.sealed`.
    sealed: int = 0
    priority: int | msgspec.UnsetType = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    max_attempts: int | msgspec.UnsetType = msgspec.UNSET
    #: Fields that are set; the others stay.
    meta: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    #: Edit only the job that was seen, with the ending that was seen.
    seen: ExpectedState = UNSEEN

    def __post_init__(self) -> None:
        if self.priority is not msgspec.UNSET:
            priority_of(self.priority)


class Page(msgspec.Struct, frozen=True):
    """A page of jobs, and the cursor of the next one."""

    #: At most as many as requested: a page also ends at `MAX_PAGE_BYTES`.
    jobs: list[Job]
    #: Pass it on to get the next page; None at the end.
    cursor: str | None = None
    #: How many jobs were looked at for it, and about how many bytes of them.
    looked_at: int = 0
    looked_bytes: int = 0
    #: With needles: of each job, how many were looked at up to it.
    numbers: list[int] = []


class FlowCounts(NamedTuple):
    """How many members a flow has, those that were removed included, by state."""

    total: int = 0
    complete: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def unfinished(self) -> int:
        return self.total - self.complete - self.failed - self.cancelled


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """
    A filter of jobs; everything given must match.

    Raises:
        ValueError: There is no such priority, or paths of data are too long.
    """

    type: Name | None = None
    state: State | None = None
    tag: Name | None = None
    #: Words in the data, the last error or the log: see `kue.model.search_text`.
    text: Annotated[str, Meta(max_length=1_000)] | None = None
    #: Words in the kind or message of the last error.
    error: Annotated[str, Meta(max_length=1_000)] | None = None
    #: The worker that runs the job, or ran it last.
    worker: Name | None = None
    group: Name | None = None
    #: A number from -1024 (first) to 1023, or a name such as "high".
    priority: Priority | None = None
    #: The fingerprint of the error it failed with, see `kue.Kue.errors`.
    fingerprint: Annotated[str, Meta(pattern=r"^[0-9a-f]{12}$")] | None = None
    #: Values in the data by path: ``{"user.id": 42}``; numbers index lists, from 0.
    data: Annotated[dict[DataPath, Any], Meta(max_length=MAX_PATHS)] | None = None
    #: Created at or after, Unix ms.
    since: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] | None = None
    #: Created before, Unix ms.
    until: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] | None = None

    def __post_init__(self) -> None:
        if self.priority is not None:
            msgspec.structs.force_setattr(self, "priority", _number(self.priority))
        check_paths(self.data or {})

    def covers(self, job: Job) -> bool:
        """Return whether *job* was created in the wanted time."""
        return self._is_within(job.created_at)

    def _is_within(self, moment: int) -> bool:
        return (self.since is None or moment >= self.since) and (
            self.until is None or moment < self.until
        )

    def suits(self, job: Job) -> bool:
        """Return whether *job* matches, apart from the words of *text*."""
        return (
            (self.type is None or job.type == self.type)
            and (self.state is None or job.state is self.state)
            and (self.tag is None or self.tag in job.tags)
            and self.covers(job)
            and (self.priority is None or job.priority == self.priority)
            and (self.group is None or job.group == self.group)
            and (self.fingerprint is None or job.fingerprint == self.fingerprint)
            and (self.worker is None or job.worker == self.worker)
            and all(_has(_searched(job), *pair) for pair in (self.data or {}).items())
            and (self.error is None or self._in_error(job, self.error))
        )

    @property
    def is_by_content(self) -> bool:
        """Whether it depends on what may be hidden."""
        return bool(self.text or self.error or self.data)

    @property
    def terms(self) -> tuple[str, ...]:
        """The words and phrases of *text*."""
        return terms_of(self.text or "")

    @property
    def needles(self) -> tuple[str, ...]:
        """What the record or log of every job that matches has."""
        paths = self.data or {}
        names = (name for path in paths for name in path.split("."))
        values = (value for value in paths.values() if isinstance(value, str))
        exact = [self.tag or "", *(n for n in names if not n.isdecimal()), *values]
        given = (self.text or "", self.error or "", *exact)
        return needles_of(chain.from_iterable(map(terms_of, given)))

    @staticmethod
    def texts_of(job: Job) -> Iterator[str]:
        """Yield the texts of a job that *text* is searched in, without its log."""
        yield from texts_in(_searched(job))
        if job.error is not None:
            yield job.error.summary

    @staticmethod
    def _in_error(job: Job, text: str) -> bool:
        if job.error is None:
            return False
        return not missing(terms_of(text), [job.error.summary])


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one type that failed with the same error."""

    #: Of the error alone: it is the same in another type.
    fingerprint: str
    type: str
    kind: str
    #: The first line of one of their messages; empty for the group of errors that are
    #: too many to be distinguished.
    message: str
    count: int
    #: When the first and the last of them failed, Unix ms.
    first_at: int
    last_at: int
    #: The one that failed last.
    job_id: int


class Errors(msgspec.Struct, frozen=True):
    """Error groups of failed jobs, the most frequent first."""

    groups: list[ErrorGroup]
    #: How many groups there are, including those beyond the requested number.
    total: int


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker, and whether it is alive, lost, paused or stopped."""

    name: str
    #: Past this without a heartbeat it counts as lost; of one that stopped, when it
    #: did.  Unix ms.
    deadline: int
    alive: bool
    #: How many jobs it runs.
    active: int
    #: What it reported of itself with its last heartbeat.
    info: dict[str, Any] = {}
    #: Whether it is to start nothing new.
    paused: bool = False
    #: Whether it shut down gracefully: it deregistered, with no jobs running.
    stopped: bool = False

    @property
    def lost(self) -> bool:
        """Whether it disappeared without a graceful shutdown."""
        return not self.alive and not self.stopped

    @property
    def trouble(self) -> str | None:
        """What prevents it from working, other than an outage; None if nothing does."""
        text = self.info.get("trouble")
        return text if isinstance(text, str) else None


class Stat(msgspec.Struct, frozen=True):
    """Statistics of jobs of one type in one minute, or one hour."""

    #: Unix time in minutes; for an hour, its first.
    minute: int
    type: str
    added: int = 0
    complete: int = 0
    failed: int = 0
    #: Time of all runs that ended as complete, retry or failed, in ms.
    run_ms: int = 0
    #: How long jobs waited and ran, as workers measured it: see `kue.model.histogram`.
    waits: dict[int, int] = {}
    runs: dict[int, int] = {}

    @property
    def ended(self) -> int:
        """How many jobs completed or failed."""
        return self.complete + self.failed


class Stacks(NamedTuple):
    """The stacks of a worker's threads and tasks, written on request."""

    #: When it wrote them, Unix ms.
    at: int
    text: str


class StoreFacts(NamedTuple):
    """Name, version and size of the engine, and its round-trip time."""

    #: redis, valkey or sqlite.
    engine: str
    version: str
    #: Memory of all nodes together, or size of the file; None if it is not reported.
    memory_bytes: int | None
    #: How long the smallest request took.
    rtt_ms: float


#: HTTP statuses of a denied request: unauthorized, forbidden, too many requests.
_REFUSED = frozenset({401, 403, 429})
#: Operations that need no right to change jobs.
_ROUTINE = frozenset(
    {"jobs.add", "jobs.add_many", "kue.add", "vertx.add", "login", "logout"}
)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of the audit log: an operation that was performed, or was denied."""

    #: Grows with each entry; set by the engine.
    id: int = 0
    #: By the engine's clock, Unix ms; set by the engine.
    at: int = 0
    who: str
    #: The operation, such as ``jobs.remove``.
    what: str
    #: What it was done to: a job's id, the name of a type.
    target: str = ""
    #: The HTTP status of the response.
    status: int = 0
    #: The client's address.
    address: str = ""
    detail: str = ""

    @property
    def ring(self) -> str:
        """Return which of the `RINGS` keeps it."""
        if self.status in _REFUSED:
            return "refusals"
        return "routine" if self.what in _ROUTINE else "acts"


class AuditPage(msgspec.Struct, frozen=True):
    """A page of the audit log, the newest first, and the cursor of the next one."""

    acts: list[AuditEntry]
    #: Pass it on to get the next page; None at the end.
    cursor: str | None = None

    @classmethod
    def of(cls, found: list[AuditEntry], limit: int) -> AuditPage:
        """Return up to *limit* of *found*, which has one more if more follow."""
        shown = found[:limit]
        has_more = len(found) > limit and bool(shown)
        return cls(shown, str(shown[-1].id) if has_more else None)


class Finding(msgspec.Struct, frozen=True):
    """A violated invariant that `check` found."""

    #: A stable identifier of the kind of damage, such as ``in-two-states``.
    code: str
    #: What is wrong, and where, in a sentence.
    message: str
    job_id: int | None = None
    #: What was done, or what ``--repair`` would do; empty when a person must decide.
    repair: str = ""
    repaired: bool = False


class Report(msgspec.Struct, frozen=True):
    """The report of `check`: how many jobs it checked, and what it found."""

    jobs: int
    findings: tuple[Finding, ...]


def grace_gap(lease: int) -> int:
    """
    Return the gap in maintenance after which leases get a grace period, in ms.

    No longer than a lease: otherwise a shorter outage would cost every run.
    """
    return min(GRACE_GAP_MS, max(MIN_GRACE_GAP_MS, lease))


def hourly(stats: Iterable[Stat]) -> list[Stat]:
    """Return the sums of counters by hour and type, in that order."""
    by_hour: dict[tuple[int, str], list[Stat]] = {}
    for stat in stats:
        by_hour.setdefault((stat.minute // 60, stat.type), []).append(stat)
    return [
        summed(hour * 60, type, of_hour)
        for (hour, type), of_hour in sorted(by_hour.items())
    ]


def summed(minute: int, type: str, stats: Sequence[Stat]) -> Stat:
    """Return one counter for all of *stats*."""
    return Stat(
        minute=minute,
        type=type,
        added=sum(stat.added for stat in stats),
        complete=sum(stat.complete for stat in stats),
        failed=sum(stat.failed for stat in stats),
        run_ms=sum(stat.run_ms for stat in stats),
        waits=added(stat.waits for stat in stats),
        runs=added(stat.runs for stat in stats),
    )


def sort_key(job: Job, state: State | None) -> int:
    """Return what pages of *state* are ordered by, before the id."""
    match state:
        case State.WAITING:
            return job.rank
        case State.DELAYED:
            return job.promote_at or 0
        case State.COMPLETE | State.FAILED | State.CANCELLED:
            return job.ended_at or 0
        case _:
            return 0


def check_paths(data: dict[str, Any]) -> None:
    """Raise `ValueError` for paths into data that are too many or too long."""
    if len(data) > MAX_PATHS:
        raise ValueError(f"at most {MAX_PATHS} paths of data, not {len(data)}")
    for path in data:
        if not path or len(path) > MAX_PATH or path.count(".") >= MAX_PATH_STEPS:
            raise ValueError(
                f"a path of data has 1 to {MAX_PATH} characters and at most "
                f"{MAX_PATH_STEPS} names; {path[:MAX_PATH]!r} does not fit"
            )


def _number(given: int | str) -> int:
    """Return a priority given as a number, also as text in a query, or by name."""
    is_number = isinstance(given, str) and given.removeprefix("-").isdecimal()
    return priority_of(int(given) if is_number else given)


def held_by(pause: Pause) -> str:
    """Return the `Job.held` of a job that a pause holds back."""
    return f"paused: {pause.reason}" if pause.reason else "paused"


def held_by_group(group: str | None) -> str:
    """Return the `Job.held` of a job that the limit of its group holds back."""
    return f"group {group!r} runs as many jobs as its limit allows"


def held_by_limit(ref: str, rule: LimitRule | None, running: int) -> str:
    """Return the `Job.held` of a job that a named limit holds back."""
    name, key = read_ref(ref)
    whose = f" of {key!r}" if key else ""
    if rule is None or rule.concurrency is not None:
        return f"waits for limit {name!r}{whose}, {running:,} running"
    return f"waits for limit {name!r}{whose}, {rule.words}"


def _searched(job: Job) -> JSON:
    """Return the data of a job; engines cannot look into what is sealed."""
    return None if job.spec.sealed else job.data


def _has(data: JSON, path: str, wanted: JSON) -> bool:
    """Return whether *data* has *wanted* at *path*."""
    for name in path.split("."):
        if isinstance(data, dict) and name in data:
            data = data[name]
        elif isinstance(data, list) and name.isdecimal() and int(name) < len(data):
            data = data[int(name)]
        else:
            return False
    # To Python, 1 is True; to JSON it is not.
    return data == wanted and isinstance(data, bool) is isinstance(wanted, bool)
