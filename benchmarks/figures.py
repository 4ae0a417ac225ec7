"""The figures of the benchmarks: unit, target and meaning."""

from __future__ import annotations

from dataclasses import dataclass

RATE = "jobs/s"
TIMES = "×"
BYTES = "bytes"
MEGABYTES = "MB"
PERCENT = "%"
COMMANDS = "/s"


@dataclass(frozen=True)
class Figure:
    """One number of the table."""

    name: str
    unit: str
    what: str
    at_least: float | None = None
    below: float | None = None

    @property
    def has_target(self) -> bool:
        return self.at_least is not None or self.below is not None

    def missing(self, value: float) -> float:
        """Return how far *value* is from the target, 0 when it is reached."""
        if self.at_least is not None:
            return max(0.0, self.at_least - value)
        if self.below is not None:
            return max(0.0, value - self.below)
        return 0.0

    def is_reached(self, value: float) -> bool:
        """Return whether *value* meets the target; it must be below a ceiling."""
        return self.missing(value) == 0 and value != self.below


def _memory(engine: str) -> tuple[Figure, ...]:
    what = "memory of a worker process after so many jobs"
    growth = f"{engine}.rss_growth_200k"
    return (
        Figure(f"{engine}.rss_20k", MEGABYTES, what),
        Figure(f"{engine}.rss_100k", MEGABYTES, what),
        Figure(f"{engine}.rss_200k", MEGABYTES, what),
        Figure(growth, TIMES, "after 200,000 ÷ after 20,000", below=1.2),
    )


REDIS = (
    Figure("redis.add_bulk", RATE, "store.add: 500 per call, two in flight"),
    Figure("redis.add_bare", RATE, "the same by a bare script"),
    Figure("redis.add_of_bare", TIMES, "Kue ÷ bare", at_least=0.6),
    Figure("redis.cycle", RATE, "store.cycle: 100 per call, two in flight"),
    Figure("redis.cycle_bare", RATE, "the same by a bare script"),
    Figure("redis.cycle_of_bare", TIMES, "Kue ÷ bare", at_least=0.6),
    Figure("redis.work", RATE, "a whole worker with 200 slots"),
    Figure("redis.add_one", RATE, "Kue.enqueue, one after the other"),
    Figure("redis.add_gather", RATE, "Kue.enqueue, 100 at once"),
    Figure("redis.bytes_per_waiting_job", BYTES, "memory for {'i': n}", below=300),
    Figure("redis.memory_1m_mb", MEGABYTES, "memory of a million waiting jobs"),
    Figure(
        "redis.drain_1m_over_1k",
        TIMES,
        "drain rate, a million waiting ÷ 1,000",
        at_least=0.85,
    ),
    *_memory("redis"),
    Figure("redis.idle_cpu", PERCENT, "of a core, by an idle worker", below=1),
    Figure("redis.idle_commands", COMMANDS, "sent by an idle worker", below=5),
    Figure("redis.idle_cpu_20_types", PERCENT, "with handlers of 20 types", below=1),
    Figure("redis.idle_commands_20_types", COMMANDS, "the same", below=5),
)
SQLITE = (
    Figure("sqlite.add_bulk", RATE, "store.add: 500 per call, two in flight"),
    Figure("sqlite.add_bare", RATE, "the same by bare SQL"),
    Figure("sqlite.add_of_bare", TIMES, "Kue ÷ bare"),
    Figure("sqlite.drain", RATE, "store.cycle: 100 per call, two in flight"),
    Figure("sqlite.drain_bare", RATE, "the same by bare SQL"),
    Figure("sqlite.drain_of_bare", TIMES, "Kue ÷ bare"),
    Figure("sqlite.work", RATE, "a whole worker with 200 slots"),
    Figure("sqlite.add_one", RATE, "Kue.enqueue, one after the other"),
    Figure("sqlite.add_gather", RATE, "Kue.enqueue, 100 at once"),
    Figure("huey.add", RATE, "Huey, one after the other: it has no bulk"),
    Figure("huey.drain", RATE, "Huey's consumer, best number of threads"),
    Figure("huey.add_unsynced", RATE, "the same with fsync=False"),
    Figure("huey.drain_unsynced", RATE, "the same with fsync=False"),
    Figure("sqlite.add_vs_huey", TIMES, "Kue in bulk ÷ Huey", at_least=3),
    Figure("sqlite.add_one_vs_huey", TIMES, "Kue one by one ÷ Huey"),
    Figure("sqlite.drain_vs_huey", TIMES, "Kue's cycle ÷ Huey's consumer", at_least=3),
    Figure("sqlite.work_vs_huey", TIMES, "Kue's worker ÷ Huey's consumer", at_least=3),
    Figure("sqlite.add_vs_unsynced", TIMES, "Kue ÷ Huey, fsync=False", at_least=3),
    Figure("sqlite.add_one_vs_unsynced", TIMES, "Kue one by one ÷ Huey, fsync=False"),
    Figure("sqlite.drain_vs_unsynced", TIMES, "Kue ÷ Huey, fsync=False", at_least=3),
    Figure("sqlite.work_vs_unsynced", TIMES, "Kue ÷ Huey, fsync=False", at_least=3),
    Figure(
        "sqlite.drain_1m_over_1k",
        TIMES,
        "drain rate, a million waiting ÷ 1,000",
        at_least=0.85,
    ),
    *_memory("sqlite"),
)
FIGURES = REDIS + SQLITE
