"""What ``kue demo`` shows: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import click
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kue.events import Event, Kind
from kue.job import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from kue.job import Job

Counts = dict[str, dict[State, int]]

#: Blocked jobs are left out: the demo has none.
SHOWN = (
    State.WAITING,
    State.DELAYED,
    State.ACTIVE,
    State.COMPLETE,
    State.FAILED,
    State.CANCELLED,
)
STYLES = {
    Kind.COMPLETE: "green",
    Kind.FAILED_ATTEMPT: "yellow",
    Kind.FAILED: "red",
    Kind.CANCELLED: "magenta",
}
#: Too many to be read one by one; the picture and the counts show them.
QUIET = frozenset({Kind.PROGRESS, Kind.ENQUEUE, Kind.START})

LATEST = 8
RUNNING = 11


class View(Protocol):
    """Where the demo shows itself."""

    def __enter__(self) -> View: ...
    def __exit__(self, *exc: object) -> None: ...
    def tell(self, event: Event) -> None:
        """Show that something happened."""

    def show(self, counts: Counts, running: Sequence[Job]) -> None:
        """Show how things stand."""


class LinesView:
    """One line an event, for pipes and CI."""

    def __enter__(self) -> LinesView:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def tell(self, event: Event) -> None:
        if event.kind not in QUIET:
            click.echo(_line(event).plain)

    def show(self, counts: Counts, running: Sequence[Job]) -> None:
        # Events say it all; a line for every look would drown them.
        pass


class LiveView:
    """A picture that is drawn again and again."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=10, transient=True)
        self._latest: deque[Event] = deque(maxlen=LATEST)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def tell(self, event: Event) -> None:
        if event.kind not in QUIET:
            self._latest.append(event)

    def show(self, counts: Counts, running: Sequence[Job]) -> None:
        parts: list[RenderableType] = [counts_table(counts), _running_table(running)]
        parts.append(Text("\n").join(_line(event) for event in self._latest))
        self._live.update(Group(*parts))


def view_for(console: Console) -> View:
    """Return the view that fits where we write to."""
    return LiveView(console) if console.is_terminal else LinesView()


def counts_table(counts: Counts) -> Table:
    """Return how many jobs of each type are in each state."""
    table = Table(title="Jobs", title_justify="left")
    table.add_column("type")
    for state in SHOWN:
        table.add_column(state.value, justify="right")
    for type, states in sorted(counts.items()):
        table.add_row(type, *(_number(states.get(state, 0)) for state in SHOWN))
    return table


def _number(number: int) -> str:
    return f"{number:,}" if number else "·"


def _running_table(jobs: Sequence[Job]) -> Table:
    table = Table(title="Running", title_justify="left", min_width=60)
    for column in ("job", "type", "attempt", "progress"):
        table.add_column(column)
    for job in jobs[:RUNNING]:
        bar = ProgressBar(total=100, completed=job.progress, width=30)
        attempt = f"{job.attempts} of {job.max_attempts}"
        table.add_row(str(job.id), job.type, attempt, bar)
    return table


def _line(event: Event) -> Text:
    at = datetime.fromtimestamp(event.at / 1000).astimezone()
    head = f"{at:%H:%M:%S}  {event.kind.value:<14}  {event.type} {event.job_id}"
    line = Text(head, style=STYLES.get(event.kind, ""))
    if message := event.detail.get("message"):
        line.append(f"  {message}", style="dim")
    return line
