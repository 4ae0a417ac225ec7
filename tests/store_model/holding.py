"""The model of what holds jobs back: pauses, and limits on a type or a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kue.model.job import State
from kue.store.values import Limits, Pause
from tests.store_model.entry import Entry
from tests.store_model.ranking import Ranking


@dataclass
class Bucket:
    """Starts saved up under a rate; *level* counts in start × per, so it is exact."""

    level: int
    at: int

    def fill(self, limits: Limits, now: int) -> None:
        assert limits.rate is not None
        passed = max(0, now - self.at)
        full = limits.rate * limits.per
        self.level = min(full, self.level + passed * limits.rate)
        self.at = now


class Holding(Ranking):
    """Pauses and limits, and the choice of jobs they leave."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: dict[str | None, Pause] = {}
        self.worker_pauses: dict[str, Pause] = {}
        self.buckets: dict[str, Bucket] = {}
        #: How many run at once, by the name of the limit.
        self.named: dict[str, int] = {}

    def is_paused(self, type: str, now: int) -> bool:
        pauses = (self.pauses.get(None), self.pauses.get(type))
        return any(_is_in_force(pause, now) for pause in pauses)

    def is_stopped(self, type: str) -> bool:
        """Tell whether *type* is paused until someone resumes it."""
        pauses = (self.pauses.get(None), self.pauses.get(type))
        return any(pause and pause.until is None for pause in pauses)

    def choose(self, types: Sequence[str], limit: int, now: int) -> list[Entry]:
        """Return what to hand out, best first; fail and set aside on the way."""
        room = {type: self._room(type, now) for type in set(types)}
        active = self.of(State.ACTIVE)
        groups = Counter((e.type, e.group) for e in active)
        named = Counter(one for e in active for one in e.draft.limited_by)
        chosen: list[Entry] = []
        for entry in self._in_line(types, now):
            if len(chosen) == limit:
                break
            if room[entry.type] == 0:
                continue
            if entry.is_past_its_life(now):
                self.fail_expired(entry, now)
            elif self._group_is_full(entry, groups) or self._is_full(entry, named):
                entry.is_held = entry.may_be_held = True
            else:
                chosen.append(entry)
                room[entry.type] -= 1
                groups[entry.type, entry.group] += 1
                named.update(entry.draft.limited_by)
                self._spend(entry.type)
        return chosen

    def _in_line(self, types: Iterable[str], now: int) -> list[Entry]:
        waiting = [
            entry
            for entry in self.of(State.WAITING)
            if entry.type in types and not self.is_paused(entry.type, now)
        ]
        return sorted(waiting, key=lambda e: (self.place_among_types(e, now), e.id))

    def is_tied(self, types: Sequence[str], now: int) -> bool:
        """Return whether jobs of several types may have the same place."""
        if not self.is_ordered(types):
            return False
        in_line = self._in_line(types, now)
        places = Counter(self.place_among_types(entry, now) for entry in in_line)
        is_due = any((e.promote_at or 0) <= now for e in self.of(State.DELAYED))
        return is_due or any(number > 1 for number in places.values())

    def _room(self, type: str, now: int) -> int:
        """Return how many runs of *type* may start now."""
        limits = self.limits.get(type, Limits())
        room = 1_000_000
        if limits.concurrency is not None:
            room = max(0, limits.concurrency - len(self.of(State.ACTIVE, type)))
        if limits.rate is not None:
            bucket = self.buckets[type]
            bucket.fill(limits, now)
            room = min(room, bucket.level // limits.per)
        return room

    def frees_at(self, type: str, now: int) -> list[int]:
        """Return when a rate lets the next of the waiting jobs start, if one does."""
        limits = self.limits.get(type, Limits())
        only_rate = limits.concurrency is None and limits.per_key is None
        if limits.rate is None or not only_rate or self.is_paused(type, now):
            return []
        if not self.of(State.WAITING, type):
            return []
        bucket = self.buckets[type]
        bucket.fill(limits, now)
        missing = max(0, limits.per - bucket.level)
        return [now + -(-missing // limits.rate)]

    def _spend(self, type: str) -> None:
        if type in self.buckets:
            self.buckets[type].level -= self.limits[type].per

    def _group_is_full(
        self, entry: Entry, groups: Counter[tuple[str, str | None]]
    ) -> bool:
        per_key = self.limits.get(entry.type, Limits()).per_key
        if per_key is None or entry.group is None:
            return False
        return groups[entry.type, entry.group] >= per_key

    def _is_full(self, entry: Entry, running: Counter[tuple[str, str]]) -> bool:
        return any(
            name in self.named and running[name, key] >= self.named[name]
            for name, key in entry.draft.limited_by
        )

    def free_slot(self, entry: Entry) -> None:
        """A run has ended: at least one that waited for its group is let go."""
        for other in self.of(State.WAITING, entry.type):
            shares = set(other.draft.limited_by) & set(entry.draft.limited_by)
            if other.group == entry.group or shares:
                other.is_held = False
        self.owed.add(entry.type)

    # -- verbs -----------------------------------------------------------------

    def pause(self, pause: Pause) -> None:
        if pause.worker is not None:
            self.worker_pauses[pause.worker] = pause
        else:
            self.pauses[pause.type] = pause

    def resume(self, type: str | None, now: int, *, worker: str | None = None) -> bool:
        if worker is not None:
            return _is_in_force(self.worker_pauses.pop(worker, None), now)
        self.owed |= {e.type for e in self.of(State.WAITING) if type in (None, e.type)}
        return _is_in_force(self.pauses.pop(type, None), now)

    def pause_of(self, worker: str, now: int) -> Pause | None:
        pause = self.worker_pauses.get(worker)
        return pause if _is_in_force(pause, now) else None

    def end_pauses(self, now: int) -> None:
        pauses = [*self.pauses.values(), *self.worker_pauses.values()]
        for pause in pauses:
            if not _is_in_force(pause, now):
                self.resume(pause.type, now, worker=pause.worker)

    def limit(self, type: str, limits: Limits | None, now: int) -> None:
        before = self.limits.pop(type, Limits())
        after = limits or Limits()
        if limits is not None:
            self.limits[type] = limits
        self.reorder(type, before, after)
        if after.rate is None:
            self.buckets.pop(type, None)
        elif (after.rate, after.per) != (before.rate, before.per):
            # Saying the same again saves nothing up.
            self.buckets[type] = Bucket(after.rate * after.per, now)
        for entry in self.of(State.WAITING, type):
            entry.is_held = False
            is_limited = any(name in self.named for name, _ in entry.draft.limited_by)
            may_be = after.per_key is not None or is_limited
            entry.may_be_held = entry.may_be_held and may_be
        self.owed.add(type)

    def set_named_limit(self, name: str, number: int | None) -> None:
        if number is None:
            self.named.pop(name, None)
        else:
            self.named[name] = number
        for entry in self.of(State.WAITING):
            if name in dict(entry.draft.limited_by):
                entry.is_held = False
                entry.may_be_held = entry.may_be_held and number is not None


def _is_in_force(pause: Pause | None, now: int) -> bool:
    return pause is not None and (pause.until is None or now < pause.until)
