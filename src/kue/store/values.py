"""What goes into the verbs of a store and what comes out of them: values only."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from kue.model.histogram import added
from kue.model.job import Attempt, Ending, Job, State, priority_of
from kue.model.payload import JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: The most jobs one call may name, add or take.
MAX_BATCH = 500
#: About how many bytes one script or transaction reads or writes: see `store.batches`.
MAX_CALL_BYTES = 1024 * 1024
#: A page ends when its jobs have about so many bytes, however few they are.
MAX_PAGE_BYTES = 8 * 1024 * 1024
#: Lines kept of a job's log; older ones fall off.
MAX_LOG_LINES = 1000
#: Bytes of a small record.
MAX_KEPT = 64 * 1024
#: The rings of the audit log, and how many acts each keeps; older ones fall off.  What
#: anyone can do any number of times has rings of its own: it pushes out nothing else.
RINGS = {"acts": 10_000, "routine": 1_000, "refusals": 1_000}
#: Characters kept of one log line.
MAX_LOG_TEXT = 4000
#: Seen no tending for this long, the store (or everyone) was away: see `grace_gap`.
GRACE_GAP_MS = 5_000
#: Tending comes each second; a gap shorter than this is nothing.
MIN_GRACE_GAP_MS = 2_000
#: Maintenance that nobody made for so long after it was due is overdue.  With a beat on
#: top that is still less than the gap after which leases get a grace.
OVERDUE_MS = 400
#: What a worker can be ordered to do: stop in order, write down its stacks.
ORDERS = ("stop", "stacks")
#: A worker that does not hear an order for so long will not be told any more.
ORDER_MS = 60_000
#: Bytes kept of the stacks that a worker writes down, and how long they are.
MAX_STACKS = 256 * 1024
STACKS_MS = 600_000
#: How long counters are kept by the minute, and by the hour.
MINUTES_KEPT = 25 * 60
HOURS_KEPT = 90 * 24
#: Minutes that one pass of upkeep adds to their hours, at most.
MINUTES_A_PASS = 120
#: Jobs that one search looks at, unless it is told otherwise.
MAX_SCAN = 10_000
#: The most groups of errors that one call may ask for.
MAX_ERRORS = 200
#: How many paths of data one filter may have, of how many characters and names each.
MAX_PATHS, MAX_PATH, MAX_PATH_STEPS = 10, 200, 10
#: A watched job is forgotten this long after the last listener asked for it.
WATCH_MS = 60_000


class Result(StrEnum):
    """What became of one thing asked for."""

    #: It is so now.
    DONE = "done"
    #: It was so already; nothing changed.
    ALREADY = "already"
    #: The run was taken back and the job handed on; nothing changed.
    LOST = "lost"
    #: There is no such job.
    GONE = "gone"
    #: The job's state does not allow it; nothing changed.
    REFUSED = "refused"
    #: A running job was asked to end; its worker hears of it at its next beat.
    ASKED = "asked"
    #: Another unfinished job holds its unique key; nothing changed.
    HELD = "held"


class Reply(NamedTuple):
    """The answer for one job: a word, and what explains it."""

    word: Result
    #: The state the job is in, where the word is REFUSED.
    state: State | None = None
    #: The job that holds the unique key, where the word is HELD.
    holder: int | None = None


class ExpectedState(NamedTuple):
    """
    What the caller knows of a job, so that a verb acts on no other.

    Ids are given again after a fail-over that lost writes; and a job that ended may
    have been retried, and have ended again, since it was read.
    """

    #: When it was created, Unix ms; None for whichever job has the id.
    created_at: int | None = None
    #: `Job.ending` as it was read, empty for a job that had not ended; None for any.
    ending: str | None = None

    @classmethod
    def of(cls, job: Job) -> ExpectedState:
        """Return what is known of a job that was read."""
        return cls(job.created_at, job.ending)


#: Nothing is known: the id alone counts.
UNSEEN = ExpectedState()
NOTHING_SEEN: Mapping[int, ExpectedState] = MappingProxyType({})


class Added(NamedTuple):
    """The answer for one draft."""

    id: int
    #: False when an unfinished job with the same unique key answered for it.
    new: bool
    #: When the job was created, Unix ms: with the id, this tells it from any other.
    created_at: int | None = None


class Claim(NamedTuple):
    """
    Names one call of `claim`, so that it can be repeated.

    A lane is one loop of one worker with at most one claim in flight; *seq* grows by
    one with each new claim of the lane.
    """

    lane: str
    seq: int

    def __str__(self) -> str:
        return f"{self.lane}.{self.seq}"


class Claimed(msgspec.Struct, frozen=True):
    """What a claim got."""

    jobs: list[Job]
    #: The engine's clock, Unix ms.
    now: int
    #: When, without anyone adding a job, there may be more: a delayed job is due or a
    #: rate limit frees.  None when time alone changes nothing.
    next_at: int | None = None


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended: the job as claimed (its token is the right to say so)."""

    job: Job
    ending: Ending
    #: Set by upkeep, which ends other workers' runs: "lease" or "ttl" must be overdue
    #: at the very moment, or the run goes on and the word is LOST.
    overdue: str = ""


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What holds jobs of a type back.

    *rate* runs may start each *per* ms, saved up to *rate*; at most *concurrency* run
    at once; at most *per_key* of one group run at once.
    """

    concurrency: int | None = None
    rate: int | None = None
    per: int = 1000
    per_key: int | None = None


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    What starts no more jobs, and why: a type, a worker or (with neither) everything.

    Types hand out none; a worker takes none.
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
    """What a worker hears when it renews its lease."""

    #: Ids of the given runs that are no longer the worker's.
    lost: list[int]
    #: The others that someone asked to cancel, with the reason given ("" if none).
    cancel: dict[int, str]
    #: Set while the worker is to start nothing new; claims do not look at it.
    paused: Pause | None = None
    #: What someone ordered it to do, told once: see `ORDERS`.
    orders: tuple[str, ...] = ()
    #: Nobody makes the passes of maintenance: see `MaintenanceResult.elsewhere`.
    overdue: bool = False


class MaintenanceResult(msgspec.Struct, frozen=True):
    """What one pass of upkeep did."""

    #: What it counts.
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
    #: Runs taken back from lost workers.
    rescued: int = 0
    #: Runs ended because their ttl passed.
    timed_out: int = 0
    #: Jobs failed because they were not started in time.
    expired: int = 0
    pruned: int = 0
    #: Jobs added by schedules.
    fired: int = 0
    #: Dependants released whose parent ended in an earlier call or on another shard.
    released: int = 0
    #: The limit was reached: there is more to do now.
    more: bool = False
    #: Nothing is due: another process has just made a pass, or nothing goes on.
    quiet: bool = False
    #: Nothing is due, and another process made the last pass: the next is its task.
    elsewhere: bool = False

    def __bool__(self) -> bool:
        """Whether it did anything."""
        return self.more or any(getattr(self, name) for name in self.COUNTS)


class Progress(msgspec.Struct, frozen=True):
    """How far a job is.  With a *token* it must be the current run's."""

    job_id: int
    #: 0 to 100
    percent: int
    data: JSON = None
    token: str = ""
    #: When the job was created; None for whichever job has the id.
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


