"""
Jobs as values: to be added (`Draft`), stored (`Job`), how a run ended (`Ending`).

A draft has what the store must act on (type, priority, time, keys) and carries a
`Spec`, which the store only keeps.  A job's whole past is its history, one `Attempt`
for each ending; result, error, attempts and times are read from it and stored nowhere
else.
"""

from __future__ import annotations

import hashlib
import uuid
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from kue.model.backoff import Backoff
from kue.model.named_limits import limit_ref
from kue.model.names import unquote
from kue.model.payload import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIN_PRIORITY, MAX_PRIORITY = -1024, 1023
#: Attempts kept with a job; older ones fall off.
MAX_HISTORY = 20
#: A job may wait for this many others; more are a tree of groups.
MAX_PARENTS = 1000
#: In `Spec.inputs`: the id of the first parent that failed.
FAILED_PARENT = -1
#: A new job may make this many others wait for it.
MAX_BEFORE = 100
MAX_TAGS = 50
#: `Spec.sealed`, as it is stored, and of a job whose payloads this process has opened.
SEALED, OPENED = 1, 2


def id_at(position: int) -> int:
    """Return what stands for the id of a parent in `Spec.inputs`; its own inverse."""
    return -2 - position


class State(StrEnum):
    """Where a job is.  It is in exactly one of these until it is removed."""

    WAITING = "waiting"
    ACTIVE = "active"
    DELAYED = "delayed"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"

    @property
    def is_final(self) -> bool:
        """Whether only a person or a program can make the job run again."""
        return self in FINAL


FINAL = frozenset({State.COMPLETE, State.FAILED, State.CANCELLED})
#: What a job can be promoted from.
PROMOTABLE = frozenset({State.DELAYED, State.BLOCKED})
UNFINISHED = frozenset(set(State) - FINAL)
_READY_OR_DELAYED = frozenset({State.WAITING, State.DELAYED})

#: All transitions.  Engines refuse any other.
MOVES: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.WAITING: frozenset(
            {State.ACTIVE, State.DELAYED, State.FAILED, State.CANCELLED}
        ),
        State.DELAYED: _READY_OR_DELAYED | {State.FAILED, State.CANCELLED},
        State.BLOCKED: _READY_OR_DELAYED | {State.FAILED, State.CANCELLED},
        # One failed run is one move: straight to where the job goes next.
        State.ACTIVE: _READY_OR_DELAYED | FINAL,
        **dict.fromkeys(FINAL, _READY_OR_DELAYED | {State.BLOCKED}),
    }
)

#: The part of MOVES that an operator may request (verb ``move``): only workers start
#: and end runs, and ``cancel`` is a separate verb.
MOVES_BY_HAND: Mapping[State, frozenset[State]] = MappingProxyType(
    {state: to & (_READY_OR_DELAYED | {State.BLOCKED}) for state, to in MOVES.items()}
    | {State.ACTIVE: frozenset()}
)


class Priority(IntEnum):
    """Names for priorities; any integer from -1024 to 1023 will do.  Lower is first."""

    CRITICAL = -15
    HIGH = -10
    MEDIUM = -5
    NORMAL = 0
    LOW = 10


#: Whether a lost worker may cause a second run of a job, or none.
Delivery: TypeAlias = Literal["at-least-once", "at-most-once"]
#: Until when a job holds its unique key: until it ends, or until it is first started.
UniqueUntil: TypeAlias = Literal["end", "start"]
#: What adding a job does while another has its unique key: return that one, reject the
#: new one, or replace the other unless it runs.
OnConflict: TypeAlias = Literal["existing", "reject", "replace"]
#: What a job does when one that it waits for has failed: wait for its retry, be
#: cancelled, run once all have ended in any way, or run only then.
OnParentFailure: TypeAlias = Literal["block", "cancel", "run", "only"]
#: A priority as users write it: a name, or a number from -1024 to 1023.
PriorityGiven: TypeAlias = Literal["critical", "high", "medium", "normal", "low"] | int


