"""The tests that the guide shows pass."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.project.test_docs import DOCS, run

_FILE = re.compile(r"^```py title=\"(.+?)\"\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_files_of_the_guide_are_a_suite_that_passes(tmp_path: Path) -> None:
    found = _FILE.findall((DOCS / "guides/testing.md").read_text())
    for name, source in found:
        (tmp_path / name).write_text(source)

    # None of the plugins that tests of ours have.
    plain = (f"-pno:{name}" for name in ("asyncio", "cacheprovider", "xdist"))
    output = run(tmp_path, sys.executable, "-m", "pytest", "-q", *plain)

    assert [name for name, _ in found if name == "conftest.py"]
    assert "3 passed" in output
