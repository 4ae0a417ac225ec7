"""`Store.append_chunks` and `Store.chunks`: what a run sends while it goes on."""

from __future__ import annotations

import pytest

from kue.model.events import Kind
from kue.model.job import Completed, Failed, Job, Retried, State
from kue.model.settings import Keep
from kue.model.stream import BEGINNING, Chunk, Position, SentChunks
from kue.store.codec import chunk_of
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    MAX_CALL_BYTES,
    MoveRequest,
    Progress,
    RemoveRequest,
    Result,
)
from tests.support.jobs import (
    OOPS,
    SECOND,
    T0,
    add_one,
    claim_one,
    end,
    start_one,
)
from tests.support.upkeep import lose_worker, tend


def sent(job: Job, *values: object, start: int = 0) -> SentChunks:
    return SentChunks(job, start, [chunk_of(value) for value in values])


async def send(store: Store, job: Job, *values: object, start: int = 0) -> Result:
    [word] = await store.append_chunks([sent(job, *values, start=start)], now=T0)
    return word


async def values(
    store: Store, job_id: int, after: Position = BEGINNING, limit: int = MAX_BATCH
) -> list[object]:
    return [one.value for one in await store.chunks(job_id, after, limit=limit)]


async def test_chunks_are_read_in_the_order_in_which_they_were_sent(
    store: Store,
) -> None:
    job = await start_one(store)
    assert await send(store, job, "a", {"b": [1, None]}) is Result.DONE
    assert await send(store, job, 3, "\x00\n\t", start=2) is Result.DONE

    found = await store.chunks(job.id)

    assert [one.value for one in found] == ["a", {"b": [1, None]}, 3, "\x00\n\t"]
    assert [one.index for one in found] == [0, 1, 2, 3]
    assert found[0] == Chunk(job.fence, 0, 1, T0, "a")


async def test_chunks_after_a_position_are_read(store: Store) -> None:
    job = await start_one(store)
    await send(store, job, *range(10))
    first = await store.chunks(job.id, limit=4)

    assert await values(store, job.id, first[-1].next) == [4, 5, 6, 7, 8, 9]
    assert await values(store, job.id, Position.after(first[0].id), 2) == [1, 2]
    assert await values(store, job.id, Position(job.fence, 10)) == []


async def test_a_page_is_bounded_by_bytes(store: Store) -> None:
    job = await start_one(store)
    large = "x" * 60_000
    for number in range(40):
        await send(store, job, large, start=number)

    pages = [await store.chunks(job.id)]
    while pages[-1]:
        pages.append(await store.chunks(job.id, pages[-1][-1].next))

    assert sum(map(len, pages)) == 40
    # A part of the page is read at once.
    assert len(pages[0]) * 60_000 < 4 * MAX_CALL_BYTES


async def test_a_call_that_is_repeated_adds_nothing(store: Store) -> None:
    job = await start_one(store)
    await send(store, job, 1, 2)
    assert await send(store, job, 1, 2) is Result.DONE
    # Some of them were written before.
    assert await send(store, job, 2, 3, start=1) is Result.DONE

    assert await values(store, job.id) == [1, 2, 3]


async def test_chunks_are_refused_when_earlier_ones_are_missing(store: Store) -> None:
    job = await start_one(store)
    assert await send(store, job, "late", start=1) is Result.REFUSED
    assert await values(store, job.id) == []


async def test_chunks_of_a_run_that_was_reclaimed_are_lost(store: Store) -> None:
    job = await start_one(store)
    await send(store, job, "old")
    await lose_worker(store, T0)
    assert await send(store, job, "zombie", start=1) is Result.LOST

    again = await claim_one(store, now=T0 + 60 * SECOND)
    assert await send(store, again, "new") is Result.DONE
    assert await send(store, job, "zombie", start=1) is Result.LOST

    assert await values(store, job.id) == ["new"]


