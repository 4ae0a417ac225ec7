"""``kue demo``: it runs to its end, anywhere, and what it advises works."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

KUE = str(Path(sys.executable).with_name("kue"))
QUICK = ("--seconds", "3", "--jobs", "25")


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KUE, "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_the_demo_runs_to_its_end() -> None:
    done = demo(*QUICK)

    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("kue: 25 jobs in 3 seconds; ")
    for word in ("complete", "failed_attempt", "promotion", "failed  "):
        assert f"  {word}" in done.stdout
    for type in ("email", "payment", "report", "thumbnail"):
        assert type in done.stdout
    assert "What to try next:" in done.stdout
    assert "had not ended" not in done.stdout


def test_the_demo_stays_within_its_time() -> None:
    done = demo("--seconds", "1", "--jobs", "500")

    assert done.returncode == 0, done.stderr
    assert "jobs had not ended when the time was over" in done.stdout


def test_the_demo_keeps_its_jobs_where_it_is_told_to(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kue.db'}"
    assert demo("--url", url, *QUICK).returncode == 0

    doctor = subprocess.run(
        [KUE, "doctor", url], capture_output=True, text=True, timeout=50, check=False
    )

    assert doctor.returncode == 0, doctor.stderr
    assert "looked at 25 jobs; all is well" in doctor.stderr


def test_ctrl_c_ends_the_demo_cleanly() -> None:
    with subprocess.Popen(
        [KUE, "demo", "--seconds", "40"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        # The first line on stdout is an event: it is under way.
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)

    assert process.returncode == 0
    assert first
    assert "What to try next:" in rest
    assert "Traceback" not in errors


def test_on_a_terminal_the_demo_draws_a_picture() -> None:
    ours, theirs = pty.openpty()
    environ = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "50"}
    with subprocess.Popen(
        [KUE, "demo", *QUICK], stdout=theirs, stderr=theirs, env=environ
    ) as process:
        os.close(theirs)
        shown = read_all(ours)
        process.wait(timeout=30)

    assert process.returncode == 0
    # Drawn over and over: the titles come again and again.
    assert shown.count("Running") > 5
    assert "%" not in shown.split("What to try next:")[0].split("Running")[0]
    assert "━" in shown


def test_what_the_demo_advises_works(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kue.db'}"
    shown = demo("--url", url, "--seconds", "1", "--jobs", "1").stdout
    code = shown[shown.index("    import kue") : shown.index("then, in one terminal")]
    (tmp_path / "app.py").write_text(textwrap.dedent(code))

    worker = subprocess.Popen([KUE, "worker", "app:q", "-q"], cwd=tmp_path)
    try:
        done = subprocess.run(
            [sys.executable, "app.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
    finally:
        worker.terminate()
        assert worker.wait(timeout=20) == 0

    assert (done.stdout, done.returncode) == ("hello world\n", 0), done.stderr


def read_all(descriptor: int) -> str:
    """Read what a terminal shows until nobody writes to it any more."""
    chunks: list[bytes] = []
    while True:
        try:
            chunk = os.read(descriptor, 65_536)
        except OSError:
            # Linux says so when the other end is closed.
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(descriptor)
    return b"".join(chunks).decode(errors="replace")
