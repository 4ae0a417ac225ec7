"""Files that an earlier Kue wrote are brought up to date when they are opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kue.store.sqlite.connection import connect
from kue.store.sqlite.file_url import FileLocation
from kue.store.sqlite.schema import APPLICATION_ID, MIGRATIONS


def tables(db: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = db.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return sorted(rows.fetchall())


def rows(db: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    return sorted(db.execute(f"SELECT * FROM {table}").fetchall())


def make(path: Path, version: int) -> None:
    """Write an empty file as the Kue did that knew *version* migrations."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript("".join(MIGRATIONS[:version]))
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_an_older_file_becomes_what_a_new_one_is(tmp_path: Path, version: int) -> None:
    make(tmp_path / "old.db", version)
    with closing(sqlite3.connect(tmp_path / "old.db")) as db:
        db.execute("INSERT INTO types (name) VALUES ('email')")
        db.commit()

    with (
        closing(
            connect(FileLocation.of(f"sqlite:///{tmp_path}/old.db"), budget=5)
        ) as old,
        closing(
            connect(FileLocation.of(f"sqlite:///{tmp_path}/new.db"), budget=5)
        ) as new,
    ):
        assert tables(old) == tables(new)
        assert rows(old, "meta") == rows(new, "meta") != []
        assert old.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert old.execute("SELECT name FROM types").fetchall() == [("email",)]
