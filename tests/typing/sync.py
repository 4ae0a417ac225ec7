"""The blocking side has the types of the awaited one, without the waiting."""

from __future__ import annotations

from typing import Any, assert_type

from kue import Event, Job, JobHandle, Kue, State, SyncJobHandle, SyncKue
from kue.store.values import LogLine, Page
from kue.worker import Worker


def what_a_queue_gives(q: SyncKue) -> None:
    assert_type(q.enqueue("email", priority="high"), SyncJobHandle[Any])
    assert_type(q.enqueue_many("email", [1, 2]), list[SyncJobHandle[Any]])
    assert_type(q.get(1), SyncJobHandle[Any])
    assert_type(q.counts(), dict[State, int])
    assert_type(q.range(0, 9, "desc"), list[Job])
    assert_type(q.find(tag="mail"), Page)
    assert_type(q.logs(1), list[LogLine])
    assert_type(q.pause("email"), None)
    assert_type(q.resume("email"), bool)
    assert_type(q.on("job_complete", print), SyncKue)
    for event in q.events("job_failed"):
        assert_type(event, Event)


def what_a_handle_gives(q: SyncKue, awaited: JobHandle[int]) -> None:
    handle = q.held(awaited)
    assert_type(handle, SyncJobHandle[int])
    assert_type(handle.result(timeout=5), int)
    assert_type(handle.refresh(), Job)
    assert_type(handle.off("complete"), SyncJobHandle[int])
    for event in handle.events():
        assert_type(event, Event)


def who_needs_less_takes_more(handle: SyncJobHandle[int]) -> SyncJobHandle[object]:
    return handle


def contexts(queue: Kue) -> None:
    with queue.sync as q:
        assert_type(q, SyncKue)
        with q.work(concurrency=5) as worker:
            assert_type(worker, Worker)
        assert_type(q.run(burst=True), None)


async def fill(q: Kue, number: int, *, type: str = "email") -> list[int]:
    return [(await q.enqueue(type)).id for _ in range(number)]


def ones_own_coroutines(q: SyncKue) -> None:
    assert_type(q.call(fill, 5, type="sms"), list[int])
    assert_type(q.call(Kue.count, "waiting"), int)
