"""
The machine that drives a store and the model with whatever Hypothesis thinks of.

Rules here are the verbs of producers and workers; `operated` adds those of operators,
`walks` and `guided` the ways into deep states that random verbs do not find in forty
steps.  After every verb of a rule, everything is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kue.model.job import Draft, Ending, Job, State
from kue.model.schedule import Schedule
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    UNSEEN,
    Claim,
    ExpectedState,
    Limits,
    Outcome,
)
from tests.store_model import agreement, draws
from tests.store_model.both import LEASE, Both

PRODUCERS = ("p1", "p:2")


class Machine(RuleBasedStateMachine):
    """Says what producers and workers say; subclasses know where the store is."""

    both: Both

    def make_store(self) -> Store:
        """Return a store with nothing in it."""
        raise NotImplementedError

    def skip_ids(self) -> int:
        """Make the store go on with ids of one length, if it must; return the last."""
        return 0

    @initialize(data=st.data(), listens=st.sampled_from([True, True, False]))
    def begin(self, data: st.DataObject, listens: bool) -> None:
        self.both = Both(self.make_store(), listens=listens)
        #: Whether types have caps, and orders other than by priority and id.
        self.has_orders = data.draw(st.booleans())
        self.order_of_deep: Limits | None = None
        if self.has_orders:
            self._set_orders(data)
        self.runs: list[Job] = []
        self.seqs = dict.fromkeys((*PRODUCERS, *draws.WORKERS), 0)
        self.last_add: tuple[list[Draft], str, int] | None = None
        self.last_claim: tuple[Sequence[str], int, str, Claim] | None = None
        self.last_settle: list[Outcome] = []
        self.glimpsed: dict[str, list[Schedule]] = {n: [] for n in draws.SCHEDULES}

    def _set_orders(self, data: st.DataObject) -> None:
        self.both.start_after(self.skip_ids())
        self.order_of_deep = Limits(**data.draw(draws.orders))
        for type in draws.TYPES:
            self.both.limit(type, data.draw(draws.ordered_limits()))

    def teardown(self) -> None:
        if hasattr(self, "both"):
            self.both.close()

    @invariant()
    def check(self) -> None:
        """Compare everything; this is done after every rule."""
        agreement.compare(self.both)
        agreement.prove(self.both)

    def look(self) -> None:
        """Compare what can be seen; rules of many verbs do this in between."""
        agreement.compare(self.both)

    # -- what rules draw from --------------------------------------------------

    def ids(self) -> st.SearchStrategy[int]:
        """Draw a job: most of the time one that exists."""
        model = self.both.model
        return st.sampled_from([*model.jobs, *model.jobs, model.last_id + 1, 1])

    def some_ids(self) -> st.SearchStrategy[list[int]]:
        return st.lists(self.ids(), min_size=1, max_size=3, unique=True)

    def glances(self, job_id: int) -> st.SearchStrategy[ExpectedState]:
        """Draw what a caller may have seen of a job, now or before."""
        entry = self.both.model.jobs.get(job_id)
        if entry is None:
            return st.just(UNSEEN)
        lines = entry.view().history[-3:]
        endings = [f'{{"run":"{line.token}","at":{line.at},' for line in lines]
        now = ExpectedState.of(entry.view())
        return st.sampled_from(
            [UNSEEN, now, now, ExpectedState(entry.created_at - 1, now.ending)]
            + [ExpectedState(entry.created_at, ending) for ending in ("", *endings)]
        )

    def seen_of(self, ids: list[int]) -> st.SearchStrategy[dict[int, ExpectedState]]:
        """Draw what a caller saw of some jobs, or that it did not look."""
        looked = st.fixed_dictionaries({id: self.glances(id) for id in ids})
        return st.one_of(st.just({}), looked)

    def any_run(self) -> st.SearchStrategy[Job]:
        """Draw a run that was ever handed out, those that still go on more often."""
        tokens = {entry.token for entry in self.both.model.of(State.ACTIVE)}
        going_on = [run for run in self.runs if run.token in tokens]
        return st.sampled_from(going_on * 3 + self.runs)

    def next_seq(self, name: str) -> int:
        self.seqs[name] += 1
        return self.seqs[name]

    def say_claim(
        self, types: Sequence[str], limit: int, worker: str, lease: int = LEASE
    ) -> list[Job]:
        claim = Claim(f"lane of {worker}", self.next_seq(worker))
        jobs = self.both.claim(types, limit, worker, claim, lease)
        self.last_claim = (types, limit, worker, claim)
        self.runs += jobs
        return jobs

    def say_add(self, drafts: list[Draft], producer: str = "p1") -> list[int]:
        call = (drafts, producer, self.next_seq(producer))
        added = self.both.add(*call)
        if added is None:
            return []
        self.last_add = call
        return [one.id for one in added if not one.is_refused]

    # -- verbs -----------------------------------------------------------------

    @rule(step=st.one_of(draws.steps, draws.steps, draws.steps_back))
    def time_passes(self, step: int) -> None:
        self.both.now += step

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        model = self.both.model
        first = max(self.both.first_id, model.last_id - 7)
        # Some of them were removed.
        recent = [*range(first, model.last_id + 1)]
        blocked = [entry.id for entry in model.of(State.BLOCKED)]
        drafts: list[Draft] = []
        for number in range(data.draw(draws.sizes)):
            plain = data.draw(draws.drafts(recent))
            earlier = [-k for k in range(1, number + 1)]
            drafts.append(data.draw(draws.linked(plain, earlier, blocked, recent)))
        self.say_add(drafts, data.draw(st.sampled_from(PRODUCERS)))

    @rule(data=st.data())
    def claim(self, data: st.DataObject) -> None:
        self.say_claim(
            data.draw(draws.some_types),
            data.draw(draws.sizes),
            data.draw(draws.workers),
            data.draw(draws.leases),
        )

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.last_settle = self._outcomes(data)
        self.both.settle(self.last_settle)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), types=draws.some_types, worker=draws.workers)
    def cycle(self, data: st.DataObject, types: Sequence[str], worker: str) -> None:
        self.last_settle = self._outcomes(data)
        claim = Claim(f"lane of {worker}", self.next_seq(worker))
        self.last_claim = (types, data.draw(draws.sizes), worker, claim)
        self.runs += self.both.cycle(self.last_settle, *self.last_claim)

    def _outcomes(self, data: st.DataObject) -> list[Outcome]:
        """Draw endings of some runs, some of them said by upkeep, some twice."""
        runs = data.draw(
            st.lists(self.any_run(), min_size=1, max_size=4, unique_by=token_of)
        )
        outcomes = [
            Outcome(run, data.draw(draws.endings), data.draw(draws.overdue))
            for run in runs
        ]
        return outcomes + outcomes[: data.draw(draws.repeats)]

    @rule(data=st.data(), verbs=st.lists(draws.verbs, min_size=4, max_size=9))
    def a_shift(self, data: st.DataObject, verbs: list[str]) -> None:
        """Do what a store does all day: most jobs are added, run and end."""
        for verb in verbs:
            self.look()
            match verb:
                case "add":
                    self.add(data)
                case "claim":
                    self.claim(data)
                case "settle" if self.runs:
                    self.settle(data)
                case "time":
                    self.both.now += data.draw(draws.steps)
                case "tend":
                    self.both.tend(data.draw(draws.keeps))

    @rule(keep=draws.keeps, limit=st.sampled_from([MAX_BATCH, MAX_BATCH, 1, 2]))
    def tend(self, keep: Keep | None, limit: int) -> None:
        self.both.tend(keep, limit)

    @rule(data=st.data(), worker=draws.workers, lease=draws.leases)
    def renew(self, data: st.DataObject, worker: str, lease: int) -> None:
        mine = [run for run in self.runs if run.worker == worker]
        runs = data.draw(st.lists(st.sampled_from(mine), max_size=3)) if mine else []
        info = data.draw(draws.rarely({"host": "h", "n": 1}))
        self.both.renew(worker, runs, info, lease)

    @rule(worker=draws.workers)
    def leave(self, worker: str) -> None:
        self.both.leave(worker)

    # -- saying things twice ---------------------------------------------------

    @rule(data=st.data())
    def say_it_again(self, data: st.DataObject) -> None:
        """Repeat a call whose answer was lost, or one that comes late."""
        again: list[Callable[[], object]] = []
        if self.last_add is not None:
            drafts, producer, seq = self.last_add
            again.append(lambda: self.both.add(drafts, producer, seq))
            again.append(lambda: self.both.refuse_add(drafts, producer, seq - 1))
        if self.last_claim is not None:
            types, limit, worker, claim = self.last_claim
            older = Claim(claim.lane, claim.seq - 1)
            again.append(lambda: self.both.claim(types, limit, worker, claim))
            again.append(lambda: self.both.claim(types, limit, worker, older))
        if self.last_settle:
            again.append(lambda: self.both.settle(self.last_settle))
            again.append(lambda: self._settle_otherwise(data.draw(draws.endings)))
        if again:
            data.draw(st.sampled_from(again))()

    def _settle_otherwise(self, ending: Ending) -> None:
        self.both.settle([Outcome(one.job, ending) for one in self.last_settle])

    # -- waiting ---------------------------------------------------------------

    @precondition(lambda self: self.awaited())
    @rule()
    def wait_for_what_is_there(self) -> None:
        self.both.wait(self.awaited())

    def awaited(self) -> list[str]:
        """Return the types that someone who waits now must be woken for."""
        both, model = self.both, self.both.model
        return [
            type
            for type in model.owed
            if type not in model.limits
            and not model.is_paused(type, both.now)
            and model.of(State.WAITING, type)
            and not any(entry.may_be_held for entry in model.of(State.WAITING, type))
        ]


def token_of(run: Job) -> str:
    return run.token
