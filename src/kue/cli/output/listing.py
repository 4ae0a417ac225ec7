"""Tables: drawn on a terminal, tab-separated in a pipe, or one JSON object per line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import click
from rich import box
from rich.cells import cell_len
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from kue.cli.output.console import notices, output, print_message
from kue.cli.output.text import iso, json_text, since, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kue.model.payload import JSON

T = TypeVar("T")

#: Spaces between columns, and between columns of a narrow table.
GAP, NARROW_GAP = 3, 2
#: Spaces at both ends of a table, together.
EDGES = 2
#: Shown for zero; a column with nothing else is the first to be left out.
NONE = "·"
#: The minimum width of a long column.
MIN_LONG = 10
#: Names up to this length stay on one line, if possible.
MAX_NAME = 40


class Cell(NamedTuple):
    """A cell that differs between a terminal and a pipe."""

    shown: str
    plain: str


Value = str | int | Cell | None


class Column(NamedTuple, Generic[T]):
    """A column of a table of items."""

    title: str
    #: What it shows of an item; a function that this returns is called with the time.
    value: Callable[[T], Value | Callable[[int], Value]]
    is_number: bool = False
    #: Gets the room that others leave; text that does not fit is cut off …
    is_long: bool = False
    #: … or wrapped.
    wraps: bool = False
    #: In a narrow table, the highest ranks are left out first; 0 never is.
    rank: int = 0

    def cell(self, item: T, now: int) -> Cell:
        value = self.value(item)
        if callable(value):
            value = value(now)
        if isinstance(value, Cell):
            return value
        text = "" if value is None else str(value)
        return Cell(text, text)


def ago(moment: int) -> Callable[[int], Cell]:
    """Return a time: relative to now on a terminal."""
    return lambda now: Cell(since(moment, now), iso(moment))


def count(number: int) -> Cell:
    """Return a number that is often 0."""
    return Cell(f"{number:,}" if number else NONE, str(number))


class Listing(Generic[T]):
    """Writes items in the format that was asked for: in columns, or as JSON."""

    def __init__(
        self,
        columns: Sequence[Column[T]],
        to_json: Callable[[T], JSON],
        *,
        as_json: bool = False,
    ) -> None:
        self._columns = columns
        self._to_json = to_json
        self._as_json = as_json

    def show(self, items: Iterable[T], *, now: int = 0) -> None:
        """Write *items*; several calls make one list, which may be endless."""
        if self._as_json:
            _show_lines(json_text(self._to_json(item)) for item in items)
        elif output().is_terminal:
            self._show_table(list(items), now)
        else:
            _show_lines(_line(self.plain(item, now=now)) for item in items)

    def plain(self, item: T, *, now: int = 0) -> list[str]:
        """Return the cells of *item* for a pipe."""
        return [column.cell(item, now).plain for column in self._columns]

    def table(
        self, items: Iterable[T], *, width: int, now: int
    ) -> tuple[Table, list[str]]:
        """
        Return *items* as a table of that width, and the titles of columns left out.

        Empty columns are omitted.  Titles, numbers and names are not cut: a column that
        does not fit is left out.
        """
        cells = [
            [visible(column.cell(item, now).shown) for column in self._columns]
            for item in items
        ]
        used = [
            self._sized(index, cells)
            for index in range(len(self._columns))
            if not cells or any(line[index] for line in cells)
        ]
        layout = _fit(used, width)
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1) if layout.gap == GAP else (0, 1, 0, 0),
        )
        for one in layout.columns:
            table.add_column(
                one.column.title,
                justify="right" if one.column.is_number else "left",
                no_wrap=not one.column.wraps,
                overflow="fold" if one.column.wraps else "ellipsis",
                max_width=one.size,
            )
        for line in cells:
            # As Text: a job's data may look like markup.
            table.add_row(*(Text(line[one.position]) for one in layout.columns))
        return table, layout.left_out

    def _sized(self, index: int, cells: list[list[str]]) -> _Sized:
        column = self._columns[index]
        texts = [line[index] for line in cells]
        size = max(map(cell_len, (column.title, *texts)))
        is_blank = all(text in ("", NONE) for text in texts)
        return _Sized(index, column, size, is_blank)

    def _show_table(self, items: list[T], now: int) -> None:
        if items:
            console = output()
            table, left_out = self.table(items, width=console.width, now=now)
            console.print(table)
            if left_out:
                print_message(
                    f"no room for {', '.join(left_out)}; --json has everything"
                )


class _Sized(NamedTuple):
    """A column with its preferred or final width."""

    position: int
    column: Column[Any]
    size: int
    is_blank: bool

    @property
    def can_shrink(self) -> bool:
        """Whether it can be made narrower."""
        return self.column.is_long or self.column.wraps

    @property
    def min_size(self) -> int:
        """The width below which other columns are left out instead."""
        if not self.can_shrink:
            return self.size
        enough = MIN_LONG if self.column.is_long else MAX_NAME
        return max(len(self.column.title), min(self.size, enough))


class _Layout(NamedTuple):
    """The columns that fit, and those that do not."""

    columns: list[_Sized]
    left_out: list[str]
    gap: int


def _fit(columns: list[_Sized], width: int) -> _Layout:
    """Choose a layout that fits: wide gaps, narrow gaps, then fewer columns."""
    gap = GAP if _taken(columns, GAP) <= width else NARROW_GAP
    left_out: list[str] = []
    while _taken(columns, gap) > width:
        ranked = [one for one in columns if one.column.rank]
        if not ranked:
            break
        last = max(ranked, key=lambda one: (one.is_blank, one.column.rank))
        columns = [one for one in columns if one is not last]
        if not last.is_blank:
            left_out.append(last.column.title)
    return _Layout(_shared(columns, width, gap), left_out, gap)


def _taken(columns: Sequence[_Sized], gap: int) -> int:
    return sum(one.min_size for one in columns) + gap * (len(columns) - 1) + EDGES


def _shared(columns: list[_Sized], width: int, gap: int) -> list[_Sized]:
    """Distribute the room left over: names first, then the shortest long columns."""
    left = width - _taken(columns, gap)
    sizes = {one.position: one.min_size for one in columns}
    flexible = sorted(
        (one for one in columns if one.can_shrink),
        key=lambda one: (one.column.is_long, one.size),
    )
    for count, one in enumerate(flexible):
        fair = left // (len(flexible) - count) if one.column.is_long else left
        # Below 0 there is not even room for names: they are wrapped.
        more = max(min(one.size - one.min_size, fair), min(0, MIN_LONG - one.min_size))
        sizes[one.position] += more
        left -= more
    return [one._replace(size=sizes[one.position]) for one in columns]


def show_line(*cells: str) -> None:
    """Write one line: cells separated by tabs."""
    click.echo(_line(cells))


def _line(cells: Iterable[str]) -> str:
    return "\t".join(visible(cell) for cell in cells)


def _show_lines(lines: Iterable[str]) -> None:
    # In one write: a list may be very long.
    if text := "".join(f"{line}\n" for line in lines):
        click.echo(text, nl=False)


def show_json(item: JSON) -> None:
    """Write one JSON document on one line."""
    click.echo(json_text(item))


def show_one(item: JSON, *cells: str, as_json: bool) -> None:
    """Write one item: as JSON, or else as a line of *cells*."""
    if as_json:
        show_json(item)
    else:
        show_line(*cells)


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal; yields a function that sets the number."""
    console = notices()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
