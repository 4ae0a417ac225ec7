"""Noticing changes of code, and of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kue.supervisor import source_watcher
from kue.supervisor.source_watcher import Reloader
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watcher, "POLL_SECONDS", 0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("app.py", "lib/part.py", "notes.txt", "__pycache__/app.py"):
        write(tmp_path / name, "1")
    for name in (".hidden/app.py", "env/pyvenv.cfg", "env/lib/app.py"):
        write(tmp_path / name, "1")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda at: write(at / "app.py", "22"), "app.py"),
        (lambda at: write(at / "lib/part.py", "22"), "lib/part.py"),
        (lambda at: write(at / "new/more.py", "1"), "new/more.py"),
        (lambda at: (at / "app.py").unlink(), "app.py"),
    ],
    ids=["changed", "deep", "new", "removed"],
)
async def test_a_change_of_a_python_file_is_noticed(
    folder: Path, change: Callable[[Path], None], name: str
) -> None:
    watcher = Reloader(str(folder))
    await watcher.begin()
    change(folder)

    async with asyncio.timeout(PATIENCE_SECONDS):
        changed = await watcher.changes()

    assert changed == [str(folder / name)]


@pytest.mark.parametrize(
    "name", ["notes.txt", "__pycache__/app.py", ".hidden/app.py", "env/lib/app.py"]
)
async def test_what_nobody_edits_is_not_looked_at(folder: Path, name: str) -> None:
    watcher = Reloader(str(folder))
    await watcher.begin()
    write(folder / name, "22")
    # Were it looked at, it would be among the changes.
    write(folder / "app.py", "22")

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await watcher.changes() == [str(folder / "app.py")]


async def test_a_folder_that_is_added_is_not_a_change(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write(elsewhere / "package.py", "1")
    watcher = Reloader(str(folder))
    await watcher.begin()
    await watcher.add(str(folder / "lib"))
    await watcher.add(str(elsewhere))
    write(elsewhere / "package.py", "22")

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await watcher.changes() == [str(elsewhere / "package.py")]