def priority_of(value: int | str) -> int:
    """
    Return a priority as a number, given by number or by name.

    Raises:
        ValueError: No such name, or outside -1024 to 1023.
        TypeError: Neither a whole number nor text.
    """
    if isinstance(value, str):
        try:
            return Priority[value.upper()].value
        except KeyError:
            raise ValueError(
                f"priority {value!r} is unknown; there are critical, high, medium, "
                "normal and low, or any whole number from -1024 to 1023"
            ) from None
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"priority must be a whole number or a name, not {value!r}")
    if not MIN_PRIORITY <= value <= MAX_PRIORITY:
        raise ValueError(f"priority must be from -1024 to 1023, not {value}")
    return int(value)


# Jobs, drafts and endings are part of no reference cycle, and there may be very many:
# the garbage collector need not look at them (gc=False).


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is fixed when a job is created and matters to the worker that runs it."""

    #: Job data; already encoded (`msgspec.Raw`) in a draft, decoded in a job.
    data: Any = None
    #: The requested delay, in ms.  Never changed: backoff is computed from it.
    delay: int = 0
    #: The requested time instead, Unix ms.
    at: int | None = None
    #: 0 for no limit.
    max_attempts: int = 1
    #: How many runs may raise an error until it fails; 0 for no limit.
    max_exceptions: int = 0
    #: How long after it was added another attempt may start, in ms; 0 for no limit.
    retry_for: int = 0
    #: The last moment at which one may start instead, Unix ms.
    retry_until: int | None = None
    backoff: Backoff | None = None
    #: How long one run may take, in ms; 0 for no limit.
    timeout: int = 0
    #: After how long the handler of a run is asked to stop, in ms; 0 for never.
    soft_timeout: int = 0
    #: How many lost workers it survives; None for the default.
    max_stalls: int | None = None
    tags: tuple[str, ...] = ()
    parent: int | None = None
    #: Jobs that must end before this one may run.  In a draft -k stands for the k-th
    #: draft of the same call, which must be an earlier one.
    after: tuple[int, ...] = ()
    #: Arguments that are results of those jobs: each a position in `after`, a list of
    #: such, `FAILED_PARENT`, or what `id_at` returns.
    inputs: dict[str, Any] | None = None
    remove_on_complete: bool = False
    #: How long to keep the job once it ended, in ms; None for the queue's own rule.
    retention: int | None = None
    meta: dict[str, str] = {}
    #: No events of it are published.
    quiet: bool = False
    #: Given by the caller; otherwise it follows from id and creation time.
    address_id: str | None = None
    #: The task, of a job in a queue with another name.
    task: str | None = None
    #: `SEALED` if its payloads are, `OPENED` or more once they were opened: see
    #: `kue.model.sealed_payload`.
    sealed: int = 0


class JobTerms(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a job has from its draft; the store acts on all of it but the `Spec`."""

    type: str
    spec: Spec
    priority: int = 0
    #: At most one unfinished job of the type has this key …
    unique: str | None = None
    #: … and for this long (ms) after it was added, even when it has ended.
    unique_for: int = 0
    #: "start": once it was started, another job may take the key.
    unique_until: UniqueUntil = "end"
    #: This long (ms) after it was added another may take it as well; 0 for no limit.
    unique_at_most: int = 0
    #: Jobs of one group share the type's per-key limit.
    group: str | None = None
    #: Names and keys of the limits that it counts against: `kue.model.named_limits`.
    limited_by: tuple[tuple[str, str], ...] = ()
    #: How long a run may go without reporting progress, in ms; 0 for no limit.
    ttl: int = 0
    #: How long after it was added it must have ended, in ms; 0 for no limit.
    expires: int = 0
    #: Delivery at most once: a lost worker fails the job instead of requeueing it.
    once: bool = False
    #: What happens when a job that it waits for has failed.
    on_parent_failure: OnParentFailure = "block"
    #: The job whose members it is counted among, see `Store.members`; its own id for
    #: one that is a member of itself.
    flow: int | None = None

    @property
    def name(self) -> str:
        """The name of its task, which handles it: its type when it was added."""
        return self.spec.task or self.type

    @property
    def queue(self) -> str:
        """Where it waits; to the store, this is its type."""
        return self.type

    @property
    def limit_refs(self) -> list[str]:
        """What it counts against, as texts for the store."""
        return [limit_ref(name, key) for name, key in self.limited_by]


