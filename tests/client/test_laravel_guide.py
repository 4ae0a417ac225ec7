"""The guide to Laravel's queues: its programs do what the text says of them."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import kue
from kue.model.job import Completed, Released
from tests.client.test_ready_middleware import active, ended
from tests.project.test_docs import DOCS, KUE, examples, run, start, write
from tests.support.patience import PATIENCE_SECONDS, in_time
from tests.support.servers import RedisServer

pytestmark = pytest.mark.usefixtures("no_connections")
GUIDE = DOCS / "guides" / "laravel.md"
STORE = "sqlite:///reminders.db"
#: The message of an error, of which the guide shows the beginning.
SHOWN = re.compile(r"^(the URL .+|there is no connection .+?)…$", re.MULTILINE)


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield STORE
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    # Other tests of this server may have left jobs.
    server.empty()
    yield server.url
    server.empty()


def run_programs(url: str, *, until: str = "") -> dict[str, Any]:
    """Run the programs of the page up to the one that has *until*; return its names."""
    scope: dict[str, Any] = {}
    for title, source in examples(GUIDE):
        if not title:
            code = compile(source.replace(STORE, url), GUIDE.name, "exec")
            try:
                exec(code, scope)
            except AssertionError as error:
                error.add_note(f"{source}\n{overview(scope['q'])}")
                raise
        if until and until in source:
            break
    return scope


def overview(q: kue.Kue) -> str:
    """Return what may tell why a program's assertion does not hold."""
    counts, paused = q.sync.counts_by_type(), q.sync.paused()
    return f"jobs: {counts}\npaused: {paused}\nworkers: {q.sync.workers()}"


def close_queues(scope: dict[str, Any]) -> None:
    """Close the queues of the programs, as the end of each program does."""
    for one in scope.values():
        if isinstance(one, kue.Kue):
            one.sync.close()


async def checked(q: kue.Kue) -> None:
    async with q:
        assert (await q.store.check()).findings == ()


def test_the_programs_do_what_the_text_says_on_every_engine(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    # It waits for jobs, and pops them.
    scope = in_time(lambda: run_programs(url))

    assert {"send_reminder_email", "charge", "send_sms", "done"} <= scope.keys()
    url_error, name_error, *_ = capsys.readouterr().out.splitlines()
    [url_shown, name_shown] = SHOWN.findall(GUIDE.read_text())
    assert url_error.startswith(url_shown)
    assert name_error.startswith(name_shown)
    close_queues(scope)
    asyncio.run(checked(scope["q"]))


async def test_the_window_of_the_guide_lets_jobs_run_by_day_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scope = await asyncio.to_thread(run_programs, STORE, until="daytime =")
    noon = datetime(2026, 11, 18, 12, tzinfo=ZoneInfo("Asia/Shanghai"))
    evening, opening = noon.replace(hour=21), noon.replace(day=19, hour=9)

    by_day = await ended(scope["daytime"], job=at(noon))
    at_night = await ended(scope["daytime"], job=at(evening))

    assert by_day == Completed("ran")
    assert isinstance(at_night, Released)
    assert at_night.delay == (opening - evening).total_seconds() * 1000
    assert not at_night.counts
    await scope["q"].close()
    await asyncio.to_thread(close_queues, scope)


def at(moment: datetime) -> kue.ActiveJob:
    return active(int(moment.timestamp() * 1000))


def test_a_job_whose_process_is_killed_is_not_lost_nor_spends_an_attempt(
    tmp_path: Path,
) -> None:
    write(examples(GUIDE), tmp_path)
    assert run(tmp_path, sys.executable, "crash.py") == "1\n"

    with start(tmp_path, KUE, "worker", "crash:q") as worker:
        waiting = (KUE, "job", "wait", "1", "--url", "sqlite:///crash.db")
        result = run(tmp_path, *waiting)
        worker.terminate()
        _, log = worker.communicate(timeout=PATIENCE_SECONDS)

    assert result == '"reminded 6, in attempt 1"\n'
    assert f"$ {' '.join(('kue', *waiting[1:]))}\n{result}" in GUIDE.read_text()
    assert "was killed by SIGKILL" in log
