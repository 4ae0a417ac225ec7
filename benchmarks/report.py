"""The report: a table, and a JSON file."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.figures import COMMANDS, FIGURES, PERCENT, TIMES

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.figures import Figure
    from benchmarks.readings import Readings

#: The width of the table where there is no terminal.
WIDTH = 150
#: Units whose values are small.
FINE = frozenset({TIMES, PERCENT, COMMANDS})


def conditions(engines: list[str], *, rounds: int) -> str:
    """Return the conditions of the measurement: versions, machine and load."""
    tools = ", ".join(
        f"{name} {version(name)}" for name in ("uvloop", "redis", "hiredis", "msgspec")
    )
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"{', '.join(engines)}; Python {platform.python_version()}, {tools}; "
        f"{os.cpu_count()} cores of {platform.machine()}, load {load} at the end. "
        f"Medians of {rounds} rounds; half of the values lie in the middle half."
    )


def print_table(readings: Readings, caption: str, *, as_markdown: bool) -> None:
    """Print the measured values and their targets."""
    # A line of Markdown must not be wrapped.
    is_fixed = as_markdown or not os.isatty(1)
    console = Console(width=WIDTH if is_fixed else None)
    table = Table(box=box.MARKDOWN if as_markdown else box.SIMPLE_HEAD)
    table.add_column("figure", no_wrap=True)
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("middle half", justify="right", no_wrap=True)
    table.add_column("target", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("what it is")
    for figure in FIGURES:
        if figure.name in readings:
            table.add_row(*_cells(figure, readings))
    console.print(table)
    console.print(caption)


def write_json(readings: Readings, path: Path) -> None:
    """Write the median of each figure, by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(readings.medians()), indent=2)
    path.write_bytes(text + b"\n")


def _cells(figure: Figure, readings: Readings) -> tuple[str, ...]:
    value = readings.median(figure.name)
    low, high = readings.middle(figure.name)
    spread = "" if low == high else f"{_shown(figure, low)} – {_shown(figure, high)}"
    return (
        figure.name,
        f"{_shown(figure, value)} {figure.unit}",
        spread,
        _target(figure),
        _verdict(figure, value),
        figure.what,
    )


def _shown(figure: Figure, value: float) -> str:
    return f"{value:.2f}" if figure.unit in FINE else f"{value:,.0f}"


def _target(figure: Figure) -> str:
    if figure.at_least is not None:
        return f"≥ {figure.at_least:g}"
    return f"< {figure.below:g}" if figure.below is not None else ""


def _verdict(figure: Figure, value: float) -> str:
    if not figure.has_target:
        return ""
    if figure.is_reached(value):
        return "✓"
    miss = f"{figure.missing(value):.2g}"
    return f"{miss} over" if figure.at_least is None else f"{miss} short"
