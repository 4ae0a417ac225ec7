"""Where a file store is: URLs that name a place, and places that cannot be used."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kue.model.errors import ConfigError, StoreRefused
from kue.store.sqlite import schema
from kue.store.sqlite.file_url import FileLocation
from kue.store.sqlite.store import SqliteStore
from tests.support.jobs import add_one, state_of


@pytest.fixture
def lax_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: mode_of(path) for path in folder.iterdir()}


async def test_a_new_file_and_those_beside_it_are_for_their_owner_alone(
    tmp_path: Path, lax_umask: None
) -> None:
    """S-7: it holds payloads and password hashes."""
    store = SqliteStore.from_url(f"sqlite:///{tmp_path / 'kue.db'}")

    await add_one(store)

    files = modes_in(tmp_path)
    assert files.keys() >= {"kue.db", "kue.db-wal", "kue.db-shm"}
    assert set(files.values()) == {0o600}
    await store.close()


async def test_a_link_to_a_file_that_is_not_there_makes_one_for_its_owner_alone(
    tmp_path: Path, lax_umask: None
) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "kue.db")
    store = SqliteStore.from_url(f"sqlite:///{tmp_path / 'link.db'}")

    await add_one(store)

    assert mode_of(tmp_path / "kue.db") == 0o600
    await store.close()


async def test_a_file_that_is_there_keeps_its_mode(
    tmp_path: Path, lax_umask: None
) -> None:
    path = tmp_path / "kue.db"
    path.touch(mode=0o660)
    store = SqliteStore.from_url(f"sqlite:///{path}")

    await add_one(store)

    modes = {mode_of(tmp_path / name) for name in ("kue.db", "kue.db-wal")}
    assert modes == {0o660}
    await store.close()


def test_three_slashes_name_a_file_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert (
        FileLocation.of("sqlite:///data/my%20jobs.db").path
        == tmp_path / "data/my jobs.db"
    )


def test_four_slashes_name_a_file_anywhere() -> None:
    assert FileLocation.of("sqlite:////var/lib/kue.db").path == Path("/var/lib/kue.db")


def test_memory_is_no_file() -> None:
    assert FileLocation.of("memory://").path is None


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("sqlite://kue.db", "sqlite:///kue.db"),
        ("sqlite:///", "sqlite:///kue.db"),
        ("sqlite:kue.db", "sqlite:///kue.db"),
        ("sqlite:///kue.db?mode=ro", "takes none"),
        ("sqlite:///:memory:", "memory://"),
        ("memory://mine", "memory:// alone"),
    ],
)
def test_a_url_that_names_no_place_is_refused_with_advice(
    url: str, advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        SqliteStore.from_url(url)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    store = SqliteStore.from_url(f"sqlite:///{tmp_path}/nowhere/kue.db")

    with pytest.raises(ConfigError, match=f"no folder {tmp_path}/nowhere"):
        await store.open()
    with pytest.raises(ConfigError, match="no folder"):
        await store.count()
    await store.close()


async def test_a_folder_is_no_store(tmp_path: Path) -> None:
    store = SqliteStore.from_url(f"sqlite:///{tmp_path}")

    with pytest.raises(ConfigError, match="is a folder; name a file in it"):
        await store.open()
    await store.close()


def test_a_folder_that_may_not_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superuser may write anywhere, so the answer of the system is forced."""
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(ConfigError, match=f"may not write to {tmp_path}"):
        FileLocation.of(f"sqlite:///{tmp_path}/kue.db").check()


async def test_a_store_that_could_not_be_opened_can_be_once_the_folder_is_there(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "later"
    store = SqliteStore.from_url(f"sqlite:///{folder}/kue.db")
    with pytest.raises(ConfigError):
        await store.open()

    folder.mkdir()

    assert str(folder) in await store.open()
    await store.close()


async def test_the_file_of_another_program_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (x)")
    before = path.read_bytes()
    store = SqliteStore.from_url(f"sqlite:///{path}")

    with pytest.raises(StoreRefused, match="another program"):
        await store.open()
    await store.close()

    assert path.read_bytes() == before


def test_an_old_sqlite_is_refused_with_advice() -> None:
    with pytest.raises(StoreRefused, match=r"3\.38\.0 or newer.*3\.31\.1.*redis"):
        schema.check_engine((3, 31, 1))


async def test_a_file_deleted_while_in_use_is_made_anew(tmp_path: Path) -> None:
    """Otherwise this process would go on writing into a file that nobody can open."""
    url = f"sqlite:///{tmp_path}/kue.db"
    store, other = SqliteStore.from_url(url), SqliteStore.from_url(url)
    old = await add_one(store)
    for name in ("kue.db", "kue.db-wal", "kue.db-shm"):
        os.unlink(tmp_path / name)

    new = await add_one(store)

    assert (old, new) == (1, 1)
    assert await state_of(other, new) is not None
    await store.close()
    await other.close()
