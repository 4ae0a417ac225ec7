"""The model of schedules: written by those who have seen them, and fired."""

from __future__ import annotations

import msgspec

from kue.model.job import Job
from kue.model.schedule import (
    MAX_CATCH_UP,
    REFUSED_JOB,
    Firing,
    Schedule,
    Tick,
    manual_firing,
    next_firing,
    with_job,
)
from kue.store.values import Added
from tests.store_model.operating import Operating


class Scheduling(Operating):
    """What becomes of schedules; how one fires is a pure rule with tests of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.schedules: dict[str, Schedule] = {}

    # -- by hand ---------------------------------------------------------------

    def schedule(self, schedule: Schedule, expected: Schedule | None) -> bool:
        known = self.schedules.get(schedule.name)
        is_same = self.as_seen(known) == self.as_seen(expected)
        if is_same:
            self.schedules[schedule.name] = schedule
        return is_same

    def unschedule(self, name: str) -> bool:
        return self.schedules.pop(name, None) is not None

    def fire(self, name: str, now: int) -> Added | None:
        schedule = self.schedules.get(name)
        if schedule is None:
            return None
        firing = manual_firing(schedule, now, self._open_jobs(schedule))
        return self._make(firing, name, now)

    # -- by upkeep -------------------------------------------------------------

    def fire_due(self, now: int) -> int:
        """Fire what is due, tick by tick; return how many jobs it adds."""
        count = 0
        for _ in range(MAX_CATCH_UP):
            due = sorted(self._due(now), key=lambda s: (s.next_at, s.name))
            for schedule in due:
                firing = next_firing(schedule, now, self._open_jobs(schedule))
                added = self._make(firing, schedule.name, now)
                count += bool(added and added.new)
        return count

    def depends_on_upkeep(self, now: int) -> bool:
        """
        Return whether a firing depends on what else maintenance has done before.

        A schedule looks at its unfinished jobs, and several that catch up take turns.
        """
        due = self._due(now)
        return any(one.missed == "all" or one.open_jobs for one in due)

    def _due(self, now: int) -> list[Schedule]:
        return [one for one in self.schedules.values() if one.is_due(now)]

    def _make(self, firing: Firing, name: str, now: int) -> Added | None:
        added = None
        if firing.draft is not None:
            [added] = self.add_all([firing.draft], now, self.dropped)
        after = firing.after
        if after is None:
            del self.schedules[name]
        else:
            none = REFUSED_JOB if added and added.is_refused else 0
            job_id = added.id if added and added.new else none
            self.schedules[name] = with_job(after, job_id)
        return added

    def _open_jobs(self, schedule: Schedule) -> dict[int, Job | None]:
        found = {job_id: self.jobs.get(job_id) for job_id in schedule.open_jobs}
        return {id: entry.view() if entry else None for id, entry in found.items()}

    # -- comparing -------------------------------------------------------------

    def as_seen(self, schedule: Schedule | None) -> Schedule | None:
        """Return a schedule with all that store and model must agree on."""
        if schedule is None:
            return None
        # Encoded data and decoded data are the same data.
        plain = msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule)
        ticks = tuple(map(self._tick_as_seen, plain.ticks))
        return msgspec.structs.replace(plain, ticks=ticks)

    def _tick_as_seen(self, tick: Tick) -> Tick:
        """A job that ends in a pass is removed by it, or by the next one."""
        if not tick.outcome or not tick.job or tick.job in self.jobs:
            return tick
        return msgspec.structs.replace(tick, outcome="removed", duration=0)
