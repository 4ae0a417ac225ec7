"""Subscribers that share a subscription: each gets what is published from then on."""

from __future__ import annotations

from kue.model.events import Event, Kind
from kue.store.event_buffer import EventBuffer
from kue.store.redis.verbs.watch import _Interest, _Subscriber


def message(number: int) -> tuple[int, list[Event]]:
    event = Event(
        kind=Kind.ENQUEUE, job_id=number, type="email", at=0, attempt=0, detail={}
    )
    return number, [event]


async def heard(buffer: EventBuffer, count: int) -> list[int]:
    return [(await anext(buffer)).job_id for _ in range(count)]


async def test_a_message_that_is_under_way_is_not_for_who_subscribes_later() -> None:
    buffer = EventBuffer(10)
    subscriber = _Subscriber(buffer, _Interest(None))

    subscriber.begin(5)
    for number in (5, 6, 7):
        subscriber.deliver(*message(number))

    assert await heard(buffer, 2) == [6, 7]


async def test_a_message_that_overtakes_the_confirmation_is_not_lost() -> None:
    buffer = EventBuffer(10)
    subscriber = _Subscriber(buffer, _Interest(None))

    for number in (5, 6):
        subscriber.deliver(*message(number))
    subscriber.begin(5)
    subscriber.deliver(*message(7))

    assert await heard(buffer, 2) == [6, 7]


async def test_another_server_may_count_from_a_lower_number() -> None:
    buffer = EventBuffer(10)
    subscriber = _Subscriber(buffer, _Interest(None))
    subscriber.begin(5)

    subscriber.restart()
    subscriber.deliver(*message(2))

    assert await heard(buffer, 1) == [2]
