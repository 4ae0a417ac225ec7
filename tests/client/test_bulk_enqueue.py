"""Adding many jobs: in chunks, in the order given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kue import BadPayload, Kue, StoreUnavailable
from tests.support.flaky import Wire


async def test_handles_come_in_the_order_of_the_data(q: Kue) -> None:
    handles = await q.enqueue_many("email", [{"i": i} for i in range(1_234)])

    jobs = await q.range(0, -1)
    data_of = {job.id: job.data for job in jobs}
    assert [data_of[handle.id] for handle in handles] == [
        {"i": i} for i in range(1_234)
    ]


async def test_many_jobs_travel_in_chunks_of_500(q: Kue, wire: Wire) -> None:
    await q.enqueue_many("email", range(1_234))

    sizes = sorted(len(args[0]) for name, args, _ in wire.calls if name == "add")
    assert sizes == [234, 500, 500]


async def test_ids_grow_in_the_order_given(q: Kue) -> None:
    """Jobs of one priority run by id: a chunk must not overtake another."""
    handles = await q.enqueue_many("email", range(2_500))

    ids = [handle.id for handle in handles]
    assert ids == sorted(ids)


async def test_the_next_chunk_is_made_while_one_is_on_its_way(
    q: Kue, wire: Wire
) -> None:
    made: list[int] = []

    def data() -> Iterator[int]:
        for number in range(2_000):
            made.append(number)
            yield number

    gate = wire.hold("add")
    adding = asyncio.create_task(q.enqueue_many("email", data()))
    await wire.until_called("add")
    # The delivery goes on as soon as it gets to run.
    await asyncio.sleep(0)
    made_meanwhile = len(made)
    gate.set()

    assert len(await adding) == 2_000
    assert made_meanwhile == 1_000


async def test_progress_is_told_after_each_chunk(q: Kue) -> None:
    told: list[int] = []

    await q.enqueue_many("email", range(1_100), on_progress=told.append)

    assert sorted(told) == told
    assert len(told) == 3
    assert told[-1] == 1_100


async def test_drafts_of_several_types_go_together(q: Kue, wire: Wire) -> None:
    drafts = [q.draft("email", {"i": 1}), q.draft("report", priority="low")]

    handles = await q.enqueue_many(drafts)

    assert [handle.type for handle in handles] == ["email", "report"]
    assert (await handles[1].refresh()).priority == 10
    assert wire.times("add") == 1


async def test_options_apply_to_every_job(q: Kue) -> None:
    handles = await q.enqueue_many("email", range(3), attempts=5)

    assert [(await handle.refresh()).max_attempts for handle in handles] == [5, 5, 5]


async def test_nothing_is_nothing(q: Kue, wire: Wire) -> None:
    assert await q.enqueue_many("email", []) == []
    assert wire.times("add") == 0


async def test_a_bad_one_ends_it_and_tells_how_many_were_added(q: Kue) -> None:
    def data() -> Iterator[Any]:
        yield from range(500)
        yield object()

    with pytest.raises(BadPayload) as caught:
        await q.enqueue_many("email", data())

    assert caught.value.__notes__ == ["500 of the jobs had been added"]
    assert await q.inactive_count() == 500


async def test_no_chunk_is_sent_after_one_failed(q: Kue, wire: Wire) -> None:
    wire.is_cut = True

    with pytest.raises(StoreUnavailable):
        await q.enqueue_many("email", range(5_000))

    assert wire.times("add") == 1


async def test_large_jobs_are_stored_a_megabyte_at_a_time(q: Kue, wire: Wire) -> None:
    """R-7: 500 payloads of 256 KiB were one call."""
    large = ["x" * 250_000] * 10

    handles = await q.enqueue_many("email", large)

    calls = [args[0] for name, args, _ in wire.calls if name == "add"]
    assert [len(drafts) for drafts in calls] == [4, 4, 2]
    assert [handle.id for handle in handles] == list(range(1, 11))
