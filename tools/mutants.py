"""
Break the source one line at a time and see whether the tests notice.

A mutant is one small bug: a file of the package, the exact text to replace, what to put
there, and what that would mean.  Each is applied to a copy of the package.

Of a bug in an engine, tests most likely to notice run first, then the model test, then
the whole contract of that engine.  A bug in a feature of docs/checklist.md has the
number of its row, and the test that the row names must notice it, alone.
A mutant that no test fails on is a hole in the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tools" / "mutants"
LISTED = ("redis", "sqlite", "checklist")
CHECKLIST = ROOT / "docs" / "checklist.md"
#: The number of a row, and its last cell: a test.
ROW = re.compile(r"^\| (\d+) \|.*\| `(\S+::test_\w+)` \|$", re.MULTILINE)
#: One stage of tests; a bug may well make a test wait forever.
PATIENCE_SECONDS = 300
#: How long a test waits for what must happen, and with a bug may never do.
TEST_PATIENCE_SECONDS = 30
#: The test of a row, which may wait forever without such a limit.
ROW_SECONDS = 90
#: Enough to find each bug of the list; fixed by the score, not by taste.
EXAMPLES = 100
MODEL, CONTRACT = ["tests/store_model"], ["tests/store"]
FAILED = re.compile(r"^(?:FAILED|ERROR) \S*?(\w+\.py\S*?)(?:\[| - |$)", re.MULTILINE)
HANGING = re.compile(r"/(\w+\.py)\", line \d+, in test_")


@dataclass(frozen=True)
class Mutant:
    """One bug, in one engine or in a feature of the checklist."""

    #: The engine to test it on; empty for all.
    engine: str
    name: str
    #: Relative to the package.
    file: str
    old: str
    new: str
    #: What a user would suffer.
    meaning: str
    #: Test files to begin with; the one test of a row.
    tests: tuple[str, ...] = ()
    #: Of the checklist.
    row: int = 0

    @property
    def label(self) -> str:
        return f"{f'row {self.row}' if self.row else self.engine} {self.name}"

    @property
    def stages(self) -> list[list[str]]:
        """What pytest is called with, again and again until a test fails."""
        if self.row:
            return [[*self.tests, f"--timeout={ROW_SECONDS}"]]
        first = [list(self.tests)] if self.tests else []
        return [*first, MODEL, CONTRACT]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    #: The first test that failed; empty when none did.
    killed_by: str
    seconds: float


class Misfit(Exception):
    """The list of mutants does not fit the source, or the tests fail without any."""


@click.command()
@click.option("--jobs", default=2, show_default=True, help="Mutants tried at a time.")
@click.option("--list", "listed", type=click.Choice(LISTED), help="By default all.")
@click.option("--only", default="", help='Take only mutants like this: "row 7 ".')
@click.option("--model", is_flag=True, help="Let the model test alone notice.")
def main(jobs: int, listed: str | None, only: str, model: bool) -> None:
    """Report which bugs the tests would let pass; exit with 1 if there are any."""
    console = Console()
    found = [mutant for mutant in load(listed or "") if only in mutant.label]
    mutants = [mutant for mutant in found if not (model and mutant.row)]
    if not mutants:
        raise click.UsageError("there is no such mutant")
    try:
        for mutant in mutants:
            check(mutant)
        check_tests([mutant for mutant in mutants if mutant.row])
        verdicts = try_all(mutants, jobs, console, model=model)
    except Misfit as exc:
        console.print(f"mutants: {exc}", style="red")
        raise SystemExit(2) from exc
    console.print(table_of(verdicts))
    killed = sum(bool(verdict.killed_by) for verdict in verdicts)
    console.print(f"mutants: {killed} killed of {len(verdicts)}")
    raise SystemExit(0 if killed == len(verdicts) else 1)


def load(listed: str = "") -> list[Mutant]:
    """Read the lists: one for each engine, and those of the checklist."""
    named = dict(ROW.findall(CHECKLIST.read_text()))
    return [
        in_checklist(entry, named) if "row" in entry else in_engine(entry, path.stem)
        for path in sorted(LISTS.glob(f"{listed}*.toml"))
        for entry in tomllib.loads(path.read_text())["mutant"]
    ]


def in_engine(entry: dict[str, Any], engine: str) -> Mutant:
    return Mutant(engine, **{**entry, "tests": tuple(entry.get("tests", ()))})


def in_checklist(entry: dict[str, Any], named: dict[str, str]) -> Mutant:
    test = named.get(str(entry["row"]), "")
    return Mutant(**{"engine": "", **entry}, tests=(f"tests/{test}",) if test else ())


def check(mutant: Mutant) -> None:
    """Raise `Misfit` unless the mutant has tests, and code that can be run."""
    if mutant.row and not mutant.tests:
        raise Misfit(f"{mutant.label}: this row of the checklist names no test")
    text = mutated(mutant)
    if mutant.file.endswith(".py"):
        compile(text, mutant.file, "exec")


def check_tests(mutants: list[Mutant]) -> None:
    """Raise `Misfit` unless the test of each mutant runs on its engine."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    collected = done.stdout.splitlines()
    for mutant in mutants:
        engines = [
            line.removeprefix(test)
            for test in mutant.tests
            for line in collected
            if line == test or line.startswith(f"{test}[")
        ]
        if not any(mutant.engine in one for one in engines):
            raise Misfit(f"{mutant.label}: its test does not run on {mutant.engine}")


