"""The marker by which `make steady` chooses its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
STARTS_PROCESSES, STARTS_NONE = "tests/cli/test_up.py", "tests/cli/test_text.py"
STARTS_NONE_IN_SUCH_A_FOLDER = "tests/faults/test_wrong_types.py"


def test_tests_that_start_processes_are_selected_by_their_marker() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    done = subprocess.run(
        [
            *(*command, "-m", "processes", STARTS_PROCESSES, STARTS_NONE),
            STARTS_NONE_IN_SUCH_A_FOLDER,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.returncode == 0, done.stdout
    assert f"{STARTS_PROCESSES}::" in done.stdout
    assert f"{STARTS_NONE}::" not in done.stdout
    assert f"{STARTS_NONE_IN_SUCH_A_FOLDER}::" not in done.stdout
