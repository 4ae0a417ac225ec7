"""How far a check is, told often enough and not too often."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kue.store.contract import OnProgress

_TELLINGS = 200


class Steps:
    """Counts steps towards a total that is an estimate."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._total = 0
        self._done = 0
        self._told = 0

    def begin(self, total: int) -> None:
        self._total = total
        self._tell()

    def advance(self, steps: int) -> None:
        # Jobs come while others are counted: it must not look done before it is.
        self._done = min(self._done + steps, self._total)
        if (self._done - self._told) * _TELLINGS >= self._total:
            self._tell()

    def finish(self) -> None:
        self._done = self._total
        self._tell()

    def _tell(self) -> None:
        self._told = self._done
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)