class Draft(JobTerms, frozen=True, kw_only=True, omit_defaults=True):
    """A job to be added; `kue.model.draft.draft` makes valid ones."""

    #: The id that it gets, if one was reserved for it: see `Store.reserve`.
    id: int | None = None
    #: When to run, as Unix ms; None for spec.delay after it was added.
    at: int | None = None
    #: Blocked jobs that shall wait for this one as well; -k as in `Spec.after`.
    before: tuple[int, ...] = ()
    #: What happens while another job has the unique key.
    on_conflict: OnConflict = "existing"
    #: Its delay counts from the last add with its unique key, in ms …
    debounce: int = 0
    #: … but it waits no longer than this since the first; 0 for no limit.
    debounce_max: int = 0


#: How a run that was held back may begin.
BEGAN = ("alone", "beside")
#: What claims of single jobs by a program begin with; those of workers do not.
BY_HAND = "hand-"


class Run(NamedTuple):
    """
    One run of a job, as encoded in its token.

    The token *is* the right to end the run.  `fence`, the fencing token, grows with
    every run ever started, fail-overs included: pass it on to databases that can refuse
    lower ones.
    """

    fence: int
    started_at: int
    attempt: int
    worker: str
    claim: str

    @classmethod
    def read(cls, token: str) -> Run:
        """Parse a token: ``fence:started_at:attempt:worker:claim``."""
        fence, started_at, attempt, worker, claim = token.split(":")
        return cls(
            int(fence), int(started_at), int(attempt), unquote(worker), unquote(claim)
        )

    @property
    def began(self) -> str | None:
        """
        How a run that was held back began: "alone", or "beside" others.

        None for a run that was not held back, or still is; see `Store.begin`.
        """
        mark = self.claim.rpartition(".")[2]
        return mark if mark in BEGAN else None

    @property
    def is_by_hand(self) -> bool:
        """Whether a program took this one job itself, without a worker (`kue.km`)."""
        return self.claim.startswith(BY_HAND)


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run raised, as data; it is never turned back into an exception."""

    kind: str
    message: str
    stack: str = ""

    @property
    def summary(self) -> str:
        """Kind and message, as one text."""
        return f"{self.kind}: {self.message}"


#: Stands for the error of a failed job whose history has none.
UNKNOWN_ERROR = Error("Unknown", "the store kept no error")


class Reached(msgspec.Struct, frozen=True, array_like=True):
    """The last progress that a run reported."""

    #: 0 to 100
    percent: int
    #: Encoded (`msgspec.Raw`) or plain JSON.
    data: Any = None


class _Ending(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="outcome"):
    """How a run ended; the store reads the outcome from the tag."""

    progress: Reached | msgspec.UnsetType = msgspec.UNSET


class Completed(_Ending, frozen=True, omit_defaults=True, tag="complete"):
    """It succeeded."""

    #: Encoded (`msgspec.Raw`) or plain JSON.
    result: Any = None
    #: Why there was nothing to do, if it was skipped.
    reason: str = ""


class Retried(_Ending, frozen=True, tag="retry"):
    """It failed and is to run again after *delay* ms; the attempt is spent."""

    error: Error
    delay: int = 0
    #: True if the handler asked for it by `kue.Retry`; left out of the JSON otherwise.
    asked: bool | msgspec.UnsetType = msgspec.UNSET


class Failed(_Ending, frozen=True, tag="failed"):
    """It failed for good."""

    error: Error


class Released(_Ending, frozen=True, tag="released"):
    """It was released, to run after *delay* ms; *counts* if that was an attempt."""

    delay: int = 0
    counts: bool = False
    reason: str = ""
    #: The sleep or wait that its handler came to, as a field of the steps: its record
    #: is written with the ending.  Left out of the JSON, which else ends with it.
    suspended: str | msgspec.UnsetType = msgspec.UNSET


class Stalled(_Ending, frozen=True, tag="stalled"):
    """Its worker was lost; it is requeued without spending an attempt."""

    error: Error
    delay: int = 0


class Cancelled(_Ending, frozen=True, tag="cancelled"):
    """It was ended by a person or a program."""

    reason: str = ""


Ending: TypeAlias = Completed | Retried | Failed | Released | Stalled | Cancelled
#: Bytes of progress data that are kept with a run after which the job goes on.
MAX_PAST_DATA = 2048


def with_progress(ending: Ending, percent: int, data: JSON) -> Ending:
    """Return *ending* with the last progress of its run, if there was any."""
    if not percent and data is None:
        return ending
    encoded = None if data is None else msgspec.Raw(msgspec.json.encode(data))
    is_final = isinstance(ending, Completed | Failed | Cancelled)
    if encoded is not None and not is_final and len(encoded) > MAX_PAST_DATA:
        encoded = None
    return msgspec.structs.replace(ending, progress=Reached(percent, encoded))


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    One entry of a job's history: a run that ended, or something done to the job.

    *token* is empty when no run was involved: an expired or cancelled job that never
    started, outcome ``restarted`` when a finished job was requeued, or ``replaced``
    when its data and options became those of a later add with its unique key.
    """

    token: str = msgspec.field(name="run")
    at: int
    outcome: str
    result: Any = None
    error: Error | None = None
    delay: int = 0
    counts: bool = False
    #: Whether the handler asked to be retried, rather than raising an error.
    asked: bool = False
    reason: str = ""
    #: What the job sleeps or waits for since, see `Released.suspended`.
    suspended: str = ""
    #: "lease" or "ttl" when maintenance ended the run because that had run out.
    taken: str = ""
    #: The last progress of the run, if it reported any.
    progress: Reached | None = None
    #: The fingerprint of its error, where the job failed for good.
    fingerprint: str = ""

    @property
    def run(self) -> Run | None:
        return Run.read(self.token) if self.token else None

    @property
    def duration(self) -> int:
        """How long the run took, in ms."""
        run = self.run
        return max(0, self.at - run.started_at) if run else 0

    @property
    def attempts_spent(self) -> int | None:
        """Attempts used up once this ended; None when that is not known from it."""
        if self.is_fresh_start:
            return 0
        run = self.run
        if run is None:
            return None
        given_back = self.outcome == "stalled" or self.is_release
        return run.attempt - 1 if given_back else run.attempt

    @property
    def is_fresh_start(self) -> bool:
        """Whether attempts and errors are counted from here on."""
        return self.outcome in ("restarted", "replaced")

    @property
    def is_release(self) -> bool:
        """Whether the run was released and its attempt given back."""
        return self.outcome == "released" and not self.counts


