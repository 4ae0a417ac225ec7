"""What all commands share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kue.cli.output.console import print_message, program


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program in an environment of its own, which it was started from."""
    path = tmp_path / ".venv" / "bin" / "kue"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("PATH", "/nowhere")
    return path


def test_advice_names_the_program_as_it_can_be_typed_here(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert program() == ".venv/bin/kue"

    monkeypatch.chdir("/")
    assert program() in (str(started), str(started.relative_to("/")))

    monkeypatch.setenv("PATH", str(started.parent))
    assert program() == "kue"


def test_a_program_that_is_another_one_calls_us_by_our_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/lib/python3/pytest/__main__.py"])

    assert program() == "kue"


def test_a_message_stays_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    print_message("first\nkue: second\x1b")

    assert capsys.readouterr().err == "kue: first\n     kue: second\\x1b\n"
