"""The guide to `q.sync`: its examples run, in ordinary code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.project.test_docs import DOCS, examples

GUIDE = DOCS / "guides" / "sync.md"


def test_the_examples_run_one_after_the_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}

    for example in examples(GUIDE):
        exec(compile(example.source, GUIDE.name, "exec"), scope)
    asyncio.run(scope["q"].close())

    said = capsys.readouterr().out
    assert "did not end within 0.1 s" in said
    assert "{'image': 3, 'width': 100}" in said
    # 2,000 rows, and 3 more.
    assert said.endswith("2003\n")
