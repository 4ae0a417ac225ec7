"""
Run tests many times, every second time beside busy processes, and count the failures.

    make steady                          the tests that start processes, 30 times
    make steady TIMES=5 ARGS="tests"     everything, five times

A start of pytest serves a few rounds.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Iterator

REPORTS = Path("build/steady")
#: As many as a small machine has cores.
BUSY = 2
#: The end of a name, which says the round.
ROUND = re.compile(r"\[round\d+\]$|-round\d+(?=\]$)")
HOGGING = [sys.executable, "-c", "while True: pass"]
#: Rounds per start of pytest.
ROUNDS = 3
PLUGINS = ["-p", "tools.no_skips", "-p", "tools.rounds"]
PYTEST = [sys.executable, "-m", "pytest", *PLUGINS, "-q", "--tb=short"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--times", type=int, default=30)
    options, chosen = parser.parse_known_args()
    REPORTS.mkdir(parents=True, exist_ok=True)
    failures: Counter[str] = Counter()
    is_busy = False
    for first in range(1, options.times + 1, ROUNDS):
        last = min(first + ROUNDS - 1, options.times)
        with busy(BUSY if is_busy else 0) as beside:
            began = time.monotonic()
            failed = run(first, last, chosen)
            took = time.monotonic() - began
        failures.update(failed)
        what = f"rounds {first} to {last}, {beside}"
        print(f"{what}: {len(failed)} failed, {took:.0f} s", flush=True)
        is_busy = not is_busy
    for name, count in failures.most_common():
        print(f"{count:4} x {name}")
    print(f"{len(failures)} tests failed in {options.times} rounds")
    return bool(failures)


@contextmanager
def busy(count: int) -> Iterator[str]:
    """Keep *count* processes busy in the meantime."""
    with ExitStack() as stack:
        for _ in range(count):
            hog = stack.enter_context(subprocess.Popen(HOGGING))
            stack.callback(hog.kill)
        yield f"beside {count} busy processes" if count else "alone"


def run(first: int, last: int, chosen: list[str]) -> list[str]:
    """Run some rounds of the chosen tests; return the names of those that failed."""
    report = REPORTS / f"rounds-{first}.xml"
    report.unlink(missing_ok=True)
    rounds = f"--rounds={last - first + 1}"
    with (REPORTS / f"rounds-{first}.log").open("w") as log:
        command = [*PYTEST, rounds, f"--junitxml={report}", *chosen]
        code = subprocess.run(command, stdout=log, check=False).returncode
    failed = [
        f"{case.get('classname')}::{ROUND.sub('', case.get('name', ''))}"
        for case in ElementTree.parse(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return failed or ([f"pytest itself, exit code {code}"] if code else [])


if __name__ == "__main__":
    sys.exit(main())
