"""The guide to KMQueue's API: its examples run, in ordinary code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.project.test_docs import DOCS, examples
from tests.support.patience import in_time

GUIDE = DOCS / "guides" / "kmqueue.md"


def run_examples() -> None:
    scope: dict[str, Any] = {}
    for example in examples(GUIDE):
        exec(compile(example.source, GUIDE.name, "exec"), scope)


def test_the_examples_do_what_the_text_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    # It pops without a timeout.
    in_time(run_examples)

    assert capsys.readouterr().out.splitlines() == [
        "to bob by carrier",
        "order-7 sms normal",
        "failed for good: worker2_queue order-8",
    ]
