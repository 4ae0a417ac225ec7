"""One contender in one round: every figure, and a check that each job ran."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from benchmarks.delivery import Undelivered
from benchmarks.peers.processes import Failed, Place, produce, workers
from benchmarks.peers.tallies import Drain, Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers.catalogue import Contender
    from benchmarks.peers.cores import Seats
    from benchmarks.peers.server import Server

#: Where tallies are kept: files that never reach a disk, if there is such a place.
SHARED_MEMORY = Path("/dev/shm")
#: Jobs added before any that are measured, so that scripts are loaded and structures
#: are there: they are no part of what a job costs.
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
    """What one contender did in one round."""

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
    """What a contender does in a round, one after the other."""

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
    """Measures one contender by one part of a round; what fails is noted."""

    def __init__(
        self, contender: Contender, server: Server, seats: Seats, scale: Scale
    ) -> None:
        self._contender = contender.scaled(scale.share)
        self._server = server
        self._seats = seats
        self._scale = scale
        self.outcome = Outcome()

    def run(self, part: Part) -> None:
        """Do one part; whatever it cannot measure gets the reason why."""
        try:
            self._PARTS[part](self)
        except (Failed, Undelivered) as exc:
            lost = FIGURES_OF[part] - self.outcome.figures.keys()
            self.outcome.missing.update(dict.fromkeys(lost, str(exc)))

    def _bulk_and_drain(self) -> None:
        bulk = self._contender.jobs
        single = min(bulk, self._scale.one_by_one)
        with self._place(PRIMERS + bulk + single) as place:
            self._produce(place, "bulk", "noop", 0, PRIMERS)
            before = self._server.memory()
            self._add("add_bulk", place, "bulk", PRIMERS, bulk)
            self._note("bytes", (self._server.memory() - before) / bulk)
            self._add("add_one", place, "one", PRIMERS + bulk, single)
            self._server.reset_commands()
            drain = self._drain(place, "noop")
            self._note("drain", drain.rate)
            self._note("commands", self._server.commands() / drain.jobs)

    def _together_and_drain(self) -> None:
        jobs = self._contender.jobs
        with self._place(jobs) as place:
            self._add("add_gather", place, "together", 0, jobs)
            self._note("drain_2p", self._drain(place, "noop", count=2).rate)

    def _naps(self) -> None:
        jobs = min(self._contender.jobs, self._scale.naps)
        with self._place(jobs) as place:
            self._produce(place, "bulk", "nap", 0, jobs)
            self._note("io", self._drain(place, "nap").rate)

    def _latency(self) -> None:
        contender, seats, scale = self._contender, self._seats, self._scale
        with (
            self._place(1) as place,
            workers(contender, place, seats.worker, "ping") as running,
        ):
            arguments = ("ping", scale.pings, scale.ping_seconds)
            try:
                produce(contender, place, seats.pinger, *arguments)
            except Failed:
                # A worker that ended explains it better.
                running.check()
                raise
            waits = Tallies(place.folder, 1).waits_ms()
        self._note("p50_ms", median(waits))
        self._note("p99_ms", quantiles(waits, n=100, method="inclusive")[-1])

    _PARTS: ClassVar[dict[Part, Callable[[Measurement], None]]] = {
        Part.DRAIN: _bulk_and_drain,
        Part.DRAIN_2P: _together_and_drain,
        Part.NAPS: _naps,
        Part.LATENCY: _latency,
    }

    def _add(
        self, figure: str, place: Place, verb: str, first: int, count: int
    ) -> None:
        seconds = self._produce(place, verb, "noop", first, count)
        self._note(figure, count / seconds)

    def _produce(self, place: Place, *arguments: object) -> float:
        return produce(self._contender, place, self._seats.producer, *arguments)

    def _drain(self, place: Place, task: str, *, count: int = 1) -> Drain:
        cores = self._seats.worker if count == 1 else self._seats.workers
        tallies = Tallies(place.folder, place.jobs)
        with workers(self._contender, place, cores, task, count=count) as running:
            drain = tallies.drained(running.check, workers=count)
        self.outcome.delivered(drain)
        return drain

    def _note(self, figure: str, value: float) -> None:
        self.outcome.figures[figure] = value

    @contextmanager
    def _place(self, jobs: int) -> Iterator[Place]:
        self._server.empty()
        parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        with TemporaryDirectory(dir=parent) as folder:
            yield Place(self._server.port, Path(folder), jobs)
