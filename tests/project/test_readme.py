"""The README: its examples do what it says, as they are written."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.project.test_docs import KUE, ROOT, examples, run, shown, start, write
from tests.support.patience import PATIENCE_SECONDS

README = ROOT / "README.md"
EXAMPLES = examples(README)
APP, AWAITED, ORDINARY, SCHEDULED, FLOW, BUS = EXAMPLES


def command(beginning: str) -> list[str]:
    """Return the words of the one command that begins like that."""
    pattern = rf"^\$ ({re.escape(beginning)}.*)$"
    [line] = re.findall(pattern, README.read_text(), re.MULTILINE)
    return shlex.split(line)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(EXAMPLES, tmp_path)
    return tmp_path


def test_the_first_example_prints_what_is_shown(folder: Path) -> None:
    output = run(folder, sys.executable, "-W", "error", "app.py")

    assert output == shown(README, "python app.py")


def test_a_worker_runs_what_a_terminal_adds(folder: Path) -> None:
    _, *adding = command("kue job add")
    _, *working = command("kue worker")

    assert run(folder, KUE, *adding) == "1\n"
    with start(folder, KUE, *working) as worker:
        result = run(folder, KUE, "job", "wait", "1", "--timeout", "30s")
        worker.terminate()
        output, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert result == '"sent to bob@example.com"\n'
    assert (worker.returncode, output) == (0, "sending hi\n")


def test_code_adds_jobs_whether_it_awaits_or_not(folder: Path) -> None:
    body = AWAITED.source.replace("\n", "\n    ").rstrip()
    (folder / "awaited.py").write_text(
        "import asyncio\nfrom app import q, send_email\n"
        f"async def main():\n    {body}\n    await q.close()\nasyncio.run(main())\n"
    )
    (folder / "ordinary.py").write_text(
        f"from app import send_email\n{ORDINARY.source}"
    )

    run(folder, sys.executable, "awaited.py")
    run(folder, sys.executable, "ordinary.py")

    rows = [line.split("\t") for line in run(folder, KUE, "job", "list").splitlines()]
    assert sorted((row[2], row[6].split(",")[0]) for row in rows) == [
        ("delayed", '{"to":"cleo"'),
        ("waiting", '{"to":"dora"'),
        ("waiting", '{"to":"emil"'),
    ]


def test_a_worker_writes_what_recurs(folder: Path) -> None:
    (folder / "recurring.py").write_text(f"from app import q\n{SCHEDULED.source}")

    with start(folder, KUE, "worker", "recurring:q", "--burst") as worker:
        worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0
    [row] = run(folder, KUE, "schedule", "list").splitlines()
    assert row.split("\t")[:2] == ["digest", "every weekday at 9:00, Berlin"]


def test_jobs_pass_their_results_on(folder: Path) -> None:
    tasks, _, enqueue = FLOW.source.rpartition("\n\n\n")
    (folder / "flow.py").write_text(
        f"import asyncio\nimport kue\nfrom app import q\n{tasks}\n"
        f"async def main():\n    {enqueue.strip()}\n    await q.close()\n"
        "if __name__ == '__main__':\n    asyncio.run(main())\n"
    )

    run(folder, sys.executable, "flow.py")
    with start(folder, KUE, "worker", "flow:q", "--burst") as worker:
        worker.communicate(timeout=PATIENCE_SECONDS)

    assert run(folder, KUE, "job", "wait", "3", "--timeout", "30s") == (
        '"page 1, page 2"\n'
    )


def test_parts_of_a_program_ask_each_other(tmp_path: Path) -> None:
    body = BUS.source.replace("\n", "\n    ").rstrip()
    (tmp_path / "prices.py").write_text(
        f"import asyncio\nasync def main():\n    {body}\nasyncio.run(main())\n"
    )

    assert run(tmp_path, sys.executable, "-W", "error", "prices.py") == "3\n"
