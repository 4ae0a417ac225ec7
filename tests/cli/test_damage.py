"""Commands on a damaged store: an error of the store, an exit code, no traceback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.garbling import Column, garbled, prepare
from tests.support.command_line import CommandLine
from tests.support.engines import engine_at

pytestmark = pytest.mark.damages

#: A column, a wrong value, and a command that must read it.
DAMAGES = [
    (Column("limits", "limits"), "json", ("queue", "limit", "email")),
    (Column("limits", "limits"), "json", ("job", "list")),
    (Column("jobs", "priority"), "text", ("job", "show", "1")),
    (Column("jobs", "created_at"), "null", ("job", "list")),
    (Column("jobs", "type"), "blob", ("failed", "list")),
    (Column("meta", "value"), "text", ("job", "add", "email")),
    (Column("workers", "info"), "json", ("workers",)),
    (Column("stats", "waits"), "text", ("queue", "stats")),
    (Column("counts", "n"), "text", ("queue", "list")),
    (Column("kept", "value"), "utf8", ("user", "list")),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "kue.db"
    asyncio.run(prepare(path))
    return path


@pytest.mark.parametrize(
    ("column", "kind", "command"),
    DAMAGES,
    ids=[f"{'.'.join(column)}-{command[0]}" for column, _, command in DAMAGES],
)
def test_commands_report_damage_and_the_doctor_finds_it(
    sound: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    column: Column,
    kind: str,
    command: tuple[str, ...],
) -> None:
    """R-6: `kue doctor` died with a traceback, as did commands."""
    path = tmp_path / "kue.db"
    assert garbled(path, sound, column, kind)
    kue = CommandLine(engine_at("sqlite", f"sqlite:///{path}"), capsys, monkeypatch)

    told, found = kue(*command), kue("doctor")

    # A command may be able to do without the value; what it may not do is to die.
    assert told.code == 0 or "kue:" in told.err
    assert told.code in (0, 1)
    assert found.code == 1
    assert column.table in found.out + found.err
