"""The machine with what operators do, and with all that can be read."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kue.model.job import Released, State
from kue.model.schedule import Schedule
from kue.store.values import (
    MAX_BATCH,
    MAX_LOG_LINES,
    Change,
    Filter,
    LogLine,
    MoveRequest,
    Outcome,
    Progress,
    RemoveRequest,
    Result,
)
from tests.store_model import agreement, draws
from tests.store_model.machine import Machine

SCHEDULES = st.sampled_from(draws.SCHEDULES)
ANY_TYPE = st.sampled_from([None, *draws.TYPES])


class OperatedMachine(Machine):
    """Single verbs of everyone."""

    # -- signs of life ---------------------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), percent=draws.percents, said=draws.payloads)
    def progress(self, data: st.DataObject, percent: int, said: object) -> None:
        run = data.draw(self.any_run())
        token = data.draw(st.sampled_from([run.token, run.token, ""]))
        self.both.progress([Progress(run.id, percent, said, token)])

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), alone=st.booleans())
    def begin_run(self, data: st.DataObject, alone: bool) -> None:
        began = self.both.begin(data.draw(self.any_run()), alone=alone)
        self.runs += [] if isinstance(began, Result) else [began]

    @precondition(lambda self: self.both.model.jobs)
    @rule(data=st.data(), number=st.sampled_from([1, 2, MAX_BATCH]))
    def log(self, data: st.DataObject, number: int) -> None:
        lines = [LogLine(f"line\n{n}", "warning", n) for n in range(number)]
        job_id = data.draw(self.ids())
        for _ in range(1 if number < MAX_BATCH else MAX_LOG_LINES // MAX_BATCH + 1):
            self.both.log(job_id, lines)
        start, stop = data.draw(draws.bounds), data.draw(draws.bounds)
        agreement.logs(self.both, job_id, start, stop)

    # -- steps and signals -----------------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), name=st.sampled_from(["one", "two"]), said=draws.payloads)
    def record_step(self, data: st.DataObject, name: str, said: object) -> None:
        self.both.record_step(data.draw(self.any_run()), name, said)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), name=draws.signals, number=st.sampled_from([1, 1, 2]))
    def receive(self, data: st.DataObject, name: str, number: int) -> None:
        self.both.receive(data.draw(self.any_run()), name, number)

    @precondition(lambda self: self.both.model.jobs)
    @rule(data=st.data(), name=draws.signals, said=draws.payloads)
    def signal(self, data: st.DataObject, name: str, said: object) -> None:
        self.both.signal(data.draw(self.ids()), name, said)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), name=draws.signals, is_first=st.booleans())
    def suspend_and_signal(
        self, data: st.DataObject, name: str, is_first: bool
    ) -> None:
        """Send a signal just before or after a run is suspended for it."""
        run = data.draw(self.any_run())
        if is_first:
            self.both.signal(run.id, name, "first")
        waits = Released(3000, suspended=f"wait:1:{name}")
        self.both.settle([Outcome(run, waits)])
        self.look()
        if not is_first:
            self.both.signal(run.id, name, "then")

    # -- operating -------------------------------------------------------------

    @precondition(lambda self: self.both.model.jobs)
    @rule(data=st.data(), payload=draws.payloads, priority=draws.priorities)
    def update(self, data: st.DataObject, payload: object, priority: int) -> None:
        job_id = data.draw(self.ids())
        changes = [
            Change(job_id, data=payload, seen=data.draw(self.glances(job_id))),
            Change(data.draw(self.ids()), priority=priority),
            Change(data.draw(self.ids()), tags=("blue",), max_attempts=2),
        ]
        self.both.update(data.draw(st.lists(st.sampled_from(changes), min_size=1)))

    @precondition(lambda self: self.both.model.jobs)
    @rule(data=st.data(), step=draws.rarely(1, 1000, 5000))
    def move(self, data: st.DataObject, step: int | None) -> None:
        ids = data.draw(self.some_ids())
        states = data.draw(st.none() | st.lists(draws.states, max_size=4, unique=True))
        seen = data.draw(self.seen_of(ids))
        if step is None:
            request = MoveRequest(ids, State.WAITING, states=states, seen=seen)
        else:
            self.both.go_on()
            at = self.both.now + step
            request = MoveRequest(ids, State.DELAYED, at, states, seen)
        self.both.move(request)

    @precondition(lambda self: self.both.model.jobs)
    @rule(data=st.data(), reason=st.sampled_from(["", 'by "hand"\n']))
    def cancel(self, data: st.DataObject, reason: str) -> None:
        ids = data.draw(self.some_ids())
        self.both.cancel(ids, reason, seen=data.draw(self.seen_of(ids)))

    @precondition(lambda self: self.both.model.jobs)
    @rule(data=st.data(), force=st.booleans())
    def remove(self, data: st.DataObject, force: bool) -> None:
        states = data.draw(st.none() | st.lists(draws.states, max_size=3, unique=True))
        ids = data.draw(self.some_ids())
        seen = data.draw(self.seen_of(ids))
        self.both.remove(RemoveRequest(ids, force, states, seen))

    @rule(data=st.data(), type=draws.rarely(*draws.TYPES), limit=draws.sizes)
    def clear(self, data: st.DataObject, type: str | None, limit: int) -> None:
        states = data.draw(st.lists(draws.states, max_size=2, unique=True))
        self.both.clear(type, [s for s in states if s is not State.ACTIVE], limit)

    @rule(type=ANY_TYPE, step=draws.rarely(1000, 3000), ends=st.booleans())
    def pause(self, type: str | None, step: int | None, ends: bool) -> None:
        if ends:
            self.both.resume(type)
        else:
            self.both.pause(type, None if step is None else self.both.now + step)

    @rule(worker=draws.workers, step=draws.rarely(1000), ends=st.booleans())
    def pause_worker(self, worker: str, step: int | None, ends: bool) -> None:
        if ends:
            self.both.resume(None, worker=worker)
        else:
            until = None if step is None else self.both.now + step
            self.both.pause(None, until, worker=worker)

    @rule(data=st.data(), type=draws.types)
    def limit(self, data: st.DataObject, type: str) -> None:
        limits = draws.ordered_limits() if self.has_orders else draws.limits
        self.both.limit(type, data.draw(st.one_of(st.none(), limits, limits)))

    @rule(type=draws.types, number=draws.concurrency)
    def set_named_limit(self, type: str, number: int | None) -> None:
        self.both.set_named_limit(draws.limit_of(type), number)

    @rule(data=st.data(), name=SCHEDULES, is_late=draws.rarely(True))
    def schedule(self, data: st.DataObject, name: str, is_late: bool | None) -> None:
        """Write a schedule as one who has read it, perhaps before others changed it."""
        now, known = self.both.now, self.both.read_schedule(name)
        seen = data.draw(self.glimpses(name)) if is_late else known
        wanted = data.draw(draws.schedules(name, now, seen))
        self.both.schedule(wanted, expected=seen)
        self.remember(name)

    @rule(name=SCHEDULES)
    def unschedule(self, name: str) -> None:
        self.both.unschedule(name)

    @rule(name=SCHEDULES)
    def fire(self, name: str) -> None:
        self.both.fire(name)
        self.remember(name)

    @rule(name=SCHEDULES)
    def pause_schedule(self, name: str) -> None:
        known = self.both.read_schedule(name)
        if known is None:
            return
        paused = msgspec.structs.replace(known, paused=True)
        changed = known.resumed(self.both.now) if known.paused else paused
        self.both.schedule(changed, expected=known)

    def glimpses(self, name: str) -> st.SearchStrategy[Schedule | None]:
        """Draw what a caller may have read of a schedule, at some time."""
        return st.sampled_from([None, *self.glimpsed[name][-4:]])

    def remember(self, name: str) -> None:
        known = self.both.read_schedule(name)
        self.glimpsed[name] += [] if known is None else [known]

    # -- reading ---------------------------------------------------------------

    @rule(
        state=draws.rarely(*State),
        type=draws.rarely(*draws.TYPES),
        size=draws.sizes,
        descending=st.booleans(),
        wanted=draws.filters,
    )
    def read(
        self,
        state: State | None,
        type: str | None,
        size: int,
        descending: bool,
        wanted: Filter,
    ) -> None:
        agreement.walk(self.both, state, type, size, descending)
        agreement.search(self.both, wanted, size)
        agreement.skip(self.both, state, size, size)
        agreement.stats(self.both)
