"""Rounds: contenders take turns in each part, so that disturbances affect all."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from benchmarks.peers import bare, idle
from benchmarks.peers.catalogue import KUE
from benchmarks.peers.measure import Measurement, Outcome, Part
from benchmarks.peers.processes import Failed
from benchmarks.peers.progress import show_progress
from benchmarks.peers.results import BARE, OURS
from benchmarks.steps import in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.peers.catalogue import Contender
    from benchmarks.peers.cores import CorePlan
    from benchmarks.peers.measure import Scale
    from benchmarks.peers.results import Results
    from benchmarks.peers.server import Server


class Rounds:
    """Measures contenders on one server, and adds the outcomes to *results*."""

    def __init__(
        self,
        contenders: Sequence[Contender],
        results: Results,
        server: Server,
        plan: CorePlan,
        scale: Scale,
    ) -> None:
        self._contenders = contenders
        self._results = results
        self._server = server
        self._cores = plan
        self._scale = scale

    def each(self) -> Iterator[None]:
        """Measure the rounds; yield after each."""
        steps = self._scale.rounds * len(Part) * len(self._contenders)
        with show_progress(steps) as next_step:
            for number in range(self._scale.rounds):
                self._results.begin_round()
                for what in self._round(number):
                    next_step(what)
                yield

    def _round(self, number: int) -> Iterator[str]:
        """Measure all contenders; yield the label of each step before it."""
        for part in Part:
            for one in in_turn(self._contenders, number):
                yield f"round {number + 1} of {self._scale.rounds}: {one.name}, {part}"
                self._measure(one, part)
                if one.name == OURS:
                    self._measure_more(part)

    def _measure(self, one: Contender, part: Part) -> None:
        measurement = Measurement(one, self._server, self._cores, self._scale)
        measurement.run(part)
        self._results.add(one.name, measurement.outcome)

    def _measure_more(self, part: Part) -> None:
        """Measure what is compared with Kue, close to it in time."""
        if part is Part.DRAIN:
            self._measure_bare()
        elif part is Part.LATENCY:
            # A worker that fails is reported with its figures; and without /proc the
            # cost cannot be measured.
            with suppress(Failed, OSError):
                self._results.idle.append(idle.measure(self._server, self._cores))

    def _measure_bare(self) -> None:
        self._server.empty()
        jobs = KUE.scaled(self._scale.share).jobs
        try:
            figures = bare.measure(self._server.port, jobs, self._cores.worker)
        except Failed as exc:
            self._results.refuse(BARE, str(exc))
        else:
            self._results.add(BARE, Outcome(figures=figures, jobs=jobs))
