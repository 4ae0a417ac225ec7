"""
The store and the model side by side: every verb is said to both, answers must agree.

Time is virtual and lives here; the event loop, too, so that rules are ordinary code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
import pytest

from kue.aio.event_loop import new_event_loop
from kue.model.events import Event, Kind
from kue.model.failure_rule import FailureRule
from kue.model.job import Draft, Job, State
from kue.model.named_limits import LimitRule, StoredLimit
from kue.model.payload import JSON
from kue.model.schedule import Schedule
from kue.model.settings import Keep
from kue.model.steps import Signal
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    NOTHING_SEEN,
    Added,
    Change,
    Claim,
    ClaimRequest,
    ExpectedState,
    HeartbeatReply,
    Limits,
    LogLine,
    MaintenanceResult,
    MoveRequest,
    Outcome,
    Pause,
    PauseRequest,
    Progress,
    RemoveRequest,
    RenewRequest,
    Result,
)
from tests.store_model.ear import Ear
from tests.store_model.entry import Entry
from tests.store_model.model import Model
from tests.store_model.sameness import among, same, same_jobs
from tests.support.patience import PATIENCE_SECONDS
from tests.support.upkeep import PASSES, together

T = TypeVar("T")
P = ParamSpec("P")

#: Behind every real clock: listeners count in real time, and upkeep must not think that
#: they have been gone for years.
START = 1_700_000_000_000
LEASE = 4_000
#: More jobs than one call adds.
MAX_NEW = 100


def a_call(
    verb: Callable[Concatenate[Both, P], T],
) -> Callable[Concatenate[Both, P], T]:
    """Keep the order of fair types known before and after a call of a verb."""

    @wraps(verb)
    def call(both: Both, /, *args: P.args, **options: P.kwargs) -> T:
        both.learn_set_aside()
        both.go_on()
        both.model.new_call()
        answer = verb(both, *args, **options)
        both.end_call()
        return answer

    return call


class Both:
    """An open store, an empty model, one clock."""

    def __init__(self, store: Store, *, listens: bool) -> None:
        self.store = store
        self.model = Model()
        self.now = START
        self.first_id = 1
        self._moments: set[int] = set()
        self._runner = asyncio.Runner(loop_factory=new_event_loop)
        # Every failure is to be noted.
        self.ask(store.set_failure_rule(None, FailureRule(hooks=True)))
        self.ear: Ear | None = None
        if listens:
            self.ear = self.ask(Ear.open(store))

    def close(self) -> None:
        """Close the store and the loop, whatever state they are in."""
        try:
            if self.ear is not None:
                self.ask(self.ear.close())
        finally:
            self.ask(self.store.close())
            self._runner.close()

    def ask(self, answer: Coroutine[Any, Any, T]) -> T:
        """Wait for the store's answer."""
        # `Runner.run` sets a signal handler each time, which takes longer than many an
        # answer.
        return self._runner.get_loop().run_until_complete(answer)

    # -- what the contract leaves to the engine --------------------------------

    def start_after(self, last_id: int) -> None:
        """Begin with the id after *last_id*."""
        self.model.last_id = last_id
        self.first_id = last_id + 1

    def go_on(self) -> None:
        """Let no two calls happen in one millisecond, where the engine chooses then."""
        if any(limits.ageing for limits in self.model.limits.values()):
            while self.now in self._moments:
                self.now += 1

    def learn_ranks(self, types: Sequence[str]) -> None:
        """Read the order of jobs that began to wait in one call, with ageing."""
        aged = [type for type in types if self.model.rule(type).ageing]
        waiting = [e for type in aged for e in self.model.of(State.WAITING, type)]
        jobs = self.ask(self.store.get([e.id for e in waiting])) if waiting else []
        for entry, job in zip(waiting, jobs, strict=True):
            self.model.learn_rank(entry, job.rank if job else 0)

    def learn_set_aside(self) -> None:
        """Read which jobs a limit holds, where the order or a cap depends on it."""
        model = self.model
        types = [t for t in model.limits if model.rule(t).fair or model.drops(t)]
        waiting = [entry for type in types for entry in model.of(State.WAITING, type)]
        if not any(self._may_be_set_aside(entry) for entry in waiting):
            return
        jobs = self.ask(self.store.get([entry.id for entry in waiting]))
        for entry, job in zip(waiting, jobs, strict=True):
            held = job.held if job is not None else ""
            entry.is_set_aside = bool(held) and not held.startswith("paused")

    def _may_be_set_aside(self, entry: Entry) -> bool:
        is_grouped = entry.group is not None and self.model.rule(entry.type).per_key
        is_limited = entry.draft.limited_by and self.model.named
        may_be = entry.may_be_held or entry.is_set_aside
        return bool(may_be or is_grouped or is_limited)

    def end_call(self) -> None:
        """Sort fair types again where the engine could choose an order."""
        self._moments.add(self.now)
        for type in sorted(self.model.unordered):
            limits = self.model.limits[type]
            plain = msgspec.structs.replace(limits, fair=False, weights={})
            for one in (plain, limits):
                self.ask(self.store.limit(type, one, now=self.now))
                self.model.limit(type, one, self.now)

    def _see_dropped(self) -> None:
        """Read which jobs the engine has just dropped."""
        model = self.model
        if not any(map(model.drops, model.limits)):
            return
        known = [e.id for e in model.jobs.values() if e.state is not State.CANCELLED]
        new = range(model.last_id + 1, model.last_id + MAX_NEW)
        jobs = [job for job in self.ask(self.store.get([*known, *new])) if job]
        model.dropped = {job.id for job in jobs if _is_dropped(job)}

    def _comparable(self, types: Sequence[str]) -> Sequence[str]:
        """Return types between whose jobs there is an order."""
        is_tied = len(types) > 1 and self.model.is_tied(types, self.now)
        return types[:1] if is_tied else types

    def _promotes_aged(self, types: Sequence[str]) -> bool:
        """Return whether jobs are due whose order with ageing the engine chooses."""
        delayed = [e for type in types for e in self.model.of(State.DELAYED, type)]
        due = [entry for entry in delayed if (entry.promote_at or 0) <= self.now]
        return any(self.model.rule(entry.type).ageing for entry in due)

    def _same_claimed(
        self, types: Sequence[str], said: list[Job], wanted: list[Job], *, lately: bool
    ) -> None:
        if len(types) == 1 or not self.model.is_ordered(types):
            same_jobs(said, wanted, lately=lately)
            return
        for type in types:
            of_type = [job for job in said if job.type == type]
            same_jobs(of_type, [j for j in wanted if j.type == type], lately=lately)

    # -- producing and running -------------------------------------------------

    @a_call
    def add(self, drafts: Sequence[Draft], producer: str, seq: int) -> list[Added]:
        said = self.ask(
            self.store.add(drafts, producer=producer, seq=seq, now=self.now)
        )
        self._see_dropped()
        dropped = self.model.dropped
        same(said, self.model.add(drafts, producer, seq, self.now, dropped))
        return said

    def refuse_add(self, drafts: Sequence[Draft], producer: str, seq: int) -> None:
        """Say an add that is older than the producer's last."""
        with pytest.raises(ValueError, match=r"\w"):
            self.ask(self.store.add(drafts, producer=producer, seq=seq, now=self.now))

    @a_call
    def claim(
        self,
        types: Sequence[str],
        limit: int,
        worker: str,
        claim: Claim,
        lease: int = LEASE,
    ) -> list[Job]:
        is_new = claim.seq > self.model.lanes.get(claim.lane, (0, []))[0]
        types = self._comparable(types) if is_new else types
        if is_new and self._promotes_aged(types):
            self.tend()
        self.learn_ranks(types)
        said = self.ask(
            self.store.claim(
                ClaimRequest(types, limit, worker=worker, claim=claim, lease=lease),
                now=self.now,
            )
        )
        fences = {job.id: job.fence for job in said.jobs}
        wanted = self.model.claim(types, limit, worker, claim, lease, self.now, fences)
        jobs = said.jobs if is_new else sorted(said.jobs, key=lambda job: job.id)
        self._same_claimed(types, jobs, wanted, lately=is_new)
        same(said.now, self.now)
        if not is_new:
            # Whether a repeated claim is a beat, too, is the engine's business.
            self.renew(worker, [])
        if is_new and len(said.jobs) < limit:
            self._check_next(types, said.next_at)
        return said.jobs

    def _check_next(self, types: Sequence[str], next_at: int | None) -> None:
        """Nobody may sleep past the moment when there is more; early is no harm."""
        more_at = self.model.more_at(types, self.now)
        if more_at is not None:
            assert next_at is not None, f"there is more at {more_at}"
            # A rate is a fraction: the engine may round it up to the next moment.
            assert next_at <= more_at + 1, f"there is more at {more_at}: {next_at}"
        if not self.model.may_change(types):
            same(next_at, None)

    @a_call
    def settle(self, outcomes: Sequence[Outcome]) -> list[Result]:
        said = self.ask(self.store.settle(outcomes, now=self.now))
        among(said, self.model.settle(outcomes, self.now))
        return said

    @a_call
    def cycle(
        self,
        outcomes: Sequence[Outcome],
        types: Sequence[str],
        limit: int,
        worker: str,
        claim: Claim,
    ) -> list[Job]:
        model = self.model
        if model.is_ordered(types):
            types = types[:1]
        is_chosen = self._promotes_aged(types) or any(
            model.has_set_aside(type) or model.of(State.BLOCKED, type) for type in types
        )
        if is_chosen:
            self.settle(outcomes)
            return self.claim(types, limit, worker, claim)
        self.learn_ranks(types)
        words, claimed = self.ask(
            self.store.cycle(
                outcomes,
                ClaimRequest(types, limit, worker=worker, claim=claim, lease=LEASE),
                now=self.now,
            )
        )
        among(words, self.model.settle(outcomes, self.now))
        self.model.new_call()
        fences = {job.id: job.fence for job in claimed.jobs}
        wanted = self.model.claim(types, limit, worker, claim, LEASE, self.now, fences)
        same_jobs(claimed.jobs, wanted)
        return claimed.jobs

    @a_call
    def renew(
        self,
        worker: str,
        runs: Sequence[Job],
        info: dict[str, Any] | None = None,
        lease: int = LEASE,
    ) -> HeartbeatReply:
        said = self.ask(
            self.store.renew(
                RenewRequest(worker, lease=lease, runs=runs, info=info), now=self.now
            )
        )
        wanted = self.model.renew(worker, lease, runs, info, self.now)
        same(sorted(said.lost), sorted(wanted.lost))
        same(said.cancel, wanted.cancel)
        same(said.paused, wanted.paused)
        return said

    @a_call
    def leave(self, worker: str) -> None:
        self.ask(self.store.leave(worker, now=self.now))
        self.model.leave(worker, self.now)

    @a_call
    def tend(
        self, keep: Keep | None = None, limit: int = MAX_BATCH
    ) -> MaintenanceResult:
        """Tend until nothing is left to do; a small *limit* takes more passes."""
        for worker in self.model.unsure(self.now):
            self.renew(worker, [])
        model = self.model
        is_ordered = model.is_ordered(model.types)
        if (
            model.is_overdue_twice(self.now)
            or model.depends_on_upkeep(self.now)
            or is_ordered
        ):
            # Leases come first and schedules last, unless the limit is reached before.
            limit = MAX_BATCH
        said = self.ask(
            _all_of(
                lambda: self.store.tend(
                    limit=limit, keep=keep, lease=LEASE, now=self.now
                )
            )
        )
        self._see_dropped()
        ids = list(self.model.jobs)
        left = self.ask(self.store.get(ids))
        gone = {id for id, job in zip(ids, left, strict=True) if job is None}
        wanted = MaintenanceResult()
        while one := self.model.tend(keep, LEASE, self.now, gone):
            wanted = together(wanted, one)
        same(said, wanted)
        return said

    @a_call
    def begin(self, job: Job, *, alone: bool) -> Job | Result:
        began = self.ask(self.store.begin(job, alone=alone, now=self.now))
        wanted = self.model.begin(job, self.now, alone=alone)
        same(began if isinstance(began, Result) else began.token, wanted)
        return began

    # -- signs of life ---------------------------------------------------------

    def progress(self, updates: Sequence[Progress]) -> None:
        said = self.ask(self.store.progress(updates, now=self.now))
        same(said, self.model.progress(updates, self.now))

    def log(self, job_id: int, lines: Sequence[LogLine]) -> None:
        said = self.ask(self.store.log(job_id, lines, now=self.now))
        same(said, self.model.log(job_id, lines, self.now))

    def record_step(self, job: Job, name: str, result: JSON) -> None:
        raw = msgspec.Raw(msgspec.json.encode(result))
        said = self.ask(
            self.store.record_step(job, name, raw, duration=5, now=self.now)
        )
        same(said, self.model.record_step(job, name, result, self.now))

    def receive(self, job: Job, name: str, number: int) -> None:
        said = self.ask(self.store.receive(job, name, number, now=self.now))
        same(said, self.model.receive(job, name, number, self.now))

    @a_call
    def signal(self, job_id: int, name: str, data: JSON) -> None:
        signal = Signal(name=name, data=data)
        said = self.ask(self.store.signal(job_id, signal, now=self.now))
        same(said, self.model.signal(job_id, name, data, self.now))

    # -- operating -------------------------------------------------------------

    @a_call
    def update(self, changes: Sequence[Change]) -> None:
        said = self.ask(self.store.update(changes, now=self.now))
        same(said, self.model.update(changes, self.now))

    @a_call
    def move(self, request: MoveRequest) -> None:
        said = self.ask(self.store.move(request, now=self.now))
        same(said, self.model.move(request, self.now))

    @a_call
    def cancel(
        self,
        job_ids: Sequence[int],
        reason: str = "",
        *,
        seen: Mapping[int, ExpectedState] = NOTHING_SEEN,
    ) -> None:
        said = self.ask(
            self.store.cancel(job_ids, reason=reason, seen=seen, now=self.now)
        )
        same(said, self.model.cancel(job_ids, reason, self.now, seen))

    @a_call
    def remove(self, request: RemoveRequest) -> None:
        said = self.ask(self.store.remove(request, now=self.now))
        same(said, self.model.remove(request, self.now))

    def pause(
        self, type: str | None, until: int | None, *, worker: str | None = None
    ) -> None:
        request = PauseRequest(type, worker, "because", "me", until)
        self.ask(self.store.pause(request, now=self.now))
        self.model.pause(Pause(type, self.now, "because", "me", until, worker))

    @a_call
    def resume(self, type: str | None, *, worker: str | None = None) -> None:
        said = self.ask(self.store.resume(type, worker=worker, now=self.now))
        same(said, self.model.resume(type, self.now, worker=worker))

    @a_call
    def limit(self, type: str, limits: Limits | None) -> None:
        self.ask(self.store.limit(type, limits, now=self.now))
        self.model.limit(type, limits, self.now)

    @a_call
    def set_named_limit(self, name: str, number: int | None) -> None:
        stored = number and StoredLimit(LimitRule(concurrency=number))
        self.ask(self.store.set_named_limit(name, stored or None, now=self.now))
        self.model.set_named_limit(name, number)

    @a_call
    def clear(self, type: str | None, states: Sequence[State], limit: int) -> None:
        """
        Clear; which of too many jobs go is the engine's choice, and in which order.

        A job that waits for another one of them is removed before it, or cancelled
        or released with it: then it may be removed all the same, or be out of reach.
        """
        before = {e.id for state in states for e in self.model.of(state, type)}
        said = self.ask(self.store.clear(type, states, limit=limit, now=self.now))
        left = [job for job in self.ask(self.store.get(sorted(before))) if job]
        removed = before - {job.id for job in left}
        same(len(removed), said)
        if said < min(limit, len(before)):
            same({job.state for job in left} & set(states), set())
        for entry in (self.model.jobs[job_id] for job_id in removed):
            if entry.state is State.BLOCKED:
                # Of one that may run however its parents end.
                kind = Kind.PROMOTION if entry.draft.after_any else Kind.CANCELLED
                event = Event(kind=kind, job_id=entry.id, type=entry.type, at=self.now)
                self.model.perhaps.append(event)
        # Those that wait have higher ids than those that they wait for.
        self.model.remove(RemoveRequest(sorted(removed, reverse=True)), self.now)

    def read_schedule(self, name: str) -> Schedule | None:
        """Return a schedule as a caller reads it who is about to change it."""
        found = self.ask(self.store.schedules(name))
        return found[0] if found else None

    def schedule(self, schedule: Schedule, *, expected: Schedule | None = None) -> None:
        said = self.ask(self.store.schedule(schedule, expected=expected))
        same(said, self.model.schedule(schedule, expected))

    def unschedule(self, name: str) -> None:
        same(self.ask(self.store.unschedule(name)), self.model.unschedule(name))

    @a_call
    def fire(self, name: str) -> None:
        said = self.ask(self.store.fire(name, now=self.now))
        self._see_dropped()
        same(said, self.model.fire(name, self.now))

    # -- waiting ---------------------------------------------------------------

    def wait(self, types: Sequence[str]) -> None:
        """Wait for work that is there: it must not sleep."""
        nap = asyncio.wait_for(
            self.store.wait(types, 2 * PATIENCE_SECONDS), PATIENCE_SECONDS
        )
        woken = self.ask(nap)
        assert woken, "it slept although there is work"
        assert woken <= set(types), woken
        self.model.owed.difference_update(woken)


def _is_dropped(job: Job) -> bool:
    is_cancelled = job.state is State.CANCELLED
    return is_cancelled and job.history[-1].reason.startswith("dropped:")


async def _all_of(
    tend: Callable[[], Awaitable[MaintenanceResult]],
) -> MaintenanceResult:
    """Tend again and again, until a pass finds nothing to do."""
    said = MaintenanceResult()
    for _ in range(PASSES):
        one = await tend()
        if not one:
            return said
        said = together(said, one)
    raise AssertionError(f"still something to do after {PASSES} passes: {one}")
