"""Measurement of one contender in one round, with a check that each job ran."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from benchmarks.delivery import Undelivered
from benchmarks.peers.processes import Failed, Workspace, produce, workers
from benchmarks.peers.tallies import Drain, Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers.catalogue import Contender
    from benchmarks.peers.cores import CorePlan
    from benchmarks.peers.server import Server

#: Where tallies are kept: files that never reach a disk, if the system has that.
SHARED_MEMORY = Path("/dev/shm")
#: Jobs added before the measurement, so that scripts are loaded and structures exist:
#: these are not part of the cost of a job.
PRIMERS = 100


@dataclass(frozen=True)
class Scale:
    """How much each contender does in a round."""

    rounds: int
    #: Of the jobs in the catalogue.
    share: float = 1.0
    #: Added one by one, at most.
    one_by_one: int = 2_000
    #: Jobs of 5 ms, at most.
    naps: int = 4_000
    #: Pings, and the seconds after which no more are sent.
    pings: int = 400
    ping_seconds: float = 4.0


@dataclass
class Outcome:
    """The results of one contender in one round."""

    figures: dict[str, float] = field(default_factory=dict)
    #: Why a figure is missing, by its name.
    missing: dict[str, str] = field(default_factory=dict)
    #: Jobs that ran, and runs of jobs that had run before.
    jobs: int = 0
    repeated: int = 0

    def delivered(self, drain: Drain) -> None:
        self.jobs += drain.jobs
        self.repeated += drain.repeated


class Part(StrEnum):
    """The parts of a round."""

    DRAIN = "bulk, one by one, drain"
    DRAIN_2P = "together, two workers"
    NAPS = "5 ms jobs"
    LATENCY = "latency"


FIGURES_OF = {
    Part.DRAIN: {"add_bulk", "bytes", "add_one", "drain", "commands"},
    Part.DRAIN_2P: {"add_gather", "drain_2p"},
    Part.NAPS: {"io"},
    Part.LATENCY: {"p50_ms", "p99_ms"},
}


class Measurement:
    """Measures one contender in parts of a round; failures are recorded."""

    def __init__(
        self, contender: Contender, server: Server, plan: CorePlan, scale: Scale
    ) -> None:
        self._contender = contender.scaled(scale.share)
        self._server = server
        self._cores = plan
        self._scale = scale
        self.outcome = Outcome()

    def run(self, part: Part) -> None:
        """Do one part; record the reason for figures that could not be measured."""
        try:
            self._PARTS[part](self)
        except (Failed, Undelivered) as exc:
            lost = FIGURES_OF[part] - self.outcome.figures.keys()
            self.outcome.missing.update(dict.fromkeys(lost, str(exc)))

    def _bulk_and_drain(self) -> None:
        bulk = self._contender.jobs
        single = min(bulk, self._scale.one_by_one)
        with self._workspace(PRIMERS + bulk + single) as workspace:
            self._produce(workspace, "bulk", "noop", 0, PRIMERS)
            before = self._server.memory()
            self._add("add_bulk", workspace, "bulk", PRIMERS, bulk)
            self._record("bytes", (self._server.memory() - before) / bulk)
            self._add("add_one", workspace, "one", PRIMERS + bulk, single)
            self._server.reset_commands()
            drain = self._drain(workspace, "noop")
            self._record("drain", drain.rate)
            self._record("commands", self._server.commands() / drain.jobs)

    def _together_and_drain(self) -> None:
        jobs = self._contender.jobs
        with self._workspace(jobs) as workspace:
            self._add("add_gather", workspace, "together", 0, jobs)
            self._record("drain_2p", self._drain(workspace, "noop", count=2).rate)

    def _naps(self) -> None:
        jobs = min(self._contender.jobs, self._scale.naps)
        with self._workspace(jobs) as workspace:
            self._produce(workspace, "bulk", "nap", 0, jobs)
            self._record("io", self._drain(workspace, "nap").rate)

    def _latency(self) -> None:
        contender, plan, scale = self._contender, self._cores, self._scale
        with (
            self._workspace(1) as workspace,
            workers(contender, workspace, plan.worker, "ping") as running,
        ):
            arguments = ("ping", scale.pings, scale.ping_seconds)
            try:
                produce(contender, workspace, plan.pinger, *arguments)
            except Failed:
                # If a worker has ended, report that instead.
                running.check()
                raise
            waits = Tallies(workspace.folder, 1).waits_ms()
        self._record("p50_ms", median(waits))
        self._record("p99_ms", quantiles(waits, n=100, method="inclusive")[-1])

    _PARTS: ClassVar[dict[Part, Callable[[Measurement], None]]] = {
        Part.DRAIN: _bulk_and_drain,
        Part.DRAIN_2P: _together_and_drain,
        Part.NAPS: _naps,
        Part.LATENCY: _latency,
    }

    def _add(
        self, figure: str, workspace: Workspace, verb: str, first: int, count: int
    ) -> None:
        seconds = self._produce(workspace, verb, "noop", first, count)
        self._record(figure, count / seconds)

    def _produce(self, workspace: Workspace, *arguments: object) -> float:
        return produce(self._contender, workspace, self._cores.producer, *arguments)

    def _drain(self, workspace: Workspace, task: str, *, count: int = 1) -> Drain:
        cores = self._cores.worker if count == 1 else self._cores.workers
        tallies = Tallies(workspace.folder, workspace.jobs)
        with workers(self._contender, workspace, cores, task, count=count) as running:
            drain = tallies.drained(running.check, workers=count)
        self.outcome.delivered(drain)
        return drain

    def _record(self, figure: str, value: float) -> None:
        self.outcome.figures[figure] = value

    @contextmanager
    def _workspace(self, jobs: int) -> Iterator[Workspace]:
        self._server.empty()
        parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        with TemporaryDirectory(dir=parent) as folder:
            yield Workspace(self._server.port, Path(folder), jobs)
