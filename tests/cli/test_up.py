"""``kue up``: workers and dashboard begin and end together."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kue
from tests.faults.supervised import children_of
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.site import APP, Command, command, get


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def queue(folder: Path) -> kue.Kue:
    return kue.Kue(f"sqlite:///{folder}/kue.db")


@pytest.fixture
async def up(folder: Path) -> AsyncIterator[Command]:
    """Workers and a dashboard at work."""
    async with command("up", "app:q", "--port", "0", folder=folder) as up:
        yield up


def dashboard_of(up: Command) -> int:
    """Return the pid of the dashboard, which was started first."""
    return children_of(up.process.pid)[0]


async def test_one_command_runs_jobs_and_shows_them(folder: Path, up: Command) -> None:
    async with queue(folder) as q:
        url = await up.url()
        await up.says("works on app:q")
        job = await q.enqueue("nap", {"alarm": "app.py"})
        result = await job.result(timeout=PATIENCE_SECONDS)
        shown = await up.get(f"api/v1/jobs/{job.id}")
        workers = await up.get("api/v1/workers")
        code = await up.end(signal.SIGINT)

    assert (result, shown.json()["state"]) == ("rested", "complete")
    assert len(workers.json()["workers"]) == 1
    assert code == 0
    assert up.said.count("works on app:q") == 1
    assert f"dashboard  {url}?token=" in up.said
    assert up.said.startswith(f"kue: the dashboard is at {url}?token=")


async def test_the_dashboard_stays_while_jobs_end(folder: Path, up: Command) -> None:
    async with queue(folder) as q:
        url = await up.url()
        job = await q.enqueue("nap", {"alarm": "alarm"})
        # A job that is claimed but has not begun would be requeued.
        await until((folder / "alarm.set").exists)

        up.process.send_signal(signal.SIGTERM)
        await up.says("stopping: jobs may end")
        health = await get(f"{url}api/v1/health")
        (folder / "alarm").touch()
        code = await up.ended()

        assert (health.status_code, code) == (200, 0)
        assert (await job.refresh()).state == "complete"


async def test_a_dashboard_that_dies_is_started_anew_at_the_same_place(
    up: Command,
) -> None:
    url = await up.url()
    assert (await get(f"{url}api/v1/health")).status_code == 200

    os.kill(dashboard_of(up), signal.SIGKILL)
    await up.says("the dashboard exited with code -9: restarting it")
    again = await up.get("api/v1/queues")
    code = await up.end()

    assert (again.status_code, code) == (200, 0)


async def test_without_its_parent_the_dashboard_ends(up: Command) -> None:
    url = await up.url()
    assert (await get(f"{url}api/v1/health")).status_code == 200
    children = children_of(up.process.pid)

    assert await up.end(signal.SIGKILL) == -9
    await until(lambda: not any(map(is_alive, children)))


async def test_code_that_cannot_be_worked_on_ends_both(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import kue\nq = kue.Kue('sqlite:///kue.db')\n")
    async with command("up", "app:q", "--port", "0", folder=tmp_path) as up:
        code = await up.ended()

    assert code == 1
    assert "cannot run the jobs of app:q" in up.said


async def test_an_address_that_others_reach_needs_a_user(folder: Path) -> None:
    options = ("--host", "0.0.0.0", "--port", "0")
    async with command("up", "app:q", *options, folder=folder) as up:
        code = await up.ended()

    assert code == 2
    assert "other machines can reach 0.0.0.0" in up.said
    assert "kue up app:q --host 0.0.0.0" in up.said


async def test_jobs_that_no_other_process_sees_are_told(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.replace("sqlite:///kue.db", "memory://"))
    async with command("up", "app:q", "--port", "0", folder=tmp_path) as up:
        code = await up.ended()

    assert code == 2
    assert "are visible only in their own process" in up.said


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
