"""Results of all rounds: medians, spreads, and ratios of Kue to each peer."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.peers.idle import Idle
from benchmarks.readings import Readings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.peers.measure import Outcome

#: Every figure, in the order of the columns.
NAMES = (
    *("drain", "drain_2p", "add_bulk", "add_gather", "add_one", "io"),
    *("p50_ms", "p99_ms", "bytes", "commands"),
)
#: Of these, less is better.
COSTS = frozenset({"p50_ms", "p99_ms", "bytes", "commands"})
OURS, TASKS, BARE = "kue", "kue-task", "bare"

#: Figures by contender.
Round = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Spread:
    """A median, and the quartiles around it."""

    median: float
    low: float
    high: float


@dataclass
class Results:
    """Figures of all rounds, and why some are missing."""

    names: Sequence[str]
    rounds: list[Round] = field(default_factory=list)
    missing: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Jobs that ran, and runs of jobs that had run before, by contender.
    delivered: dict[str, dict[str, int]] = field(default_factory=dict)
    #: The cost of Kue's idle worker, by round.
    idle: list[Idle] = field(default_factory=list)

    def begin_round(self) -> None:
        self.rounds.append({})

    def add(self, name: str, outcome: Outcome) -> None:
        """Add the outcome of *name* in the current round."""
        self.rounds[-1].setdefault(name, {}).update(outcome.figures)
        if outcome.missing:
            self.missing.setdefault(name, {}).update(outcome.missing)
        counts = self.delivered.setdefault(name, {"jobs": 0, "repeated": 0})
        counts["jobs"] += outcome.jobs
        counts["repeated"] += outcome.repeated

    def refuse(self, name: str, reason: str) -> None:
        """Record that *name* is not measured at all."""
        self.missing[name] = dict.fromkeys(NAMES, reason)

    def why_missing(self) -> dict[str, dict[str, str]]:
        """Return the reasons for figures that no round has."""
        return {
            name: lost
            for name, reasons in self.missing.items()
            if (
                lost := {
                    figure: reason
                    for figure, reason in reasons.items()
                    if self.spread(name, figure) is None
                }
            )
        }

    def spread(self, name: str, figure: str) -> Spread | None:
        """Return the values of *name*, or None if there are none."""
        return _spread(
            [one[name][figure] for one in self.rounds if figure in one.get(name, {})]
        )

    def ratio(self, other: str, figure: str) -> Spread | None:
        """Return Kue ÷ *other*, per round: disturbances then affect both."""
        return _spread(
            [
                one[OURS][figure] / one[other][figure]
                for one in self.rounds
                if figure in one.get(OURS, {}) and one.get(other, {}).get(figure)
            ]
        )

    def within(self, name: str, above: str, below: str) -> Spread | None:
        """Return one figure of *name* ÷ another, per round."""
        return _spread(
            [
                figures[above] / figures[below]
                for one in self.rounds
                if above in (figures := one.get(name, {})) and figures.get(below)
            ]
        )

    def figures(self, name: str) -> dict[str, float | None]:
        """Return the medians of *name*, None where there is none."""
        found = {figure: self.spread(name, figure) for figure in NAMES}
        return {
            figure: None if one is None else _round(one.median)
            for figure, one in found.items()
        }

    def ratios(self, other: str) -> dict[str, dict[str, float] | None]:
        found = {figure: self.ratio(other, figure) for figure in NAMES}
        return {
            figure: None if one is None else _shown(one)
            for figure, one in found.items()
        }

    def best(self, figure: str, among: Sequence[str]) -> str | None:
        """Return which of *among* has the best median, or None if none has one."""
        found = {name: one for name in among if (one := self.spread(name, figure))}
        pick = min if figure in COSTS else max
        return pick(found, key=lambda name: found[name].median, default=None)

    def document(self, conditions: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of the JSON file."""
        bare = {figure: self.spread(BARE, figure) for figure in NAMES}
        others = [*self.names, *([BARE] if self.has(BARE) else [])]
        return {
            "conditions": {
                **conditions,
                "bare": {k: _round(v.median) for k, v in bare.items() if v},
                "kue_task": self.figures(TASKS),
                "idle": self.idle_medians(),
                "delivered": self.delivered,
                "missing": self.why_missing(),
            },
            "peers": {name: self.figures(name) for name in self.names},
            "kue": self.figures(OURS),
            "ratios": {name: self.ratios(name) for name in others},
        }

    def idle_medians(self) -> dict[str, float]:
        """Return the cost of Kue's idle worker, {} if it was not measured."""
        return {
            one.name: _round(median(getattr(idle, one.name) for idle in self.idle))
            for one in fields(Idle)
            if self.idle
        }

    def has(self, name: str) -> bool:
        """Return whether *name* was measured."""
        return any(name in one for one in self.rounds)


def _spread(values: list[float]) -> Spread | None:
    if not values:
        return None
    readings = Readings()
    for value in values:
        readings.add("", value)
    return Spread(readings.median(""), *readings.middle(""))


def _shown(spread: Spread) -> dict[str, float]:
    return {
        "median": _round(spread.median),
        "low": _round(spread.low),
        "high": _round(spread.high),
    }


def _round(value: float) -> float:
    """Return *value* with four significant digits."""
    return float(f"{value:.4g}")
