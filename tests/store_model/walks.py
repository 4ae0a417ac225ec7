"""
Walks into deep states: lost workers, used-up attempts, zombies, chains, limits.

Random verbs alone leave a quarter of all bugs alive, because few of them follow one job
for long.  Each rule here takes a job by the hand; random rules then go on from there.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from kue.model import backoff, retry_policy
from kue.model.draft import draft
from kue.model.job import Completed, Draft, Ending, Job, Released, State
from kue.store.values import GRACE_GAP_MS, MAX_BATCH, MoveRequest, Outcome, Progress
from tests.store_model import draws
from tests.store_model.both import LEASE
from tests.store_model.operated import OperatedMachine

#: A type that only guided rules add to.
DEEP = draws.TYPES[0] + " deep"
W1, W2 = draws.WORKERS
#: Too short for anyone to think that the store was away.
STEP = 2_500
#: More than any pause after a lost worker, and a step.
LONGEST_PAUSE = 15_000


class Walks(OperatedMachine):
    """Single verbs, and walks through losses, failures and time."""

    def digest(self) -> Hashable:
        """Return everything the engine has written, to the byte."""
        raise NotImplementedError

    def forget_scripts(self) -> None:
        """Make the engine forget what it has been taught, if it can."""

    # -- steps of walks --------------------------------------------------------

    def prepare(self) -> None:
        """Let nothing hold deep jobs back."""
        self.both.resume(None)
        self.both.resume(DEEP)
        self.both.limit(DEEP, self.order_of_deep)
        self.both.set_named_limit(draws.limit_of(DEEP), None)

    def add_deep(self, **options: Any) -> int:
        return self.say_add([deep(**options)])[0]

    def start(self, worker: str, job_id: int) -> Job:
        """Let *worker* take all deep jobs there are; return the run of *job_id*."""
        runs = self.say_claim([DEEP], MAX_BATCH, worker)
        self.look()
        return next(run for run in runs if run.id == job_id)

    def start_one(self, worker: str = W1, **options: Any) -> Job:
        self.prepare()
        return self.start(worker, self.add_deep(**options))

    def end(self, run: Job, ending: Ending) -> None:
        self.both.settle([Outcome(run, ending)])
        self.look()

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass with upkeep as often as a living system has it."""
        self.both.tend()
        until = self.both.now + milliseconds
        while self.both.now < until:
            self.both.now = min(until, self.both.now + STEP)
            self.both.tend()
        self.look()

    def state_of(self, job_id: int) -> State:
        return self.both.model.jobs[job_id].state

    # -- lost workers ----------------------------------------------------------

    @rule(once=st.booleans(), backwards=st.booleans())
    def a_job_kills_its_workers(self, once: bool, backwards: bool) -> None:
        delivery = "at-most-once" if once else "at-least-once"
        run = self.start_one(delivery=delivery)
        for _ in range(retry_policy.MAX_STALLS + 1):
            if retry_policy.runs_alone(run):
                assert self.both.begin(run, alone=True)
            self.pass_time(LEASE + LONGEST_PAUSE)
            if backwards:
                self.both.now -= 10
            if self.state_of(run.id) is State.FAILED:
                break
            run = self.start(W1, run.id)
        assert self.state_of(run.id) is State.FAILED

    @rule(ending=draws.endings, later=draws.endings)
    def a_zombie_changes_nothing(self, ending: Ending, later: Ending) -> None:
        zombie = self.start_one(attempts=3, ttl=60)
        self.pass_time(LEASE + STEP)
        run = self.start(W2, zombie.id)
        self._changes_nothing(zombie, ending)
        self.end(run, later)
        self._changes_nothing(zombie, ending)
        self._changes_nothing(run, ending)

    def _changes_nothing(self, run: Job, ending: Ending) -> None:
        before = self.digest()
        self.both.settle([Outcome(run, ending), Outcome(run, ending, "lease")])
        self.both.progress([Progress(run.id, 50, "alive", run.token)])
        assert self.digest() == before, "a run that is over has changed something"
        self.look()

    @rule()
    def a_claim_is_repeated_after_its_worker_was_lost(self) -> None:
        self.start_one()
        assert self.last_claim is not None
        self.both.claim(*self.last_claim)
        self.look()
        self.pass_time(LEASE + STEP)
        self.both.claim(*self.last_claim)

    @rule(beats=st.booleans())
    def everybody_was_away(self, beats: bool) -> None:
        run = self.start_one()
        self.both.tend()
        self.both.now += LEASE + GRACE_GAP_MS + 1
        self.both.tend()
        self.look()
        if beats:
            self.both.renew(W1, [run])
        self.both.now += LEASE // 2
        self.both.tend()
        self.look()

    @rule(step=st.sampled_from([1, 3000, 8000]))
    def the_clock_steps_back_while_a_job_runs(self, step: int) -> None:
        self.start_one()
        self.both.tend()
        self.both.now -= step
        self.both.tend()
        self.look()
        self.both.now += LEASE - 1
        self.both.tend()
        self.look()
        self.both.now += 1
        self.both.tend()

    @rule(says_so=st.booleans())
    def a_job_is_cancelled_while_it_runs(self, says_so: bool) -> None:
        run = self.start_one(attempts=2)
        self.both.cancel([run.id], "stop it")
        self.both.cancel([run.id], "stop it")
        self.both.tend()
        self.look()
        if says_so:
            self.both.renew(W1, [run])
        self.both.leave(W1)
        self.both.tend()
        self.look()
        self.both.move(MoveRequest([run.id], State.WAITING))
        self.end(self.start(W2, run.id), Completed("after all"))

    # -- attempts and time -----------------------------------------------------

    @rule(attempts=st.integers(1, 3), later=st.booleans())
    def a_job_fails_until_it_may_not(self, attempts: int, later: bool) -> None:
        wait = backoff.fixed(1) if later else None
        run = self.start_one(attempts=attempts, backoff=wait)
        for _ in range(attempts):
            self.end(run, retry_policy.after_error(run, draws.OOPS, self.both.now))
            if self.state_of(run.id) is not State.FAILED:
                self.both.now += 999
                self.say_claim([DEEP], MAX_BATCH, W1)
                self.both.now += 1
                run = self._run_of(run.id) or self.start(W1, run.id)
        assert self.state_of(run.id) is State.FAILED
        self.both.move(MoveRequest([run.id], State.WAITING))
        self.look()
        self.end(self.start(W1, run.id), Completed())

    def _run_of(self, job_id: int) -> Job | None:
        entry = self.both.model.jobs[job_id]
        return entry.view() if entry.state is State.ACTIVE else None

    @rule(counts=st.booleans())
    def a_job_comes_back_again_and_again(self, counts: bool) -> None:
        """Its story keeps the newest attempts only."""
        run = self.start_one(attempts=100)
        for _ in range(24):
            self.both.settle([Outcome(run, Released(0, counts, "again"))])
            run = self.start(W1, run.id)
        self.end(run, Completed())

    @rule()
    def progress_starts_the_ttl_anew(self) -> None:
        run = self.start_one(ttl=2, attempts=2)
        self.both.now += 1500
        self.both.progress([Progress(run.id, 10, None, run.token)])
        self.both.now += 1500
        self.both.renew(W1, [run])
        self.both.tend()
        assert self.state_of(run.id) is State.ACTIVE
        self.both.now += 500
        self.both.tend()
        assert self.state_of(run.id) is State.WAITING

    @rule(step=st.sampled_from([3999, 4000]), delay=st.sampled_from([0, 1]))
    def a_job_is_not_started_in_time(self, step: int, delay: int) -> None:
        self.prepare()
        self.add_deep(expires=4, delay=delay)
        self.both.now += step
        self.say_claim([DEEP], MAX_BATCH, W1)


def deep(**options: Any) -> Draft:
    """Return a draft that only walks add."""
    return draft(DEEP, {"deep": True}, **options)
