"""The model of operating: update, move, cancel, remove, clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kue.model.events import Kind
from kue.model.job import MOVES_BY_HAND, Attempt, State
from kue.store.values import (
    NOTHING_SEEN,
    UNSEEN,
    Change,
    ExpectedState,
    MoveRequest,
    RemoveRequest,
    Reply,
    Result,
)
from tests.store_model.entry import Entry
from tests.store_model.running import Running
from tests.store_model.stepping import StepBook


class Operating(Running):
    """What people and programs do to jobs from outside."""

    # -- editing ---------------------------------------------------------------

    def update(self, changes: Sequence[Change], now: int) -> list[Result]:
        return [self._update_one(change, now) for change in changes]

    def _update_one(self, change: Change, now: int) -> Result:
        entry = self._meant(change.job_id, change.seen)
        if entry is None:
            return Result.GONE
        if self._is_past(entry, change.seen):
            return Result.REFUSED
        for name in ("data", "tags", "max_attempts"):
            value = getattr(change, name)
            if value is not msgspec.UNSET:
                setattr(entry, name, value)
        if change.priority is not msgspec.UNSET:
            self.change_priority(entry, change.priority, now)
        self.tell(Kind.UPDATE, entry, now)
        return Result.DONE

    # -- moving ----------------------------------------------------------------

    def move(self, request: MoveRequest, now: int) -> list[Reply]:
        return [self._move_one(job_id, request, now) for job_id in request.job_ids]

    def _move_one(self, job_id: int, request: MoveRequest, now: int) -> Reply:
        to, seen = request.to, request.seen.get(job_id, UNSEEN)
        at = request.at if to is State.DELAYED else None
        allowed = frozenset(State if request.states is None else request.states)
        entry = self._meant(job_id, seen)
        if entry is None:
            return Reply(Result.GONE)
        if seen.ending and self._is_past(entry, seen):
            return Reply(Result.ALREADY)
        if entry.state is to is State.WAITING:
            return Reply(Result.ALREADY)
        if (
            self._is_past(entry, seen)
            or entry.state not in allowed
            or to not in MOVES_BY_HAND[entry.state]
        ):
            return Reply(Result.REFUSED, state=entry.state)
        if entry.state.is_final:
            return self._restart(entry, at, now)
        self._reorder(entry, to, at, now)
        return Reply(Result.DONE)

    def _restart(self, entry: Entry, at: int | None, now: int) -> Reply:
        holder = self.holder(entry.type, entry.draft.unique, now)
        if holder not in (None, entry.id):
            return Reply(Result.HELD, holder=holder)
        self.hold_key(entry, now)
        entry.attempts = entry.stalls = 0
        if entry.state is State.COMPLETE:
            entry.steps = StepBook()
        entry.steps.restart()
        entry.history.append(Attempt(token="", at=now, outcome="restarted"))
        self.ready(entry, at, "restart", now)
        self.tell(Kind.ENQUEUE, entry, now, state=entry.state)
        return Reply(Result.DONE)

    def _reorder(self, entry: Entry, to: State, at: int | None, now: int) -> None:
        entry.parents.clear()
        entry.let_go()
        self.ready(entry, at, "move", now)
        kind = Kind.PROMOTION if to is State.WAITING else Kind.UPDATE
        self.tell(kind, entry, now)

    def _meant(self, job_id: int, seen: ExpectedState) -> Entry | None:
        """Return the job that the caller saw."""
        entry = self.jobs.get(job_id)
        if entry is None or seen.created_at not in (None, entry.created_at):
            return None
        return entry

    def _is_past(self, entry: Entry, seen: ExpectedState) -> bool:
        """Return whether the job does not stand as the caller saw it any more."""
        return seen.ending is not None and seen.ending != entry.view().ending

    # -- ending ----------------------------------------------------------------

    def cancel(
        self,
        job_ids: Sequence[int],
        reason: str,
        now: int,
        seen: Mapping[int, ExpectedState] = NOTHING_SEEN,
    ) -> list[Reply]:
        return [
            self._cancel_one(job_id, reason, now, seen.get(job_id, UNSEEN))
            for job_id in job_ids
        ]

    def _cancel_one(
        self, job_id: int, reason: str, now: int, seen: ExpectedState
    ) -> Reply:
        entry = self._meant(job_id, seen)
        if entry is None:
            return Reply(Result.GONE)
        match entry.state:
            case State.CANCELLED:
                return Reply(Result.ALREADY)
            case State.COMPLETE | State.FAILED:
                return Reply(Result.REFUSED, state=entry.state)
            case State.ACTIVE:
                if entry.cancelling:
                    return Reply(Result.ALREADY)
                entry.cancelling, entry.reason = True, reason
                return Reply(Result.ASKED)
        self.cancel_now(entry, reason, now)
        return Reply(Result.DONE)

    def remove(self, request: RemoveRequest, now: int) -> list[Reply]:
        return [self._remove_one(job_id, request, now) for job_id in request.job_ids]

    def _remove_one(self, job_id: int, request: RemoveRequest, now: int) -> Reply:
        seen = request.seen.get(job_id, UNSEEN)
        wanted = frozenset(State if request.states is None else request.states)
        if not request.force:
            wanted -= {State.ACTIVE}
        entry = self._meant(job_id, seen)
        if entry is None:
            return Reply(Result.GONE)
        if entry.state not in wanted or self._is_past(entry, seen):
            return Reply(Result.REFUSED, state=entry.state)
        was_active = entry.state is State.ACTIVE
        self.drop(entry, now)
        if was_active:
            self.free_slot(entry)
        return Reply(Result.DONE)
