"""Tables: drawn on a terminal, tab-separated in a pipe, or one JSON object per line."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from kue.cli.output.console import output, print_message
from kue.cli.output.text import iso, json_text, since, visible, words

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


def took(milliseconds: int) -> Cell:
    """Return a duration: in words on a terminal."""
    return Cell(words(milliseconds), str(milliseconds))


def count(number: int) -> Cell:
    """Return a number that is often 0."""
    return Cell(f"{number:,}" if number else NONE, str(number))


@dataclass(frozen=True)
class Listing(Generic[T]):
    """Writes items in the format that was asked for: in columns, or as JSON."""

    columns: Sequence[Column[T]]
    to_json: Callable[[T], JSON]
    as_json: bool = field(default=False, kw_only=True)

    def show(self, items: Iterable[T], *, now: int = 0) -> None:
        """Write *items*; several calls make one list, which may be endless."""
        if self.as_json:
            _show_lines(json_text(self.to_json(item)) for item in items)
        elif output().is_terminal:
            self._show_table(list(items), now)
        else:
            _show_lines(_line(self.plain(item, now=now)) for item in items)

    def plain(self, item: T, *, now: int = 0) -> list[str]:
        """Return the cells of *item* for a pipe."""
        return [column.cell(item, now).plain for column in self.columns]

    def table(
        self, items: Sequence[T], *, width: int, now: int
    ) -> tuple[Table, list[str]]:
        """
        Return *items* as a table of that width, and the titles of columns left out.

        Empty columns are omitted.  Titles, numbers and names are not cut: a column that
        does not fit is left out.
        """
        used = []
        for column in self.columns:
            texts = [visible(column.cell(item, now).shown) for item in items]
            if any(texts) or not texts:
                size = max(map(cell_len, (column.title, *texts)))
                used.append(_Sized(column, texts, size))
        columns, left_out, gap = _fit(used, width)
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1) if gap == GAP else (0, 1, 0, 0),
        )
        for one in columns:
            table.add_column(
                one.column.title,
                justify="right" if one.column.is_number else "left",
                no_wrap=not one.column.wraps,
                overflow="fold" if one.column.wraps else "ellipsis",
                max_width=one.size,
            )
        for line in zip(*(one.texts for one in columns), strict=True):
            # As Text: a job's data may look like markup.
            table.add_row(*map(Text, line))
        return table, left_out

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

    column: Column[Any]
    texts: list[str]
    size: int

    @property
    def is_blank(self) -> bool:
        return all(text in ("", NONE) for text in self.texts)

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


def _fit(columns: list[_Sized], width: int) -> tuple[list[_Sized], list[str], int]:
    """
    Return the columns that fit, the titles of those that do not, and the gap.

    Tries wide gaps, narrow gaps, then fewer columns.
    """
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
    return _shared(columns, width, gap), left_out, gap


def _taken(columns: Sequence[_Sized], gap: int) -> int:
    return sum(one.min_size for one in columns) + gap * (len(columns) - 1) + EDGES


def _shared(columns: list[_Sized], width: int, gap: int) -> list[_Sized]:
    """Distribute the room left over: names first, then the shortest long columns."""
    left = width - _taken(columns, gap)
    sizes = {one.column.title: one.min_size for one in columns}
    flexible = sorted(
        (one for one in columns if one.can_shrink),
        key=lambda one: (one.column.is_long, one.size),
    )
    for count, one in enumerate(flexible):
        fair = left // (len(flexible) - count) if one.column.is_long else left
        # Below 0 there is not even room for names: they are wrapped.
        more = max(min(one.size - one.min_size, fair), min(0, MIN_LONG - one.min_size))
        sizes[one.column.title] += more
        left -= more
    return [one._replace(size=sizes[one.column.title]) for one in columns]


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


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Write named values: in two columns on a terminal, one line each in a pipe."""
    console = output()
    if not console.is_terminal:
        for name, value in facts:
            show_line(name, value)
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    last = ""
    for name, value in facts:
        grid.add_row("" if name == last else name, Text(visible(value)))
        last = name
    console.print(grid)


def show_one(item: JSON, *cells: str, as_json: bool) -> None:
    """Write one item: as JSON, or else as a line of *cells*."""
    if as_json:
        show_json(item)
    else:
        show_line(*cells)


def progress(*columns: ProgressColumn, auto_refresh: bool = True) -> Progress:
    """Return progress bars on standard error, shown only on a terminal."""
    console = Console(stderr=True)
    return Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=auto_refresh,
        disable=not console.is_terminal,
    )


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal; yields a function that sets the number."""
    with progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, completed=done)
