"""Targets for Kue compared with its peers, and whether it meets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.peers.catalogue import PEERS, Language
from benchmarks.peers.results import BARE, COSTS, OURS, Spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.peers.results import Results

PYTHON = tuple(peer.name for peer in PEERS if peer.language is Language.PYTHON)
ANY = tuple(peer.name for peer in PEERS)


@dataclass(frozen=True)
class Target:
    """A target for one figure, relative to the best of some contenders."""

    figure: str
    #: The ratio: at least this for a rate, less than this for a cost.
    wanted: float
    of: str
    among: Sequence[str]


@dataclass(frozen=True)
class Verdict:
    """A target, the contender it was compared with, and the measured ratio."""

    target: Target
    other: str
    ratio: Spread

    @property
    def is_reached(self) -> bool:
        median, wanted = self.ratio.median, self.target.wanted
        return median < wanted if self.target.figure in COSTS else median >= wanted

    @property
    def aim(self) -> str:
        sign = "<" if self.target.figure in COSTS else "≥"
        return f"{sign} {self.target.wanted:g} ×"


TARGETS = (
    Target("drain", 5, "fastest peer", ANY),
    Target("drain", 15, "fastest Python peer", PYTHON),
    Target("drain", 0.6, "the bare scripts", (BARE,)),
    Target("add_bulk", 8, "fastest Python peer", PYTHON),
    Target("add_bulk", 1, "Sidekiq", ("sidekiq",)),
    Target("add_gather", 5, "fastest Python peer", PYTHON),
    Target("add_one", 1, "fastest Python peer", PYTHON),
    Target("io", 1, "fastest peer", ANY),
    Target("p50_ms", 1, "quickest peer", ANY),
    Target("p99_ms", 1, "quickest peer", ANY),
)


def verdicts(results: Results) -> Iterator[Verdict]:
    """Yield the verdict on each target for which there are figures."""
    for target in TARGETS:
        other = results.best(target.figure, target.among)
        ratio = other and results.ratio(other, target.figure)
        if other and ratio:
            yield Verdict(target, other, ratio)
    two = results.within(OURS, "drain_2p", "drain")
    if two:
        aim = Target("drain_2p", 1, "one worker process", (OURS,))
        yield Verdict(aim, "kue, drain", two)
