"""What handlers send while they run: in order, all of it, and before the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

from kue import (
    ActiveJob,
    JobFailed,
    JobHandle,
    Kue,
    State,
    StoreCorrupt,
    StreamFull,
)
from kue.store.contract import Store
from kue.store.values import RemoveRequest
from kue.worker import chunk_sender
from tests.support.engines import Engine
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS, eventually, until
from tests.worker.working import worked

#: For what does not depend on the engine.
ANY = pytest.mark.parametrize("place", ["memory"], indirect=True)
MANY = 10_000


async def stored(q: Kue, job: JobHandle[Any]) -> list[Any]:
    """Return all chunks that the job has."""
    store = q._connection.store
    found = page = await store.chunks(job.id)
    while page:
        page = await store.chunks(job.id, page[-1].next)
        found = found + page
    return [chunk.value for chunk in found]


async def test_what_an_async_generator_yields_is_the_stream(q: Kue) -> None:
    @q.task
    async def spell(word: str) -> AsyncIterator[str]:
        for letter in word:
            yield letter

    job = await spell.enqueue("kue")

    await worked(q, job)

    assert (await job.refresh()).result is None
    assert await stored(q, job) == ["k", "u", "e"]


@ANY
async def test_a_generator_runs_in_a_thread_and_returns_the_result(q: Kue) -> None:
    @q.task
    def spell(job: ActiveJob, word: str) -> Generator[Any, None, int]:
        yield threading.current_thread() is threading.main_thread()
        yield from word
        return len(word)

    job = await spell.enqueue("kue")

    assert await worked(q, job) == 3
    assert await stored(q, job) == [False, "k", "u", "e"]


@ANY
async def test_generators_handle_jobs_of_a_type(q: Kue) -> None:
    @q.process("spell")
    async def spell(job: ActiveJob) -> AsyncIterator[str]:
        for letter in job.data:
            yield letter

    @q.process_blocking("count")
    def count(job: ActiveJob) -> Generator[int, None, str]:
        yield from range(job.data)
        return "counted"

    spelled, counted = await q.enqueue("spell", "hi"), await q.enqueue("count", 3)
    async with q.work():
        assert await spelled.result(timeout=PATIENCE_SECONDS) is None
        assert await counted.result(timeout=PATIENCE_SECONDS) == "counted"

    assert await stored(q, spelled) == ["h", "i"]
    assert await stored(q, counted) == [0, 1, 2]


async def test_ten_thousand_chunks_arrive_in_order_by_few_calls(
    q: Kue, wire: Wire
) -> None:
    @q.task
    async def count(job: ActiveJob) -> None:
        assert job.outbox is None
        for number in range(MANY):
            await job.send(number)
            assert job.outbox is not None
            unwritten.append(len(job.outbox._unwritten))

    unwritten: list[int] = []
    job = await count.enqueue()
    await worked(q, job)

    assert await stored(q, job) == [*range(MANY)]
    assert max(unwritten) <= chunk_sender.ROOM_CHUNKS
    assert wire.times("append_chunks") < MANY / 20


@ANY
async def test_a_thread_that_is_too_fast_waits(q: Kue, wire: Wire) -> None:
    @q.task
    def count(job: ActiveJob) -> None:
        for number in range(1000):
            job.send(number)
            sent.append(number)

    sent: list[int] = []
    gate = wire.hold("append_chunks")
    job = await count.enqueue()
    async with q.work():
        await until(lambda: len(sent) == chunk_sender.ROOM_CHUNKS - 1)
        gate.set()
        await job.result(timeout=PATIENCE_SECONDS)

    assert await stored(q, job) == [*range(1000)]


@ANY
async def test_many_runs_share_a_call(q: Kue, wire: Wire) -> None:
    everyone = asyncio.Barrier(50)

    @q.task(concurrency=50)
    async def greet(job: ActiveJob) -> None:
        await everyone.wait()
        job.send("hello")

    jobs = await greet.enqueue_many({} for _ in range(50))
    async with q.work():
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)

    assert wire.times("append_chunks") < 10
    assert [await stored(q, job) for job in jobs] == [["hello"]] * 50


async def test_chunks_are_kept_through_an_outage(q: Kue, wire: Wire) -> None:
    @q.task(attempts=1)
    async def count(job: ActiveJob) -> str:
        wire.lose_reply("append_chunks")
        for number in range(3):
            await job.send(number)
        await wire.until_answered("append_chunks")
        wire.break_off("append_chunks")
        await job.send(3)
        asyncio.get_running_loop().call_later(0.2, wire.mend)
        return "done"

    job = await count.enqueue()

    assert await worked(q, job) == "done"
    assert await stored(q, job) == [0, 1, 2, 3]


@ANY
async def test_a_run_that_fails_leaves_what_it_has_sent(q: Kue) -> None:
    @q.task(attempts=1)
    async def fail() -> AsyncIterator[str]:
        yield "so far"
        raise ValueError("oops")

    job = await fail.enqueue()

    with pytest.raises(JobFailed, match="oops"):
        await worked(q, job)
    assert await stored(q, job) == ["so far"]


@ANY
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_chunks": 3}, r"has sent 3 chunks, which is the limit; .*KUE_MAX_CHUNKS"),
        ({"max_stream": 40}, "more than 40 bytes, which is the limit"),
    ],
)
async def test_a_stream_that_is_full_fails_the_job_at_once(
    place: Engine, limits: dict[str, Any], message: str
) -> None:
    async with Kue(place.settings.url, **limits) as q:

        @q.task
        async def talk() -> AsyncIterator[str]:
            for _ in range(5):
                yield "0123456789"

        job = await talk.enqueue()
        with pytest.raises(JobFailed, match=message) as failed:
            await worked(q, job)

        assert failed.value.kind == StreamFull.__name__
        assert (await job.refresh()).attempts == 1
        assert len(await stored(q, job)) == 3


@ANY
@pytest.mark.parametrize("chunk", [float("nan"), "x" * 65_536, object()])
async def test_what_is_not_a_chunk_fails_the_run(q: Kue, chunk: Any) -> None:
    @q.task(attempts=1)
    async def talk(job: ActiveJob) -> None:
        await job.send(chunk)

    job = await talk.enqueue()
    with pytest.raises(JobFailed, match="chunk"):
        await worked(q, job)


@ANY
async def test_a_run_whose_job_is_gone_ends(q: Kue, kue_store: Store) -> None:
    @q.task
    async def talk(job: ActiveJob) -> None:
        try:
            while True:
                await job.send("on and on")
                await asyncio.sleep(0)
        except BaseException as exc:
            ended.set_result(type(exc).__name__)
            raise

    ended = asyncio.get_running_loop().create_future()
    job = await talk.enqueue()
    async with q.work():
        await eventually(lambda: kue_store.chunks(job.id))
        await kue_store.remove(RemoveRequest([job.id], force=True))
        assert await ended in ("JobNotFound", "CancelledError")


@ANY
async def test_a_stream_that_lost_chunks_fails_the_run(q: Kue, wire: Wire) -> None:
    """As after a fail-over that lost writes."""

    @q.task(attempts=1)
    async def talk(job: ActiveJob) -> None:
        await job.send("one")
        await wire.until_answered("append_chunks")
        assert job.outbox is not None
        job.outbox._written += 1
        await job.send("three")

    job = await talk.enqueue()
    with pytest.raises(
        JobFailed, match="chunks that job 1 has sent are missing"
    ) as exc:
        await worked(q, job)
    assert exc.value.kind == StoreCorrupt.__name__


@ANY
async def test_chunks_that_cannot_be_written_count_against_the_timeout(
    q: Kue, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_sender, "LAST_SECONDS", 0.1)

    @q.task(attempts=1, timeout="200ms")
    async def talk(job: ActiveJob) -> None:
        await job.send("hello")

    wire.break_off("append_chunks")
    job = await talk.enqueue()
    with pytest.raises(JobFailed, match="longer than its timeout"):
        await worked(q, job)
    assert (await job.refresh()).state is State.FAILED
    wire.mend()


@ANY
async def test_plain_jobs_make_no_call_for_streams(q: Kue, wire: Wire) -> None:
    @q.task
    async def plain() -> str:
        return "done"

    await worked(q, await plain.enqueue())

    assert wire.times("append_chunks") == wire.times("chunks") == 0