async def test_the_first_chunk_of_another_run_replaces_those_of_the_one_before(
    store: Store,
) -> None:
    job = await start_one(store, attempts=2)
    await send(store, job, 1, 2, 3)
    position = (await store.chunks(job.id))[-1].next
    await end(store, job, Retried(OOPS))
    again = await claim_one(store)
    assert await values(store, job.id) == [1, 2, 3]

    await send(store, again, "one")

    [found] = await store.chunks(job.id, position)
    assert (found.value, found.attempt, found.run) == ("one", 2, again.fence)


async def test_a_job_that_ended_gets_no_chunks_and_keeps_those_it_has(
    store: Store,
) -> None:
    job = await start_one(store)
    await send(store, job, "last")
    await end(store, job, Completed())

    assert await send(store, job, "more", start=1) is Result.LOST
    assert await values(store, job.id) == ["last"]


async def test_a_job_that_was_removed_has_no_stream(store: Store) -> None:
    job = await start_one(store)
    await send(store, job, "text")
    await end(store, job, Failed(OOPS))
    await store.remove(RemoveRequest([job.id]), now=T0)

    assert await values(store, job.id) == []
    assert await send(store, job, "more", start=1) is Result.GONE


async def test_the_stream_of_a_job_expires_with_it(store: Store) -> None:
    job = await start_one(store)
    await send(store, job, "text")
    await end(store, job, Completed())
    await tend(store, T0 + SECOND, keep=Keep(complete_count=0))

    assert await store.get([job.id]) == [None]
    assert await values(store, job.id) == []


async def test_a_job_that_is_removed_on_complete_leaves_no_stream(store: Store) -> None:
    job = await start_one(store, remove_on_complete=True)
    await send(store, job, "text")
    await end(store, job, Completed())

    assert await values(store, job.id) == []


async def test_a_job_that_is_retried_by_hand_replaces_its_stream(store: Store) -> None:
    job = await start_one(store)
    await send(store, job, "first")
    await end(store, job, Failed(OOPS))
    await store.move(MoveRequest([job.id], State.WAITING), now=T0)
    again = await claim_one(store)
    await send(store, again, "second")

    assert await values(store, job.id) == ["second"]


async def test_chunks_of_many_jobs_are_written_by_one_call(store: Store) -> None:
    jobs = [await start_one(store, f"type{number}") for number in range(5)]
    gone = await start_one(store, "gone")
    await store.remove(RemoveRequest([gone.id], force=True), now=T0)

    words = await store.append_chunks(
        [sent(job, job.id) for job in [*jobs, gone]], now=T0
    )

    assert words == [*[Result.DONE] * 5, Result.GONE]
    assert [await values(store, job.id) for job in jobs] == [[job.id] for job in jobs]


async def test_a_call_has_no_more_than_500_chunks(store: Store) -> None:
    job = await start_one(store)
    with pytest.raises(ValueError, match="at most 500 chunks, not 501"):
        await send(store, job, *range(501))


async def test_new_chunks_are_announced_without_their_values(store: Store) -> None:
    job = await start_one(store)
    async with store.watch([job.id]) as events:
        await send(store, job, "a", "b")
        await send(store, job, "b", "c", start=1)
        first, second = await anext(events), await anext(events)

    assert (first.kind, first.attempt) == (Kind.CHUNK, 1)
    assert first.detail == {"run": job.fence, "start": 0, "number": 2}
    assert second.detail == {"run": job.fence, "start": 2, "number": 1}


async def test_subscribers_to_all_jobs_hear_nothing_of_chunks(store: Store) -> None:
    job = await start_one(store)
    async with store.watch() as everything, store.watch([job.id]) as events:
        await send(store, job, "a")
        await store.progress([Progress(job.id, 50)])
        assert (await anext(events)).kind is Kind.CHUNK
        assert (await anext(everything)).kind is Kind.PROGRESS


async def test_events_have_the_chunks_of_a_job_that_leaves_none(store: Store) -> None:
    job = await start_one(store, remove_on_complete=True)
    async with store.watch([job.id]) as events:
        await send(store, job, "a", {"b": 2})
        event = await anext(events)

    assert event.detail["values"] == ["a", {"b": 2}]


async def test_a_job_without_a_stream_has_no_chunks(store: Store) -> None:
    job_id = await add_one(store)
    assert await values(store, job_id) == []
    assert await values(store, job_id + 1) == []
