"""The queue for ordinary code: the same verbs, the same jobs, any thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kue import (
    ConfigError,
    Event,
    InvalidTransition,
    JobFailed,
    JobHandle,
    JobNotFound,
    Kind,
    Kue,
    State,
    StoreUnavailable,
)
from kue.model.job import Completed, Ending, Failed
from kue.store.contract import Store
from kue.store.values import MAX_BATCH
from tests.support.engines import Engine, engine_at
from tests.support.flaky import Wire
from tests.support.jobs import OOPS, claim_one, end
from tests.support.patience import PATIENCE_SECONDS


def until(is_so: Callable[[], bool]) -> None:
    """Look again and again until *is_so*; there is no event to wait for."""
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.002)


async def run_next(q: Kue, ending: Ending) -> None:
    """Run the next job of type email as a worker would."""
    store = q._connection.store
    job = await claim_one(store, now=await store.now())
    await end(store, job, ending, now=await store.now())


# -- jobs --------------------------------------------------------------------


def test_a_job_is_created_and_found(plain_q: Kue) -> None:
    q = plain_q.sync

    saved = q.create_job("email", {"to": "a@b.c"}).priority("high").attempts(3).save()

    job = q.get(saved.id).refresh()
    assert (job.type, job.data, job.priority) == ("email", {"to": "a@b.c"}, -10)
    assert job.max_attempts == 3
    assert q.counts("email")[State.WAITING] == 1


def test_both_sides_see_the_same_jobs(plain_q: Kue) -> None:
    enqueued = plain_q.sync.enqueue("email", {"n": 1})

    async def look() -> tuple[Any, int]:
        handle = await plain_q.get(enqueued.id)
        await plain_q.enqueue("email", {"n": 2})
        return (await handle.refresh()).data, await plain_q.inactive_count("email")

    assert asyncio.run(_and_close(plain_q, look)) == ({"n": 1}, 2)


async def _and_close(q: Kue, look: Callable[[], Any]) -> Any:
    """Run *look*; leave no connection behind on a loop that ends, nor memory behind."""
    result = await look()
    if q.settings.url != "memory://":
        await q._connection.close()
    return result


def test_a_result_is_waited_for(plain_q: Kue) -> None:
    job = plain_q.sync.enqueue("email")
    plain_q.sync.call(run_next, Completed({"sent": True}))

    assert job.result(timeout=PATIENCE_SECONDS) == {"sent": True}


def test_a_result_arrives_while_a_thread_waits_for_it(plain_q: Kue) -> None:
    q = plain_q.sync
    job = q.enqueue("email")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.result, 10)
        q.call(run_next, Completed(7))

        assert waiting.result(45) == 7


def test_the_errors_are_those_of_the_awaited_verbs(plain_q: Kue) -> None:
    q = plain_q.sync
    job = q.enqueue("email")
    q.call(run_next, Failed(OOPS))

    with pytest.raises(JobFailed, match="ValueError: oops"):
        job.result()
    with pytest.raises(JobNotFound):
        q.get(4711)
    with pytest.raises(ValueError, match="state 'odd' is unknown"):
        q.count("odd")
    with pytest.raises(InvalidTransition, match="is failed and cannot be promoted"):
        job.promote()


def test_waiting_ends_when_the_time_is_up(plain_q: Kue) -> None:
    job = plain_q.sync.enqueue("email")

    with pytest.raises(TimeoutError, match=r"did not end within 0\.05 s"):
        job.result(timeout=0.05)


def test_a_handle_does_what_its_namesake_does(plain_q: Kue) -> None:
    q = plain_q.sync
    job = q.create("email", 1).delay("1h").save()

    job.promote()
    job.update(data=2, priority="low", tags=["a"], attempts=5)
    job.log("looked at")
    job.delay(datetime(2100, 1, 1, tzinfo=UTC))

    read = job.refresh()
    assert (read.data, read.priority, read.tags) == (2, 10, ("a",))
    assert (read.state, read.max_attempts) == (State.DELAYED, 5)
    assert [line.text for line in job.logs()] == ["looked at"]
    assert job.cancel("not wanted") is True
    job.retry()
    assert job.refresh().state is State.WAITING
    job.remove()
    assert not q.exists(job.id)


def test_progress_is_told_of_a_job_that_runs(plain_q: Kue) -> None:
    q = plain_q.sync
    job = q.enqueue("email")
    q.call(lambda q: _claim(q._connection.store))

    job.progress(1, 4, {"step": "one"})

    assert job.refresh().progress == 25
    job.remove(force=True)


async def _claim(store: Store) -> None:
    await claim_one(store, now=await store.now())


def test_a_builder_takes_handles_of_both_kinds(plain_q: Kue) -> None:
    q = plain_q.sync
    first = q.enqueue("email")

    second = q.create_job("email").after(first).parent(first).save()
    third = q.create_job("email").after(first.id, q.get(second.id)).save()

    assert q.get(second.id).refresh().state is State.BLOCKED
    assert third.refresh().state is State.BLOCKED


def test_a_handle_of_the_other_side_is_held(plain_q: Kue) -> None:
    stored = plain_q.sync.enqueue("email")
    plain_q.sync.call(run_next, Completed("2026-11-15T00:00:00Z"))
    handle = JobHandle(
        plain_q._connection,
        stored.id,
        "email",
        reader=lambda value: msgspec.convert(value, datetime),
    )

    assert plain_q.sync.held(handle).result() == datetime(2026, 11, 15, tzinfo=UTC)


def test_a_handle_shows_what_it_knows(plain_q: Kue) -> None:
    job = plain_q.sync.enqueue("email", unique="k")
    again = plain_q.sync.enqueue("email", unique="k")

    assert repr(job) == f"<SyncJobHandle {job.id} 'email'>"
    assert (job.job, job.address_id, job.is_new) == (None, None, True)
    assert (again.id, again.is_new, again.type) == (job.id, False, "email")
    assert job.refresh().address_id == job.address_id
    assert repr(plain_q.sync).startswith("<SyncKue of <Kue on ")


def test_jobs_are_listed_operated_and_cleared(plain_q: Kue) -> None:
    q = plain_q.sync
    ids = [job.id for job in q.enqueue_many("email", range(3), tags=["x"])]

    q.pause("email", reason="full")
    q.limit("email", concurrency=2)

    assert [job.id for job in q.range(0, -1)] == ids
    assert [job.id for job in q.find(tag="x").jobs] == ids
    assert [pause.reason for pause in q.paused()] == ["full"]
    assert q.limits()["email"].concurrency == 2
    assert q.types() == ["email"]
    assert q.resume("email") is True
    assert [answer.job_id for answer in q.cancel_many(iter(ids))] == ids
    assert q.clear("email") == 3


# -- many at once ------------------------------------------------------------


def test_drafts_are_read_in_the_thread_that_asks(plain_q: Kue) -> None:
    """A database's cursor, say, belongs to its thread."""
    db = sqlite3.connect(":memory:")
    count = MAX_BATCH + 1
    rows = db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i FROM n LIMIT ?",
        (count,),
    )
    told: list[tuple[int, str]] = []

    handles = plain_q.sync.enqueue_many(
        "email",
        ({"i": i} for (i,) in rows),
        on_progress=lambda n: told.append((n, threading.current_thread().name)),
    )

    assert len(handles) == plain_q.sync.inactive_count() == count
    assert [handle.id for handle in handles] == sorted(handle.id for handle in handles)
    here = threading.current_thread().name
    assert told == [(MAX_BATCH, here), (count, here)]
    db.close()


