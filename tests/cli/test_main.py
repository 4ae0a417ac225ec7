"""The command line: help, exit codes, and errors without a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kue
from kue.cli import main
from tests.support.root_logger import lent


def exit_code(*arguments: str) -> int:
    with lent(), pytest.raises(SystemExit) as stop:
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dance",), "No such command 'dance'"),
        (("doctor", "--fast"), "No such option"),
        (("demo", "--seconds", "0"), "0.0 is not in the range"),
        (("doctor", "postgres://localhost"), "names no store"),
        (("worker",), "Missing argument 'TARGET'"),
        (("worker", "app:"), "the target 'app:' cannot be read; write module:attri"),
        (("worker", "app:q", "--max-memory", "lots"), "'lots' is not an amount of mem"),
        (("worker", "app:q", "--grace", "soon"), "'soon' cannot be read"),
        (("worker", "app:q", "--processes", "0"), "'0' is not from 1 to 1000"),
    ],
)
def test_wrong_use_is_told_in_a_line_and_exits_with_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2

    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("kue: ")
    assert message in line


@pytest.mark.parametrize("command", ["bench", "doctor", "demo --port 0 --url"])
def test_a_store_that_cannot_be_reached_exits_with_3(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUE_BUDGET", "100ms")
    url = "redis://127.0.0.1:1/0"

    assert exit_code(*command.split(), url) == 3

    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("kue: redis://127.0.0.1:1")


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


def test_the_url_may_stand_before_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (f"sqlite:///{tmp_path / name}.db" for name in ("one", "two"))

    assert exit_code("--url", first, "job", "add", "email") == 0
    assert exit_code("--url", first, "job", "add", "sms", "--url", second) == 0
    capsys.readouterr()
    assert exit_code("--url", first, "job", "list") == 0

    [line] = capsys.readouterr().out.splitlines()
    assert line.split("\t")[1] == "email"


def test_a_url_before_a_command_that_does_not_take_it_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code("--url", "memory://", "worker", "app:q") == 2

    assert "kue worker takes no --url before its name" in capsys.readouterr().err


def test_importing_kue_does_not_look_for_its_version() -> None:
    code = "import sys, kue; assert 'importlib.metadata' not in sys.modules"

    subprocess.run([sys.executable, "-c", f"{code}; kue.__version__"], check=True)


def test_a_worker_imports_no_tables_and_a_dashboard_of_a_file_no_redis() -> None:
    code = """
import sys
import kue.cli.commands.worker
assert not {"rich", "kue.bus", "kue.http"} & set(sys.modules)
import kue.cli.commands.dashboard_server
assert not {"rich", "redis"} & set(sys.modules)
"""

    subprocess.run([sys.executable, "-c", code], check=True)
