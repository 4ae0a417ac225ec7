"""`check` of a Redis store: what changes between two looks, or under a repair."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kue.model.job import State
from kue.store.contract import Store
from kue.store.redis.store import RedisStore
from kue.store.values import Change
from tests.support.hands import Hands, found, only
from tests.support.jobs import add_one, state_of

#: Is called with each script and its arguments before it runs.
Meddle = Callable[[str, tuple[Any, ...]], Awaitable[None]]


pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]


def meddle(monkeypatch: pytest.MonkeyPatch, store: Store, act: Meddle) -> None:
    """Have *act* happen right before a script of the check reaches Redis."""
    assert isinstance(store, RedisStore)
    run = store._db.run

    async def run_after(shard: int, script: str, *args: Any, **options: Any) -> Any:
        await act(script, args)
        return await run(shard, script, *args, **options)

    monkeypatch.setattr(store._db, "run", run_after)


@pytest.mark.parametrize("kind", ["job", "key", "unknown key"])
async def test_a_suspicion_that_has_passed_is_no_finding(
    store: Store,
    other_store: Store,
    hands: Hands,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    job_id = await add_one(store)
    if kind == "job":
        hands.mark_live(job_id, 0)
    elif kind == "key":
        hands.do("EXPIRE", hands.record(job_id), 1000)
    else:
        hands.do("SET", hands.home("nonsense"), "x")
    # Unknown keys are looked at once: their names are proof.
    subject, last = {
        "job": (job_id, 2),
        "key": (f"job:{job_id}", 2),
        "unknown key": (b"nonsense", 1),
    }[kind]
    looks = 0

    async def put_right(script: str, args: tuple[Any, ...]) -> None:
        nonlocal looks
        looks += script == "doctor_inspect" and subject in args
        if looks == last:
            hands.mark_live(job_id, 1)
            hands.do("PERSIST", hands.record(job_id))
            hands.do("DEL", hands.home("nonsense"))

    assert len(await found(other_store)) == 1
    meddle(monkeypatch, store, put_right)

    assert await found(store) == []
    assert looks == last


async def test_a_job_that_moves_under_a_repair_is_looked_at_anew(
    store: Store,
    other_store: Store,
    hands: Hands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_id = await add_one(store)
    hands.mark_live(job_id, 0)

    async def cancel(script: str, args: tuple[Any, ...]) -> None:
        if script == "doctor_repair":
            await other_store.cancel([job_id])

    meddle(monkeypatch, store, cancel)
    finding = await only(store, repair=True)

    assert (finding.code, finding.repaired) == ("count-drift", True)
    assert await state_of(store, job_id) is State.CANCELLED
    assert await found(other_store) == []


async def test_a_job_that_never_holds_still_is_left_for_the_next_check(
    store: Store,
    other_store: Store,
    hands: Hands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_id = await add_one(store)
    hands.mark_live(job_id, 0)
    priority = 0

    async def edit(script: str, args: tuple[Any, ...]) -> None:
        nonlocal priority
        if script == "doctor_repair":
            priority += 1
            await other_store.update([Change(job_id, priority=priority)])

    meddle(monkeypatch, store, edit)
    finding = await only(store, repair=True)

    assert (finding.code, finding.repaired) == ("count-drift", False)
    assert finding.repair == "mark it"
    assert [code for code, _ in await found(other_store, repair=True)] == [
        "count-drift"
    ]
    assert await found(other_store) == []
