"""
Break the engines one line at a time and see whether the tests notice.

A mutant is one small bug: a file of the package, the exact text to replace, what to put
there, and what that would mean.  Each is applied to a copy of the package; tests most
likely to notice run first, then the model test, then the whole contract of that engine.
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
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tools" / "mutants"
#: One stage of tests; a bug may well make a test wait for ever.
PATIENCE_SECONDS = 300
#: Enough to find each bug of the list; fixed by the score, not by taste.
EXAMPLES = 100
MODEL, CONTRACT = ["tests/store_model"], ["tests/store"]
FAILED = re.compile(r"^(?:FAILED|ERROR) \S*?(\w+\.py\S*?)(?:\[| - |$)", re.MULTILINE)
HANGING = re.compile(r"/(\w+\.py)\", line \d+, in test_")


@dataclass(frozen=True)
class Mutant:
    """One bug to be put into one engine."""

    engine: str
    name: str
    #: Relative to the package.
    file: str
    old: str
    new: str
    #: What a user would suffer.
    meaning: str
    #: Test files to begin with.
    tests: tuple[str, ...] = ()


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
@click.option("--only", default="", help="Take only mutants whose name contains this.")
@click.option("--model", is_flag=True, help="Let the model test alone notice.")
def main(jobs: int, only: str, model: bool) -> None:
    """Tell which bugs the tests would let pass; exit with 1 if there are any."""
    console = Console()
    mutants = [mutant for mutant in load() if only in f"{mutant.engine} {mutant.name}"]
    try:
        for mutant in mutants:
            mutated(mutant)
        verdicts = try_all(mutants, jobs, console, model=model)
    except Misfit as exc:
        console.print(f"mutants: {exc}", style="red")
        raise SystemExit(2) from exc
    console.print(table_of(verdicts))
    killed = sum(bool(verdict.killed_by) for verdict in verdicts)
    console.print(f"mutants: {killed} killed of {len(verdicts)}")
    raise SystemExit(0 if killed == len(verdicts) else 1)


def load() -> list[Mutant]:
    """Read the lists: one file for each engine."""
    return [
        Mutant(engine=path.stem, **{**entry, "tests": tuple(entry.get("tests", ()))})
        for path in sorted(LISTS.glob("*.toml"))
        for entry in tomllib.loads(path.read_text())["mutant"]
    ]


def mutated(mutant: Mutant) -> str:
    """Return the text of the broken file."""
    text = (ROOT / "src" / "kue" / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise Misfit(
            f"{mutant.engine} {mutant.name}: its old text is {text.count(mutant.old)} "
            f"times in {mutant.file}, not once; bring the list up to date"
        )
    return text.replace(mutant.old, mutant.new)


def try_all(
    mutants: list[Mutant], jobs: int, console: Console, *, model: bool
) -> list[Verdict]:
    """Try every mutant, after the engines without any."""
    verdicts: dict[Mutant, Verdict] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    engines = sorted({mutant.engine for mutant in mutants})
    with (
        Progress(*columns, console=console) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        task = progress.add_task("tests without mutants", total=len(mutants))
        for failure in pool.map(fails_without_mutant, engines):
            if failure:
                raise Misfit(f"{failure} fails without any mutant")
        running = [pool.submit(try_one, mutant, model=model) for mutant in mutants]
        for done in as_completed(running):
            verdict = done.result()
            verdicts[verdict.mutant] = verdict
            progress.update(task, advance=1, description=verdict.mutant.name)
    return [verdicts[mutant] for mutant in mutants]


def fails_without_mutant(engine: str) -> str:
    """Return the test that fails although nothing is broken, or nothing."""
    return run_tests(ROOT / "src", CONTRACT + MODEL, engine)


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
        stages = [MODEL] if model else [list(mutant.tests), MODEL, CONTRACT]
        killed_by = first_failure(copy, mutant.engine, stages)
    return Verdict(mutant, killed_by, time.monotonic() - started)


def first_failure(copy: Path, engine: str, stages: list[list[str]]) -> str:
    for stage in stages:
        killed_by = run_tests(copy, stage, engine) if stage else ""
        if killed_by:
            return killed_by
    return ""


def run_tests(package: Path, tests: list[str], engine: str) -> str:
    """Return the name of the first test that fails with *package*, or nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header"]
    command += ["-p", "no:cacheprovider", "-k", selection(engine), *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "KUE_MODEL_EXAMPLES": str(EXAMPLES),
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
            timeout=PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"time-out in {' '.join(tests)}"
    return "" if done.returncode == 0 else failure_in(done.stdout + done.stderr)


def selection(engine: str) -> str:
    """Return what makes pytest run one engine only: mutants break one at a time."""
    return f"{engine} and not shards and not cluster"


def failure_in(output: str) -> str:
    found = FAILED.search(output)
    if found is None and "+ Timeout +" in output:
        # pytest-timeout ends the process where the test hangs.
        hanging = HANGING.findall(output)
        return f"time-out in {hanging[-1]}" if hanging else "time-out"
    if found is None:
        raise Misfit(f"the tests could not run:\n{output[-2000:]}")
    return found[1]


def table_of(verdicts: list[Verdict]) -> Table:
    table = Table("engine", "mutant", "killed by", "seconds")
    for verdict in verdicts:
        mutant = verdict.mutant
        killed_by = verdict.killed_by or f"[red]survived:[/] {mutant.meaning}"
        table.add_row(mutant.engine, mutant.name, killed_by, f"{verdict.seconds:.1f}")
    return table


if __name__ == "__main__":
    main()
