"""The model of queue caps: how many jobs of a type may wait, and which are dropped."""

from __future__ import annotations

from collections.abc import Collection

from kue.model.job import State
from kue.store.values import WhenFull
from tests.store_model.entry import Entry
from tests.store_model.holding import Holding
from tests.store_model.ranking import PRIORITY_STEP

#: More jobs than any walk adds.
ANY_NUMBER = 1_000_000


class Capped(Holding):
    """Room for new jobs, and those that have to go for them."""

    def __init__(self) -> None:
        super().__init__()
        #: What the engine dropped in this call, for where it may choose.
        self.dropped: Collection[int] = ()

    def drops(self, type: str) -> bool:
        rule = self.rule(type)
        is_capped = rule.max_waiting is not None
        return is_capped and rule.when_full is WhenFull.DROP_OLDEST

    def room_for(self, type: str) -> int:
        """Return how many more jobs may be added that wait at once."""
        cap = self.rule(type).max_waiting
        if cap is None or self.drops(type):
            return ANY_NUMBER
        return cap - len(self.of(State.WAITING, type))

    def drop_oldest(self, type: str, dropped: Collection[int], now: int) -> None:
        cap = self.rule(type).max_waiting
        if cap is None or not self.drops(type):
            return
        reason = f"dropped: {cap} jobs of its type wait, as many as its cap allows"
        while victims := self._victims(type, cap, dropped):
            self.cancel_now(victims[0], reason, now)

    def _victims(self, type: str, cap: int, dropped: Collection[int]) -> list[Entry]:
        """Return what is to be dropped next, and perhaps more."""
        waiting = self.of(State.WAITING, type)
        if self.has_set_aside(type) or self._has_finally(type):
            # Slots that are freed, and jobs that are released, go into it.
            return [entry for entry in waiting if entry.id in dropped]
        if len(waiting) <= cap:
            return []
        lowest = max(entry.rank // PRIORITY_STEP for entry in waiting)
        last = [e for e in waiting if e.rank // PRIORITY_STEP == lowest]
        return sorted(last, key=lambda entry: (entry.rank, entry.id))

    def _has_finally(self, type: str) -> bool:
        """Return whether jobs wait for others of *type* to end in any way."""
        blocked = [
            e
            for e in self.of(State.BLOCKED, type)
            if e.draft.on_parent_failure == "run"
        ]
        parents = {parent for entry in blocked for parent in entry.parents}
        return any(entry.id in parents for entry in self.of(State.WAITING, type))
