"""
Tables of ``kue top``: columns of fixed widths, as many as there is room for.

A table that is drawn every second must not move when a number gets another digit, as
those of `kue.cli.output.listing` would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.text import Text

from kue.cli.output.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

#: Names may be cut to this where there is little room, and are shown up to this.
MIN_NAME, MAX_NAME = 12, 36
#: Names up to this length take the room of less important columns.
FAIR_NAME = 20


class TopCell(NamedTuple):
    """Text of one cell, and its style."""

    text: str
    style: str = ""


class TopColumn(NamedTuple, Generic[T]):
    """A column; the first of a table is the name."""

    title: str
    #: 0 takes the room that is left.
    width: int
    cell: Callable[[T], TopCell]
    #: The highest are left out first; 0 never is.
    rank: int = 0
    is_number: bool = True


class TopTable(NamedTuple, Generic[T]):
    """A table whose columns were chosen for a width."""

    columns: Sequence[TopColumn[T]]

    def titles(self, style: str = "bold") -> Text:
        cells = [TopCell(column.title, style) for column in self.columns]
        return self._line(cells)

    def row(self, item: T) -> Text:
        return self._line([column.cell(item) for column in self.columns])

    def _line(self, cells: Sequence[TopCell]) -> Text:
        line = Text(no_wrap=True, end="")
        for column, cell in zip(self.columns, cells, strict=True):
            text = cut(visible(cell.text), column.width)
            padding = " " * (column.width - cell_len(text))
            line.append(padding if column.is_number else "")
            line.append(text, cell.style)
            line.append(" " if column.is_number else padding + " ")
        line.rstrip()
        return line


def table_of(
    columns: Sequence[TopColumn[T]], width: int, names: Sequence[str]
) -> TopTable[T]:
    """Return the table of the columns that fit, with room for *names*."""
    sizes_of_names = (cell_len(visible(name)) for name in names)
    longest = min(max(sizes_of_names, default=0), MAX_NAME)
    fair = max(MIN_NAME, min(longest, FAIR_NAME))
    chosen = list(columns)
    while fair + _taken(chosen) > width:
        ranked = [one for one in chosen if one.rank]
        if not ranked:
            break
        chosen.remove(max(ranked, key=lambda one: one.rank))
    left = width - _taken(chosen)
    sizes = [max(1, min(left, max(longest, MIN_NAME)))]
    sizes += [one.width or max(1, left - sizes[0]) for one in chosen[1:]]
    return TopTable(
        [one._replace(width=size) for one, size in zip(chosen, sizes, strict=True)]
    )


def _taken(columns: Sequence[TopColumn[T]]) -> int:
    """Return the width of all columns but the name, and of the spaces between them."""
    return sum(one.width for one in columns[1:]) + len(columns) - 1


def cut(text: str, width: int) -> str:
    """Return *text* in up to *width* cells; the end of a longer one is ``…``."""
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[:-1]
    return f"{text}…" if width else ""
