"""What a check finds in a damaged file, and what it mends there without guessing."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.job import Completed, Error, Failed, State
from kue.store.sqlite.store import SqliteStore
from kue.store.values import Limits, LogLine, Report
from tests.support.flows import add_linked, linked
from tests.support.jobs import (
    OOPS,
    T0,
    add_one,
    claim_ids,
    claim_one,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.schedules import every
from tests.support.upkeep import tend


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kue.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.from_url(f"sqlite:///{path}")
    yield store
    await store.close()


async def fill(store: SqliteStore) -> None:
    """
    Bring one job, 1 to 14, into each plight that a damage below is about.

    1 waiting with a key, 2 delayed, 3 active, 4 complete, 5 failed and waited for by 6,
    7 to 9 of a group that runs one at a time (9 was set aside), 10 waits for 2, 11 is
    of a fair type, 12 of one with ageing, 14 a member of the flow of 13.
    """
    await store.limit("grouped", Limits(per_key=1), now=T0)
    await store.limit("fair", Limits(fair=True), now=T0)
    await store.limit("ageing", Limits(ageing=1000), now=T0)
    await add_one(store, "keyed", unique="k")
    await job_in(store, State.DELAYED, "delayed")
    await start_one(store, "active", attempts=3)
    await job_in(store, State.COMPLETE, "complete")
    await job_in(store, State.FAILED, "failed")
    await add_one(store, "child", after=[5])
    for _ in range(3):
        await add_one(store, "grouped", group="g")
    assert await claim_ids(store, "grouped") == [7]
    await add_one(store, "child", after=[2])
    await add_one(store, "fair", priority=5)
    await add_one(store, "ageing")
    await add_linked(store, linked("flow"), linked("member", flow=-1))
    await store.log(1, [LogLine("hello")], now=T0)
    await store.schedule(every("s", "1m", draft("email"), first_at=T0 + 1))
    assert (await store.check()).findings == ()


def run(path: Path, *statements: str) -> None:
    """Do to the file what a careless hand would."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            assert db.execute(statement).rowcount != 0, statement


#: What is done to the file, and what is found and mended: (code, job) of each finding.
MENDED = {
    "UPDATE jobs SET at = NULL WHERE id = 2": [("bad-state", 2)],
    "UPDATE jobs SET at = NULL WHERE id = 4": [("bad-state", 4)],
    f"UPDATE jobs SET token = '1:{T0}:1:w1:lane.1' WHERE id = 2": [("bad-state", 2)],
    "UPDATE jobs SET token = '' WHERE id = 3": [("bad-state", 3)],
    "UPDATE jobs SET token = 'x:y' WHERE id = 3": [("bad-run", 3)],
    "UPDATE jobs SET worker = 'w9' WHERE id = 3": [("bad-run", 3)],
    "DELETE FROM workers": [("no-lease", 3), ("no-lease", 7)],
    "UPDATE jobs SET attempts = 7 WHERE id = 5": [("attempts-range", 5)],
    "UPDATE meta SET value = 5 WHERE name = 'fence'": [
        ("fence-behind", 3),
        ("fence-behind", 7),
    ],
    "UPDATE meta SET value = 3 WHERE name = 'ids'": [("ids-behind", 14)],
    "DELETE FROM uniques": [("unique-drift", 1)],
    "INSERT INTO uniques VALUES ('complete', 'z', 4, NULL)": [("unique-drift", 4)],
    "UPDATE jobs SET held = 1 WHERE id = 1": [("held-drift", 1)],
    "UPDATE jobs SET held = 1 WHERE id IN (7, 8, 9)": [("held-drift", 7)],
    "DELETE FROM limits WHERE type = 'grouped'": [("held-drift", 8)],
    "DELETE FROM limits WHERE type <> 'grouped'": [
        ("bad-score", 11),
        ("bad-score", 12),
    ],
    "UPDATE jobs SET rank = rank + 1 WHERE id = 1": [("bad-score", 1)],
    "UPDATE jobs SET rank = 0 WHERE id = 2": [("bad-score", 2)],
    "UPDATE jobs SET rank = 5 WHERE id = 11": [("bad-score", 11)],
    "UPDATE jobs SET rank = 5 WHERE id = 12": [("bad-score", 12)],
    "DELETE FROM links WHERE child = 6": [("stuck-blocked", 6)],
    "INSERT INTO links VALUES (2, 1)": [("stray-link", 1)],
    "INSERT INTO links VALUES (99, 6)": [("stray-link", 99)],
    "INSERT INTO logs VALUES (99, 0, 1, 'info', 0, 'x')": [("stray-log", 99)],
    "INSERT INTO chunks VALUES (99, 0, 1, 1, 1, '1')": [("stray-log", 99)],
    "INSERT INTO chunks VALUES (4, 0, 1, 1, 1, '1')": [("stray-log", 4)],
    "UPDATE counts SET n = n + 1 WHERE type = 'keyed'": [("count-drift", None)],
    "UPDATE errors SET n = n + 1 WHERE type = 'failed'": [("error-drift", None)],
    "DELETE FROM errors WHERE type = 'failed'": [("error-drift", None)],
    "INSERT INTO errors VALUES ('keyed', '0123456789ab', 1, 1, 1, 9, 'K', 'm')": [
        ("error-drift", None)
    ],
    "UPDATE flows SET complete = 1": [("flow-drift", 13)],
    "UPDATE flows SET members = 3": [("flow-drift", 13)],
    "DELETE FROM flows": [("flow-drift", 13)],
    "INSERT INTO flows (id, failed) VALUES (1, 2)": [("flow-drift", 1)],
    "DELETE FROM types WHERE name = 'keyed'": [("unknown-type", 1)],
    "UPDATE schedules SET next_at = 5": [("schedule-drift", None)],
    "UPDATE schedules SET next_at = NULL": [("schedule-drift", None)],
}