def test_a_draft_that_cannot_be_made_tells_how_many_were_added(plain_q: Kue) -> None:
    def data() -> Iterator[Any]:
        yield from range(MAX_BATCH)
        raise LookupError("no more")

    with pytest.raises(LookupError) as raised:
        plain_q.sync.enqueue_many("email", data())

    assert raised.value.__notes__ == [f"{MAX_BATCH} of the jobs had been added"]
    assert plain_q.sync.inactive_count() == MAX_BATCH


def test_drafts_of_any_type_are_added(plain_q: Kue) -> None:
    q = plain_q.sync

    handles = q.enqueue_many([q.draft("a", 1), q.draft("b", 2, priority="high")])

    assert [handle.type for handle in handles] == ["a", "b"]


def test_what_threads_add_at_the_same_time_travels_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_at("sqlite", f"sqlite:///{tmp_path / 'kue.db'}")
    store = engine.new_store()
    wire = Wire(store)
    monkeypatch.setattr(store, "twin", lambda: wire.store)
    with (
        Kue(engine.settings.url, store=store).sync as q,
        ThreadPoolExecutor(20) as pool,
    ):
        gate = wire.hold("add")
        adds = [pool.submit(q.enqueue, "email", 0)]
        q.call(lambda _: wire.until_called("add"))
        adds += [pool.submit(q.enqueue, "email", n) for n in range(1, 20)]
        batcher = q._connected().queue._connection.batcher
        until(lambda: len(batcher._waiting) == 19)

        q._connected().loop.call_soon(gate.set)

        assert len({add.result(45).id for add in adds}) == 20
        assert wire.times("add") == 2


def test_many_threads_use_one_queue(plain_q: Kue) -> None:
    q = plain_q.sync

    def work(number: int) -> Any:
        job = q.enqueue("email", number)
        return q.get(job.id).refresh().data

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(100))) == list(range(100))
    assert [t.name for t in threading.enumerate()].count("kue-sync") == 1


# -- listening ---------------------------------------------------------------


def test_the_events_of_a_job_are_a_plain_iterator(plain_q: Kue) -> None:
    q = plain_q.sync
    job = q.enqueue("email")
    events = job.events()
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(lambda: [event.kind for event in events])
        # It reads the job once it listens.
        until(lambda: job.job is not None)
        q.call(run_next, Completed())

        assert heard.result(45) == [Kind.START, Kind.COMPLETE]


def test_a_job_that_has_ended_yields_its_last_event(plain_q: Kue) -> None:
    job = plain_q.sync.enqueue("email")
    plain_q.sync.call(run_next, Completed())

    assert [event.kind for event in job.events()] == [Kind.COMPLETE]


