"""
The model of the order in which jobs start: by priority and id, fair, or with ageing.

A rank is a number, as `Job.rank` shows it.  By default it is the priority and, below
it, the id; in a fair type the virtual time takes the place of the id, in 60ths of the
turn of a group that weighs 1; with ageing it is a time in µs, of which engines choose
those below the millisecond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kue.model.job import State
from kue.store.values import Limits
from tests.store_model.entry import Entry
from tests.store_model.ledger import Ledger

#: What a step of priority is worth, where ranks are not times.
PRIORITY_STEP = 2**41
#: Virtual time that a job of a group of weight 1 takes.
TURN = 60


class Ranking(Ledger):
    """Limits of types as far as they set an order, and the turns of fair types."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: dict[str, Limits] = {}
        #: (type, priority) → the virtual time when a job last began to wait.
        self.clocks: dict[tuple[str, int], int] = {}
        #: (type, priority) → group → when it gets its next turn.
        self.turns: dict[tuple[str, int], dict[str | None, int]] = {}
        #: How jobs of fair types began to wait in this call: (type, priority) → ways.
        self.entered: dict[tuple[str, int], Counter[str]] = {}
        #: Fair types whose order the engine may choose, see `note_entry`.
        self.unordered: set[str] = set()

    def rule(self, type: str) -> Limits:
        return self.limits.get(type, Limits())

    def is_ordered(self, types: Iterable[str]) -> bool:
        """Return whether some of *types* have an order other than the default."""
        rules = [self.rule(type) for type in types]
        return any(rule.fair or rule.ageing for rule in rules)

    def new_call(self) -> None:
        """Forget what the last call did: what follows happens in another one."""
        self.entered.clear()

    def learn_rank(self, entry: Entry, rank: int) -> None:
        """Take over what the engine may choose of a rank."""
        is_time = self.rule(entry.type).ageing is not None
        if is_time and entry.rank // 1000 == rank // 1000:
            entry.rank = rank

    # -- ranks -----------------------------------------------------------------

    def begin_to_wait(self, entry: Entry, way: str, now: int) -> None:
        """Give a job its rank; *way* is how it comes to wait."""
        rule = self.rule(entry.type)
        if rule.ageing is not None:
            entry.rank = 1000 * (now + entry.priority * rule.ageing)
        elif rule.fair:
            self._note_entry(entry, way)
            entry.rank = self._take_turn(entry, rule, came_back=way == "requeue")
        else:
            entry.rank = default_rank(entry)

    def change_priority(self, entry: Entry, priority: int, now: int) -> None:
        """Let a waiting job go on with another priority."""
        if entry.priority == priority:
            return
        by, entry.priority = priority - entry.priority, priority
        rule = self.rule(entry.type)
        if entry.state is not State.WAITING:
            return
        if rule.ageing is not None:
            entry.rank += 1000 * by * rule.ageing
        else:
            self.begin_to_wait(entry, "update", now)

    def reorder(self, type: str, before: Limits, after: Limits) -> None:
        """Give jobs that wait the ranks that a changed order asks for."""
        if not after.fair:
            for known in (self.clocks, self.turns):
                for key in [key for key in known if key[0] == type]:
                    del known[key]
            self.unordered.discard(type)
        if before.ageing == after.ageing and not (before.fair and not after.fair):
            return
        for entry in self.of(State.WAITING, type):
            entry.rank = default_rank(entry)
            if after.ageing is not None:
                ready = entry.created_at + entry.priority * after.ageing
                entry.rank = 1000 * ready

    def place_among_types(self, entry: Entry, now: int) -> float:
        """Return what ranks of several types are compared by."""
        ageing = self.rule(entry.type).ageing
        if ageing is None:
            return entry.rank
        return (entry.rank / 1000 - now) / ageing * PRIORITY_STEP

    # -- turns -----------------------------------------------------------------

    def _take_turn(self, entry: Entry, rule: Limits, *, came_back: bool) -> int:
        key = (entry.type, entry.priority)
        turns = self.turns.setdefault(key, {})
        clock = self.clocks[key] = self._clock(*key)
        at = max(clock, turns.get(entry.group, clock))
        turns[entry.group] = at + TURN // rule.weights.get(entry.group or "", 1)
        ran_before = came_back or entry.attempts > 0 or entry.stalls > 0
        return clock if ran_before else at

    def _clock(self, type: str, priority: int) -> int:
        """Return the virtual time: of the first job that waits and is not held."""
        start = priority * PRIORITY_STEP
        waiting = [
            entry.rank
            for entry in self.of(State.WAITING, type)
            if start <= entry.rank < start + PRIORITY_STEP and not entry.is_set_aside
        ]
        # If none waits, all turns are over.
        given = self.turns[type, priority].values()
        head = min(waiting) if waiting else max(given, default=start)
        return max(start, head, self.clocks.get((type, priority), start))

    def _note_entry(self, entry: Entry, way: str) -> None:
        """
        Note that the engine may choose an order, if it may.

        Jobs that begin to wait in one call for several reasons do so in any order, and
        those that others were the parents of before or after these have left.  A slot
        that the call frees lets a held job go before all that, or afterwards.
        """
        ways = self.entered.setdefault((entry.type, entry.priority), Counter())
        ways[way] += 1
        is_first = ways.total() == 1
        if len(ways) > 1 or way == "unblock" or (way == "replace" and not is_first):
            self.unordered.add(entry.type)
        if way not in ("add", "promote") and self.has_set_aside(entry.type):
            self.unordered.add(entry.type)

    def has_set_aside(self, type: str) -> bool:
        return any(entry.is_set_aside for entry in self.of(State.WAITING, type))


def default_rank(entry: Entry) -> int:
    return entry.priority * PRIORITY_STEP + entry.id