def mutated(mutant: Mutant) -> str:
    """Return the text of the broken file."""
    text = (ROOT / "src" / "kue" / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise Misfit(
            f"{mutant.label}: its old text is {text.count(mutant.old)} "
            f"times in {mutant.file}, not once; bring the list up to date"
        )
    return text.replace(mutant.old, mutant.new)


def try_all(
    mutants: list[Mutant], jobs: int, console: Console, *, model: bool
) -> list[Verdict]:
    """Try every mutant, after the engines without any."""
    verdicts: dict[Mutant, Verdict] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, console=console) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        task = progress.add_task("tests without mutants", total=len(mutants))
        for failure in pool.map(fails_without_mutant, whole_runs(mutants)):
            if failure:
                raise Misfit(f"{failure} fails without any mutant")
        running = [pool.submit(try_one, mutant, model=model) for mutant in mutants]
        for done in as_completed(running):
            verdict = done.result()
            verdicts[verdict.mutant] = verdict
            progress.update(task, advance=1, description=verdict.mutant.name)
    return [verdicts[mutant] for mutant in mutants]


def whole_runs(mutants: list[Mutant]) -> set[tuple[str, tuple[str, ...]]]:
    """Return engines, and all tests on each that must pass without a mutant."""
    runs: dict[tuple[str, bool], set[str]] = {}
    for mutant in mutants:
        tests = runs.setdefault((mutant.engine, mutant.row > 0), set())
        tests.update(chain(*mutant.stages))
    return {(engine, tuple(sorted(tests))) for (engine, _), tests in runs.items()}


def fails_without_mutant(run: tuple[str, tuple[str, ...]]) -> str:
    """Return the test that fails although nothing is broken, or nothing."""
    engine, tests = run
    return run_tests(ROOT / "src", list(tests), engine, seconds=None)


def try_one(mutant: Mutant, *, model: bool) -> Verdict:
    """Run the tests on a broken copy until one fails."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kue-mutant-") as folder:
        copy = Path(folder)
        shutil.copytree(
            ROOT / "src" / "kue",
            copy / "kue",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        (copy / "kue" / mutant.file).write_text(mutated(mutant))
        stages = [MODEL] if model else mutant.stages
        killed_by = first_failure(copy, mutant.engine, stages)
    return Verdict(mutant, killed_by, time.monotonic() - started)


def first_failure(copy: Path, engine: str, stages: list[list[str]]) -> str:
    for stage in stages:
        killed_by = run_tests(copy, stage, engine)
        if killed_by:
            return killed_by
    return ""


def run_tests(
    package: Path,
    tests: list[str],
    engine: str,
    *,
    seconds: float | None = PATIENCE_SECONDS,
) -> str:
    """Return the name of the first test that fails with *package*, or nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header"]
    command += ["-p", "no:cacheprovider", "-k", selection(engine), *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "KUE_MODEL_EXAMPLES": str(EXAMPLES),
        "KUE_TEST_PATIENCE": str(TEST_PATIENCE_SECONDS),
        # Whoever reads the table needs the name of the test, not a small example.
        "KUE_MODEL_SHRINK": "no",
    }
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return f"time-out in {' '.join(tests)}"
    return "" if done.returncode == 0 else failure_in(done.stdout + done.stderr)


def selection(engine: str) -> str:
    """Return what makes pytest run one engine only: mutants break one at a time."""
    return f"{engine} and not shards and not cluster" if engine else ""


def failure_in(output: str) -> str:
    found = FAILED.search(output)
    if found is None and "+ Timeout +" in output:
        # pytest-timeout ends the process where the test hangs.
        hanging = HANGING.findall(output)
        return f"time-out in {hanging[-1]}" if hanging else "time-out"
    # A file of tests that cannot be imported noticed nothing.
    if found is None or "::" not in found[1]:
        raise Misfit(f"the tests could not run:\n{output[-2000:]}")
    return found[1]


def table_of(verdicts: list[Verdict]) -> Table:
    table = Table("mutant", "killed by", "seconds")
    for verdict in verdicts:
        mutant = verdict.mutant
        killed_by = verdict.killed_by or f"[red]survived:[/] {mutant.meaning}"
        table.add_row(mutant.label, killed_by, f"{verdict.seconds:.1f}")
    return table


if __name__ == "__main__":
    main()
