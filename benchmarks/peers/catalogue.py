"""The catalogue of queues: their concurrency, number of jobs, and notes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

PINS = Path(__file__).parent / "pins"


class Language(StrEnum):
    """The language of a queue, which decides how its adapter is started."""

    PYTHON = "Python"
    NODE = "Node"
    RUBY = "Ruby"


@dataclass(frozen=True)
class Contender:
    """A job queue with the settings that suit it best."""

    name: str
    #: Jobs added in bulk, added together, and drained.
    jobs: int
    #: The concurrency of a worker that runs no-op jobs: more or fewer is slower.
    slots: int
    #: The concurrency of a worker that runs jobs of 5 ms.
    nap_slots: int = 100
    language: Language = Language.PYTHON
    #: Module or file of `adapters`, without ``through_``.
    adapter: str = ""
    #: Selects a variant of the adapter, if it has several.
    variant: str = ""
    #: The environment it runs in; its pins have the same name.
    environment: str = ""
    #: A note for readers of the table.
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "adapter", self.adapter or self.name)
        object.__setattr__(self, "environment", self.environment or self.name)

    @property
    def is_ours(self) -> bool:
        return self.environment == "kue"

    @property
    def pins(self) -> Path:
        return PINS / f"{self.environment}.txt"

    def scaled(self, share: float) -> Contender:
        """Return the same with fewer jobs."""
        return replace(self, jobs=max(self.slots, round(self.jobs * share)))


KUE = Contender(
    "kue", jobs=40_000, slots=200, note="`q.process` and `await q.run()`, uvloop"
)
KUE_TASK = Contender(
    "kue-task",
    jobs=40_000,
    slots=200,
    adapter="kue_task",
    environment="kue",
    note="the same with `@q.task`, which checks and converts arguments",
)
OURS = (KUE, KUE_TASK)

NO_BULK = "no bulk: 100 adds at once"
THREADS = "blocking: 100 adds at once are shared by 8 threads"

PEERS = (
    Contender(
        "bullmq",
        jobs=15_000,
        slots=200,
        language=Language.NODE,
        note="keeps completed jobs, as Kue does",
    ),
    Contender(
        "kue-node",
        jobs=6_000,
        slots=10,
        language=Language.NODE,
        adapter="kue",
        note=f"{NO_BULK}; keeps completed jobs",
    ),
    Contender(
        "sidekiq",
        jobs=15_000,
        slots=5,
        language=Language.RUBY,
        note=f"a job that is running is lost with its process; {THREADS}",
    ),
    Contender("arq", jobs=4_000, slots=100, note=f"{NO_BULK}; polls every 0.5 s"),
    Contender(
        "bullmq-python",
        jobs=4_000,
        slots=50,
        adapter="bullmq",
        note="keeps completed jobs",
    ),
    Contender(
        "celery",
        jobs=2_000,
        slots=4,
        note=f"pool of threads, acknowledged before the run; no bulk; {THREADS}",
    ),
    Contender(
        "dramatiq",
        jobs=8_000,
        slots=32,
        note=f"no bulk: one after the other; {THREADS}",
    ),
    Contender(
        "flexiq",
        jobs=2_000,
        slots=2,
        note="`push_dispatch` off but for latency: with it a backlog hardly drains; "
        f"{THREADS}",
    ),
    Contender(
        "huey",
        jobs=8_000,
        slots=4,
        note="a job that is running is lost with its process; "
        f"no bulk: `task.map`; {THREADS}",
    ),
    Contender(
        "pydocket",
        jobs=3_000,
        slots=100,
        note="`minimum_check_interval` 1 ms: its 250 ms hold a drain back",
    ),
    Contender(
        "rq",
        jobs=700,
        slots=1,
        nap_slots=1,
        note=f"`SimpleWorker`, one job at a time; {THREADS}",
    ),
    Contender("saq", jobs=4_000, slots=50, note=NO_BULK),
    Contender("streaq", jobs=3_000, slots=16),
    Contender(
        "taskiq-list",
        jobs=8_000,
        slots=100,
        adapter="taskiq",
        variant="list",
        environment="taskiq",
        note=f"a job that is running is lost with its process; {NO_BULK}",
    ),
    Contender(
        "taskiq-stream",
        jobs=8_000,
        slots=100,
        adapter="taskiq",
        variant="stream",
        environment="taskiq",
        note=NO_BULK,
    ),
)
