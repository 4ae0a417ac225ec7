"""The model of producing and running: add, claim, settle, renew, signs of life."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kue.model import retry_policy
from kue.model.events import Kind
from kue.model.fingerprint import fingerprint
from kue.model.job import (
    BEGAN,
    Attempt,
    Cancelled,
    Completed,
    Draft,
    Ending,
    Failed,
    Job,
    Reached,
    Released,
    Retried,
    Run,
    Stalled,
    State,
    with_progress,
)
from kue.model.names import quote
from kue.model.payload import JSON
from kue.model.steps import Step
from kue.store.codec import begun
from kue.store.values import (
    MAX_LOG_LINES,
    REFUSED,
    Added,
    Claim,
    HeartbeatReply,
    LogLine,
    Outcome,
    Progress,
    Reply,
    Result,
    error_line_of,
)
from tests.store_model.entry import Entry
from tests.store_model.ledger import SOME_REASON, shown
from tests.store_model.queue_cap import Capped

#: What a later draft with the same unique key may replace.
REPLACEABLE = (State.WAITING, State.DELAYED, State.BLOCKED)


@dataclass
class Worker:
    """A worker the store knows."""

    deadline: int
    #: What it said of itself; None when the store may have forgotten it.
    info: dict[str, Any] | None = field(default_factory=dict)
    #: Its lease was over and nothing is left in its hands.
    is_lost: bool = False
    #: It said goodbye, and wants no grace.
    has_left: bool = False


class Running(Capped):
    """Jobs come in, are handed out and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: dict[str, Worker] = {}
        #: lane → seq and tokens of its last claim.
        self.lanes: dict[str, tuple[int, list[str]]] = {}
        #: producer → seq and answer of its last call.
        self.producers: dict[str, tuple[int, list[Added]]] = {}
        self.last_fence = 0

    # -- producing -------------------------------------------------------------

    def add(
        self,
        drafts: Sequence[Draft],
        producer: str,
        seq: int,
        now: int,
        dropped: Collection[int] = (),
    ) -> list[Added]:
        last, answer = self.producers.get(producer, (0, []))
        if seq < last:
            raise ValueError
        if seq > last or producer not in self.producers:
            answer = self.add_all(drafts, now, dropped)
            self.producers[producer] = (seq, answer)
        return answer

    def add_all(
        self, drafts: Sequence[Draft], now: int, dropped: Collection[int]
    ) -> list[Added]:
        """Add drafts; the engine *dropped* those, where it may choose."""
        types = {draft.type for draft in drafts}
        room = {type: self.room_for(type) for type in types}
        answer = [self._add_one(draft, room, now) for draft in drafts]
        for type in types:
            self.drop_oldest(type, dropped, now)
        return answer

    def _add_one(self, draft: Draft, room: dict[str, int], now: int) -> Added:
        holder = self.holder(draft.type, draft.unique, now)
        if holder is not None:
            known = self.jobs.get(holder)
            if known and draft.on_conflict == "replace" and known.state in REPLACEABLE:
                self._replace(known, draft, now)
                return Added(holder, False, known.created_at, replaced=True)
            # Of one that is gone nothing is known; its handle finds no job.
            return Added(holder, False, known.created_at if known else now)
        entry = Entry.born(self.last_id + 1, draft, now)
        if self._first_state(entry, now) is State.WAITING:
            room[draft.type] -= 1
            if room[draft.type] < 0:
                return REFUSED
        self.last_id += 1
        self.types.add(entry.type)
        self.hold_key(entry, now)
        self.count("added", entry, now)
        self._place(entry, now)
        self.jobs[entry.id] = entry
        return Added(entry.id, True, now)

    def _replace(self, entry: Entry, draft: Draft, now: int) -> None:
        """Give a job that has not started the data and options of another draft."""
        for other in self.of(State.WAITING, entry.type):
            if other.group == entry.group:
                other.is_held = False
        was_set_aside = entry.is_set_aside
        due = entry.become(draft, now)
        self.hold_key(entry, now)
        # Its turn is found before it leaves the place that it had.
        entry.is_set_aside = was_set_aside
        self.ready(entry, due, "replace", now)
        entry.let_go()
        self.tell(Kind.UPDATE, entry, now, state=entry.state, replaced=True)

    def _place(self, entry: Entry, now: int) -> None:
        entry.state = self._first_state(entry, now)
        match entry.state:
            case State.CANCELLED:
                self._bury(entry, now)
                return
            case State.BLOCKED:
                entry.parents = self._parents_of(entry.draft)
            case _:
                self.ready(entry, entry.time_from(now), "add", now)
        self.tell(Kind.ENQUEUE, entry, now, state=entry.state)

    def _first_state(self, entry: Entry, now: int) -> State:
        draft = entry.draft
        doomed = [parent for parent in draft.spec.after if self._is_hopeless(parent)]
        if doomed and not draft.after_any:
            return State.CANCELLED
        if self._parents_of(draft):
            return State.BLOCKED
        return State.DELAYED if entry.time_from(now) > now else State.WAITING

    def _parents_of(self, draft: Draft) -> set[int]:
        """Return the jobs that a draft has to wait for."""
        return {
            parent
            for parent in draft.spec.after
            if self._holds_up(parent, any_end=draft.after_any)
        }

    def _bury(self, entry: Entry, now: int) -> None:
        """Store a job that can never run; that it was added is all there is to tell."""
        self.cancel_now(entry, SOME_REASON, now)
        self.told.pop()
        self.tell(Kind.ENQUEUE, entry, now, state=entry.state)

    def _is_hopeless(self, parent: int) -> bool:
        entry = self.jobs.get(parent)
        return entry is None or entry.state is State.CANCELLED

    def _holds_up(self, parent: int, *, any_end: bool) -> bool:
        if self._is_hopeless(parent):
            return False
        state = self.jobs[parent].state
        return not state.is_final if any_end else state is not State.COMPLETE

    # -- claiming --------------------------------------------------------------

    def claim(
        self,
        types: Sequence[str],
        limit: int,
        worker: str,
        claim: Claim,
        lease: int,
        now: int,
        fences: Mapping[int, int],
    ) -> list[Job]:
        """Return what must be handed out; *fences*, by id, are those the store gave."""
        last, tokens = self.lanes.get(claim.lane, (0, []))
        if claim.seq < last:
            return []
        if claim.seq == last:
            return [e.view() for e in self.of(State.ACTIVE) if e.token in tokens]
        self.promote_due(types, now)
        self._hire(worker, now + lease)
        taken = self.choose(types, limit, now)
        for entry in taken:
            fence = fences.get(entry.id, 0)
            assert fence > self.last_fence, "a fence was handed out before, or no job"
            self._start(entry, fence, worker, claim, now)
        self.last_fence = max([self.last_fence, *fences.values()])
        self.lanes[claim.lane] = (claim.seq, [entry.token for entry in taken])
        self.owed.difference_update(types)
        return [entry.view() for entry in taken]

    def more_at(self, types: Sequence[str], now: int) -> int | None:
        """Return when time alone surely makes more jobs of *types* ready."""
        times: list[int] = []
        for type in types:
            if type not in self.limits and not self.is_paused(type, now):
                times += [e.promote_at or 0 for e in self.of(State.DELAYED, type)]
            times += self.frees_at(type, now)
        return min(times, default=None)

    def may_change(self, types: Sequence[str]) -> bool:
        """Tell whether time alone can make more jobs of *types* ready."""
        return any(
            self.of(State.DELAYED, type)
            or {None, type} & self.pauses.keys()
            or type in self.buckets
            for type in types
        )

    def promote_due(self, types: Sequence[str], now: int, way: str = "promote") -> int:
        due = [
            entry
            for entry in self.of(State.DELAYED)
            if entry.type in types and (entry.promote_at or 0) <= now
        ]
        for entry in sorted(due, key=lambda entry: (entry.promote_at, entry.id)):
            self.promote(entry, way, now)
        return len(due)

    def _hire(self, worker: str, deadline: int) -> Worker:
        known = self.workers.setdefault(worker, Worker(deadline))
        known.deadline = deadline
        known.is_lost = known.has_left = False
        return known

    def _start(
        self, entry: Entry, fence: int, worker: str, claim: Claim, now: int
    ) -> None:
        entry.attempts += 1
        entry.token = (
            f"{fence}:{now}:{entry.attempts}:{quote(worker)}:{quote(str(claim))}"
        )
        entry.state = State.ACTIVE
        entry.let_go()
        if entry.draft.ttl:
            entry.ttl_at = now + entry.draft.ttl
        if entry.draft.unique_until == "start":
            self.free_key_at_start(entry, now)
        self.tell(Kind.START, entry, now)

    # -- settling --------------------------------------------------------------

    def settle(self, outcomes: Sequence[Outcome], now: int) -> list[set[Result]]:
        """Return for each outcome the words the store may say."""
        return [self.settle_one(outcome, now) for outcome in outcomes]

    def settle_one(self, outcome: Outcome, now: int) -> set[Result]:
        entry = self.jobs.get(outcome.job.id)
        token = outcome.job.token
        if entry is None:
            return {Result.GONE}
        if entry.token != token and (outcome.overdue or not entry.remembers(token)):
            # Upkeep does not care; and what the story has forgotten, nobody can know.
            return {Result.ALREADY, Result.LOST}
        if entry.token != token:
            return {entry.ended[token]}
        if outcome.overdue and not self._is_overdue(entry, outcome.overdue, now):
            return {Result.LOST}
        self.end_run(entry, outcome.ending, now, outcome.overdue)
        return {Result.DONE}

    def _is_overdue(self, entry: Entry, what: str, now: int) -> bool:
        if what == "ttl":
            return entry.ttl_at is not None and entry.ttl_at <= now
        worker = self.workers.get(Run.read(entry.token).worker)
        return worker is None or worker.deadline <= now

    def end_overdue(self, entry: Entry, ending: Ending, now: int, taken: str) -> None:
        """End a run as maintenance does: with its progress, its error in the log."""
        line = error_line_of(Outcome(entry.view(), ending))
        if line is not None:
            self.log(entry.id, [line], now)
        ending = with_progress(ending, entry.progress, entry.progress_data)
        self.end_run(entry, ending, now, taken)

    def end_run(self, entry: Entry, ending: Ending, now: int, taken: str = "") -> None:
        token = entry.token
        run = Run.read(token)
        if entry.cancelling and isinstance(ending, Retried | Released | Stalled):
            # Whoever asked for its end does not want to see it again.
            ending = retry_policy.after_cancel(entry.reason)
        entry.ended[token] = Result.LOST if taken else Result.ALREADY
        line = line_of(token, now, ending, taken)
        self.free_slot(entry)
        match ending:
            case Completed():
                self._count_run(entry, run, now)
                self.finish(entry, State.COMPLETE, line, now)
                if entry.draft.spec.remove_on_complete:
                    self.drop(entry, now, by_hand=False)
            case Failed():
                self._count_run(entry, run, now)
                self.finish(entry, State.FAILED, line, now)
            case Cancelled():
                self.finish(entry, State.CANCELLED, line, now)
            case Retried():
                self._count_run(entry, run, now)
                self._put_back(entry, line, now)
                self.tell(
                    Kind.FAILED_ATTEMPT,
                    entry,
                    now,
                    **shown(ending.error),
                    delay=ending.delay,
                )
            case Released():
                due = now + ending.delay
                if isinstance(ending.suspended, str):
                    entry.had_steps = True
                    due = entry.steps.suspend(ending.suspended, ending.delay, now)
                self._put_back(entry, line, now, due)
                named = {"suspended": line.suspended} if line.suspended else {}
                self.tell(
                    Kind.RELEASE,
                    entry,
                    now,
                    reason=ending.reason,
                    delay=ending.delay,
                    **named,
                )
                entry.attempts -= 0 if ending.counts else 1
            case Stalled():
                self._put_back(entry, line, now)
                self.tell(
                    Kind.RELEASE,
                    entry,
                    now,
                    reason=ending.error.message,
                    delay=ending.delay,
                )
                entry.attempts -= 1
                entry.stalls += 1

    def _count_run(self, entry: Entry, run: Run, now: int) -> None:
        self.count("run_ms", entry, now, max(0, now - run.started_at))

    def _put_back(
        self, entry: Entry, line: Attempt, now: int, due: int | None = None
    ) -> None:
        entry.add_line(line)
        self.stop(entry)
        self.ready(entry, now + line.delay if due is None else due, "requeue", now)

    # -- signs of life ---------------------------------------------------------

    def renew(
        self,
        worker: str,
        lease: int,
        runs: Sequence[Job],
        info: dict[str, Any] | None,
        now: int,
    ) -> HeartbeatReply:
        known = self._hire(worker, now + lease)
        if info is not None:
            known.info = info
        mine = [entry for entry in self.of(State.ACTIVE) if entry.worker == worker]
        tokens = {entry.token for entry in mine}
        return HeartbeatReply(
            lost=[run.id for run in runs if run.token not in tokens],
            cancel={
                entry.id: entry.reason
                for entry in mine
                if entry.cancelling and entry.token in {run.token for run in runs}
            },
            paused=self.pause_of(worker, now),
        )

    def leave(self, worker: str, now: int) -> None:
        if worker in self.workers:
            known = self.workers[worker]
            known.deadline = min(known.deadline, now)
            known.has_left = True

    def begin(self, job: Job, now: int, *, alone: bool) -> str:
        """Return the token of a run that was held back and begins, or why not."""
        entry = self.jobs.get(job.id)
        fence = job.token.partition(":")[0]
        if entry is None or entry.token.partition(":")[0] != fence:
            return Result.LOST
        rest = begun(job, BEGAN[not alone])
        has_begun = entry.token.endswith(f":{rest}")
        if not has_begun and self.is_paused(job.type, now):
            return Result.REFUSED
        entry.token = f"{fence}:{now}:{rest}"
        if entry.draft.ttl:
            entry.ttl_at = now + entry.draft.ttl
        return entry.token

    def progress(self, updates: Sequence[Progress], now: int) -> list[Result]:
        return [self._progress_one(update, now) for update in updates]

    def _progress_one(self, update: Progress, now: int) -> Result:
        entry = self.jobs.get(update.job_id)
        if entry is None:
            return Result.GONE
        if update.token and update.token != entry.token:
            return Result.LOST
        if entry.state is not State.ACTIVE:
            return Result.REFUSED
        entry.progress, entry.progress_data = update.percent, update.data
        if entry.draft.ttl:
            entry.ttl_at = now + entry.draft.ttl
        self.tell(Kind.PROGRESS, entry, now, progress=update.percent, data=update.data)
        return Result.DONE

    # -- steps and signals -----------------------------------------------------

    def _run_of(self, job: Job) -> Entry | Result:
        entry = self.jobs.get(job.id)
        if entry is None:
            return Result.GONE
        return entry if entry.token == job.token else Result.LOST

    def record_step(self, job: Job, name: str, result: JSON, now: int) -> Result:
        entry = self._run_of(job)
        if isinstance(entry, Result):
            return entry
        entry.had_steps = True
        word = entry.steps.record(name, result, 5, now)
        if word is Result.DONE:
            self.tell(Kind.UPDATE, entry, now)
        return word

    def receive(
        self, job: Job, name: str, number: int, now: int
    ) -> Step | Result | None:
        entry = self._run_of(job)
        if isinstance(entry, Result):
            return entry
        before = entry.steps.view()
        wait = entry.steps.receive(name, number, now)
        if entry.steps.view() != before:
            self.tell(Kind.UPDATE, entry, now)
        return wait

    def signal(self, job_id: int, name: str, data: JSON, now: int) -> Reply:
        entry = self.jobs.get(job_id)
        if entry is None:
            return Reply(Result.GONE)
        if entry.state.is_final:
            return Reply(Result.REFUSED, entry.state)
        entry.had_steps = True
        if entry.steps.send(name, data, now) and entry.state is State.DELAYED:
            self.ready(entry, None, "move", now)
            self.tell(Kind.PROMOTION, entry, now)
        else:
            self.tell(Kind.UPDATE, entry, now)
        return Reply(Result.DONE)

    def log(self, job_id: int, lines: Sequence[LogLine], now: int) -> Result:
        entry = self.jobs.get(job_id)
        if entry is None:
            return Result.GONE
        entry.log += [
            LogLine(line.text, line.level, line.attempt, now) for line in lines
        ]
        del entry.log[:-MAX_LOG_LINES]
        return Result.DONE


def line_of(token: str, now: int, ending: Ending, taken: str) -> Attempt:
    """Return the line that an ending leaves in a job's story."""
    outcome = ending.__struct_config__.tag
    assert isinstance(outcome, str)
    return Attempt(
        token=token,
        at=now,
        outcome=outcome,
        result=getattr(ending, "result", None),
        error=getattr(ending, "error", None),
        delay=getattr(ending, "delay", 0),
        counts=getattr(ending, "counts", False),
        reason=getattr(ending, "reason", ""),
        suspended=getattr(ending, "suspended", "") or "",
        taken=taken,
        progress=_reached(ending),
        fingerprint=fingerprint(ending.error) if isinstance(ending, Failed) else "",
    )


def _reached(ending: Ending) -> Reached | None:
    """Return the progress of an ending as it is read again."""
    if ending.progress is msgspec.UNSET:
        return None
    data = ending.progress.data
    return Reached(
        ending.progress.percent,
        msgspec.json.decode(data) if isinstance(data, msgspec.Raw) else data,
    )
