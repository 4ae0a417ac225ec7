"""
Frames of ``kue top``: everything that is on the screen, as lines.

They are made of values alone, so that the same lines are drawn on a terminal and
printed in a pipe.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.text import Text

from kue.cli.commands.top.columns import cut, table_of
from kue.cli.commands.top.details import help_lines, queue_lines, worker_lines
from kue.cli.commands.top.figures import short
from kue.cli.commands.top.snapshot import Details, Snapshot, Wanted
from kue.cli.commands.top.state import Pane, Screen, ViewState
from kue.cli.commands.top.tables import (
    BAD,
    QUIET,
    WARN,
    queue_columns,
    slots_of,
    worker_columns,
)
from kue.cli.output.text import jobs, visible
from kue.model.job import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kue.cli.commands.top.columns import TopColumn
    from kue.cli.commands.top.snapshot import QueueFacts
    from kue.store.values import WorkerStatus

T = TypeVar("T")

KEYS = "↑↓ Tab select  p pause  r retry  d details  / filter  s sort  ? help  q quit"
_KEYS = {
    Screen.LISTS: KEYS,
    Screen.DETAILS: "Esc back  ↑↓ next  p pause  r retry  ? help  q quit",
    Screen.HELP: "any key goes back",
}
#: Marks the selected row, also where there are no colours.
MARK, NO_MARK = "> ", "  "
#: Rows of each table, and warnings, that are printed in a pipe.
MAX_PRINTED, MAX_WARNINGS = 100, 10


class Size(NamedTuple):
    """The size of a screen; without lines there is room for any number of rows."""

    columns: int
    lines: int | None = None


class Rows(NamedTuple, Generic[T]):
    """The rows that are shown of all there are."""

    shown: Sequence[T]
    first: int
    total: int

    def note(self, what: str) -> str:
        """Return which they are, if they are not all."""
        if len(self.shown) == self.total:
            return ""
        last = self.first + len(self.shown)
        total = jobs(self.total, what)
        if len(self.shown) == 1:
            return f"number {last:,} of {total}"
        return f"{self.first + 1:,} to {last:,} of {total}"


class TopView(NamedTuple):
    """What a frame shows."""

    state: ViewState
    snapshot: Snapshot
    details: Details = Details()
    #: Name and kind of the store.
    store: str = ""
    #: What keeps the store from being read, and since when.
    outage: str = ""
    size: Size = Size(80)
    is_live: bool = True

    def visible(self) -> tuple[Rows[QueueFacts], Rows[WorkerStatus]]:
        """Return the rows of queues and of workers that there is room for."""
        queues = self.state.queues(self.snapshot)
        workers = self.state.workers(self.snapshot)
        rooms = self._rooms(len(queues), len(workers))
        return (
            _window(queues, self.state.queue.index, rooms[0]),
            _window(workers, self.state.worker.index, rooms[1]),
        )

    def wanted(self) -> Wanted:
        """Return what has to be read in detail for this frame."""
        queues, workers = self.visible()
        types = [row.type for row in queues.shown]
        is_running = any(row.active for row in workers.shown)
        if self.state.screen is not Screen.DETAILS:
            return Wanted(types, is_running)
        if self.state.pane is Pane.WORKERS:
            return Wanted((), running=True)
        name = self.state.queue.name
        return Wanted([name] if name else [], queue=name)

    def warnings(self) -> list[str]:
        """Return the warnings that there is room for."""
        messages = [one.message for one in self.snapshot.concerns]
        lines = self.size.lines
        room = MAX_WARNINGS if lines is None else max(1, lines // 8)
        if len(messages) <= room:
            return messages
        left = len(messages) - room + 1
        return [*messages[: room - 1], f"and {jobs(left, 'more warning')}"]

    def _rooms(self, queues: int, workers: int) -> tuple[int, int]:
        """Return how many lines the rows of queues and of workers get."""
        if self.size.lines is None:
            return MAX_PRINTED, MAX_PRINTED
        # Three lines of the header and two at the end; titles and an empty line.
        free = self.size.lines - 5 - len(self.warnings()) - bool(self.outage) - 4
        for_workers = min(workers, max(1, free // 3))
        for_queues = min(max(1, queues), max(1, free - for_workers))
        return for_queues, max(1, free - for_queues)


def _window(rows: Sequence[T], index: int, room: int) -> Rows[T]:
    """Return the page of rows that has the selected one."""
    if len(rows) <= room:
        return Rows(rows, 0, len(rows))
    # One line says that there are more.
    size = max(1, room - 1)
    first = min(index // size * size, len(rows) - size)
    return Rows(rows[first : first + size], first, len(rows))


def frame(view: TopView) -> list[Text]:
    """Return the lines of the screen, as many as it has."""
    lines = [*_header(view), Text(), *_body(view)]
    if not view.is_live:
        return lines
    room = (view.size.lines or 24) - 2
    lines = [*lines[:room], *[Text()] * (room - len(lines)), *_footer(view)]
    return [_cropped(line, view.size.columns) for line in lines]


def _cropped(line: Text, width: int) -> Text:
    if cell_len(line.plain) > width:
        line = line.copy()
        line.truncate(width, overflow="ellipsis")
    return line


# -- header --------------------------------------------------------------------


def _header(view: TopView) -> Iterator[Text]:
    snapshot, width = view.snapshot, view.size.columns
    clock = datetime.fromtimestamp(snapshot.now / 1000).astimezone()
    title = f"kue top  {view.store}, read in {snapshot.took_ms} ms"
    head = Text(cut(visible(title), width - 10), style="bold")
    head.append(" " * (width - 8 - cell_len(head.plain)))
    yield head.append(f"{clock:%H:%M:%S}")
    if view.outage:
        yield Text(visible(view.outage), style=BAD)
    if view.state.screen is Screen.HELP:
        return
    yield Text(_counts_text(snapshot))
    yield Text(_rates_text(snapshot))
    for warning in view.warnings():
        yield Text(f"! {visible(warning)}", style=WARN)


def _counts_text(snapshot: Snapshot) -> str:
    shown = (State.WAITING, State.ACTIVE, State.DELAYED, State.BLOCKED, State.FAILED)
    counts = ((state, snapshot.total(state)) for state in shown)
    numbers = [
        f"{number:,} {state}"
        for state, number in counts
        if number or state is not State.BLOCKED
    ]
    return f"{jobs(len(snapshot.queues), 'queue')}: {', '.join(numbers)}"


def _rates_text(snapshot: Snapshot) -> str:
    rates = [queue.per_minute for queue in snapshot.queues.values()]
    names = ("added", "complete", "failed")
    numbers = (
        f"{short(sum(getattr(rate, name) for rate in rates), 7)} {name}"
        for name in names
    )
    workers = snapshot.workers.values()
    alive = [worker for worker in workers if worker.alive]
    lost = sum(worker.lost for worker in workers)
    slots = sum(slots_of(worker) or 0 for worker in alive)
    busy = sum(worker.active for worker in alive)
    return (
        f"last minute: {', '.join(numbers).replace('·', '0')}; "
        f"{jobs(len(alive), 'worker')}, {busy:,} of {slots:,} slots"
        + (f", {lost:,} lost" if lost else "")
    )


# -- body ----------------------------------------------------------------------


def _body(view: TopView) -> Iterator[Text]:
    state = view.state
    if state.screen is Screen.HELP:
        yield from help_lines()
    elif state.screen is Screen.DETAILS and state.pane is Pane.QUEUES:
        name = state.queue.name
        yield from queue_lines(view.snapshot, view.details, name, view.size.columns)
    elif state.screen is Screen.DETAILS:
        name = state.worker.name
        yield from worker_lines(view.snapshot, view.details, name, view.size.columns)
    else:
        queues, workers = view.visible()
        yield from _table(view, _queue_list(view), queues)
        yield Text()
        yield from _table(view, _worker_list(view), workers)


class _List(NamedTuple, Generic[T]):
    """One of the two lists: what it shows, and what it is called."""

    pane: Pane
    what: str
    columns: Sequence[TopColumn[T]]
    #: Of all rows, also of those that are not shown: widths do not depend on these.
    names: Iterable[str]
    name_of: Callable[[T], str]
    selected: str | None
    pattern: str
    advice: str


def _queue_list(view: TopView) -> _List[QueueFacts]:
    return _List(
        Pane.QUEUES,
        "queue",
        queue_columns(view.details),
        view.snapshot.queues,
        lambda queue: queue.type,
        view.state.queue.name,
        view.state.queue_pattern,
        "kue job add adds a job",
    )


def _worker_list(view: TopView) -> _List[WorkerStatus]:
    return _List(
        Pane.WORKERS,
        "worker",
        worker_columns(view.snapshot, view.details),
        view.snapshot.workers,
        lambda worker: worker.name,
        view.state.worker.name,
        view.state.worker_pattern,
        "kue worker starts one",
    )


def _table(view: TopView, listed: _List[T], rows: Rows[T]) -> Iterator[Text]:
    table = table_of(listed.columns, _table_width(view), list(listed.names))
    yield _marked(view, table.titles())
    is_active = view.state.pane is listed.pane
    for row in rows.shown:
        is_selected = is_active and listed.name_of(row) == listed.selected
        yield _marked(view, table.row(row), is_selected=is_selected)
    note = rows.note(listed.what) if rows.total else _nothing(listed)
    if note:
        yield _marked(view, Text(visible(note), style=QUIET))


def _table_width(view: TopView) -> int:
    return view.size.columns - (len(MARK) if view.is_live else 0)


def _nothing(listed: _List[T]) -> str:
    if listed.pattern:
        names = f"{listed.what}s with {listed.pattern!r} in their names"
        return f"no {names}; Esc shows all"
    return f"no {listed.what}s yet; {listed.advice}"


def _marked(view: TopView, line: Text, *, is_selected: bool = False) -> Text:
    if not view.is_live:
        return line
    marked = Text(MARK if is_selected else NO_MARK).append_text(line)
    if is_selected:
        marked.pad_right(max(0, view.size.columns - cell_len(marked.plain)))
        marked.stylize("reverse")
    return marked


# -- footer --------------------------------------------------------------------


def _footer(view: TopView) -> Iterator[Text]:
    state = view.state
    if state.asked is not None:
        yield Text(f"{visible(state.asked.question)} y/n", style="bold reverse")
    elif state.is_typing:
        yield Text(f"/{visible(state.pattern)}▏", style="bold")
    elif state.status:
        yield Text(visible(state.status), style=BAD if state.is_error else "bold")
    else:
        yield Text(_choice(state), style=QUIET)
    keys = _KEYS[state.screen]
    if state.pane is Pane.WORKERS:
        keys = keys.replace("  r retry", "")
    yield Text(keys, style=QUIET)


def _choice(state: ViewState) -> str:
    """Return which rows are shown, and in which order."""
    patterns = (("queues", state.queue_pattern), ("workers", state.worker_pattern))
    filters = "".join(
        f"; only {what} with {pattern!r}" for what, pattern in patterns if pattern
    )
    return f"queues sorted by {state.sort}{visible(filters)}"
