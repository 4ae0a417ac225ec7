"""What listeners hear: of one job, and of a whole queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kue import Event, JobHandle, Kind, Kue
from kue.model.job import Completed, Ending, Failed, Retried, State
from kue.store.contract import Store
from kue.store.values import Progress
from tests.support.flaky import Wire
from tests.support.jobs import OOPS, claim_one, end
from tests.support.patience import PATIENCE_SECONDS, until


class Ear:
    """Remembers what it hears, and can be waited for."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self._changed = asyncio.Condition()

    async def __call__(self, event: Event) -> None:
        async with self._changed:
            self.heard.append(event)
            self._changed.notify_all()

    @property
    def kinds(self) -> list[Kind]:
        return [event.kind for event in self.heard]

    async def until(self, is_so: Callable[[list[Event]], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(lambda: is_so(self.heard))

    async def until_heard(self, number: int) -> None:
        await self.until(lambda heard: len(heard) >= number)


async def run_once(store: Store, type: str, ending: Ending) -> None:
    """Start the best job of *type* and end it."""
    now = await store.now()
    job = await claim_one(store, type, now=now)
    await end(store, job, ending, now=now)


# -- of a queue --------------------------------------------------------------


async def test_a_queue_hears_of_every_kind_of_event(q: Kue, kue_store: Store) -> None:
    ear = Ear()
    for kind in set(Kind) - {Kind.ALERT, Kind.CHUNK}:
        q.on(f"job_{kind}", ear)

    handle = await q.enqueue("email", delay="1h", attempts=2)
    await handle.promote()
    now = await kue_store.now()
    job = await claim_one(kue_store, now=now)
    await handle.progress(1, 2)
    await end(kue_store, job, Retried(OOPS), now=now)
    await handle.update(priority=3)
    await run_once(kue_store, "email", Failed(OOPS))
    await handle.retry()
    await run_once(kue_store, "email", Completed())
    await handle.remove()
    other = await q.enqueue("email")
    await other.cancel("no")

    await ear.until(lambda heard: heard[-1].kind is Kind.CANCELLED)
    assert ear.kinds == [
        Kind.ENQUEUE,
        Kind.PROMOTION,
        Kind.START,
        Kind.PROGRESS,
        Kind.FAILED_ATTEMPT,
        Kind.UPDATE,
        Kind.START,
        Kind.FAILED,
        Kind.ENQUEUE,
        Kind.START,
        Kind.COMPLETE,
        Kind.REMOVE,
        Kind.ENQUEUE,
        Kind.CANCELLED,
    ]
    assert {event.job_id for event in ear.heard[:-2]} == {handle.id}
    assert {event.type for event in ear.heard} == {"email"}


async def test_chunks_are_for_listeners_of_one_job(q: Kue) -> None:
    with pytest.raises(ValueError, match="event 'job_chunk' is unknown"):
        q.on("job_chunk", print)
    (await q.enqueue("email")).on("chunk", print)


async def test_every_listener_hears_every_event(q: Kue, kue_store: Store) -> None:
    """None is taken by another, and none by what the queue counts for itself."""
    one, two = Ear(), Ear()
    q.on("job_complete", one).on("job_complete", two)
    await q.enqueue_many("email", range(5))

    for _ in range(5):
        await run_once(kue_store, "email", Completed())

    await one.until_heard(5)
    await two.until_heard(5)
    assert one.heard == two.heard


async def test_what_an_event_tells_is_so_when_it_is_heard(
    q: Kue, kue_store: Store
) -> None:
    states: list[State] = []
    done = asyncio.Event()

    async def look(event: Event) -> None:
        states.append((await (await q.get(event.job_id)).refresh()).state)
        done.set()

    q.on("job_complete", look)
    await q.enqueue("email")
    await run_once(kue_store, "email", Completed())

    await asyncio.wait_for(done.wait(), 50)
    assert states == [State.COMPLETE]


async def test_a_failed_attempt_is_not_told_as_failed(q: Kue, kue_store: Store) -> None:
    ear = Ear()
    q.on("job_failed", ear).on("job_failed_attempt", ear)
    await q.enqueue("email", attempts=2)

    await run_once(kue_store, "email", Retried(OOPS))
    await run_once(kue_store, "email", Failed(OOPS))

    await ear.until_heard(2)
    assert ear.kinds == [Kind.FAILED_ATTEMPT, Kind.FAILED]
    assert [event.attempt for event in ear.heard] == [1, 2]
    assert all(
        (event.detail["kind"], event.detail["message"]) == ("ValueError", "oops")
        for event in ear.heard
    )


async def test_any_name_of_a_type_is_told_as_it_is(q: Kue) -> None:
    ear = Ear()
    q.on("job_enqueue", ear)
    names = ["learn vertx", "a:b", "{tag}", "50 %", "größe"]

    for name in names:
        await q.enqueue(name)

    await ear.until_heard(5)
    assert [event.type for event in ear.heard] == names


async def test_a_callback_that_raises_disturbs_nobody(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("no")

    async def broken_later(event: Event) -> None:
        raise RuntimeError("no")

    ear = Ear()
    q.on("job_enqueue", broken).on("job_enqueue", broken_later).on("job_enqueue", ear)

    with caplog.at_level(logging.ERROR):
        await q.enqueue_many("email", range(2))
        await ear.until_heard(2)

    assert [record.getMessage()[:8] for record in caplog.records] == ["callback"] * 4


async def test_a_callback_may_be_an_ordinary_function(q: Kue) -> None:
    heard: list[Event] = []
    ear = Ear()
    q.on("job_enqueue", heard.append).on("job_enqueue", ear)

    await q.enqueue("email")

    await ear.until_heard(1)
    assert [event.kind for event in heard] == [Kind.ENQUEUE]


async def test_a_callback_taken_off_hears_no_more(q: Kue) -> None:
    gone, staying = Ear(), Ear()
    q.on("job_enqueue", gone).on("job_enqueue", staying)
    await q.enqueue("email")
    await gone.until_heard(1)

    q.off("job_enqueue", gone)
    await q.enqueue("email")

    await staying.until_heard(2)
    assert len(gone.heard) == 1


async def test_listening_again_after_the_last_was_taken_off(q: Kue) -> None:
    ear = Ear()
    q.on("job_enqueue", ear)
    await q.enqueue("email")
    await ear.until_heard(1)
    q.off("job_enqueue")
    await q.enqueue("email")

    q.on("job_enqueue", ear)
    await q.enqueue("report")

    await ear.until_heard(2)
    assert [event.type for event in ear.heard] == ["email", "report"]


async def test_a_callback_that_takes_itself_off_is_not_interrupted(q: Kue) -> None:
    ear = Ear()

    async def once(event: Event) -> None:
        q.off("job_enqueue", once)
        await asyncio.sleep(0)
        await ear(event)

    for number in (1, 2):
        q.on("job_enqueue", once)
        await q.enqueue("email")
        await ear.until_heard(number)

    await until(lambda: not _listening())


def test_callbacks_can_be_registered_before_there_is_an_event_loop() -> None:
    ear = Ear()
    q = Kue("memory://").on("job_enqueue", ear)

    async def main() -> None:
        async with q:
            await q.enqueue("email")
            await ear.until_heard(1)

    asyncio.run(main())


def test_a_queue_can_be_used_in_one_event_loop_after_another() -> None:
    heard: list[Event] = []
    q = Kue("memory://").on("job_enqueue", heard.append)

    async def main(type: str) -> None:
        ear = Ear()
        q.on("job_enqueue", ear)
        await q.enqueue(type)
        await ear.until_heard(1)
        q.off("job_enqueue", ear)
        await q.close()

    asyncio.run(main("email"))
    asyncio.run(main("report"))

    assert [event.type for event in heard] == ["email", "report"]


async def test_names_with_spaces_are_kues_own(q: Kue) -> None:
    ear = Ear()
    q.on("job enqueue", ear)

    await q.enqueue("email")

    await ear.until_heard(1)


@pytest.mark.parametrize("name", ["complete", "job_finished", ""])
def test_an_unknown_event_is_refused_with_the_known_ones(name: str) -> None:
    q = Kue("memory://")

    for verb in (
        lambda: q.on(name, print),
        lambda: q.off(name),
        lambda: q.events(name),
    ):
        with pytest.raises(ValueError, match=r"unknown; there are job_enqueue, .*job_"):
            verb()


async def test_events_can_be_iterated(q: Kue, kue_store: Store) -> None:
    heard: list[Event] = []
    listening = asyncio.Event()

    async def listen() -> None:
        async for event in q.events("job_enqueue", "job_complete"):
            heard.append(event)
            listening.set()
            if event.kind is Kind.COMPLETE:
                return

    task = asyncio.create_task(listen())
    while not listening.is_set():
        # The iterator says nothing until it hears something.
        await q.enqueue("other")
        await asyncio.sleep(0)
    await q.enqueue("email")
    await run_once(kue_store, "email", Completed())

    await asyncio.wait_for(task, 50)
    assert {event.kind for event in heard} == {Kind.ENQUEUE, Kind.COMPLETE}


# -- of one job --------------------------------------------------------------


async def test_a_job_tells_its_story_to_the_end(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    handle = await q.enqueue("email", attempts=2)
    telling = asyncio.create_task(story_of(handle))
    await wire.until_answered("get")

    await run_once(kue_store, "email", Retried(OOPS))
    await run_once(kue_store, "email", Completed())

    kinds = [event.kind for event in await asyncio.wait_for(telling, 50)]
    assert kinds == [Kind.START, Kind.FAILED_ATTEMPT, Kind.START, Kind.COMPLETE]


async def test_a_slow_reader_is_told_so_and_still_hears_of_the_end(
    q: Kue, kue_store: Store
) -> None:
    """What it missed may have been the end, so it looks again."""
    handle = await q.enqueue("email")
    now = await kue_store.now()
    events = handle.events()
    first = asyncio.ensure_future(anext(events))
    while not first.done():
        # Nothing tells that the subscription is made but an event.
        await handle.update(priority=1)
    job = await claim_one(kue_store, now=now)
    for step in range(1_100):
        await kue_store.progress([Progress(job.id, step // 11)])
    await end(kue_store, job, Completed(), now=now)

    kinds = [event.kind async for event in events]

    assert Kind.LAGGED in kinds
    assert kinds[-1] is Kind.COMPLETE
    assert kinds.count(Kind.COMPLETE) == 1


async def test_a_job_that_has_ended_tells_its_end(q: Kue, kue_store: Store) -> None:
    handle = await q.enqueue("email")
    await run_once(kue_store, "email", Failed(OOPS))

    [event] = await asyncio.wait_for(story_of(handle), 50)

    assert (event.kind, event.job_id, event.attempt) == (Kind.FAILED, handle.id, 1)
    assert event.detail == {"kind": "ValueError", "message": "oops"}


async def test_a_cancelled_job_tells_why(q: Kue) -> None:
    handle = await q.enqueue("email")
    await handle.cancel("not wanted")

    [event] = await asyncio.wait_for(story_of(handle), 50)

    assert (event.kind, event.detail) == (Kind.CANCELLED, {"reason": "not wanted"})


async def test_a_jobs_callbacks_hear_only_of_that_job(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    handle = await q.enqueue("email")
    ear = Ear()
    handle.on("start", ear).on("complete", ear)
    await wire.until_answered("get")

    await q.enqueue_many("email", range(3), priority="low")
    for _ in range(4):
        await run_once(kue_store, "email", Completed())

    await ear.until_heard(2)
    assert ear.kinds == [Kind.START, Kind.COMPLETE]
    assert {event.job_id for event in ear.heard} == {handle.id}


async def test_a_callback_for_remove_hears_of_the_removal(q: Kue, wire: Wire) -> None:
    handle = await q.enqueue("email")
    ear = Ear()
    handle.on("remove", ear)
    await wire.until_answered("get")

    await handle.remove()

    await ear.until_heard(1)
    assert ear.kinds == [Kind.REMOVE]


async def test_a_callback_for_a_job_that_is_gone_is_told_so(q: Kue) -> None:
    handle = await q.enqueue("email")
    await handle.remove()
    ear = Ear()

    handle.on("remove", ear)

    await ear.until_heard(1)
    assert (ear.kinds, ear.heard[0].job_id) == ([Kind.REMOVE], handle.id)


async def test_a_callback_for_an_end_that_was_is_told_of_it(
    q: Kue, kue_store: Store
) -> None:
    handle = await q.enqueue("email")
    await run_once(kue_store, "email", Completed())
    ear = Ear()

    handle.on("complete", ear)

    await ear.until_heard(1)


async def test_nothing_listens_once_the_job_has_ended(q: Kue, kue_store: Store) -> None:
    handle = await q.enqueue("email")
    ear = Ear()
    handle.on("complete", ear)
    listener = listener_of(handle)

    await run_once(kue_store, "email", Completed())

    await asyncio.wait_for(listener, 50)
    assert ear.kinds == [Kind.COMPLETE]


async def test_a_job_callback_taken_off_hears_no_more(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    handle = await q.enqueue("email")
    gone, staying = Ear(), Ear()
    handle.on("complete", gone).on("complete", staying)

    handle.off("complete", gone)
    await run_once(kue_store, "email", Completed())

    await staying.until_heard(1)
    assert gone.heard == []


async def test_an_unknown_event_of_a_job_is_refused(q: Kue) -> None:
    handle = await q.enqueue("email")

    with pytest.raises(ValueError, match="'done' is unknown; there are enqueue, start"):
        handle.on("done", print)


async def test_closing_the_queue_ends_all_listening(q: Kue) -> None:
    handle = await q.enqueue("email")
    handle.on("complete", print)
    q.on("job_complete", print)
    tasks = [task for task in asyncio.all_tasks() if "listeners" in task.get_name()]
    assert len(tasks) == 2

    await q.close()

    assert all(task.done() for task in tasks)


async def story_of(handle: JobHandle[Any]) -> list[Event]:
    return [event async for event in handle.events()]


def listener_of(handle: JobHandle[Any]) -> asyncio.Task[object]:
    name = f"kue listeners of job {handle.id}"
    [task] = [task for task in asyncio.all_tasks() if task.get_name() == name]
    return task


def _listening() -> list[asyncio.Task[object]]:
    name = "kue listeners"
    return [task for task in asyncio.all_tasks() if task.get_name() == name]
