"""Rows of things: a table on a terminal, tabs in a pipe, one JSON object a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click
from rich import box
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

from contextlib import contextmanager


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_number: bool = False
    #: Cut off on a terminal rather than wrapped.
    is_long: bool = False


class Row(NamedTuple):
    """One thing: as a terminal shows it, as a pipe gets it, as JSON says it."""

    shown: Sequence[str]
    plain: Sequence[str]
    item: JSON


class Listing:
    """Where rows go."""

    def __init__(self, *columns: Column, as_json: bool = False) -> None:
        self._columns = columns
        self._as_json = as_json

    def show(self, rows: Iterable[Row]) -> None:
        """Write *rows*; several calls make one list, so that it may be endless."""
        if self._as_json:
            for row in rows:
                show_json(row.item)
        elif output().is_terminal:
            self._show_table(list(rows))
        else:
            for row in rows:
                show_line(*row.plain)

    def table(self, rows: Iterable[Row]) -> Table:
        """Return *rows* as a terminal shows them."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in self._columns:
            table.add_column(
                column.title,
                justify="right" if column.is_number else "left",
                no_wrap=True,
                overflow="ellipsis" if column.is_long else "fold",
                ratio=1 if column.is_long else None,
            )
        for row in rows:
            # As Text: a job's data may look like markup.
            table.add_row(*(Text(visible(cell)) for cell in row.shown))
        return table

    def _show_table(self, rows: list[Row]) -> None:
        if rows:
            output().print(self.table(rows))


def show_line(*cells: str) -> None:
    """Write one line of a pipe: cells with tabs between them."""
    click.echo("\t".join(visible(cell) for cell in cells))


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
