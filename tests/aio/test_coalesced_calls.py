"""Calls that are coalesced: what is added during one call goes with the next."""

from __future__ import annotations

import asyncio

from kue.aio.coalesced_calls import CoalescedCalls


class Batches:
    """Collects numbers, and makes calls with all that wait."""

    def __init__(self, *, limit: int = 1) -> None:
        self.waiting: list[int] = []
        self.made: list[list[int]] = []
        self.calls = CoalescedCalls(self._make, "batches", limit=limit)

    def add(self, number: int) -> None:
        self.waiting.append(number)
        self.calls.start()

    async def _make(self) -> None:
        while self.waiting:
            batch, self.waiting = self.waiting, []
            await asyncio.sleep(0)
            self.made.append(batch)


async def test_what_is_added_during_a_call_goes_with_the_next() -> None:
    batches = Batches()
    batches.add(1)
    await asyncio.sleep(0)
    batches.add(2)
    batches.add(3)
    await batches.calls.finish()

    assert batches.made == [[1], [2, 3]]
    assert not batches.calls.tasks


async def test_work_starts_again_after_its_end() -> None:
    batches = Batches()
    batches.add(1)
    await batches.calls.finish()
    batches.add(2)
    await batches.calls.finish()

    assert batches.made == [[1], [2]]


async def test_several_tasks_may_work_at_once() -> None:
    batches = Batches(limit=2)
    for number in range(3):
        batches.add(number)
        await asyncio.sleep(0)
        assert len(batches.calls.tasks) <= 2
    await batches.calls.finish()

    assert [number for made in batches.made for number in made] == [0, 1, 2]


async def test_a_task_that_is_cancelled_before_it_began_blocks_nothing() -> None:
    batches = Batches()
    batches.add(1)
    await batches.calls.cancel()
    await batches.calls.finish()
    batches.add(2)
    await batches.calls.finish()

    assert batches.made == [[1, 2]]
