"""Rows of things: a table on a terminal, tabs in a pipe, one JSON object a line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

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

from kue.cli.terminal import notices, output
from kue.cli.text import json_text, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kue.payload import JSON

#: What a column takes besides its text.
GAP = 3
#: A long column is not made narrower than this.
MIN_LONG = 10


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_number: bool = False
    #: Gets what room the others leave; what does not fit is cut off on a terminal …
    is_long: bool = False
    #: … or goes on in the next line.
    wraps: bool = False


class Row(NamedTuple):
    """One thing: as a terminal shows it, as a pipe gets it, as JSON says it."""

    shown: Sequence[str]
    plain: Sequence[str]
    #: Called only where JSON is asked for: making it is most of the work.
    item: Callable[[], JSON]


class Listing:
    """Where rows go."""

    def __init__(self, *columns: Column, as_json: bool = False) -> None:
        self._columns = columns
        self._as_json = as_json

    def show(self, rows: Iterable[Row]) -> None:
        """Write *rows*; several calls make one list, so that it may be endless."""
        if self._as_json:
            _show_lines(json_text(row.item()) for row in rows)
        elif output().is_terminal:
            self._show_table(list(rows))
        else:
            _show_lines(_line(row.plain) for row in rows)

    def table(self, rows: Iterable[Row], *, width: int) -> Table:
        """Return *rows* as a terminal of that width shows them; no column is empty."""
        cells = [[visible(cell) for cell in row.shown] for row in rows]
        used = [
            index
            for index in range(len(self._columns))
            if any(line[index] for line in cells) or not cells
        ]
        columns = [self._columns[index] for index in used]
        lines = [[line[index] for index in used] for line in cells]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column, most in zip(columns, _widths(columns, lines, width), strict=True):
            table.add_column(
                column.title,
                justify="right" if column.is_number else "left",
                no_wrap=not column.wraps,
                overflow="ellipsis",
                max_width=most,
            )
        for line in lines:
            # As Text: a job's data may look like markup.
            table.add_row(*map(Text, line))
        return table

    def _show_table(self, rows: list[Row]) -> None:
        if rows:
            console = output()
            console.print(self.table(rows, width=console.width))


def _widths(
    columns: Sequence[Column], lines: Sequence[Sequence[str]], width: int
) -> list[int]:
    """Return how wide each column may be: the long ones share what others leave."""
    natural = [
        max(cell_len(text) for text in (column.title, *(line[i] for line in lines)))
        for i, column in enumerate(columns)
    ]
    fixed = sum(
        size
        for size, column in zip(natural, columns, strict=True)
        if not column.is_long
    )
    left = width - fixed - GAP * len(columns)
    longs = sorted(i for i, column in enumerate(columns) if column.is_long)
    # The shortest first: what it does not need is left to the others.
    for count, i in enumerate(sorted(longs, key=lambda i: natural[i])):
        natural[i] = max(MIN_LONG, min(natural[i], left // (len(longs) - count)))
        left -= natural[i]
    return natural


def show_line(*cells: str) -> None:
    """Write one line of a pipe: cells with tabs between them."""
    click.echo(_line(cells))


def _line(cells: Iterable[str]) -> str:
    return "\t".join(visible(cell) for cell in cells)


def _show_lines(lines: Iterable[str]) -> None:
    # All at once: a list may have very many.
    if text := "".join(f"{line}\n" for line in lines):
        click.echo(text, nl=False)


def show_json(item: JSON) -> None:
    """Write one JSON document on one line."""
    click.echo(json_text(item))


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how far a long work is, on a terminal; yields what is told the number."""
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
