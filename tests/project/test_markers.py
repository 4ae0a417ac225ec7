"""The marker by which `make steady` chooses its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

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


def test_every_test_runs_as_often_as_there_are_rounds(tmp_path: Path) -> None:
    source = """
        import pytest
        RUNS = []

        def test_plain(): RUNS.append("plain")

        @pytest.mark.parametrize("letter", "ab")
        def test_letter(letter): RUNS.append(letter)

        def teardown_module(): assert sorted(RUNS) == [*"aaabbb", *["plain"] * 3]
    """
    (tmp_path / "test_it.py").write_text(dedent(source))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plugin = ("-p", "tools.rounds", "--rounds", "3")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout
