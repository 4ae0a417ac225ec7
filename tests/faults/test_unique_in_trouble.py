"""Unique, replaced and debounced jobs, added by many at once whose answers are lost."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.errors import StoreUnavailable
from kue.model.events import Event, Kind
from kue.model.job import Draft, Job, State
from kue.store.contract import Store
from kue.store.values import Added
from tests.faults.conftest import NewStore
from tests.support.flaky import Wire
from tests.support.jobs import HOUR, T0, count_of, get_many
from tests.support.proxy import Fate, Proxy

PRODUCERS = 50
RULES: dict[str, dict[str, Any]] = {
    "unique": {},
    "until start": {"unique_until": "start"},
    "reject": {"on_conflict": "reject"},
    "throttle": {"throttle": "1h"},
    "replace": {"on_conflict": "replace"},
    "debounce": {"debounce": "10m", "debounce_max": "1h"},
}
REPLACING = {"replace", "debounce"}
CASES = pytest.mark.parametrize("case", RULES)


def drafts_of(case: str) -> list[Draft]:
    """Return the same job once per producer; its data says whose it is."""
    return [
        draft("email", number, unique="k", **RULES[case]) for number in range(PRODUCERS)
    ]


async def add_all(stores: list[Store], case: str) -> list[Added]:
    """Add one draft per producer, all at once; each has its own time."""

    async def produce(number: int, made: Draft) -> Added:
        store = stores[number % len(stores)]
        while True:
            try:
                [added] = await store.add(
                    [made], producer=f"p{number}", seq=1, now=T0 + number
                )
            except StoreUnavailable:
                continue
            return added

    calls = (produce(*numbered) for numbered in enumerate(drafts_of(case)))
    return await asyncio.gather(*calls)


async def add_observed(
    direct: Store, stores: list[Store], case: str
) -> tuple[list[Added], list[Event]]:
    """Add as `add_all`; also return what a subscriber saw, in the store's order."""
    count = PRODUCERS if case in REPLACING else 1
    async with direct.watch() as events:
        added = await add_all(stores, case)
        seen = [await anext(events) for _ in range(count)]
        # Nothing else has happened.
        [last] = await direct.add([draft("sms")], producer="last", seq=1, now=T0)
        assert (await anext(events)).job_id == last.id
    return added, seen


def assert_one_right_job(
    job: Job, added: list[Added], events: list[Event], case: str
) -> None:
    assert {one.id for one in added} == {job.id}
    [first] = [number for number, one in enumerate(added) if one.new]
    assert events[0].kind is Kind.ENQUEUE
    assert [event.kind for event in events[1:]] == [Kind.UPDATE] * (len(events) - 1)
    # Producers are told apart by their time: each was applied once.
    assert len({event.at for event in events}) == len(events)
    assert (events[0].at, job.created_at) == (T0 + first, T0 + first)
    assert all(one.new or one.replaced == (case in REPLACING) for one in added)
    # The data is that of the add that the store made last.
    assert job.data == events[-1].at - T0


@CASES
async def test_producers_whose_answers_are_dropped_make_one_job(
    proxied: Store, direct: Store, proxy: Proxy, case: str
) -> None:
    proxy.draw(Random(case), {Fate.CUT_AFTER: 0.3, Fate.CUT_BEFORE: 0.1})

    added, events = await add_observed(direct, [proxied], case)

    assert proxy.struck[Fate.CUT_AFTER] > 0
    assert await count_of(direct) in ({State.WAITING: 1}, {State.DELAYED: 1})
    [job] = await get_many(direct, [added[0].id])
    assert_one_right_job(job, added, events, case)


@CASES
async def test_producers_on_every_engine_that_add_again_make_one_job(
    store: Store, url: str, new_store: NewStore, case: str
) -> None:
    """Answers are lost behind the store: what it did is done."""
    wires = [Wire(new_store(url)) for _ in range(4)]
    for wire in wires:
        wire.lose_reply("add", 10)

    added, events = await add_observed(store, [wire.store for wire in wires], case)

    assert sum(wire.times("add") for wire in wires) == PRODUCERS + 40
    assert await count_of(store) in ({State.WAITING: 1}, {State.DELAYED: 1})
    [job] = await get_many(store, [added[0].id])
    assert_one_right_job(job, added, events, case)
    if case == "debounce":
        assert job.promote_at == min(events[-1].at + HOUR // 6, job.created_at + HOUR)
