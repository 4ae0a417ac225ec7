"""A full type as producers see it: an error, a wait, or another job that goes."""

from __future__ import annotations

import asyncio

import pytest

from kue import Kue, QueueFull, State
from kue.client import backpressure
from kue.model.payload import JSON
from tests.support.patience import PATIENCE_SECONDS


async def take_first(q: Kue) -> JSON:
    """Take the first waiting job away, as a worker does; None if none waits."""
    for job in (await q.page("waiting", "email", limit=1)).jobs:
        await (await q.get(job.id)).cancel()
        return job.data
    return None


async def test_a_refused_job_is_an_error_that_says_what_to_do(q: Kue) -> None:
    await q.limit("email", max_waiting=1)
    await q.enqueue("email")

    with pytest.raises(QueueFull) as caught:
        await q.enqueue("email")

    assert str(caught.value) == (
        "no job of type 'email' was added: 1 wait already, as many as its cap allows; "
        "add it later, run more workers, or raise max_waiting"
    )
    assert (caught.value.type, caught.value.most) == ("email", 1)
    assert await q.inactive_count() == 1


async def test_a_task_a_builder_and_blocking_code_are_refused_alike(q: Kue) -> None:
    @q.task(name="email")
    async def email() -> None: ...

    await q.limit("email", max_waiting=1)
    await email.enqueue()

    with pytest.raises(QueueFull):
        await email.enqueue()
    with pytest.raises(QueueFull):
        await q.create_job("email").save()
    with pytest.raises(QueueFull):
        await asyncio.to_thread(q.sync.enqueue, "email")


async def test_those_that_fit_are_added_beside_one_that_is_refused(q: Kue) -> None:
    """Concurrent callers share a call, but not each other's fate."""
    await q.limit("email", max_waiting=2)

    results = await asyncio.gather(
        *(q.enqueue("email") for _ in range(4)),
        *(q.enqueue("video") for _ in range(4)),
        return_exceptions=True,
    )

    assert [isinstance(one, QueueFull) for one in results] == [
        *(False, False, True, True),
        *(False, False, False, False),
    ]


async def test_a_bulk_add_says_how_many_were_added(q: Kue) -> None:
    await q.limit("email", max_waiting=700)

    with pytest.raises(QueueFull) as caught:
        await q.enqueue_many("email", range(1_200))

    assert caught.value.added == 700
    assert caught.value.__notes__ == ["700 of the jobs had been added"]
    assert await q.inactive_count() == 700


async def test_a_producer_waits_for_room(q: Kue) -> None:
    await q.limit("email", max_waiting=1, when_full="wait", full_timeout="1h")
    await q.enqueue("email", "first")
    waiting = asyncio.create_task(q.enqueue("email", "second"))
    others = await q.enqueue("video")
    assert others.is_new
    assert not waiting.done()

    assert await take_first(q) == "first"

    async with asyncio.timeout(PATIENCE_SECONDS):
        handle = await waiting
    assert (await handle.refresh()).state is State.WAITING


async def test_a_bulk_add_waits_for_room_and_keeps_its_order(q: Kue) -> None:
    await q.limit("email", max_waiting=3, when_full="wait", full_timeout="1h")
    adding = asyncio.create_task(q.enqueue_many("email", range(7)))
    seen: list[JSON] = []

    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(seen) < 7:
            seen += [one] if (one := await take_first(q)) is not None else []
        handles = await adding

    assert seen == list(range(7))
    assert len({handle.id for handle in handles}) == 7


async def test_a_producer_waits_no_longer_than_it_should(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backpressure, "MAX_WAIT_SECONDS", 0.01)
    await q.limit("email", max_waiting=1, when_full="wait", full_timeout=0.05)
    await q.enqueue("email")

    with pytest.raises(QueueFull, match=r"was added after 0\.05 s: 1 wait already"):
        await q.enqueue("email")


async def test_a_waiting_producer_goes_on_when_the_cap_is_raised(q: Kue) -> None:
    await q.limit("email", max_waiting=1, when_full="wait", full_timeout="1h")
    await q.enqueue("email")
    waiting = asyncio.create_task(q.enqueue("email"))
    await asyncio.sleep(0)

    await q.limit("email")

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await waiting).is_new


async def test_a_waiting_producer_can_give_up(q: Kue) -> None:
    await q.limit("email", max_waiting=1, when_full="wait", full_timeout="1h")
    await q.enqueue("email")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await q.enqueue("email")

    assert await q.inactive_count() == 1


async def test_the_oldest_is_dropped_for_a_new_one(q: Kue) -> None:
    await q.limit("email", max_waiting=2, when_full="drop-oldest")
    first, *_ = [await q.enqueue("email", n) for n in range(3)]

    job = await first.refresh()
    assert job.state is State.CANCELLED
    assert job.history[-1].reason.startswith("dropped: 2 jobs")


async def test_a_durable_add_is_refused_as_well(q: Kue) -> None:
    await q.limit("email", max_waiting=1)
    await q.enqueue("email")

    with pytest.raises(QueueFull):
        await q.create_job("email").save(durable=True)


async def test_a_schedule_that_fires_into_a_full_type_adds_nothing(q: Kue) -> None:
    await q.limit("email", max_waiting=1)
    await q.enqueue("email")
    await q.schedule("hourly", q.draft("email"), every="1h")

    with pytest.raises(QueueFull):
        await q.run_schedule("hourly")

    assert await q.inactive_count() == 1
