"""``kue doctor``: what it finds, what it mends, and what it exits with."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kue import Kue
from tests.cli.test_main import exit_code

#: The types jobs have are listed; a type that is not can be added again.
MENDABLE = "DELETE FROM types"
#: Nobody knows what the job was.
BEYOND_REPAIR = "UPDATE jobs SET body = '[bold]nonsense'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three jobs."""
    path = tmp_path / "kue.db"

    async def fill() -> None:
        async with Kue(f"sqlite:///{path}") as q:
            await q.enqueue_many("email", range(3))

    asyncio.run(fill())
    return path


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement).rowcount > 0


def test_a_sound_store_is_told_so(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("doctor", url) == 0

    captured = capsys.readouterr()
    assert captured.out == ""
    durability, summary = captured.err.splitlines()
    assert durability.startswith(f"kue: {url}: SQLite")
    assert summary == "kue: checked 3 jobs; no problems found"


def test_jobs_that_wait_for_a_failed_one_are_no_damage(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail() -> None:
        async with Kue(url) as q:

            @q.task(attempts=1)
            async def fetch() -> None:
                raise ValueError

            job = await fetch.enqueue()
            await q.enqueue("report", after=[job])
            await q.run(burst=True, signals=False)

    asyncio.run(fail())

    assert exit_code("doctor", url) == 0

    note = "note: 1 job waits for job 4 of type 'fetch', which failed: kue job retry 4"
    assert note in capsys.readouterr().err


def test_the_url_may_come_from_the_environment(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUE_URL", url)

    assert exit_code("doctor") == 0

    assert "checked 3 jobs" in capsys.readouterr().err


def test_a_finding_is_a_line_and_exits_with_1(
    path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(path, MENDABLE)

    assert exit_code("doctor", url) == 1

    captured = capsys.readouterr()
    lines = [line.split("\t") for line in captured.out.splitlines()]
    assert [(code, job_id) for code, job_id, _, _ in lines] == [
        ("unknown-type", "1"),
        ("unknown-type", "2"),
        ("unknown-type", "3"),
    ]
    assert lines[0][3].startswith("--repair would: ")
    assert captured.err.endswith(
        "kue: checked 3 jobs; 3 findings, 0 repaired, 3 left\n"
    )


@pytest.mark.parametrize(
    ("statement", "code", "repair", "summary"),
    [
        (MENDABLE, 0, "\tdone: ", "repaired all of 3 findings\n"),
        (BEYOND_REPAIR, 1, "\ta person must decide", " left\n"),
    ],
)
def test_repair_says_what_it_did_and_what_is_left_to_a_person(
    path: Path,
    url: str,
    capsys: pytest.CaptureFixture[str],
    statement: str,
    code: int,
    repair: str,
    summary: str,
) -> None:
    damage(path, statement)

    assert exit_code("doctor", "--repair", url) == code

    captured = capsys.readouterr()
    assert repair in captured.out
    assert captured.err.endswith(summary)
    assert exit_code("doctor", url) == code


def test_json_says_the_same(
    path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(path, MENDABLE)

    assert exit_code("doctor", "--json", url) == 1

    said = json.loads(capsys.readouterr().out)
    assert (said["store"], said["jobs"]) == (url, 3)
    assert said["durability"].startswith("SQLite")
    assert [finding["code"] for finding in said["findings"]] == ["unknown-type"] * 3
    assert said["findings"][0]["repaired"] is False


def test_json_of_a_sound_store_has_no_findings(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("doctor", "--json", url) == 0

    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_a_terminal_is_shown_a_table(
    path: Path,
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damage(path, MENDABLE)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")

    assert exit_code("doctor", url) == 1

    shown = capsys.readouterr().out
    assert "Problem" in shown
    assert "┃" in shown


def test_a_file_that_is_not_there_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "kuee.db"

    assert exit_code("doctor", f"sqlite:///{missing}") == 2

    assert capsys.readouterr().err == (
        f"kue: there is no store {missing}; is the URL right? "
        "The first job creates it\n"
    )
    assert not missing.exists()
