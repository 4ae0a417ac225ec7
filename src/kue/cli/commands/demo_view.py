"""The views of ``kue demo``: live tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kue.cli.output.listing import count
from kue.model.draft import UNLIMITED
from kue.model.events import Event, Kind
from kue.model.job import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from kue.model.job import Job

Counts = dict[str, dict[State, int]]

SHOWN = (
    State.WAITING,
    State.BLOCKED,
    State.DELAYED,
    State.ACTIVE,
    State.COMPLETE,
    State.FAILED,
    State.CANCELLED,
)
#: Shown when there are some.
RARE = frozenset({State.BLOCKED, State.DELAYED, State.CANCELLED})
STYLES = {
    Kind.COMPLETE: "green",
    Kind.FAILED_ATTEMPT: "yellow",
    Kind.FAILED: "red",
    Kind.CANCELLED: "magenta",
}
#: Too frequent to list; the tables and the counts reflect them.
QUIET = frozenset({Kind.PROGRESS, Kind.ENQUEUE, Kind.START})

LATEST = 4
RUNNING = 5
#: Seconds between two lines of counts.
COUNTS_SECONDS = 2.0


class DemoView:
    """Displays the demo; this one shows nothing."""

    def show_event(self, event: Event) -> None:
        """Show that something happened."""

    def show(self, counts: Counts, running: Sequence[Job]) -> None:
        """Show the current counts and running jobs."""


class LinesView(DemoView):
    """One line per event, for pipes and CI."""

    def show_event(self, event: Event) -> None:
        if event.kind not in QUIET:
            click.echo(_line(event).plain)


class BriefView(DemoView):
    """A line of counts every few seconds, where events would be too many."""

    def __init__(self) -> None:
        self._next = 0.0

    def show(self, counts: Counts, running: Sequence[Job]) -> None:
        if counts and time.monotonic() >= self._next:
            self._next = time.monotonic() + COUNTS_SECONDS
            click.echo(_counts_line(counts))


class LiveView(DemoView):
    """Tables that are redrawn continuously."""

    def __init__(self, live: Live, link: str) -> None:
        self._link = link
        self._live = live
        self._latest: deque[Event] = deque(maxlen=LATEST)

    def show_event(self, event: Event) -> None:
        if event.kind not in QUIET:
            self._latest.append(event)

    def show(self, counts: Counts, running: Sequence[Job]) -> None:
        parts: list[RenderableType] = [counts_table(counts), _running_table(running)]
        if self._link:
            parts.insert(0, Text(f"Dashboard  {self._link}", style="bold"))
        parts.append(Text("\n").join(_line(event) for event in self._latest))
        self._live.update(Group(*parts))


@contextmanager
def view_for(console: Console, link: str, *, is_brief: bool) -> Iterator[DemoView]:
    """Yield the view for *console*; *link* is the dashboard's address."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=10, transient=True) as live:
            yield LiveView(live, link)
    else:
        yield BriefView() if is_brief else LinesView()


def counts_table(counts: Counts) -> Table:
    """Return how many jobs of each type are in each state."""
    table = Table(title="Jobs", title_justify="left")
    table.add_column("type", no_wrap=True)
    sums = _sums(counts)
    shown = [state for state in SHOWN if sums[state] or state not in RARE]
    for state in shown:
        table.add_column(state.value, justify="right")
    for type, states in sorted(counts.items()):
        table.add_row(type, *(count(states.get(state, 0)).shown for state in shown))
    return table


def _sums(counts: Counts) -> dict[State, int]:
    return {
        state: sum(states.get(state, 0) for states in counts.values())
        for state in SHOWN
    }


def _counts_line(counts: Counts) -> str:
    now = datetime.now().astimezone()
    facts = ", ".join(
        f"{number:,} {state}" for state, number in _sums(counts).items() if number
    )
    return f"{now:%H:%M:%S}  {facts}"


def _running_table(jobs: Sequence[Job]) -> Table:
    table = Table(title="Running", title_justify="left", min_width=60)
    for column in ("job", "type", "attempt", "progress"):
        table.add_column(column)
    for job in jobs[:RUNNING]:
        bar = ProgressBar(total=100, completed=job.progress, width=30)
        attempt = f"{job.attempts} of {job.max_attempts or UNLIMITED}"
        table.add_row(str(job.id), job.type, attempt, bar)
    return table


def _line(event: Event) -> Text:
    at = datetime.fromtimestamp(event.at / 1000).astimezone()
    head = f"{at:%H:%M:%S}  {event.kind.value:<14}  {event.type} {event.job_id}"
    line = Text(head, style=STYLES.get(event.kind, ""))
    if message := event.detail.get("message"):
        line.append(f"  {message}", style="dim")
    return line
