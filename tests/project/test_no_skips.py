"""The plugin that makes a skipped test a failed one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = {
    "by a mark": "@pytest.mark.skip(reason='no Redis')\ndef test_it(): pass",
    "by a condition": "@pytest.mark.skipif(True, reason='x')\ndef test_it(): pass",
    "inside": "def test_it(): pytest.skip('not today')",
    "by an import": "pytest.importorskip('no_such_module')\ndef test_it(): pass",
}


def run(folder: Path, source: str, *options: str) -> int:
    (folder / "test_it.py").write_text(f"import pytest\n{source}\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    return subprocess.run(
        command,
        cwd=ROOT,
        # Other plugins take long to load, and do nothing here.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        check=False,
    ).returncode


@pytest.mark.parametrize("way", SKIPPED)
def test_a_skipped_test_has_failed(way: str, tmp_path: Path) -> None:
    assert run(tmp_path, SKIPPED[way], "-p", "tools.no_skips") != 0


def test_without_it_a_skipped_test_goes_unnoticed(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPPED["by a mark"]) == 0


def test_an_expected_failure_is_not_a_skip(tmp_path: Path) -> None:
    source = "@pytest.mark.xfail(strict=True)\ndef test_it(): assert False"

    assert run(tmp_path, source, "-p", "tools.no_skips") == 0
