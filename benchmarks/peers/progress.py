"""What is being done: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def told(steps: int) -> Iterator[Callable[[str], None]]:
    """Show progress of the body; yields what is to be called before each step."""
    console, done = Console(stderr=True), count()
    if not console.is_terminal:
        yield lambda what: console.print(f"{next(done) + 1}/{steps} {what}")
        return
    # Nothing is drawn while something is measured: the bar has no thread of its own.
    with Progress(console=console, auto_refresh=False) as progress:
        task = progress.add_task("", total=steps)

        def tell(what: str) -> None:
            progress.update(task, description=what, completed=next(done), refresh=True)

        yield tell
        progress.update(task, completed=steps, refresh=True)
