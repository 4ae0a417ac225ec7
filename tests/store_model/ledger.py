"""The model's books: jobs, keys, links between jobs, events, counters."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kue.model import retry_policy
from kue.model.events import Event, Kind
from kue.model.fingerprint import fingerprint
from kue.model.job import MAX_HISTORY, Attempt, Error, State
from kue.store.values import Failure
from tests.store_model.entry import Entry

MINUTE_MS = 60_000
#: Stands for whatever an engine says where the contract leaves the words to it.
SOME_REASON = "(some reason)"


class Ledger:
    """Everything the store knows, and the steps all verbs are made of."""

    def __init__(self) -> None:
        self.jobs: dict[int, Entry] = {}
        self.last_id = 0
        self.types: set[str] = set()
        #: (type, unique key) → holder, until when it holds even if it has ended, and
        #: until when at most.
        self.keys: dict[tuple[str, str], tuple[int, int, int | None]] = {}
        self.told: list[Event] = []
        #: Events that an engine may tell or not.
        self.perhaps: list[Event] = []
        #: (minute, type, name of the counter) → number.
        self.counters: Counter[tuple[int, str, str]] = Counter()
        #: Types with work that a waiter must be woken for.
        self.owed: set[str] = set()
        #: Jobs that failed, each time: all of them are to be reported.
        self.failures: set[Failure] = set()

    # -- reading ---------------------------------------------------------------

    def of(self, state: State, type: str | None = None) -> list[Entry]:
        """Return the jobs in *state*, by id."""
        return [
            entry
            for entry in self.jobs.values()
            if entry.state is state and type in (None, entry.type)
        ]

    def holder(self, type: str, key: str | None, now: int) -> int | None:
        """Return the job that holds a unique key."""
        if key is None or (type, key) not in self.keys:
            return None
        job_id, until, most = self.keys[type, key]
        if most is not None and most <= now:
            return None
        entry = self.jobs.get(job_id)
        is_unfinished = entry is not None and not entry.state.is_final
        return job_id if is_unfinished or now < until else None

    # -- telling ---------------------------------------------------------------

    def tell(self, kind: Kind, entry: Entry, now: int, /, **detail: Any) -> None:
        """Note that everyone who listens must hear of this."""
        self.told.append(
            Event(
                kind=kind,
                job_id=entry.id,
                type=entry.type,
                at=now,
                attempt=entry.attempts,
                detail=detail,
            )
        )

    def count(self, name: str, entry: Entry, now: int, by: int = 1) -> None:
        self.counters[now // MINUTE_MS, entry.type, name] += by

    # -- steps -----------------------------------------------------------------

    def hold_key(self, entry: Entry, now: int) -> None:
        draft, born = entry.draft, entry.created_at
        most = born + draft.unique_at_most if draft.unique_at_most else None
        if draft.unique is not None and (most is None or now < most):
            until = born + draft.unique_for if draft.unique_for else 0
            self.keys[draft.type, draft.unique] = (entry.id, until, most)

    def free_key_at_start(self, entry: Entry, now: int) -> None:
        """Give back a key that is held until the start, but not before its time."""
        draft = entry.draft
        self.free_key(entry, now)
        owner, until, _ = self.keys.get((draft.type, draft.unique or ""), (0, 0, 0))
        if owner == entry.id and draft.unique is not None:
            self.keys[draft.type, draft.unique] = (owner, until, until)

    def free_key(self, entry: Entry, now: int, *, gone: bool = False) -> None:
        """Give the key back, unless the job ended and still holds it for a while."""
        draft = entry.draft
        if draft.unique is None:
            return
        owner, until, _ = self.keys.get((draft.type, draft.unique), (0, 0, 0))
        if owner == entry.id and (gone or now >= until):
            del self.keys[draft.type, draft.unique]

    def forget_keys(self, now: int) -> None:
        """Forget keys that have outlasted their jobs, though the clock may go back."""
        for type, key in list(self.keys):
            if self.holder(type, key, now) is None:
                del self.keys[type, key]

    def begin_to_wait(self, entry: Entry, way: str, now: int) -> None:
        """Give a job that begins to wait its place in the order of its type."""
        raise NotImplementedError

    def ready(self, entry: Entry, at: int | None, way: str, now: int) -> None:
        """Put a job in line: now, or when its time comes."""
        later = at is not None and at > now
        if not later:
            self.begin_to_wait(entry, way, now)
        entry.state = State.DELAYED if later else State.WAITING
        entry.promote_at = at if later else None
        if not later:
            self.owed.add(entry.type)

    def promote(self, entry: Entry, way: str, now: int) -> None:
        self.ready(entry, None, way, now)
        self.tell(Kind.PROMOTION, entry, now)

    def stop(self, entry: Entry) -> None:
        """Forget what belongs to a run."""
        entry.token = ""
        entry.ttl_at = None
        entry.progress = 0
        entry.progress_data = None
        entry.cancelling = False

    def finish(self, entry: Entry, state: State, line: Attempt, now: int) -> None:
        """End a job: the line in its story, its key, its event, its dependants."""
        entry.history.append(line)
        entry.state = state
        entry.promote_at = None
        entry.let_go()
        entry.parents.clear()
        self.stop(entry)
        self.free_key(entry, now)
        if state is State.FAILED:
            self.failures.add(Failure(entry.id, entry.type, now, line.token))
        self._tell_end(entry, state, line, now)
        self.tell_children(entry, state, now)

    def _tell_end(self, entry: Entry, state: State, line: Attempt, now: int) -> None:
        match state:
            case State.COMPLETE:
                is_removed = entry.draft.spec.remove_on_complete
                detail = {"result": line.result} if is_removed else {}
                self.tell(Kind.COMPLETE, entry, now, **detail)
                self.count("complete", entry, now)
            case State.FAILED:
                self.tell(Kind.FAILED, entry, now, **shown(line.error))
                self.count("failed", entry, now)
            case _:
                self.tell(Kind.CANCELLED, entry, now, reason=line.reason)

    def fail_expired(self, entry: Entry, now: int) -> None:
        error = retry_policy.after_expiry(entry.history[-MAX_HISTORY:]).error
        line = Attempt(
            token="",
            at=now,
            outcome="failed",
            error=error,
            fingerprint=fingerprint(error),
        )
        self.finish(entry, State.FAILED, line, now)

    def cancel_now(self, entry: Entry, reason: str, now: int) -> None:
        line = Attempt(token="", at=now, outcome="cancelled", reason=reason)
        self.finish(entry, State.CANCELLED, line, now)

    def drop(self, entry: Entry, now: int, *, by_hand: bool = True) -> None:
        """Delete a job; its dependants are told as if it was cancelled."""
        del self.jobs[entry.id]
        self.free_key(entry, now, gone=by_hand)
        self.tell(Kind.REMOVE, entry, now)
        self.tell_children(entry, State.CANCELLED, now)

    def tell_children(self, parent: Entry, state: State, now: int) -> None:
        """Tell those that wait for *parent* how it ended."""
        for child in self.of(State.BLOCKED):
            if parent.id not in child.parents:
                continue
            if state is State.COMPLETE or child.draft.after_any:
                child.parents.discard(parent.id)
                if not child.parents:
                    self.unblock(child, now)
            elif state is State.CANCELLED:
                self.cancel_now(child, SOME_REASON, now)

    def unblock(self, child: Entry, now: int) -> None:
        """
        Let a job go that has no parents to wait for any more.

        If its life is over, too, it may as well be failed before anyone lets it go.
        """
        self.ready(child, child.time_from(now), "unblock", now)
        self.tell(Kind.PROMOTION, child, now)
        if child.is_past_its_life(now):
            self.perhaps.append(self.told.pop())


def shown(error: Error | None) -> dict[str, str]:
    """Return what an event says of an error."""
    assert error is not None
    return {"kind": error.kind, "message": error.message}
