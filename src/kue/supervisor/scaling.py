"""
Scaling rules: how many processes a backlog needs, and when one of them may leave.

Pure; the clock is passed in.  Up at once: when the waiting jobs would take longer than
the target wait, at the rate at which jobs end, to as many processes as make it.  Down
slowly: by one process, after a cool-down in which the others would have been enough.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: How far back the rate is measured.
WINDOW_SECONDS = 10.0
#: A process leaves only if the jobs that run take no more than this share of the slots
#: that stay: the next few jobs must not bring it back.
SHARE_IN_USE = 0.75


class SlotReading(NamedTuple):
    """What is known of a type, or of all types that share slots, at one moment."""

    #: Slots in each process.
    slots: int
    #: Jobs that could start if there were a slot.
    waiting: int
    #: Jobs that run in our processes.
    running: int
    #: Runs that ended in our processes since the reading before.
    ended: int
    #: Seconds that the first of the waiting jobs has waited; 0 if that was not read.
    first_wait: float = 0.0


class SlotLoad(msgspec.Struct, frozen=True):
    """The backlog of a type, and how fast it goes down."""

    slots: int
    waiting: int
    running: int
    #: Runs that ended in the last *seconds*, all of them with jobs waiting.
    ended: int = 0
    seconds: float = 0.0
    first_wait: float = 0.0

    @property
    def expected_wait(self) -> float:
        """Seconds until the last of the waiting jobs starts, at the present rate."""
        if not self.waiting or not self.seconds:
            return 0.0
        if self.ended:
            return self.waiting * self.seconds / self.ended
        # Jobs take longer than we have looked: one may end any moment, not more.
        return max(self.first_wait, self.waiting * self.seconds)

    def needed(self, processes: int, target_wait: float) -> int:
        """Return how many processes take the backlog in time; *processes* are there."""
        wait = self.expected_wait
        if wait <= target_wait:
            return 0
        by_rate = math.ceil(processes * wait / target_wait)
        # With a slot for every job there is nothing to gain from more; but where slots
        # are free and jobs wait all the same, processes do not answer.
        by_slots = math.ceil((self.running + self.waiting) / self.slots)
        return min(by_rate, max(by_slots, processes + 1))

    def fits(self, processes: int, target_wait: float) -> bool:
        """Whether *processes* are enough, with room for a few more jobs."""
        has_room = self.running <= self.slots * processes * SHARE_IN_USE
        return has_room and self.expected_wait <= target_wait * (1 - SHARE_IN_USE)


class BacklogMeter:
    """Measures how many runs end while jobs wait, by type."""

    def __init__(self) -> None:
        #: When a reading was made, and the runs that ended since the one before.
        self._samples: dict[str, list[tuple[float, int]]] = {}

    def reset(self) -> None:
        """Forget the rates: there are more processes, or fewer."""
        self._samples.clear()

    def measure(
        self, readings: Mapping[str, SlotReading], now: float
    ) -> list[SlotLoad]:
        """Return the loads of types, of which *readings* are the latest."""
        for type in self._samples.keys() - readings.keys():
            del self._samples[type]
        return [self._load(type, one, now) for type, one in readings.items()]

    def _load(self, type: str, reading: SlotReading, now: float) -> SlotLoad:
        slots, waiting, running, ended, first_wait = reading
        if not waiting:
            # Without jobs there is nothing to end, and that is not a low rate.
            self._samples.pop(type, None)
            return SlotLoad(slots, 0, running)
        samples = self._samples.setdefault(type, [])
        samples.append((now, ended))
        while samples[1:] and samples[1][0] <= now - WINDOW_SECONDS:
            del samples[0]
        return SlotLoad(
            slots,
            waiting,
            running,
            ended=sum(number for _, number in samples[1:]),
            seconds=now - samples[0][0],
            first_wait=first_wait,
        )


class ScalingRule:
    """Decides how many processes there should be."""

    def __init__(self, *, target_wait: float, cooldown: float) -> None:
        self._target_wait = target_wait
        self._cooldown = cooldown
        #: Since when one process less would have been enough.
        self._spare_since: float | None = None

    def wanted(
        self,
        loads: Sequence[SlotLoad],
        processes: int,
        *,
        least: int,
        most: int,
        now: float,
    ) -> int:
        """Return how many processes there should be, of *processes* now."""
        target = self._target_wait
        needed = max((load.needed(processes, target) for load in loads), default=0)
        if needed > processes:
            self._spare_since = None
            return max(processes, min(needed, most))
        fewer = processes - 1
        if fewer < least or not all(load.fits(fewer, target) for load in loads):
            self._spare_since = None
            return processes
        if self._spare_since is None:
            self._spare_since = now
        if now - self._spare_since < self._cooldown:
            return processes
        self._spare_since = now
        return fewer
