"""
More walks into deep states: keys, chains, limits, schedules, retention, listeners.

See `walks` for why, and for those through lost workers and time.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from kue.model.job import Completed, Ending, Failed, OnParentFailure, State
from kue.model.settings import Keep
from kue.store.values import MAX_BATCH, Limits, MoveRequest, Outcome, RemoveRequest
from tests.store_model import draws
from tests.store_model.both import LEASE
from tests.store_model.ear import Ear
from tests.store_model.sameness import same_events
from tests.store_model.walks import DEEP, STEP, W1, W2, Walks, deep
from tests.support.flows import linked
from tests.support.schedules import every


class GuidedMachine(Walks):
    """All rules there are."""

    # -- keys and links --------------------------------------------------------

    def new_key(self) -> str:
        """Return a unique key that nobody has had."""
        return f"{draws.KEYS[1]} {self.both.model.last_id}"

    @rule(ending=draws.endings)
    def a_key_is_taken_before_its_job_comes_back(self, ending: Ending) -> None:
        key = self.new_key()
        first = self.start_one(unique=key)
        self.end(first, ending)
        second = self.add_deep(unique=key)
        self.look()
        self.both.move(MoveRequest([first.id], State.WAITING))
        self.both.cancel([second])
        self.look()
        self.both.move(MoveRequest([first.id], State.WAITING))

    @rule(ending=draws.endings)
    def a_key_outlives_its_job(self, ending: Ending) -> None:
        options: dict[str, Any] = {"unique": self.new_key(), "unique_for": 5}
        run = self.start_one(**options)
        self.end(run, ending)
        self.both.now += 4999
        self.add_deep(**options)
        self.look()
        self.both.now += 1
        self.add_deep(**options)

    @rule(
        ending=draws.endings,
        policy=draws.policies,
        delay=st.sampled_from([0, 3]),
        back=st.booleans(),
    )
    def a_chain_hears_how_its_first_job_ended(
        self, ending: Ending, policy: OnParentFailure, delay: int, back: bool
    ) -> None:
        first = self.start_one()
        second = self.add_deep(after=[first.id], on_parent_failure=policy, delay=delay)
        self.add_deep(after=[first.id, second])
        self.look()
        self.end(first, ending)
        if back:
            self.both.move(MoveRequest([first.id], State.WAITING))
            self.both.cancel([first.id])
        self.pass_time(3000)
        self.say_claim([DEEP], MAX_BATCH, W1)
        self.look()
        self.both.remove(RemoveRequest([second], force=True))

    @rule(
        policy=draws.policies,
        ending=draws.endings,
        late=st.sampled_from(["joins", "is cancelled", "is removed"]),
        back=st.booleans(),
    )
    def a_batch_hears_of_its_members(
        self, policy: OnParentFailure, ending: Ending, late: str, back: bool
    ) -> None:
        self.prepare()
        unwanted = self.add_deep()
        self.both.cancel([unwanted])
        batch, *_ = self.say_add(
            [
                linked(DEEP, on_parent_failure=policy),
                *(linked(DEEP, before=[-1], flow=-1) for _ in range(2)),
            ]
        )
        runs = [r for r in self.say_claim([DEEP], MAX_BATCH, W1) if r.flow == batch]
        self.look()
        self.end(runs[0], Completed())
        if self.state_of(batch) is State.BLOCKED:
            after = [unwanted] if late == "is cancelled" else []
            joining = linked(DEEP, before=[batch], after=after, flow=batch)
            [member] = self.say_add([joining])
            self.look()
            if late == "is removed":
                self.both.remove(RemoveRequest([member]))
        self.end(runs[1], ending)
        if back:
            self.both.move(MoveRequest([run.id for run in runs], State.WAITING))
        self.pass_time(1000)
        self.both.remove(RemoveRequest([batch], force=True))

    # -- limits ----------------------------------------------------------------

    def limit_deep(self, **limits: Any) -> None:
        """Limit the type of walks, which keeps the order that it has."""
        order = self.order_of_deep or Limits()
        self.both.limit(DEEP, msgspec.structs.replace(order, **limits))

    @rule(way=st.sampled_from(["ends", "lifted", "removed", "stalls"]))
    def a_group_is_held_back(self, way: str) -> None:
        self.prepare()
        self.limit_deep(per_key=1)
        ids = [self.add_deep(group=draws.GROUPS[1]) for _ in range(3)]
        runs = self.say_claim([DEEP], MAX_BATCH, W1)
        self.look()
        mine = [run for run in runs if run.group == draws.GROUPS[1]]
        match way:
            case "ends":
                self.both.settle([Outcome(run, Completed()) for run in mine])
            case "lifted":
                self.both.limit(DEEP, None)
            case "removed":
                self.both.remove(
                    RemoveRequest([*(run.id for run in mine), ids[1]], force=True)
                )
            case "stalls":
                self.pass_time(LEASE + STEP)
        self.look()
        self.say_claim([DEEP], MAX_BATCH, W2)

    @rule(way=st.sampled_from(["ends", "lifted", "widened", "removed", "stalls"]))
    def a_named_limit_holds_back(self, way: str) -> None:
        self.prepare()
        name = draws.limit_of(DEEP)
        self.both.set_named_limit(name, 1)
        ids = [self.add_deep(limited_by={name: ""}) for _ in range(3)]
        runs = self.say_claim([DEEP], MAX_BATCH, W1)
        self.look()
        mine = [run for run in runs if run.limited_by == ((name, ""),)]
        match way:
            case "ends":
                self.both.settle([Outcome(run, Completed()) for run in mine])
            case "lifted":
                self.both.set_named_limit(name, None)
            case "widened":
                self.both.set_named_limit(name, 2)
            case "removed":
                self.both.remove(
                    RemoveRequest([*(run.id for run in mine), ids[1]], force=True)
                )
            case "stalls":
                self.pass_time(LEASE + STEP)
        self.look()
        self.say_claim([DEEP], MAX_BATCH, W2)

    @rule(rate=st.integers(1, 3), step=st.sampled_from([300, 500, 1000]))
    def a_type_is_slowed_down(self, rate: int, step: int) -> None:
        self.prepare()
        self.limit_deep(rate=rate, per=1000)
        self.say_add([deep() for _ in range(5)])
        for _ in range(3):
            self.say_claim([DEEP], MAX_BATCH, W1)
            self.look()
            self.both.now += step

    @rule(ending=draws.endings)
    def a_type_runs_few_at_once(self, ending: Ending) -> None:
        run = self.start_one()
        self.limit_deep(concurrency=1)
        self.add_deep()
        self.say_claim([DEEP], MAX_BATCH, W1)
        self.look()
        self.end(run, ending)
        self.say_claim([DEEP], MAX_BATCH, W2)

    # -- schedules, retention, listening ---------------------------------------

    @rule(
        late=st.sampled_from([0, 1, 2500, 130_000]),
        keyed=st.booleans(),
        missed=st.sampled_from(["once", "skip", "all"]),
    )
    def a_schedule_is_missed(self, late: int, keyed: bool, missed: str) -> None:
        """With a key it adds nothing while its last job is unfinished."""
        drawn = deep(unique=self.new_key() if keyed else None)
        interval, first = "61s" if late > 2500 else "1s", self.both.now + 10
        self.both.schedule(
            every("deep", interval, drawn, first_at=first, missed=missed)
        )
        self.both.tend()
        self.both.now += 10 + late
        self.both.tend()
        self.look()
        self.both.now += 1000
        self.both.tend()
        self.both.unschedule("deep")

    @rule(
        overlap=st.sampled_from(["allow", "skip", "queue-one"]),
        ending=draws.endings,
        by_hand=st.booleans(),
    )
    def a_schedule_meets_its_last_job(
        self, overlap: str, ending: Ending, by_hand: bool
    ) -> None:
        self.prepare()
        self.both.schedule(
            every("deep", "1s", deep(), first_at=self.both.now, overlap=overlap)
        )
        self.pass_time(STEP)
        runs = self.say_claim([DEEP], MAX_BATCH, W1)
        if by_hand:
            self.both.fire("deep")
        self.pass_time(1000)
        self.look()
        self.both.settle([Outcome(run, ending) for run in runs])
        self.pass_time(1000)
        self.both.unschedule("deep")

    @rule(
        keep=st.integers(0, 2),
        ending=draws.endings,
        own=st.lists(st.sampled_from([None, None, 0, 5]), min_size=3, max_size=4),
    )
    def only_the_newest_are_kept(
        self, keep: int, ending: Ending, own: list[int | None]
    ) -> None:
        """Those who said themselves how long they are kept are not counted."""
        self.prepare()
        self.say_add([deep(retention=retention) for retention in own])
        for run in self.say_claim([DEEP], MAX_BATCH, W1):
            self.both.settle([Outcome(run, ending)])
            self.both.now += 1
        self.both.tend(
            Keep(complete_count=keep, failed_count=keep, cancelled_count=keep)
        )

    @rule(ending=draws.endings)
    def a_listener_hears_of_one_job_only(self, ending: Ending) -> None:
        self.prepare()
        other, watched = self.add_deep(), self.add_deep()
        self.look()
        ear = self.both.ask(Ear.open(self.both.store, [watched]))
        runs = {run.id: run for run in self.say_claim([DEEP], MAX_BATCH, W1)}
        self.both.settle(
            [Outcome(runs[watched], ending), Outcome(runs[other], Completed())]
        )
        self.both.remove(RemoveRequest([watched], force=True))
        wanted = [e for e in self.both.model.told if e.job_id == watched]
        same_events(self.both.ask(ear.hear(wanted)), wanted)
        self.both.ask(ear.close())

    @rule()
    def the_engine_forgets_its_scripts(self) -> None:
        self.forget_scripts()

    @rule()
    def a_type_fails_for_good(self) -> None:
        run = self.start_one(attempts=3)
        self.end(run, Failed(draws.OOPS))
        self.both.move(MoveRequest([run.id], State.DELAYED, self.both.now + 1000))
        self.pass_time(1000)
        self.both.cancel([run.id])
