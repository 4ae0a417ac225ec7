"""Progress: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def show_progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Show progress of the body; yields a function to call before each step."""
    console, done = Console(stderr=True), count()
    if not console.is_terminal:
        yield lambda what: console.print(f"{next(done) + 1}/{steps} {what}")
        return
    # auto_refresh is off, so that no thread draws during a measurement.
    with Progress(console=console, auto_refresh=False) as progress:
        task = progress.add_task("", total=steps)

        def next_step(what: str) -> None:
            progress.update(task, description=what, completed=next(done), refresh=True)

        yield next_step
        progress.update(task, completed=steps, refresh=True)