#: What a person must decide.
UNMENDED = {
    "UPDATE jobs SET body = '{' WHERE id = 4": [("bad-record", 4)],
    "UPDATE jobs SET body = CAST(x'ff7b' AS TEXT) WHERE id = 1": [("bad-record", 1)],
    "UPDATE jobs SET story = story || char(10) || 'and then' WHERE id = 5": [
        ("bad-record", 5)
    ],
    "UPDATE jobs SET type = 'keyed', unique_key = 'k' WHERE id = 2": [
        ("two-unique", 2)
    ],
    "UPDATE schedules SET schedule = '{}'": [("bad-record", None)],
}


SUMS = ("count-drift", "error-drift")


def found(report: Report) -> list[tuple[str, int | None]]:
    """Return what was found, but for sums that follow from it."""
    return [
        (finding.code, finding.job_id)
        for finding in report.findings
        if finding.code not in SUMS or len(report.findings) == 1
    ]


@pytest.mark.parametrize("damage", MENDED)
async def test_what_needs_no_guessing_is_found_and_mended(
    store: SqliteStore, path: Path, damage: str
) -> None:
    await fill(store)
    run(path, damage)

    report = await store.check()
    assert found(report) == MENDED[damage]
    assert all(finding.repair and finding.message for finding in report.findings)
    assert not any(finding.repaired for finding in report.findings)

    mending = await store.check(repair=True)
    assert found(mending) == MENDED[damage]
    assert all(finding.repaired for finding in mending.findings)
    await tend(store)
    assert (await store.check()).findings == ()


@pytest.mark.parametrize("damage", UNMENDED)
async def test_what_a_person_must_decide_is_found_and_left_alone(
    store: SqliteStore, path: Path, damage: str
) -> None:
    await fill(store)
    run(path, damage)

    report = await store.check(repair=True)

    assert found(report) == UNMENDED[damage]
    [finding, *_] = report.findings
    assert (finding.repair, finding.repaired) == ("", False)


async def test_errors_that_are_counted_again_say_what_they_said(
    store: SqliteStore, path: Path
) -> None:
    job = await start_one(store)
    await end(store, job, Failed(Error("OSError", "disk 7\nand more")), now=T0 + 5)
    before = await store.errors()
    run(path, "DELETE FROM errors")

    await store.check(repair=True)

    assert await store.errors() == before


async def test_an_unknown_state_is_found(store: SqliteStore, path: Path) -> None:
    await fill(store)
    run(path, "UPDATE jobs SET state = 'asleep' WHERE id = 1")

    report = await store.check()

    assert ("bad-state", 1) in found(report)
    assert (await store.count())["keyed"][State.WAITING] == 1
    assert await get_one(store, 1)


async def test_a_run_of_an_unknown_worker_is_taken_back_once_mended(
    store: SqliteStore, path: Path
) -> None:
    job = await start_one(store)
    run(path, "DELETE FROM workers")
    await store.check(repair=True)

    await store.tend(now=T0)

    assert await state_of(store, job.id) is State.WAITING
    assert await claim_one(store)


