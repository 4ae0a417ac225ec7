"""Handles know what their jobs result in."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type

from kue import Event, Job, JobHandle, Kue, State
from kue.client.connection import Connection
from kue.model.payload import JSON


class Receipt:
    """What some job results in."""


def receipt(stored: JSON) -> Receipt:
    return Receipt()


async def what_a_queue_gives(q: Kue) -> None:
    assert_type(await q.enqueue("email"), JobHandle[Any])
    assert_type(await q.enqueue_many("email", [1, 2]), list[JobHandle[Any]])
    assert_type(await q.get(1), JobHandle[Any])
    assert_type(await q.create_job("email").save(), JobHandle[Any])
    assert_type(await q.counts(), dict[State, int])


async def what_a_handle_gives(handle: JobHandle[Receipt]) -> None:
    assert_type(await handle.result(), Receipt)
    assert_type(await handle.result(timeout="5s"), Receipt)
    assert_type(await handle.refresh(), Job)
    assert_type(await handle.cancel(), bool)
    assert_type(handle.on("complete", print), JobHandle[Receipt])
    async for event in handle.events():
        assert_type(event, Event)


def what_a_reader_makes(session: Connection) -> None:
    handle = JobHandle(session, 1, "pay", reader=receipt)
    assert_type(handle, JobHandle[Receipt])


def who_needs_less_takes_more(handle: JobHandle[Receipt]) -> JobHandle[object]:
    return handle


async def durations(handle: JobHandle[Any], moment: datetime) -> None:
    await handle.delay(5)
    await handle.delay("10m")
    await handle.delay(moment)
