"""The command line: help, exit codes, and errors without a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kue
from kue.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0

    assert capsys.readouterr().out == f"kue {kue.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_the_help_teaches(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 0

    shown = capsys.readouterr().out
    for word in ("kue demo", "$KUE_URL", "sqlite:///kue.db", "Exit codes:", "doctor"):
        assert word in shown


@pytest.mark.parametrize("command", ["doctor", "demo"])
def test_every_command_tells_its_exit_codes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(command, "--help") == 0

    assert "3  the store cannot be reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dance",), "No such command 'dance'"),
        (("doctor", "--fast"), "No such option"),
        (("demo", "--seconds", "0"), "0.0 is not in the range"),
        (("doctor", "postgres://localhost"), "no store can be made of the URL"),
    ],
)
def test_wrong_use_is_told_in_a_line_and_exits_with_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2

    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("kue: ")
    assert message in line


@pytest.mark.parametrize("command", ["doctor", "demo"])
def test_a_store_that_cannot_be_reached_exits_with_3(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUE_BUDGET", "100ms")
    url = "redis://127.0.0.1:1/0"

    assert exit_code(command, *(["--url"] if command == "demo" else []), url) == 3

    captured = capsys.readouterr()
    assert captured.err.startswith("kue: redis://127.0.0.1:1")
    assert "Traceback" not in captured.err


def test_a_file_that_is_no_store_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kue.db"
    path.write_bytes(b"not a database at all " * 500)

    assert exit_code("doctor", f"sqlite:///{path}") == 1

    captured = capsys.readouterr()
    assert captured.err.startswith("kue: ")
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("url", ["redis://[bad", "redis://ann:hunter2@[::1/0"])
@pytest.mark.parametrize("arguments", [("queue", "list"), ("doctor",), ("dashboard",)])
def test_s_8_a_malformed_url_is_wrong_use(
    url: str,
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUE_URL", url)

    assert exit_code(*arguments) == 2

    said = capsys.readouterr().err
    assert "is malformed" in said
    assert "hunter2" not in said
    assert "Traceback" not in said
