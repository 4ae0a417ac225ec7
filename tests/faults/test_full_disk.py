"""A SQLite store on a disk that is really full: what it has goes on, and makes room."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kue.model.draft import draft
from kue.model.errors import StoreFull
from kue.model.job import State
from kue.store.contract import Store
from kue.store.sqlite import disk_reserve
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.load import TYPE, work_off
from tests.support.jobs import T0, add, count_of
from tests.support.schedules import every

DISK_BYTES = 24 * 1024 * 1024
#: What others have on the disk, and free in the end.
OTHERS_BYTES = 8 * 1024 * 1024
DATA = {"x": "x" * 4000}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own; mounting it takes root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    size = f"size={DISK_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    yield folder
    # Lazily: a test that failed may have left files open.
    subprocess.run(["umount", "--lazy", folder], check=True)


async def fill_up(store: Store, disk: Path) -> int:
    """Add jobs until no more are taken, and fill the disk; return how many jobs."""
    added = 0
    while await takes_more(store):
        added += 50
    fill(disk)
    return added


async def takes_more(store: Store) -> bool:
    try:
        await add(store, [draft(TYPE, DATA)] * 50)
    except StoreFull:
        return False
    return True


def fill(disk: Path, most: int = DISK_BYTES) -> None:
    """Let something else take up to *most* bytes, if need be all that is left."""
    with (disk / "junk").open("ab", buffering=0) as junk:
        for size in (65_536, 4096, 1):
            with contextlib.suppress(OSError):
                while junk.tell() < most:
                    junk.write(b"x" * size)


@pytest.mark.parametrize("removes", [True, False])
async def test_jobs_are_claimed_ended_and_removed_on_a_full_disk(
    disk: Path, new_store: NewStore, removes: bool
) -> None:
    """R-9: and the reserve that this takes is made again once there is room."""
    store = new_store(f"sqlite:///{disk / 'kue.db'}")
    fill(disk, OTHERS_BYTES)
    count = await fill_up(store, disk)
    kept = disk / "kue.db-reserve"
    assert kept.exists()

    ended = await work_off(store, removes=removes)

    assert ended == count > 500
    assert not kept.exists()
    with pytest.raises(StoreFull, match=r"the disk is full.*free some space"):
        await add(store, [draft(TYPE)])
    (disk / "junk").unlink()
    await add(store, [draft(TYPE)])
    assert kept.stat().st_size == disk_reserve.SIZE
    assert kept.stat().st_mode & 0o777 == 0o600
    await assert_sound(store)


async def test_removed_jobs_make_room_for_new_ones_in_the_file(
    disk: Path, new_store: NewStore
) -> None:
    """The store has the disk for itself: nobody else will free any space."""
    store = new_store(f"sqlite:///{disk / 'kue.db'}")
    count = await fill_up(store, disk)

    assert await work_off(store) == count

    assert await takes_more(store)
    again = 50 + await fill_up(store, disk)
    assert await work_off(store) == again
    await assert_sound(store)


async def test_a_store_is_opened_on_a_full_disk(
    disk: Path, new_store: NewStore
) -> None:
    """R-9: its log is gone with the last process, and there is no room for another."""
    url = f"sqlite:///{disk / 'kue.db'}"
    first = new_store(url)
    fill(disk, OTHERS_BYTES)
    count = await fill_up(first, disk)
    (disk / "junk").unlink()
    await first.close()
    assert not (disk / "kue.db-wal").exists()
    fill(disk)
    second = new_store(url)

    assert await count_of(second, TYPE) == {State.WAITING: count}
    with pytest.raises(StoreFull):
        await add(second, [draft(TYPE)])
    assert await work_off(second) == count
    await assert_sound(second)


async def test_without_a_reserve_a_full_disk_is_reported_and_harms_nothing(
    disk: Path, new_store: NewStore
) -> None:
    store = new_store(f"sqlite:///{disk / 'kue.db'}")
    fill(disk, OTHERS_BYTES)
    count = await fill_up(store, disk)
    (disk / "kue.db-reserve").unlink()
    fill(disk)

    with pytest.raises(StoreFull):
        await work_off(store, removes=False)

    (disk / "junk").unlink()
    await work_off(store, removes=False)
    assert await count_of(store, TYPE) == {State.COMPLETE: count}
    await assert_sound(store)


async def test_schedules_add_no_jobs_on_a_full_disk_and_stay_due(
    disk: Path, new_store: NewStore
) -> None:
    """R-9: new jobs must not use up what ends the others."""
    store = new_store(f"sqlite:///{disk / 'kue.db'}")
    # More than `fill_up` could not add: a little room may be left in the log.
    for number in range(20):
        large = draft("report", {"x": "x" * 15_000})
        await store.schedule(every(f"nightly {number}", "1h", large, first_at=T0))
    await fill_up(store, disk)

    on_a_full_disk = await store.tend(now=T0)
    (disk / "junk").unlink(missing_ok=True)
    await work_off(store)
    with_room = await store.tend(now=T0)

    assert (on_a_full_disk.fired, with_room.fired) == (0, 20)
    await assert_sound(store)