def last_progress(state: State, history: Sequence[Attempt]) -> tuple[int, JSON]:
    """Return percent and data that a job which ended had reached."""
    last = next((one.progress for one in reversed(history) if one.token), None)
    percent = last.percent if last else 0
    data = last.data if last else None
    return 100 if state is State.COMPLETE else percent, data


class Job(JobTerms, frozen=True, kw_only=True):
    """A job as the store has it at one moment."""

    id: int
    state: State
    created_at: int
    #: When a delayed job becomes ready, Unix ms.
    promote_at: int | None = None
    #: The right to end the current run; empty unless active.
    token: str = ""
    #: How many workers were lost while they ran this job.
    stalls: int = 0
    #: 0 to 100; 100 for a complete job
    progress: int = 0
    progress_data: JSON = None
    #: A running job was asked to end.
    cancelling: bool = False
    #: Why a limit or a pause holds a waiting job back; empty if none does.
    held: str = ""
    #: When it may start, if time alone lets it, Unix ms; None if a run must end first.
    held_until: int | None = None
    #: Where a waiting job is in the order of its type: those with lower numbers start
    #: first, and of the same number those with lower ids.  Another store has others.
    rank: int = 0
    history: tuple[Attempt, ...] = ()

    @property
    def data(self) -> JSON:
        return self.spec.data

    @property
    def max_attempts(self) -> int:
        return self.spec.max_attempts

    @property
    def has_attempts_left(self) -> bool:
        return not 0 < self.max_attempts <= self.attempts

    @property
    def retry_until(self) -> int | None:
        """The last moment at which another attempt may start, Unix ms."""
        length = self.spec.retry_for
        return self.created_at + length if length else self.spec.retry_until

    @property
    def tags(self) -> tuple[str, ...]:
        return self.spec.tags

    @property
    def delivery(self) -> Delivery:
        return "at-most-once" if self.once else "at-least-once"

    @property
    def address_id(self) -> str:
        """
        A UUID for this very job.

        Ids may be assigned again after a fail-over that lost writes; the creation time
        then differs, and so does this.
        """
        if self.spec.address_id is not None:
            return self.spec.address_id
        seed = f"kue:{self.id}:{self.created_at}:{self.type}".encode()
        return str(uuid.UUID(bytes=hashlib.sha256(seed).digest()[:16], version=4))

    @property
    def may_lack_key(self) -> bool:
        """Whether another job may have its unique key before this one has ended."""
        is_freed = self.unique_until == "start" and self._last_run is not None
        return is_freed or self.unique_at_most > 0

    @property
    def run(self) -> Run | None:
        """The run in progress."""
        return Run.read(self.token) if self.token else None

    @property
    def fence(self) -> int:
        """The fencing token of the run in progress, 0 if there is none."""
        return int(self.token.partition(":")[0]) if self.token else 0

    @property
    def attempts(self) -> int:
        """Attempts made, the current one included."""
        if self.token:
            return int(self.token.split(":", 3)[2])
        for attempt in reversed(self.history):
            spent = attempt.attempts_spent
            if spent is not None:
                return spent
        return 0

    @property
    def releases(self) -> int:
        """Runs in the history that were released without spending an attempt."""
        return sum(attempt.is_release for attempt in self.history)

    @property
    def worker(self) -> str | None:
        run = self._last_run
        return run.worker if run else None

    @property
    def started_at(self) -> int | None:
        run = self._last_run
        return run.started_at if run else None

    @property
    def updated_at(self) -> int:
        """When it last changed state by being added, started or ended."""
        if self.token:
            return int(self.token.split(":", 2)[1])
        return self.history[-1].at if self.history else self.created_at

    @property
    def ended_at(self) -> int | None:
        return self.history[-1].at if self.state.is_final and self.history else None

    @property
    def ending(self) -> str | None:
        """
        What identifies its end: how that entry of its history begins, as JSON.

        Empty for a job that has not ended; None when its end was not kept.  Every run
        has its own token, so the endings of two runs always differ; an end without a
        run (cancelled or expired while waiting) is identified by the millisecond.
        """
        if not self.state.is_final:
            return ""
        if not self.history:
            return None
        last = self.history[-1]
        return f'{{"run":"{last.token}","at":{last.at},'

    @property
    def failed_at(self) -> int | None:
        failed = self._last_failure
        return failed.at if failed else None

    @property
    def duration(self) -> int | None:
        """How long the last finished run took, in ms."""
        ended = self._last_ended_run
        return ended.duration if ended else None

    @property
    def result(self) -> JSON:
        return self.history[-1].result if self.state is State.COMPLETE else None

    @property
    def error(self) -> Error | None:
        """The error of the last failed run; None once the job succeeded."""
        failed = self._last_failure
        return failed.error if failed and self.state is not State.COMPLETE else None

    @property
    def fingerprint(self) -> str | None:
        """That of the error it failed with; None for a job that did not fail."""
        if self.state is not State.FAILED or not self.history:
            return None
        return self.history[-1].fingerprint or None

    @property
    def expires_at(self) -> int | None:
        return self.created_at + self.expires if self.expires else None

    @property
    def _last_run(self) -> Run | None:
        if self.token:
            return Run.read(self.token)
        ended = self._last_ended_run
        return ended.run if ended else None

    @property
    def _last_ended_run(self) -> Attempt | None:
        return next((one for one in reversed(self.history) if one.token), None)

    @property
    def _last_failure(self) -> Attempt | None:
        return next((one for one in reversed(self.history) if one.error), None)
