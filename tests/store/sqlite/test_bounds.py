"""No single transaction of a file store touches more jobs than others can wait for."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.model.named_limits import LimitRule, StoredLimit
from kue.store.sqlite import dependencies, removal
from kue.store.sqlite.store import SqliteStore
from kue.store.sqlite.verbs import limits, runs
from kue.store.values import Limits, PageRequest
from tests.support.flows import linked
from tests.support.jobs import (
    T0,
    add,
    add_many,
    add_one,
    claim,
    claim_ids,
    claim_one,
    count_of,
    end,
    start_one,
    take,
)
from tests.support.upkeep import tend


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kue.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.from_url(f"sqlite:///{path}")
    yield store
    assert (await store.check()).findings == ()
    await store.close()


async def add_children(store: SqliteStore, parent: int, count: int) -> None:
    for _ in range(count // 500):
        await add(store, [draft("child", after=[parent])] * 500)


async def test_a_job_that_waits_for_thousands_is_cancelled_in_steps(
    store: SqliteStore, path: Path
) -> None:
    [target, *_] = await add(
        store, [linked("target"), *[linked("member", before=[-1])] * 499]
    )
    for _ in range(4):
        await add(store, [linked("member", before=[target.id])] * 500)

    await store.cancel([target.id], now=T0)

    left = 499 + 4 * 500
    with closing(sqlite3.connect(path)) as db:
        while left > 0:
            left = max(0, left - removal.MAX_UNLINKED)
            assert db.execute("SELECT count(*) FROM links").fetchone() == (left,)
            await store.tend(now=T0)
        assert db.execute("SELECT count(*) FROM unlinked").fetchone() == (0,)


async def test_a_parent_of_thousands_tells_some_at_once_and_upkeep_the_rest(
    store: SqliteStore,
) -> None:
    parent = await start_one(store, "parent")
    await add_children(store, parent.id, dependencies.CASCADE + 1000)

    await end(store, parent, Completed())
    at_once = (await count_of(store, "child"))[State.WAITING]
    tended = await tend(store)

    assert at_once == dependencies.CASCADE
    assert tended.released == 1000
    assert await count_of(store, "child") == {
        State.WAITING: dependencies.CASCADE + 1000
    }


async def test_a_chain_of_thousands_is_cancelled_to_its_end(store: SqliteStore) -> None:
    first = last = await add_one(store, "link")
    length = dependencies.CASCADE + 200
    for start in range(0, length, 100):
        # Ids are given in order, so that each can name the one before it.
        chain = [
            draft("link", after=[last + n]) for n in range(min(100, length - start))
        ]
        [begun] = await add(store, chain[:1])
        last = begun.id
        for link in chain[1:]:
            [added] = await add(store, [link])
            last = added.id

    await store.cancel([first], now=T0)
    await tend(store)

    assert await count_of(store, "link") == {State.CANCELLED: length + 1}


async def test_a_claim_looks_past_thousands_that_are_set_aside_in_bounded_steps(
    store: SqliteStore,
) -> None:
    await store.limit("email", Limits(per_key=1), now=T0)
    await add_many(store, 5000, group="big")
    behind = await add_one(store, group="small", priority="low")
    await claim_one(store)

    claims = 0
    found: list[int] = []
    while not found:
        claimed = await take(store, limit=1)
        found = [job.id for job in claimed.jobs]
        claims += 1
        assert found or claimed.next_at == T0, "it says that there may be more"

    assert found == [behind]
    assert 1 < claims <= 5000 / (runs.LOOKAHEAD * (runs.ROUNDS - 1)) + 1


async def test_a_limit_that_is_lifted_lets_thousands_go(store: SqliteStore) -> None:
    await store.limit("email", Limits(per_key=1), now=T0)
    count = limits.MAX_RELEASED + 500
    await add_many(store, count, group="g")
    while await take(store, limit=1) and await has_ready(store):
        pass

    await store.limit("email", None, now=T0)

    assert len(await claim_ids(store, limit=500)) == 500
    assert not await has_held(store)


async def test_many_groups_are_let_go_when_a_limit_is_raised(
    store: SqliteStore,
) -> None:
    await store.limit("email", Limits(per_key=1), now=T0)
    groups = [f"g{n}" for n in range(limits.MAX_GROUPS + 50)]
    for _ in range(2):
        await add(store, [draft("email", group=group) for group in groups])
    assert len(await claim_ids(store, limit=500)) == len(groups)
    assert await claim_ids(store, limit=500) == []

    await store.limit("email", Limits(per_key=2), now=T0)

    assert len(await claim_ids(store, limit=500)) == len(groups)


async def has_held(store: SqliteStore) -> bool:
    return await _exists(store, "held = 1")


async def has_ready(store: SqliteStore) -> bool:
    return await _exists(store, "state = 'waiting' AND held = 0")


async def _exists(store: SqliteStore, condition: str) -> bool:
    sql = f"SELECT EXISTS (SELECT 1 FROM jobs WHERE {condition})"
    return bool(await store._engine.read(lambda db: db.execute(sql).fetchone()[0]))


async def test_a_page_deep_in_a_long_list_is_a_seek(
    store: SqliteStore, path: Path
) -> None:
    """Every state's pages go by an index, from any place on, in both directions."""
    await add_one(store)
    said: list[str] = []
    await store._engine.read(lambda db: db.set_trace_callback(said.append))
    for state in (None, *State):
        for descending in (False, True):
            for type in (None, "email"):
                await store.page(
                    PageRequest(state, type, cursor="5:5", descending=descending)
                )

    walks = [sql for sql in said if "ORDER BY" in sql and "FROM jobs" in sql]
    assert len(walks) >= 32
    with closing(sqlite3.connect(path)) as db:
        for walk in walks:
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {walk}")]
            is_active = "jobs_active" in walk
            assert is_active or not any("SCAN" in step for step in plan), (walk, plan)
            assert is_active or not any("TEMP" in step for step in plan), (walk, plan)


async def test_runs_that_end_release_no_jobs_that_a_rate_holds(
    store: SqliteStore,
) -> None:
    """They were held again by the next claim, which took longer than the runs."""
    rule = LimitRule(rate=10)
    await store.set_named_limit("api", StoredLimit(rule), now=T0)
    await add_many(store, 50, limited_by={"api": ""})
    for job in await claim(store, limit=50, now=T0):
        await end(store, job, Completed(), now=T0)
    later = T0 + 2000

    # The rate lets ten start: they wait, and all others stay held.
    for _ in range(5):
        [job] = await claim(store, limit=1, now=later)
        await end(store, job, Completed(), now=later)

    uses = await store.limit_use("api", now=later)
    assert [use.waiting for use in uses] == [30]
