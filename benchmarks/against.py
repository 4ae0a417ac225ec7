"""
``python -m benchmarks.against REV``: what a job costs now, and did at revision REV.

Speed moves by more than a tenth from minute to minute on a shared machine.  CPU time
moves less, and the ratio of two measurements right after each other less still: both
revisions take turns on the same servers, in processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from tests.support.servers import RedisServer

from benchmarks.readings import Readings
from benchmarks.report import WIDTH, conditions
from benchmarks.steps import in_turn

ROOT = Path(__file__).resolve().parent.parent
#: Jobs of one measurement.
JOBS = {"redis": 50_000, "sqlite": 20_000}


@click.command()
@click.argument("rev")
@click.option("--rounds", default=11, show_default=True)
@click.option("--only", type=click.Choice(list(JOBS)), help="Measure one engine.")
def main(rev: str, rounds: int, only: str | None) -> None:
    """
    Compare CPU time per job with that at REV, a revision of this repository.

    A ratio above 1 means that a job costs more now.
    """
    readings = Readings()
    with TemporaryDirectory() as place:
        folder = Path(place)
        trees = {"before": _checked_out(rev, folder), "now": ROOT}
        server = RedisServer(folder)
        try:
            for number in track(range(rounds), console=Console(stderr=True)):
                for engine in [only] if only else list(JOBS):
                    for when in in_turn(list(trees), number):
                        found = _measure(trees[when], engine, server, folder)
                        for name, value in found.items():
                            readings.add(f"{when} {engine} {name}", value)
        finally:
            server.stop()
    _print(readings, conditions([f"now and at {rev}"], rounds=rounds))


def _checked_out(rev: str, folder: Path) -> Path:
    """Return a folder with the package at that revision."""
    archive = ["git", "archive", rev, "src"]
    packed = subprocess.run(archive, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return folder


def _measure(
    tree: Path, engine: str, server: RedisServer, folder: Path
) -> dict[str, float]:
    """Return what `benchmarks.costs` measures with the package of *tree*."""
    server.empty()
    for old in folder.glob("kue.db*"):
        old.unlink()
    url = server.url if engine == "redis" else f"sqlite:///{folder}/kue.db"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.costs", url, str(JOBS[engine])],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tree / "src")},
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=dict[str, float])


def _print(readings: Readings, caption: str) -> None:
    console = Console(width=None if os.isatty(1) else WIDTH)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("µs per job", no_wrap=True)
    for title in ("before", "now", "now ÷ before", "middle half"):
        table.add_column(title, justify="right", no_wrap=True)
    names = [
        name.removeprefix("now ")
        for name in readings.medians()
        if name.startswith("now ")
    ]
    for name in names:
        before, now = f"before {name}", f"now {name}"
        readings.ratio(name, now, before)
        low, high = readings.middle(name)
        table.add_row(
            name,
            f"{readings.median(before):.2f}",
            f"{readings.median(now):.2f}",
            f"{readings.median(name):.3f}",
            f"{low:.3f} – {high:.3f}",
        )
    console.print(table)
    console.print(caption)


if __name__ == "__main__":
    main()
