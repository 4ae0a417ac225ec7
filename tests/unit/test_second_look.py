"""What `make test` does with a test that failed among others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAILS_ONCE = """
def test_it(request):
    mark = request.path.with_suffix(".seen")
    was_here = mark.exists()
    mark.touch()
    assert was_here
"""
FAILS = "def test_it(): assert False"
SKIPS = "import pytest\ndef test_it(): pytest.skip('no Redis')"


def run(folder: Path, *sources: str) -> subprocess.CompletedProcess[str]:
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "tools").symlink_to(ROOT / "tools")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")
    for number, source in enumerate(sources):
        (folder / f"test_{number}.py").write_text(source)
    return subprocess.run(
        ["bash", "tools/tests.sh"],
        cwd=folder,
        # Other plugins take long to load, and do nothing here.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_that_fails_once_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS_ONCE, "def test_it(): pass")

    assert done.returncode == 0
    assert done.stdout.endswith('please mend\n"test_0.py::test_it"\n')


def test_one_that_fails_twice_has_failed(tmp_path: Path) -> None:
    assert run(tmp_path, FAILS_ONCE, FAILS).returncode == 1


def test_one_that_is_skipped_has_failed(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPS).returncode == 1


def test_many_that_fail_are_not_run_again(tmp_path: Path) -> None:
    done = run(tmp_path, *[FAILS_ONCE] * 6)

    assert done.returncode == 1
    assert "once more" not in done.stdout


def test_what_cannot_be_collected_has_failed(tmp_path: Path) -> None:
    assert run(tmp_path, "no python").returncode == 2