class Change(msgspec.Struct, frozen=True):
    """An edit of a job; what is UNSET stays."""

    job_id: int
    #: Encoded (`msgspec.Raw`) or plain JSON.
    data: JSON | msgspec.UnsetType = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    max_attempts: int | msgspec.UnsetType = msgspec.UNSET
    #: Edit only the job that was seen, with the ending that was seen.
    seen: ExpectedState = UNSEEN

    def __post_init__(self) -> None:
        if self.priority is not msgspec.UNSET:
            priority_of(self.priority)


class Page(msgspec.Struct, frozen=True):
    """Some jobs, and where the rest begins."""

    #: As many as asked for, or fewer: a page also ends at `MAX_PAGE_BYTES`.
    jobs: list[Job]
    #: To be given back for what follows; None at the end.
    cursor: str | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for; everything given must match."""

    type: str | None = None
    state: State | None = None
    tag: str | None = None
    #: Appears in the job's data, as JSON text, whatever the case.
    text: str | None = None
    #: Appears in kind or message of its last error, whatever the case.
    error: str | None = None
    #: The worker that runs it, or ran it last.
    worker: str | None = None
    group: str | None = None
    priority: int | None = None
    #: That of the error it failed of.
    fingerprint: str | None = None
    #: What its data has: ``{"user.id": 42}``; numbers in a path count in lists, from 0.
    data: dict[str, Any] = {}
    #: Created at or after, and before, Unix ms.
    since: int | None = None
    until: int | None = None

    def __post_init__(self) -> None:
        check_paths(self.data)

    def matches(self, job: Job) -> bool:
        """Tell whether *job* is what is looked for."""
        return (
            (self.type is None or job.type == self.type)
            and (self.state is None or job.state is self.state)
            and (self.tag is None or self.tag in job.tags)
            and (self.since is None or job.created_at >= self.since)
            and (self.until is None or job.created_at < self.until)
            and (self.priority is None or job.priority == self.priority)
            and (self.group is None or job.group == self.group)
            and (self.fingerprint is None or job.fingerprint == self.fingerprint)
            and (self.worker is None or job.worker == self.worker)
            and all(_has(job.data, *pair) for pair in self.data.items())
            and (self.text is None or self._in_data(job, self.text))
            and (self.error is None or self._in_error(job, self.error))
        )

    @staticmethod
    def _in_data(job: Job, text: str) -> bool:
        return text.casefold() in msgspec.json.encode(job.data).decode().casefold()

    @staticmethod
    def _in_error(job: Job, text: str) -> bool:
        error = job.error
        if error is None:
            return False
        return text.casefold() in f"{error.kind}: {error.message}".casefold()


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one type that failed of the same error."""

    #: Of the error alone: it is the same in another type.
    fingerprint: str
    type: str
    kind: str
    #: The first line, as one of them said it; empty for errors too many to be told
    #: apart.
    message: str
    count: int
    #: When the first and the last of them failed, Unix ms.
    first_at: int
    last_at: int
    #: The one that failed last.
    job_id: int


class Errors(msgspec.Struct, frozen=True):
    """What failed jobs failed of, the most frequent first."""

    groups: list[ErrorGroup]
    #: How many groups there are; more than were asked for are not among them.
    total: int


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker the store knows of."""

    name: str
    #: Past this without a heartbeat it counts as lost; of one that stopped, when it
    #: did.  Unix ms.
    deadline: int
    alive: bool
    #: Runs in its hands.
    active: int
    #: What it said of itself when it last renewed.
    info: dict[str, Any] = {}
    #: Whether it is told to start nothing new.
    paused: bool = False
    #: Whether it is gone in good order: it deregistered, with nothing in its hands.
    stopped: bool = False

    @property
    def lost(self) -> bool:
        """Whether it is gone without having stopped."""
        return not self.alive and not self.stopped

    @property
    def trouble(self) -> str | None:
        """What keeps it from working, other than an outage; None if nothing does."""
        text = self.info.get("trouble")
        return text if isinstance(text, str) else None


class Stat(msgspec.Struct, frozen=True):
    """What happened to jobs of one type in one minute, or from one on for an hour."""

    #: Unix time in minutes.
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


class Stacks(NamedTuple):
    """What a worker was doing when someone asked."""

    #: When it wrote them down, Unix ms.
    at: int
    text: str


class StoreFacts(NamedTuple):
    """What keeps the jobs."""

    #: redis, valkey or sqlite.
    engine: str
    version: str
    #: What it takes, of all nodes together; None where that is not told.
    memory_bytes: int | None
    #: How long the shortest question took to be answered.
    rtt_ms: float


#: Answers to those who may not: unauthorized, forbidden, too many requests.
_REFUSED = frozenset({401, 403, 429})
#: What a client may do that may change nothing.
_ROUTINE = frozenset(
    {"jobs.add", "jobs.add_many", "kue.add", "vertx.add", "login", "logout"}
)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something someone did, or was not let do: a line of the audit log."""

    #: Grows with each act; set by the engine.
    id: int = 0
    #: By the engine's clock, Unix ms; set by the engine.
    at: int = 0
    who: str
    #: The operation, such as ``jobs.remove``.
    what: str
    #: What it was done to: a job's id, the name of a type.
    target: str = ""
    #: What was answered, as HTTP has it.
    status: int = 0
    #: Where it came from.
    address: str = ""
    detail: str = ""

    @property
    def ring(self) -> str:
        """Return which of the `RINGS` keeps it."""
        if self.status in _REFUSED:
            return "refusals"
        return "routine" if self.what in _ROUTINE else "acts"


class AuditPage(msgspec.Struct, frozen=True):
    """Some acts, the newest first, and where the rest begins."""

    acts: list[AuditEntry]
    #: To be given back for what follows; None at the end.
    cursor: str | None = None

    @classmethod
    def of(cls, found: list[AuditEntry], limit: int) -> AuditPage:
        """Return up to *limit* of *found*, which has one more if there is more."""
        shown = found[:limit]
        has_more = len(found) > limit and bool(shown)
        return cls(shown, str(shown[-1].id) if has_more else None)


class Finding(msgspec.Struct, frozen=True):
    """Something `check` found that must not be."""

    #: A stable word for the kind of damage, such as ``in-two-states``.
    code: str
    #: What is wrong with which thing, in a sentence.
    message: str
    job_id: int | None = None
    #: What was done, or what ``--repair`` would do; empty when a person must decide.
    repair: str = ""
    repaired: bool = False


class Report(msgspec.Struct, frozen=True):
    """What `check` looked at and found."""

    jobs: int
    findings: tuple[Finding, ...]


def grace_gap(lease: int) -> int:
    """
    Return the gap in tending after which leases get a grace, in ms.

    No longer than a lease: else an outage in between would cost every run.
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
            return job.priority
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
                f"{MAX_PATH_STEPS} names; {path[:MAX_PATH]!r} is none"
            )


def held_by(pause: Pause) -> str:
    """Return what `Job.held` says of a job that a pause holds back."""
    return f"paused: {pause.reason}" if pause.reason else "paused"


def restarted(now: int) -> Attempt:
    """Return the line of the story that says a finished job was put back in line."""
    return Attempt(token="", at=now, outcome="restarted")


def _has(data: JSON, path: str, wanted: JSON) -> bool:
    """Tell whether *data* has *wanted* at the end of *path*."""
    for name in path.split("."):
        if isinstance(data, dict) and name in data:
            data = data[name]
        elif isinstance(data, list) and name.isdecimal() and int(name) < len(data):
            data = data[int(name)]
        else:
            return False
    # To Python, 1 is True; to JSON it is not.
    return data == wanted and isinstance(data, bool) is isinstance(wanted, bool)
