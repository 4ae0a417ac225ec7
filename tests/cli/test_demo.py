"""``kue demo``: it runs anywhere, until it is ended, and what it advises works."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import httpx
import pytest

from kue.cli.commands.demo import DemoPlan
from kue.http.server.address import ListenAddress
from kue.http.server.serve import listen
from kue.model.errors import ConfigError
from kue.model.job import State
from tests.cli.processes import KUE, run_kue, start_kue
from tests.support.patience import PATIENCE_SECONDS

QUICK = ("--seconds", "8", "--jobs", "25")


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_kue("demo", *arguments, timeout=140)


def test_the_demo_runs_to_its_end() -> None:
    # More time than a burst takes: on a busy machine, all jobs must end as well.
    done = demo("--seconds", "24", "--jobs", "25")

    assert done.returncode == 0, done.stderr
    # Not first: another demo may have the usual port.
    assert "kue: 25 jobs in 24 seconds; " in done.stderr
    for word in ("complete", "failed_attempt", "promotion", "failed  "):
        assert f"  {word}" in done.stdout
    for type in ("email", "payment", "report", "thumbnail", "webhook"):
        assert type in done.stdout
    assert "What to try next:" in done.stdout
    assert "had not ended" not in done.stdout


def test_the_demo_stays_within_its_time() -> None:
    done = demo("--seconds", "1", "--jobs", "5000")

    assert done.returncode == 0, done.stderr
    assert "jobs had not ended when the time was over" in done.stdout


def test_jobs_that_were_not_added_in_time_have_not_ended() -> None:
    ended = dict.fromkeys(State, 0) | {State.COMPLETE: 2, State.WAITING: 1}

    assert DemoPlan(5, 1).unfinished({}) == 5
    assert DemoPlan(5, 1).unfinished({"email": ended}) == 3
    assert DemoPlan(None, None).unfinished({"email": ended}) == 0


def test_the_demo_keeps_its_jobs_where_it_is_told_to(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kue.db'}"
    assert demo("--url", url, *QUICK).returncode == 0

    doctor = run_kue("doctor", url)

    assert doctor.returncode == 0, doctor.stderr
    assert "checked 25 jobs; no problems found" in doctor.stderr


def test_without_end_the_demo_has_something_of_everything_until_ctrl_c() -> None:
    with start_kue("demo", "--port", "0") as process:
        assert process.stderr is not None
        address = next(
            line.split()[-1] for line in process.stderr if "dashboard is at" in line
        )
        url, _, token = address.partition("?token=")
        bearer = {"Authorization": f"Bearer {token}"}
        states = wait_for_life(url, bearer)
        answer = httpx.get(f"{url}api/v1/queues", headers=bearer, verify=False)
        queues = answer.json()["queues"]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0
    assert min(states[name] for name in LIFE) > 0
    assert {queue["type"] for queue in queues} >= {"email", "video", "newsletter"}
    [paused] = [queue for queue in queues if queue["pauses"]]
    assert paused["type"] == "newsletter"
    assert paused["pauses"][0]["reason"] == "the subject line is being checked"
    assert "What to try next:" in rest
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("sign", ["dashboard is at", "jobs until Ctrl-C"])
def test_however_it_is_ended_the_demo_leaves_no_folder(
    tmp_path: Path, number: signal.Signals, sign: str
) -> None:
    """Also when the signal comes before the first job."""
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    with start_kue("demo", "--port", "0", env=environ) as process:
        try:
            assert process.stderr is not None
            assert any(sign in line for line in process.stderr)
            assert list(tmp_path.glob("kue-demo-*"))
            process.send_signal(number)
            process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()

    assert process.returncode in (0, 130)
    assert list(tmp_path.iterdir()) == []


#: States that a dashboard full of life shows.
LIFE = ("waiting", "delayed", "blocked", "active", "complete", "failed")


def wait_for_life(url: str, bearer: dict[str, str]) -> dict[str, int]:
    """Return how many jobs are in each state, once there are some in all."""
    states: dict[str, int] = {}
    deadline = time.monotonic() + 50
    with httpx.Client(timeout=PATIENCE_SECONDS, headers=bearer, verify=False) as client:
        while time.monotonic() < deadline:
            states = client.get(f"{url}api/v1/stats").json()["counts"]
            if all(states.get(name) for name in LIFE):
                break
            time.sleep(0.2)
    return states


def test_the_demo_ends_after_its_time() -> None:
    done = demo("--seconds", "3", "--no-dashboard")

    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("kue: jobs for 3 seconds; ")
    assert "dashboard is at" not in done.stderr
    # Where nobody draws, how things stand is a line now and then.
    assert re.search(r"^\d\d:\d\d:\d\d  \d+ waiting", done.stdout, re.MULTILINE)


def take_port(stack: contextlib.ExitStack, port: int) -> None:
    """Listen there, once other tests do no longer; or leave it to someone who stays."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        with contextlib.suppress(ConfigError):
            stack.enter_context(listen(ListenAddress.of("127.0.0.1", port)))
            return
        time.sleep(0.1)


def test_a_port_that_is_taken_is_told_and_another_used() -> None:
    with contextlib.ExitStack() as stack:
        take_port(stack, 3000)
        done = demo("--seconds", "1", "--jobs", "1")

    assert "port 3000 is taken" in done.stderr
    assert "using a free port instead" in done.stderr
    assert "the dashboard is at http://127.0.0.1:" in done.stderr


def test_a_port_that_was_asked_for_is_not_replaced() -> None:
    with listen(ListenAddress.of("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = demo("--seconds", "1", "--jobs", "1", "--port", str(port))

    assert done.returncode == 2
    assert f"port {port} is taken; choose another" in done.stderr


def test_on_a_terminal_the_demo_draws_a_picture() -> None:
    ours, theirs = pty.openpty()
    environ = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "50"}
    with start_kue(
        "demo", *QUICK, stdout=theirs, stderr=theirs, env=environ
    ) as process:
        os.close(theirs)
        shown = read_all(ours)
        process.wait(timeout=PATIENCE_SECONDS)

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

    options = ("-q", "--port", "0")
    worker = subprocess.Popen([KUE, "up", "app:q", *options], cwd=tmp_path)
    try:
        done = subprocess.run(
            [sys.executable, "app.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    finally:
        worker.terminate()
        assert worker.wait(timeout=PATIENCE_SECONDS) == 0

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
