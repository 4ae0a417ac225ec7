"""Adds that are made at the same time travel together; each job is added once."""

from __future__ import annotations

import asyncio

import pytest

from kue import JobHandle, Kue, StoreUnavailable, UnknownParent
from tests.support.flaky import Wire


async def test_a_hundred_adds_at_once_are_one_call(q: Kue, wire: Wire) -> None:
    handles = await asyncio.gather(*(q.enqueue("email", i) for i in range(100)))

    assert wire.times("add") == 1
    assert len({handle.id for handle in handles}) == 100
    assert [(await handle.refresh()).data for handle in handles[:3]] == [0, 1, 2]


async def test_adds_collect_while_one_is_on_its_way(q: Kue, wire: Wire) -> None:
    gate = wire.hold("add")
    first = asyncio.create_task(q.enqueue("email", "first"))
    await wire.until_called("add")
    others = [asyncio.create_task(q.enqueue("email", i)) for i in range(20)]
    # They hand in their drafts as soon as they get to run.
    await asyncio.sleep(0)

    gate.set()
    await asyncio.gather(first, *others)

    assert wire.times("add") == 2


async def test_more_than_one_call_can_carry_are_several(q: Kue, wire: Wire) -> None:
    await asyncio.gather(*(q.enqueue("email", i) for i in range(1_001)))

    assert wire.times("add") == 3
    assert await q.inactive_count() == 1_001


async def test_a_job_that_waits_for_an_unknown_one_fails_no_other_add(q: Kue) -> None:
    good = (q.enqueue("email", number) for number in range(3))
    answers = await asyncio.gather(
        q.enqueue("email", after=[4711]), *good, return_exceptions=True
    )

    assert [type(answer) for answer in answers] == [UnknownParent] + [JobHandle] * 3
    assert await q.inactive_count() == 3


async def test_a_lane_counts_its_calls(q: Kue, wire: Wire) -> None:
    for _ in range(3):
        await q.enqueue("email")

    calls = [given for name, _, given in wire.calls if name == "add"]
    assert len({given["producer"] for given in calls}) == 1
    assert [given["seq"] for given in calls] == [1, 2, 3]


async def test_a_caller_that_is_cancelled_takes_nobody_along(
    q: Kue, wire: Wire
) -> None:
    gate = wire.hold("add")
    doomed = asyncio.create_task(q.enqueue("email", "doomed"))
    other = asyncio.create_task(q.enqueue("email", "other"))
    await wire.until_called("add")

    doomed.cancel()
    gate.set()

    assert (await (await other).refresh()).data == "other"
    with pytest.raises(asyncio.CancelledError):
        await doomed


async def test_a_caller_cancelled_before_take_off_adds_nothing(
    q: Kue, wire: Wire
) -> None:
    gate = wire.hold("add")
    first = asyncio.create_task(q.enqueue("email", "first"))
    await wire.until_called("add")
    doomed = asyncio.create_task(q.enqueue("email", "doomed"))
    # It hands in its draft as soon as it gets to run.
    await asyncio.sleep(0)

    doomed.cancel()
    gate.set()
    await first
    await q.enqueue("email", "last")

    assert [job.data for job in await q.range(0, -1)] == ["first", "last"]


async def test_all_who_travelled_together_hear_of_a_failure(q: Kue, wire: Wire) -> None:
    wire.is_cut = True

    answers = await asyncio.gather(
        *(q.enqueue("email", i) for i in range(3)), return_exceptions=True
    )

    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3


async def test_a_producer_whose_reply_was_lost_is_not_used_again(
    q: Kue, wire: Wire
) -> None:
    """Its number may have been used: the next call would be taken for a repetition."""
    wire.lose_reply("add")
    with pytest.raises(StoreUnavailable):
        await q.enqueue("email", "did it arrive?")
    lost = wire.last("add")["producer"]

    handle = await q.enqueue("email", "another")

    assert wire.last("add")["producer"] != lost
    assert (await handle.refresh()).data == "another"


async def test_closing_lets_adds_on_their_way_arrive(q: Kue, wire: Wire) -> None:
    gate = wire.hold("add")
    adding = asyncio.create_task(q.enqueue("email"))
    await wire.until_called("add")

    closing = asyncio.create_task(q.close())
    gate.set()
    await closing

    assert (await adding).id > 0


async def test_large_adds_at_once_are_calls_of_a_megabyte(q: Kue, wire: Wire) -> None:
    """R-7: so that a full store refuses those it did not store, and no other."""
    large = "x" * 250_000

    await asyncio.gather(*(q.enqueue("email", large) for _ in range(12)))

    calls = [args[0] for name, args, _ in wire.calls if name == "add"]
    assert [len(drafts) for drafts in calls] == [4, 4, 4]
    assert await q.inactive_count() == 12
