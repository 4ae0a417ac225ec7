"""Reading a stream: live or late, all of it once, until the job ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kue import (
    JobCancelled,
    JobFailed,
    JobHandle,
    JobNotFound,
    Kue,
    StreamRestarted,
)
from kue.model.job import Completed, Failed, Job, Released, Retried
from kue.model.stream import Chunk, SentChunks
from kue.store.codec import chunk_of
from kue.store.contract import Store
from tests.support.flaky import Wire
from tests.support.jobs import OOPS, claim_one, end
from tests.support.patience import PATIENCE_SECONDS, in_time

#: For what does not depend on the engine.
ANY = pytest.mark.parametrize("place", ["memory"], indirect=True)


class Producer:
    """A worker of which the test is in control."""

    def __init__(self, q: Kue, store: Store) -> None:
        self._q = q
        self._store = store
        self._sent = 0

    async def add(self, **options: Any) -> JobHandle[Any]:
        return await self._q.enqueue("talk", **options)

    async def start(self) -> None:
        self._job: Job = await claim_one(self._store, "talk", now=None)
        self._sent = 0

    async def send(self, *values: object) -> None:
        chunks = [chunk_of(value) for value in values]
        await self._store.append_chunks([SentChunks(self._job, self._sent, chunks)])
        self._sent += len(values)

    async def end(self, ending: Any = None) -> None:
        now = await self._store.now()
        await end(self._store, self._job, ending or Completed(), now=now)


@pytest.fixture
def producer(q: Kue, kue_store: Store) -> Producer:
    return Producer(q, kue_store)


class Reader:
    """Reads a stream in a task, as far as it goes."""

    def __init__(self, job: JobHandle[Any], **options: Any) -> None:
        self.chunks: list[Chunk] = []
        self._options = options
        self._arrived = asyncio.Condition()
        self.task = asyncio.create_task(self._read(job))

    @property
    def values(self) -> list[Any]:
        return [chunk.value for chunk in self.chunks]

    async def _read(self, job: JobHandle[Any]) -> None:
        async for chunk in job.chunks(**self._options):
            async with self._arrived:
                self.chunks.append(chunk)
                self._arrived.notify_all()

    async def until(self, number: int) -> None:
        """Return once *number* chunks were read."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._arrived:
            await self._arrived.wait_for(lambda: len(self.chunks) >= number)

    async def ended(self) -> list[Any]:
        """Return all values once the stream has ended, or raise as it did."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.task
        return self.values


async def test_chunks_are_read_while_the_job_runs(producer: Producer) -> None:
    job = await producer.add()
    reader = Reader(job)
    await producer.start()
    await producer.send("a")
    await reader.until(1)
    await producer.send("b", "c")
    await reader.until(3)
    await producer.end()

    assert await reader.ended() == ["a", "b", "c"]


async def test_a_reader_that_comes_late_gets_everything(producer: Producer) -> None:
    job = await producer.add()
    await producer.start()
    await producer.send(*range(300))
    await producer.send(*range(300, 700))
    reader = Reader(job)
    await reader.until(700)
    await producer.send(700)
    await producer.end()
    assert await reader.ended() == [*range(701)]

    assert [chunk async for chunk in job.stream()] == [*range(701)]


async def test_a_reader_goes_on_after_the_chunk_that_it_read_last(
    producer: Producer,
) -> None:
    job = await producer.add()
    await producer.start()
    await producer.send("a", "b", "c")
    first = Reader(job)
    await first.until(3)
    second = Reader(job, after=first.chunks[1].id)
    await second.until(1)
    await producer.send("d")
    await producer.end()

    assert await second.ended() == ["c", "d"]
    assert await Reader(job, after=second.chunks[-1].id).ended() == []


async def test_a_failed_job_raises_after_its_last_chunk(producer: Producer) -> None:
    job = await producer.add()
    reader = Reader(job)
    await producer.start()
    await producer.send("a")
    await producer.end(Failed(OOPS))

    with pytest.raises(JobFailed, match="oops"):
        await reader.ended()
    assert reader.values == ["a"]


@ANY
async def test_a_cancelled_job_raises(producer: Producer) -> None:
    job = await producer.add()
    reader = Reader(job)
    await job.cancel("not wanted")

    with pytest.raises(JobCancelled, match="not wanted"):
        await reader.ended()


@ANY
async def test_a_job_that_is_removed_raises(producer: Producer) -> None:
    job = await producer.add()
    await producer.start()
    await producer.send("a")
    reader = Reader(job)
    await reader.until(1)
    await job.remove(force=True)

    with pytest.raises(JobNotFound):
        await reader.ended()


async def test_another_attempt_raises_and_the_stream_begins_again(
    producer: Producer,
) -> None:
    job = await producer.add(attempts=2)
    await producer.start()
    await producer.send("old", "older")
    reader = Reader(job)
    await reader.until(2)
    await producer.end(Retried(OOPS))
    await producer.start()
    await producer.send("new")

    with pytest.raises(StreamRestarted, match=f"job {job.id} was started again"):
        await reader.ended()

    again = Reader(job)
    await again.until(1)
    await producer.end()
    assert await again.ended() == ["new"]
    assert again.chunks[0].attempt == 2
    with pytest.raises(StreamRestarted):
        await Reader(job, after=reader.chunks[0].id).ended()


@ANY
async def test_chunks_of_an_earlier_attempt_are_hidden(producer: Producer) -> None:
    job = await producer.add(attempts=2)
    await producer.start()
    await producer.send("old")
    await producer.end(Retried(OOPS))
    between = Reader(job)
    await producer.start()
    during = Reader(job)
    await producer.send("new")
    await producer.end()

    assert await between.ended() == await during.ended() == ["new"]


@ANY
async def test_chunks_of_a_run_that_was_superseded_do_not_pass_for_the_answer(
    producer: Producer,
) -> None:
    """The run that succeeds sends none, and is of the same attempt."""
    job = await producer.add()
    await producer.start()
    await producer.send("half of it")
    reader = Reader(job)
    await reader.until(1)
    await producer.end(Released(reason="stopped"))
    await producer.start()
    await producer.end()

    with pytest.raises(StreamRestarted):
        await reader.ended()
    assert await Reader(job).ended() == []


async def test_a_job_that_is_removed_on_complete_is_read_by_those_who_are_there(
    producer: Producer,
) -> None:
    job = await producer.add(remove_on_complete=True)
    await producer.start()
    await producer.send("a")
    reader = Reader(job)
    await reader.until(1)
    await producer.send("b", "c")
    await producer.send("d")
    await producer.end()

    assert await reader.ended() == ["a", "b", "c", "d"]
    with pytest.raises(JobNotFound):
        await Reader(job).ended()


@ANY
async def test_a_slow_reader_does_not_end_early_when_its_job_is_removed(
    producer: Producer, q: Kue
) -> None:
    job = await producer.add()
    await producer.start()
    await producer.send("a")
    chunks = job.chunks()
    assert (await anext(chunks)).value == "a"
    await producer.send("b")
    await producer.end()
    await job.remove()

    with pytest.raises(JobNotFound):
        await anext(chunks)


async def test_a_reader_that_missed_events_misses_no_chunk(
    producer: Producer, kue_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kue.client.stream_reader.MAX_CHUNKS", 1)
    job = await producer.add()
    await producer.start()
    chunks = job.chunks()
    reading = asyncio.ensure_future(anext(chunks))
    await producer.send(0)
    assert (await reading).value == 0
    # Nobody reads events now, and only one fits the buffer.
    for number in range(1, 6):
        await producer.send(number)
    await producer.end()

    assert [chunk.value async for chunk in chunks] == [1, 2, 3, 4, 5]


@ANY
async def test_a_job_whose_events_are_off_is_read_too(producer: Producer) -> None:
    job = await producer.add(events=False)
    await producer.start()
    reader = Reader(job)
    await producer.send("a")
    await reader.until(1)
    await producer.send("b")
    await producer.end()

    assert await reader.ended() == ["a", "b"]


@ANY
@pytest.mark.parametrize("has_events", [True, False])
async def test_silence_ends_the_iteration_and_not_the_job(
    producer: Producer, has_events: bool
) -> None:
    job = await producer.add(events=has_events)
    await producer.start()
    await producer.send("a")
    reader = Reader(job, timeout="600ms")

    with pytest.raises(
        TimeoutError, match=r"sent no chunk and did not end within 0\.6"
    ):
        await reader.ended()
    assert reader.values == ["a"]
    await producer.end()


@ANY
async def test_an_idle_reader_asks_for_nothing(producer: Producer, wire: Wire) -> None:
    job = await producer.add()
    await producer.start()
    reader = Reader(job)
    await producer.send("a")
    await reader.until(1)
    before = wire.times("chunks")
    for letter in "bcdef":
        await producer.send(letter)
        await reader.until(len(reader.values) + 1)
    await job.progress(50)
    await job.log("hello")

    # One call for each that was announced, at most.
    assert wire.times("chunks") <= before + 5
    await producer.end()
    await reader.ended()


@ANY
async def test_an_id_that_is_none_is_refused(producer: Producer) -> None:
    job = await producer.add()
    with pytest.raises(ValueError, match="'x' is not the id of a chunk"):
        job.chunks(after="x")


def test_a_stream_is_read_without_awaiting(plain_q: Kue) -> None:
    @plain_q.task
    def spell(word: str) -> Any:
        yield from word

    job = spell.delay("kue")
    with plain_q.sync.work():
        values = in_time(lambda: list(job.stream(timeout=PATIENCE_SECONDS)))
    chunks = list(job.chunks())

    assert values == ["k", "u", "e"]
    assert [chunk.index for chunk in chunks] == [0, 1, 2]
    assert [one.value for one in job.chunks(after=chunks[0].id)] == ["u", "e"]


async def test_jobs_that_run_where_they_are_added_have_streams() -> None:
    async with Kue("sync://") as q:

        @q.task
        async def spell(word: str) -> Any:
            for letter in word:
                yield letter

        job = await spell.enqueue("kue")
        assert [chunk async for chunk in job.stream()] == ["k", "u", "e"]
