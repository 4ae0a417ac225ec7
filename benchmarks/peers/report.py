"""Reports: tables on the terminal, a JSON file, and the page in docs/."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.peers.catalogue import KUE, KUE_TASK, PEERS
from benchmarks.peers.environments import ROOT, version_of
from benchmarks.peers.results import NAMES, OURS, TASKS
from benchmarks.peers.targets import verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.peers.catalogue import Contender
    from benchmarks.peers.measure import Scale
    from benchmarks.peers.results import Results, Spread

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
#: The width of the tables where there is no terminal.
WIDTH = 190
RATIOS_EXPLAINED = """\
Kue ÷ peer, round by round; the middle half of the rounds in brackets.
For `p50_ms`, `p99_ms`, `bytes` and `commands`, less than 1 is better."""


def conditions(
    results: Results, scale: Scale, *, redis: str, cores: Sequence[int]
) -> dict[str, Any]:
    """Return the conditions of the measurement."""
    everyone = (KUE, *_peers(results))
    return {
        "date": time.strftime("%Y-%m-%d"),
        "redis": redis,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": len(cores),
        "load": [round(one, 1) for one in os.getloadavg()],
        "rounds": scale.rounds,
        "versions": {one.name: version_of(one) for one in everyone},
        "clients": {name: version(name) for name in ("redis", "hiredis", "uvloop")},
        "jobs": {one.name: one.scaled(scale.share).jobs for one in everyone},
        "slots": {one.name: one.slots for one in everyone},
    }


def print_tables(results: Results) -> None:
    """Print medians, ratios and targets to stdout."""
    console = Console(width=None if os.isatty(1) else WIDTH)
    console.print(_table("Medians, with the middle half", _medians(results, "\n")))
    console.print(_table("Kue ÷ peer, with the middle half", _ratios(results, "\n")))
    console.print(_table("Targets", _targets(results)))
    console.print(idle_sentence(results))
    for name, reasons in results.why_missing().items():
        for reason, figures in _by_reason(reasons).items():
            console.print(f"{name}: no {', '.join(figures)}: {reason}")


def write_json(results: Results, conditions: Mapping[str, Any], path: Path) -> None:
    """Write the results to *path*, and the values of all rounds to a file beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for to, content in (
        (path, results.document(conditions)),
        (path.with_suffix(".rounds.json"), results.rounds),
    ):
        text = msgspec.json.format(msgspec.json.encode(content), indent=2)
        to.write_bytes(text + b"\n")


def write_page(text: str, page: Path = PAGE) -> None:
    """Put *text* between the markers of the page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no place for the peers between {BEGIN} and {END}")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def markdown(results: Results, conditions: Mapping[str, Any]) -> str:
    """Return the tables and their conditions for the page."""
    parts = [
        _markdown_table(_medians(results, " ")),
        RATIOS_EXPLAINED,
        _markdown_table(_ratios(results, " ")),
        _markdown_table(_targets(results)),
        *_missing_lines(results),
        _notes(results),
        _sentences(results, conditions),
    ]
    return "\n\n".join(parts)


Rows = list[list[str]]


def _medians(results: Results, between: str) -> Rows:
    names = sorted(results.names, key=lambda name: _drain(results, name))
    rows = [["", *NAMES]]
    ours = [name for name in (OURS, TASKS) if results.has(name)]
    for name in (*ours, *reversed(names)):
        cells = [
            _cell(results.spread(name, figure), _number, between) for figure in NAMES
        ]
        rows.append([name, *cells])
    return rows


def _ratios(results: Results, between: str) -> Rows:
    names = sorted(results.names, key=lambda name: _drain(results, name))
    rows = [["Kue ÷", *NAMES]]
    for name in reversed(names):
        cells = [
            _cell(results.ratio(name, figure), _times, between) for figure in NAMES
        ]
        rows.append([name, *cells])
    return rows


def _targets(results: Results) -> Rows:
    rows = [["figure", "beside", "wanted", "found", "middle half", ""]]
    for one in verdicts(results):
        beside = f"{one.target.of} ({one.other})"
        spread = f"{_times(one.ratio.low)} – {_times(one.ratio.high)}"
        sign = "✓" if one.is_reached else "✗"
        found = f"{_times(one.ratio.median)} ×"
        rows.append([one.target.figure, beside, one.aim, found, spread, sign])
    return rows


def _drain(results: Results, name: str) -> float:
    spread = results.spread(name, "drain")
    return spread.median if spread else 0.0


def _cell(spread: Spread | None, shown: Callable[[float], str], between: str) -> str:
    if spread is None:
        return "–"
    if spread.low == spread.high:
        return shown(spread.median)
    return (
        f"{shown(spread.median)}{between}({shown(spread.low)} – {shown(spread.high)})"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _table(title: str, rows: Rows) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in rows[0]:
        table.add_column(column, justify="right" if column in NAMES else "left")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _markdown_table(rows: Rows) -> str:
    head = rows[0]
    rules = ["---:" if name in NAMES else "---" for name in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rules, *rows[1:]))


def _missing_lines(results: Results) -> list[str]:
    lines = [
        f"- {name} has no {', '.join(f'`{one}`' for one in figures)}: {reason}"
        for name, reasons in results.why_missing().items()
        for reason, figures in _by_reason(reasons).items()
    ]
    return ["\n".join(lines)] if lines else []


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for figure in NAMES:
        if figure in reasons:
            found.setdefault(reasons[figure], []).append(figure)
    return found


def _peers(results: Results) -> list[Contender]:
    return [peer for peer in PEERS if peer.name in results.names]


def _notes(results: Results) -> str:
    rows = [["", "version", "jobs at once", "", "of note"]]
    for one in (KUE, KUE_TASK, *_peers(results)):
        slots = f"{one.slots}, {one.nap_slots} of 5 ms"
        rows.append([one.name, version_of(one), slots, one.language.value, one.note])
    return _markdown_table(rows)


def _sentences(results: Results, conditions: Mapping[str, Any]) -> str:
    clients = ", ".join(f"{k} {v}" for k, v in conditions["clients"].items())
    load = ", ".join(str(one) for one in conditions["load"])
    jobs = sum(one["jobs"] for one in results.delivered.values())
    repeated = sum(one["repeated"] for one in results.delivered.values())
    return (
        f"{conditions['date']}; Redis {conditions['redis']}; "
        f"Python {conditions['python']}, {clients}; "
        f"{conditions['cores']} cores of {conditions['machine']}, load {load} at the "
        f"end.\nMedians of {conditions['rounds']} rounds.\n"
        f"All of {jobs:,} jobs that were added to be drained ran, {repeated:,} of them "
        f"more than once.\n{idle_sentence(results)}"
    )


def idle_sentence(results: Results) -> str:
    found = results.idle_medians()
    if not found:
        return "No idle worker was measured."
    return (
        f"A worker of Kue that has nothing to do takes {found['cpu_percent']:.2g} % of "
        f"a core and calls Redis {found['calls']:.2g} times a second, which makes "
        f"{found['commands']:.3g} commands with those inside scripts."
    )
