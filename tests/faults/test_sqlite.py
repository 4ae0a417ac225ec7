"""A SQLite file whose processes are killed, whose lock is taken, whose disk is full."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import RemoveRequest
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.garbling import CALLS, prepare, store_at
from tests.faults.load import fill_up, work_off
from tests.faults.processes import Process
from tests.faults.program import TYPE
from tests.faults.scene import READS, WRITES, Scene, Verb, build
from tests.support.jobs import add, add_many, count_of, get_many

BUDGET_SECONDS = 2.0
#: What a busy machine may add.
MARGIN_SECONDS = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kue.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def store_options() -> dict[str, Any]:
    return {"budget": BUDGET_SECONDS}


async def test_a_process_killed_while_it_writes_leaves_a_sound_file(
    store: Store, url: str, prefix: str
) -> None:
    acknowledged: list[int] = []
    for number in range(3):
        async with Process("add", url, prefix, f"p{number}") as producer:
            for _ in range(100 + 37 * number):
                acknowledged += map(int, (await producer.line()).split())
            producer.kill()

    await get_many(store, acknowledged)


async def test_a_process_killed_while_it_writes_does_not_hold_up_others(
    store: Store, url: str, prefix: str
) -> None:
    async with (
        Process("add", url, prefix, "victim") as victim,
        Process("add", url, prefix, "survivor") as survivor,
    ):
        await victim.line()
        victim.kill()

        lines = [await asyncio.wait_for(survivor.line(), 50) for _ in range(20)]

    assert all(lines)


async def test_a_file_locked_by_someone_else_is_given_up_in_time(
    store: Store, path: Path
) -> None:
    scene = await build(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        faults = await asyncio.gather(*(give_up(store, scene, v) for v in WRITES))

    assert "\n".join(filter(None, faults)) == ""


async def give_up(store: Store, scene: Scene, verb: str) -> str:
    """Return what is wrong with how *verb* gives up; nothing if nothing is."""
    try:
        async with asyncio.timeout(BUDGET_SECONDS + MARGIN_SECONDS):
            await WRITES[verb](store, scene)
    except TimeoutError:
        return f"{verb} hangs"
    except StoreUnavailable as exc:
        is_clear = "locked" in str(exc) and "find that process" in str(exc)
        return "" if is_clear else f"{verb} does not say what to do: {exc}"
    return f"{verb} claims to have worked"


async def test_a_file_locked_by_someone_else_can_still_be_read(
    store: Store, path: Path
) -> None:
    scene = await build(store)
    reads = {name: READS[name] for name in READS if name not in ("watch", "check")}
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        for read in reads.values():
            async with asyncio.timeout(BUDGET_SECONDS + MARGIN_SECONDS):
                await read(store, scene)


async def test_a_lock_that_is_let_go_within_the_budget_is_waited_for(
    new_store: NewStore, url: str, path: Path
) -> None:
    store = new_store(url, budget="10s")
    await store.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        adding = asyncio.create_task(add_many(store, 3))
        # Long enough for the add to run into the lock, and to try again.
        await asyncio.sleep(0.2)
        assert not adding.done()

        other.execute("ROLLBACK")
        await adding

    assert await count_of(store) == {State.WAITING: 3}
    await assert_sound(store)


class SmallDisk(sqlite3.Connection):
    """A connection to a file that cannot grow beyond about a megabyte."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.execute("PRAGMA max_page_count = 256")


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=SmallDisk))


async def test_a_full_disk_refuses_new_jobs_and_says_why(
    small_disk: None, store: Store
) -> None:
    count = await fill_up(store)

    with pytest.raises(StoreFull, match=r"full.*free some space"):
        await add(store, [draft(TYPE, {"x": "x" * 50_000})])

    # What was refused left nothing behind, and what was taken is all there.
    assert await count_of(store, TYPE) == {State.WAITING: count}


async def test_jobs_go_on_while_the_disk_is_full_and_make_room(
    small_disk: None, store: Store
) -> None:
    count = await fill_up(store)

    assert await work_off(store, limit=10) == count
    assert await fill_up(store) > 0


async def test_a_file_that_is_not_a_database_is_recognised(
    path: Path, new_store: NewStore, url: str
) -> None:
    with path.open("w") as file:
        file.write("Dear diary, nothing happened today. " * 100)

    with pytest.raises(StoreCorrupt, match=r"not a database.*restore a backup"):
        await new_store(url).open()

    with path.open() as file:
        assert file.read().startswith("Dear diary")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scene]:
    path = tmp_path_factory.mktemp("sound") / "kue.db"
    return path, asyncio.run(prepare(path, jobs=500))


@pytest.mark.damages
@pytest.mark.parametrize("seed", range(10))
async def test_a_damaged_file_raises_and_never_anything_else(
    prepared: tuple[Path, Scene], path: Path, seed: int
) -> None:
    """R-6: bytes that rot anywhere in the file end in a StoreError or in nothing."""
    sound, scene = prepared
    shutil.copyfile(sound, path)
    rot(path, Random(seed))
    store = store_at(path)

    answers = [await answer_of(verb, store, scene) for verb in CALLS.values()]
    answers.append(await answer_of(lambda store, _: store.check(), store, scene))
    await store.close()

    surprises = [answer for answer in answers if not isinstance(answer, StoreError)]
    assert [repr(exc) for exc in surprises if exc is not None] == []


async def answer_of(verb: Verb, store: Store, scene: Scene) -> Exception | None:
    try:
        await verb(store, scene)
    except Exception as exc:
        return exc
    return None


def test_the_file_that_rots_is_the_same_each_time(
    prepared: tuple[Path, Scene], path: Path
) -> None:
    """R-18: a seed that failed once fails again."""
    asyncio.run(prepare(path, jobs=500))

    assert path.read_bytes() == prepared[0].read_bytes()


@pytest.mark.parametrize("state", ["acti\udce4e", "gone fishing"])
async def test_a_job_in_a_state_that_there_is_not_is_damage(
    path: Path, new_store: NewStore, url: str, state: str
) -> None:
    store = new_store(url)
    [job_id] = await add_many(store, 1, TYPE)
    await store.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        text = state.encode("utf-8", "surrogateescape")
        db.execute("UPDATE jobs SET state = CAST(? AS TEXT)", [text])
    rotten = new_store(url)

    with pytest.raises(StoreError):
        await rotten.remove(RemoveRequest([job_id]))
    with pytest.raises(StoreError):
        await rotten.cancel([job_id])


def rot(path: Path, random: Random) -> None:
    """Change some bytes, anywhere but in the first ones, which say what file it is."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        for _ in range(40):
            file.seek(random.randrange(100, size))
            file.write(bytes([random.randrange(256)]))
