"""
A store in plain Python: what `kue.store.contract` promises, without any engine.

Jobs are a dict, every verb a few lines that follow the contract's sentences.  Nothing
is fast, nothing is shared, nothing can crash; whatever an engine says is compared with
it.  Only what the contract leaves to the engine (fences) is taken from its answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kue.model import retry_policy
from kue.model.job import Job, State
from kue.model.search_text import LOG_LINES, missing
from kue.model.settings import Keep
from kue.store.values import (
    Filter,
    MaintenanceResult,
    Stat,
    WorkerStatus,
    grace_gap,
    sort_key,
)
from tests.store_model.entry import Entry
from tests.store_model.scheduling import Scheduling

#: A step back that is no more than this is a clock being set right.
CLOCK_SLACK_MS = 2_000


class Model(Scheduling):
    """Upkeep and reading, on top of everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.tended_at: int | None = None
        self.graced_at: int | None = None

    # -- upkeep ----------------------------------------------------------------

    def tend(
        self, keep: Keep | None, lease: int, now: int, gone: Collection[int]
    ) -> MaintenanceResult:
        """Do a pass; the engine chose the *gone* of jobs that ended in one moment."""
        self._forgive(lease, now)
        self.end_pauses(now)
        tended = MaintenanceResult(
            promoted=self.promote_due(list(self.types), now, "pass"),
            rescued=self._rescue(now),
            timed_out=self._time_out(now),
            expired=self._expire(now),
            pruned=self._prune(keep, now, gone),
            fired=self.fire_due(now),
        )
        self.forget_keys(now)
        return tended

    def _forgive(self, lease: int, now: int) -> None:
        before, self.tended_at = self.tended_at, now
        if before is None:
            return
        staying = [w for w in self.workers.values() if not w.has_left]
        if now < before - CLOCK_SLACK_MS:
            self.graced_at = None
            for worker in staying:
                worker.deadline = now + lease
        elif now - before > grace_gap(lease) and self._may_be_graced(lease, now):
            self.graced_at = now
            for worker in staying:
                worker.deadline = max(worker.deadline, now + lease // 2)

    def _may_be_graced(self, lease: int, now: int) -> bool:
        """Once in ten times, or a store that is seldom tended would rescue nothing."""
        return self.graced_at is None or now - self.graced_at > 10 * (lease // 2)

    def unsure(self, now: int) -> list[str]:
        """Return who left in a future that the clock has gone back from."""
        return [
            name
            for name, worker in self.workers.items()
            if worker.has_left and now < worker.deadline
        ]

    def is_overdue_twice(self, now: int) -> bool:
        """Tell whether upkeep has two reasons to end some run."""
        silent = {entry.id for entry in self._silent(now)}
        return any(entry.id in silent for entry in self._robbed(self._dead(now)))

    def _dead(self, now: int) -> set[str]:
        return {name for name, w in self.workers.items() if w.deadline <= now}

    def _robbed(self, dead: set[str]) -> list[Entry]:
        return [entry for entry in self.of(State.ACTIVE) if entry.worker in dead]

    def _silent(self, now: int) -> list[Entry]:
        return [
            entry
            for entry in self.of(State.ACTIVE)
            if entry.ttl_at is not None and entry.ttl_at <= now
        ]

    def _rescue(self, now: int) -> int:
        lost = self._dead(now)
        runs = self._robbed(lost)
        for entry in runs:
            ending = retry_policy.after_lost_worker(entry.view(), now)
            self.end_overdue(entry, ending, now, "lease")
        for name in lost:
            self.workers[name].is_lost, self.workers[name].info = True, None
        return len(runs)

    def _time_out(self, now: int) -> int:
        runs = self._silent(now)
        for entry in runs:
            ending = retry_policy.after_ttl(entry.view(), now)
            self.end_overdue(entry, ending, now, "ttl")
        return len(runs)

    def _expire(self, now: int) -> int:
        late = [
            entry
            for state in (State.WAITING, State.DELAYED, State.BLOCKED)
            for entry in self.of(state)
            if entry.is_past_its_life(now)
        ]
        for entry in late:
            self.fail_expired(entry, now)
        return len(late)

    def _prune(self, keep: Keep | None, now: int, gone: Collection[int]) -> int:
        stale = [
            entry
            for state in (State.COMPLETE, State.FAILED, State.CANCELLED)
            for type in sorted(self.types)
            for entry in self._not_kept(
                sorted(self.of(state, type), key=lambda e: (-e.ended_at, e.id in gone)),
                state,
                keep,
                now,
            )
        ]
        for entry in stale:
            self.drop(entry, now, by_hand=False)
        return len(stale)

    def _not_kept(
        self, newest_first: list[Entry], state: State, keep: Keep | None, now: int
    ) -> Iterable[Entry]:
        count = getattr(keep, f"{state}_count", None)
        age = getattr(keep, f"{state}_age", None)
        rank = 0
        for entry in newest_first:
            own = entry.draft.spec.retention
            limit = age if own is None else own
            is_old = limit is not None and entry.ended_at + limit <= now
            is_too_many = own is None and count is not None and rank >= count
            rank += own is None
            if is_old or is_too_many:
                yield entry

    # -- reading ---------------------------------------------------------------

    def page(self, state: State | None, type: str | None) -> list[Job]:
        """Return all jobs of a page's kind, in its order."""
        jobs = [
            entry.view()
            for entry in self.jobs.values()
            if state in (None, entry.state) and type in (None, entry.type)
        ]
        return sorted(jobs, key=lambda job: (sort_key(job, state), job.id))

    def find(self, wanted: Filter) -> list[Job]:
        return [
            job
            for job in self.page(wanted.state, wanted.type)
            if wanted.suits(job) and not missing(wanted.terms, self._texts(wanted, job))
        ]

    def _texts(self, wanted: Filter, job: Job) -> list[str]:
        lines = self.jobs[job.id].log[-LOG_LINES:]
        return [*wanted.texts_of(job), *(line.text for line in lines)]

    def counts(self) -> dict[str, dict[State, int]]:
        return {
            type: {state: len(self.of(state, type)) for state in State}
            for type in self.types
        }

    def status(self, now: int) -> list[WorkerStatus]:
        active = [entry.worker for entry in self.of(State.ACTIVE)]
        return [
            WorkerStatus(
                name=name,
                deadline=worker.deadline,
                alive=now < worker.deadline and not worker.has_left,
                active=active.count(name),
                info=worker.info or {},
                paused=self.pause_of(name, now) is not None,
                stopped=worker.has_left and name not in active,
            )
            for name, worker in sorted(self.workers.items())
        ]

    def stats(self) -> list[Stat]:
        keys = sorted({(minute, type) for minute, type, _ in self.counters})
        return [
            Stat(
                minute,
                type,
                added=self.counters[minute, type, "added"],
                complete=self.counters[minute, type, "complete"],
                failed=self.counters[minute, type, "failed"],
                run_ms=self.counters[minute, type, "run_ms"],
            )
            for minute, type in keys
        ]
