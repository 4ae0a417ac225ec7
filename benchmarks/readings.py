"""Measured values: medians, ratios and a stopwatch."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Readings:
    """
    Values by figure, in the order taken.

    Other load on the machine affects all contenders alike when they take turns, so a
    ratio is computed per turn; the median counts.
    """

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def add(self, name: str, value: float) -> None:
        self._values.setdefault(name, []).append(value)

    def ratio(
        self, name: str, above: str, below: str, rounds: int | None = None
    ) -> None:
        """
        Derive figure *name*: *above* ÷ *below*, per turn.

        With *rounds* it is per round, for figures with several values in one round.
        """
        pairs = zip(
            self._by_round(above, rounds), self._by_round(below, rounds), strict=True
        )
        self._values[name] = [one / other for one, other in pairs]

    def _by_round(self, name: str, rounds: int | None) -> list[float]:
        values = self._values[name]
        size = 1 if rounds is None else len(values) // rounds
        return [
            median(values[start : start + size])
            for start in range(0, len(values), size)
        ]

    def median(self, name: str) -> float:
        return median(self._values[name])

    def middle(self, name: str) -> tuple[float, float]:
        """Return the first and the third quartile."""
        values = self._values[name]
        if len(values) == 1:
            return values[0], values[0]
        low, _, high = quantiles(values, n=4, method="inclusive")
        return low, high

    def medians(self) -> dict[str, float]:
        return {name: self.median(name) for name in self._values}


class Stopwatch:
    """Seconds that passed since it was started."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        #: How long the body took, once it is left.
        self.seconds = 0.0

    def lap(self) -> float:
        """Return how long it has been running."""
        return time.perf_counter() - self._started


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Time the body; earlier garbage is collected first."""
    gc.collect()
    watch = Stopwatch()
    yield watch
    watch.seconds = watch.lap()
