"""The tests that the guide shows pass."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.project.test_docs import DOCS, run

_FILE = re.compile(r"^```py title=\"(.+?)\"\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_files_of_the_guide_are_a_suite_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, source in _FILE.findall((DOCS / "guides/testing.md").read_text()):
        (tmp_path / name).write_text(source)
    # No plugin is needed, and they take longer to import than the tests to run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    output = run(tmp_path, sys.executable, "-m", "pytest", "-q")

    assert "3 passed" in output