def test_the_events_of_a_queue_are_a_plain_iterator(plain_q: Kue) -> None:
    q = plain_q.sync
    events = q.events("job_enqueue")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, events)
        while not first.done():
            # Nobody tells from when on it listens.
            q.enqueue("email")

        assert first.result().kind is Kind.ENQUEUE


def test_an_iterator_that_is_dropped_stops_listening(plain_q: Kue) -> None:
    q = plain_q.sync
    job = q.enqueue("email")
    q.call(run_next, Completed())
    quiet = q.call(_count_tasks)

    for _ in job.events():
        break

    until(lambda: q.call(_count_tasks) == quiet)


async def _count_tasks(_: Kue) -> int:
    return len(asyncio.all_tasks())


def test_an_unknown_event_is_refused_at_once(plain_q: Kue) -> None:
    with pytest.raises(ValueError, match="event 'odd' is unknown"):
        plain_q.sync.events("odd")
    with pytest.raises(ValueError, match="event 'odd' is unknown"):
        plain_q.sync.on("odd", print)


def test_callbacks_run_on_the_thread_of_the_portal(plain_q: Kue) -> None:
    q = plain_q.sync
    heard: list[tuple[Kind, str]] = []

    def hear(event: Event) -> None:
        heard.append((event.kind, threading.current_thread().name))

    assert q.on("job_enqueue", hear) is q
    job = q.enqueue("email")
    until(lambda: len(heard) == 1)
    assert q.off("job_enqueue", hear) is q
    assert job.on("complete", hear) is job
    q.call(run_next, Completed())

    until(lambda: len(heard) == 2)
    assert heard == [(Kind.ENQUEUE, "kue-sync"), (Kind.COMPLETE, "kue-sync")]
    assert job.off("complete", hear) is job


# -- where it may not be used ------------------------------------------------


async def test_an_event_loop_is_not_blocked(place: Engine) -> None:
    async with Kue(place.settings.url, prefix=place.settings.prefix) as q:
        job = await asyncio.to_thread(q.sync.enqueue, "email")
        refusals: list[tuple[Callable[[], object], str]] = [
            (q.sync.counts, r"await q\.counts\(…\)"),
            (lambda: q.sync.enqueue("email"), r"await q\.enqueue\(…\)"),
            (lambda: q.sync.enqueue_many("email"), r"await q\.enqueue_many\(…\)"),
            (job.result, r"await job\.result\(…\)"),
            (job.events, r"async for event in job\.events\(\)"),
            (lambda: job.on("complete", print), r"job\.on\(…\)"),
            (q.sync.create_job("email").save, r"await builder\.save\(…\)"),
            (q.sync.run, r"await q\.run\(…\)"),
            (q.sync.work().__enter__, r"async with q\.work\(…\)"),
            (q.sync.close, r"await q\.close\(\)"),
        ]
        for refused, advice in refusals:
            with pytest.raises(RuntimeError, match=f"; write {advice}.* instead"):
                refused()
        q.sync.stop()


async def test_another_thread_of_an_async_program_may_block(place: Engine) -> None:
    async with Kue(place.settings.url, prefix=place.settings.prefix) as q:
        job = await asyncio.to_thread(q.sync.enqueue, "email", 1)

        assert (await (await q.get(job.id)).refresh()).data == 1
        assert await asyncio.to_thread(q.sync.count, "waiting") == 1


def test_a_store_that_serves_one_loop_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    q = Kue("memory://")
    store = q._connection.store
    monkeypatch.setattr(store, "twin", lambda: Store.twin(store))

    with pytest.raises(ConfigError, match="memory:// serves one event loop"):
        q.sync.counts()


# -- opening and closing -----------------------------------------------------


def test_making_a_queue_starts_no_thread() -> None:
    before = threading.active_count()

    q = Kue("memory://")
    q.sync.create_job("email")
    q.sync.stop()
    q.sync.close()

    assert threading.active_count() == before
    assert q.sync.working == frozenset()


def test_closing_ends_the_thread_and_the_next_call_begins_anew(plain_q: Kue) -> None:
    with plain_q.sync as q:
        job = q.enqueue("email", 1)
        assert "SQLite" in q.open() or "Redis" in q.open()
    assert not plain_q.sync.is_open
    assert "kue-sync" not in {thread.name for thread in threading.enumerate()}

    assert job.refresh().data == 1
    assert plain_q.sync.is_open


def test_closing_the_queue_closes_this_side_too(plain_q: Kue) -> None:
    plain_q.sync.enqueue("email")

    asyncio.run(plain_q.close())

    assert not plain_q.sync.is_open


def test_whoever_waits_is_told_when_the_queue_is_closed(plain_q: Kue) -> None:
    q = plain_q.sync
    job = q.enqueue("email")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.result)
        until(lambda: job.job is not None)

        q.close()

        with pytest.raises(StoreUnavailable, match="the queue was closed"):
            waiting.result(45)


def test_settings_are_those_of_the_queue() -> None:
    q = Kue("memory://", lease="7s")

    assert q.sync.settings is q.settings
