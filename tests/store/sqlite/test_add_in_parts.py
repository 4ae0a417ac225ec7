"""Calls that are too large for one transaction, and stop between two of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from kue.model.job import State
from kue.store.sqlite.dependencies import MAX_HOLD_MS
from kue.store.sqlite.store import SqliteStore
from kue.store.sqlite.verbs.add import CallPart, add
from kue.store.values import Added
from tests.support.flows import linked, run_all
from tests.support.jobs import T0, state_of
from tests.support.upkeep import tend

DRAFTS = [linked("target"), *(linked("member", before=[-1]) for _ in range(2))]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.from_url(f"sqlite:///{tmp_path}/kue.db")
    yield store
    assert (await store.check()).findings == ()
    await store.close()


async def add_part(store: SqliteStore, earlier: list[Added], size: int) -> list[Added]:
    part = CallPart(DRAFTS, tuple(earlier), size)
    call = partial(add, part=part, producer=f"p+{len(earlier)}", seq=1)
    return await store._engine.write(call, now=T0)


async def test_a_job_waits_for_those_of_the_next_part(store: SqliteStore) -> None:
    first = await add_part(store, [], 2)
    target = first[0].id
    assert await run_all(store, "member") == [first[1].id]
    assert await state_of(store, target) is State.BLOCKED

    [last] = await add_part(store, first, 1)

    assert await state_of(store, target) is State.BLOCKED
    assert await run_all(store, "member") == [last.id]
    assert await state_of(store, target) is State.WAITING


async def test_a_job_is_released_if_the_next_part_never_comes(
    store: SqliteStore,
) -> None:
    target, member = await add_part(store, [], 2)
    await run_all(store, "member")
    await tend(store, T0 + MAX_HOLD_MS - 1)
    assert await state_of(store, target.id) is State.BLOCKED

    await tend(store, T0 + MAX_HOLD_MS)

    assert await state_of(store, target.id) is State.WAITING
    assert await state_of(store, member.id) is State.COMPLETE
