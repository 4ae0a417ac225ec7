"""Subscribers that share a subscription: each gets what is published from then on."""

from __future__ import annotations

import pytest

from kue.model import settings
from kue.model.events import Event, Kind
from kue.store.event_buffer import EventBuffer
from kue.store.redis.store import RedisStore
from kue.store.redis.verbs.watch import _Interest, _ShardSubscription, _Subscriber
from tests.support.jobs import add_one
from tests.support.patience import until
from tests.support.servers import RedisServer


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


async def test_a_new_connection_counts_also_for_who_is_about_to_subscribe() -> None:
    """What it was told is the number of the server before."""
    buffer = EventBuffer(10)
    subscriber = _Subscriber(buffer, _Interest(None))

    subscriber.restart()
    subscriber.begin(5)
    subscriber.deliver(*message(2))

    assert await heard(buffer, 1) == [2]


async def test_who_joins_a_subscription_hears_nothing_from_before(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that are under way arrive when the second has joined the first."""
    under_way: list[tuple[int, list[Event]]] = []
    deliver = _ShardSubscription.deliver
    # Other tests leave jobs and producers behind.
    redis_server.empty()
    store = RedisStore(settings.load(environ={}, url=redis_server.url))
    async with store.watch() as first:
        with monkeypatch.context() as held:
            held.setattr(
                _ShardSubscription, "deliver", lambda _, *one: under_way.append(one)
            )
            before = await add_one(store)
            await until(lambda: bool(under_way))
            async with store.watch() as second:
                held.undo()
                [subscription] = store._subscriptions._subscriptions.values()
                for one in under_way:
                    deliver(subscription, *one)
                after = await add_one(store)

                assert (await anext(second)).job_id == after
    assert (await anext(first)).job_id == before
    assert (await anext(first)).job_id == after
    await store.close()
    redis_server.empty()