async def test_dependants_of_a_lost_parent_hear_of_it_once_mended(
    store: SqliteStore, path: Path
) -> None:
    parent = await start_one(store, "parent")
    child = await add_one(store, "child", after=[parent.id])
    await end(store, parent, Failed(OOPS))
    run(path, "DELETE FROM jobs WHERE id = 1", "UPDATE counts SET n = 0")
    await store.check(repair=True)

    await store.tend(now=T0)

    assert await state_of(store, child) is State.CANCELLED


async def test_links_that_are_still_to_be_deleted_are_not_damage(
    store: SqliteStore, path: Path
) -> None:
    parents = [await add_one(store, "parent") for _ in range(2)]
    job_id = await add_one(store, "child")
    run(path, *(f"INSERT INTO links VALUES ({id}, {job_id})" for id in parents))
    run(path, f"INSERT INTO unlinked VALUES ({job_id})")
    assert (await store.check()).findings == ()

    await store.tend(now=T0)

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM links, unlinked").fetchall() == []
    assert (await store.check()).findings == ()


async def test_jobs_beside_text_that_is_no_text_are_handed_out(
    store: SqliteStore, path: Path
) -> None:
    for _ in range(3):
        await add_one(store)
    run(path, "UPDATE jobs SET body = CAST(x'ff7b' AS TEXT) WHERE id = 2")

    assert await claim_ids(store) == [1, 3]
    assert (await get_one(store, 2)).error is not None


async def test_a_run_with_a_damaged_story_still_ends(
    store: SqliteStore, path: Path
) -> None:
    job = await start_one(store)
    run(path, "UPDATE jobs SET story = CAST(x'ff' AS TEXT)")

    await end(store, job, Completed("fine"))

    assert (await get_one(store, job.id)).result == "fine"


async def test_a_schedule_that_is_to_fire_at_another_time_gets_its_own(
    store: SqliteStore, path: Path
) -> None:
    await store.schedule(every("s", "1m", draft("email"), first_at=T0))
    run(path, "UPDATE schedules SET next_at = 5")

    [finding] = (await store.check(repair=True)).findings

    assert (finding.code, finding.repaired) == ("schedule-drift", True)
    assert finding.message == (
        f"the schedule 's' is to fire at 5, but its next time is {T0}"
    )
    assert (await store.tend(now=T0 - 1)).fired == 0
    assert (await store.tend(now=T0)).fired == 1


async def test_a_paused_schedule_that_is_to_fire_is_found(
    store: SqliteStore, path: Path
) -> None:
    schedule = every("s", "1m", draft("email"), first_at=T0)
    await store.schedule(replace(schedule, paused=True))
    assert (await store.check()).findings == ()
    run(path, f"UPDATE schedules SET next_at = {T0}")

    [finding] = (await store.check(repair=True)).findings

    assert (finding.code, finding.repaired) == ("schedule-drift", True)
    assert (await store.check()).findings == ()
    assert (await store.tend(now=T0)).fired == 0


async def test_a_damaged_schedule_does_not_stop_upkeep(
    store: SqliteStore, path: Path
) -> None:
    await store.schedule(every("bad", "1m", draft("email"), first_at=T0))
    await store.schedule(every("good", "1m", draft("email"), first_at=T0))
    run(path, "UPDATE schedules SET schedule = '{}' WHERE name = 'bad'")

    assert (await store.tend(now=T0)).fired == 1
    assert [schedule.name for schedule in await store.schedules()] == ["good"]


async def test_a_schedule_that_can_be_read_again_fires(
    store: SqliteStore, path: Path
) -> None:
    """A newer version wrote it, and what it has beyond this one is not known here."""
    await store.schedule(every("s", "1m", draft("email"), first_at=T0))
    run(path, "UPDATE schedules SET schedule = 'x' || schedule")
    assert (await store.tend(now=T0)).fired == 0

    run(path, "UPDATE schedules SET schedule = substr(schedule, 2)")

    assert (await store.tend(now=T0)).fired == 1


async def test_a_file_with_broken_pages_is_found(
    store: SqliteStore, path: Path
) -> None:
    for seq in range(5):
        await store.add([draft("email", "x" * 3000)] * 100, producer="p", seq=seq)
    await store.close()
    with path.open("r+b") as file:
        # Well behind the pages that say which tables there are.
        file.seek(300 * 4096)
        file.write(b"\xff" * 4096 * 30)

    report = await store.check()

    assert {finding.code for finding in report.findings} == {"damaged-file"}
