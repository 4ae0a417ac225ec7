"""The progress line of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.breach import Breach

#: Breaches that are shown; the folder has all of them.
SHOWN = 20


class View:
    """Shows progress and breaches on stderr, from ``with`` on."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[status]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, status="")

    def __enter__(self) -> View:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def begin(self, what: str, seconds: float | None) -> None:
        """Show what is done next, and how long that takes if known."""
        self._progress.reset(self._task, description=what, total=seconds, status="")

    def show(self, done: float, status: str) -> None:
        self._progress.update(self._task, completed=done, status=status)

    def show_breaches(self, breaches: Sequence[Breach], folder: str) -> None:
        for breach in breaches[:SHOWN]:
            self._console.print(str(breach), markup=False, highlight=False)
        if len(breaches) > SHOWN:
            self._console.print(f"… and {len(breaches) - SHOWN} more")
        self._console.print(f"kept: {folder}", markup=False, highlight=False)
