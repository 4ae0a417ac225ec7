"""`Store.open`, `close`, `now` and `check`: a store comes up, goes down, is sound."""

from __future__ import annotations

import asyncio
import time

import pytest

from kue.model.errors import ConfigError
from kue.model.job import Completed, State
from kue.model.settings import load
from kue.store import store_for
from kue.store.contract import Store
from kue.store.values import Limits, Outcome, PauseRequest, RemoveRequest, Report
from tests.support.engines import ENGINES, Engine, engine_at
from tests.support.jobs import (
    T0,
    add_many,
    add_one,
    claim,
    job_in,
    state_of,
)
from tests.support.upkeep import tend


async def test_open_says_in_a_sentence_how_durable_the_store_is(store: Store) -> None:
    sentence = await store.open()

    assert sentence.strip()
    assert "\n" not in sentence


async def test_opening_twice_is_opening_once(store: Store) -> None:
    first = await store.open()
    job_id = await add_one(store)

    assert await store.open() == first
    assert await state_of(store, job_id) is State.WAITING


async def test_a_store_that_was_left_alone_is_still_the_one_it_was(
    store: Store,
) -> None:
    """R-13: what workers ask each minute; of a store that is not open, too."""
    await store.verify()
    await add_one(store)
    await store.verify()


async def test_many_may_open_at_once(store: Store) -> None:
    counts = await asyncio.gather(*(store.count() for _ in range(20)))

    assert counts == [{}] * 20


async def test_many_processes_may_open_a_new_store_at_once(engine: Engine) -> None:
    """One of them makes what is missing; the others find it whole."""
    stores = [engine.new_store() for _ in range(12)]
    try:
        sentences = await asyncio.gather(*(store.open() for store in stores))
        counts = await asyncio.gather(*(store.count() for store in stores))
    finally:
        for store in stores:
            await store.close()

    assert len(set(sentences)) == 1
    assert counts == [{}] * len(stores)


async def test_making_a_store_touches_nothing(engine: Engine) -> None:
    """Nobody listens on port 1, and the folder is not there."""
    urls = {
        "sqlite": "sqlite:////no/such/folder/kue.db",
        "memory": "memory://",
        "redis": "redis://127.0.0.1:1/0",
        "redis-shards": "redis://127.0.0.1:1/0?shards=4",
        "redis-cluster": "redis+cluster://127.0.0.1:1?shards=4",
    }
    store = store_for(load(environ={}, url=urls[engine.name]))

    await store.close()


async def test_closing_twice_is_fine(store: Store) -> None:
    await add_one(store)
    await store.close()
    await store.close()


async def test_closing_what_was_never_opened_is_fine(engine: Engine) -> None:
    await engine.new_store().close()


async def test_a_closed_store_opens_again_when_it_is_needed(
    store: Store, engine: Engine
) -> None:
    job_id = await add_one(store)
    await store.close()

    still_there = State.WAITING if engine.is_shared else None
    assert await state_of(store, job_id) is still_there


async def test_what_was_added_is_there_for_the_next_process(
    store: Store, other_store: Store
) -> None:
    job_id = await add_one(store, data={"n": 1})

    [job] = await other_store.get([job_id])
    assert job is not None
    assert job.data == {"n": 1}


async def test_the_engines_clock_tells_the_time(store: Store) -> None:
    assert abs(await store.now() - time.time() * 1000) < 5_000


async def test_a_name_shows_no_password(engine: Engine) -> None:
    store = engine.new_store()

    assert store.name
    assert (
        "secret"
        not in store_for(load(environ={}, url="redis://user:secret@localhost:1/0")).name
    )
    await store.close()


async def test_a_url_that_names_no_engine_is_refused_with_advice() -> None:
    with pytest.raises(ConfigError, match=r"sqlite:///kue\.db"):
        store_for(load(environ={}, url="postgres://localhost/kue"))


@pytest.mark.parametrize(
    "engine", [name for name in ENGINES if name.startswith("redis")], indirect=True
)
async def test_queues_with_different_prefixes_do_not_meet(engine: Engine) -> None:
    """U-7, D-27: two queues on one server share nothing, not even a lock."""
    one = engine.new_store()
    other = engine_at(engine.name, engine.settings.url).new_store()
    try:
        await add_one(one)
        await one.pause(PauseRequest(), now=T0)
        await one.limit("email", Limits(concurrency=1), now=T0)
        assert await other.types() == []
        assert await other.paused() == []
        assert await other.limits() == {}
        await one.tend(now=T0)
    finally:
        await one.close()
        await other.close()


async def test_a_sound_store_has_no_findings(store: Store) -> None:
    for number, state in enumerate(State):
        await job_in(store, state, priority=-number, unique=f"k{number}")
        await job_in(store, state, "sms", priority=-number, group="g")

    report = await store.check()

    # Blocked ones bring a parent each.
    assert report == Report(2 * len(State) + 2, ())


async def test_an_empty_store_is_sound(store: Store) -> None:
    assert await store.check() == Report(0, ())


async def test_a_sound_store_is_not_repaired(store: Store) -> None:
    ids = [await job_in(store, state, str(state)) for state in State]
    before = await store.get(ids)

    report = await store.check(repair=True)

    assert report.findings == ()
    assert await store.get(ids) == before


async def test_a_check_tells_how_far_it_is(store: Store) -> None:
    await add_many(store, 1200)
    told: list[tuple[int, int]] = []

    report = await store.check(on_progress=lambda *step: told.append(step))

    assert report.jobs == 1200
    assert told
    assert all(0 <= done <= total for done, total in told)
    assert told[-1][0] == told[-1][1]
    assert told == sorted(told)


async def test_a_check_raises_no_false_alarm_while_others_work(
    store: Store, other_store: Store
) -> None:
    stop = asyncio.Event()

    async def work() -> None:
        while not stop.is_set():
            await add_many(other_store, 50, attempts=2)
            jobs = await claim(other_store, limit=50)
            await other_store.settle(
                [Outcome(job, Completed()) for job in jobs[:25]], now=T0
            )
            await other_store.cancel([job.id for job in jobs], now=T0)
            await other_store.remove(
                RemoveRequest([job.id for job in jobs], force=True), now=T0
            )
            await tend(other_store, T0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work())
        reports = [await store.check() for _ in range(5)]
        stop.set()

    assert [report.findings for report in reports] == [()] * 5


async def test_a_store_is_sound_after_a_busy_life(store: Store) -> None:
    for _ in range(3):
        await add_many(store, 30, attempts=2, group="g", ttl="5s")
        jobs = await claim(store, limit=20)
        await store.settle([Outcome(job, Completed()) for job in jobs[:10]], now=T0)
        await store.cancel([job.id for job in jobs[10:15]], now=T0)
        await tend(store, T0)

    report = await store.check()

    assert (report.jobs, report.findings) == (90, ())
