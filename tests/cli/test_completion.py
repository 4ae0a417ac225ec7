"""``kue completion``, and the words it completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.processes import run_kue
from tests.support.command_line import CommandLine
from tests.support.servers import black_hole


def completed(*words: str) -> list[str]:
    """Return what a shell would offer for the last of *words*."""
    asking = {
        "_KUE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["kue", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = run_kue(env=os.environ | asking, check=True)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.split()]


def offered(*words: str) -> list[str]:
    """Ask until the store answered within the half second that a shell waits."""
    deadline = time.monotonic() + 50
    while not (found := completed(*words)):
        assert time.monotonic() < deadline
    return found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(kue: CommandLine, shell: str) -> None:
    said = kue("completion", shell)

    assert said.code == 0
    assert f"{shell}_complete" in said.out
    assert "_KUE_COMPLETE" in said.out


def test_the_script_is_bash(kue: CommandLine, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = tmp_path / "kue.bash"
    script.write_text(kue("completion", "bash").out)

    subprocess.run([bash, "-n", str(script)], check=True)


def test_types_are_completed(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("job", "add", "export")
    kue("job", "add", "report")

    assert offered("queue", "pause", "e") == ["email", "export"]
    assert offered("queue", "--url", kue.url, "clear", "r") == ["report"]
    assert completed("workers", "pause", "") == []


def test_names_of_limits_are_completed(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("limit", "set", "stripe", "--concurrency", "5")
    kue("limit", "set", "mail", "--rate", "10/s")

    assert offered("limit", "show", "s") == ["stripe"]
    assert offered("job", "add", "email", "--limited-by", "m") == ["mail"]


def test_names_of_schedules_are_completed(kue: CommandLine) -> None:
    kue("schedule", "add", "nightly", "report", "--every", "1d")
    kue("schedule", "add", "sweep", "clean", "--every", "10m")

    assert offered("schedule", "pause", "n") == ["nightly"]
    assert offered("schedule", "show", "s") == ["sweep"]


def test_names_of_circuits_are_completed(kue: CommandLine) -> None:
    kue("job", "add", "pay")
    kue("circuit", "open", "stripe")
    kue("circuit", "open", "paypal")

    assert offered("circuit", "close", "s") == ["stripe"]


def test_verbs_states_and_priorities_are_completed() -> None:
    assert "retry" in completed("job", "re")
    assert completed("job", "list", "--state", "comp") == ["complete"]
    assert completed("job", "add", "email", "--priority", "h") == ["high"]


def test_a_store_that_is_not_there_completes_nothing_and_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUE_URL", f"sqlite:///{tmp_path / 'kue.db'}")

    assert completed("queue", "pause", "e") == []
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with black_hole() as port:
        monkeypatch.setenv("KUE_URL", f"redis://127.0.0.1:{port}/0")
        # One that waited for the store would be ended by the timeout of the test.
        monkeypatch.setenv("KUE_BUDGET", "10m")

        assert completed("queue", "pause", "e") == []
