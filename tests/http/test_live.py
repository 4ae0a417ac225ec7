"""One subscription for all who watch: buffers, resuming, when it begins and ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kue import Kue
from kue.http.streaming.broadcast import EventBroadcast
from kue.http.streaming.client_buffer import (
    BufferLimits,
    ClientBuffer,
    EventFilter,
    RecentMessages,
    StreamMessage,
    StreamPayload,
)
from kue.model.events import Event, Kind
from kue.store.contract import Events, Store
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer

ALL = EventFilter()
#: Nothing is waited for that a test need not wait for.
BRISK = BufferLimits(pause=0, linger=0)


class Watches:
    """Counts the subscriptions of a store."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.open = 0
        self._watch = store.watch
        monkeypatch.setattr(store, "watch", self._counted)

    @asynccontextmanager
    async def _counted(self, **options: Any) -> AsyncIterator[Events]:
        self.begun += 1
        async with self._watch(**options) as events:
            self.open += 1
            try:
                yield events
            finally:
                self.open -= 1


@pytest.fixture
def watches(q: Kue, monkeypatch: pytest.MonkeyPatch) -> Watches:
    return Watches(q.store, monkeypatch)


@asynccontextmanager
async def living(q: Kue, bounds: BufferLimits = BRISK) -> AsyncIterator[EventBroadcast]:
    live = EventBroadcast(q, bounds)
    try:
        yield live
    finally:
        await live.close()


async def told(reader: ClientBuffer, number: int) -> list[dict[str, Any]]:
    """Return the next *number* things that the reader is told."""
    heard: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(heard) < number:
            heard += [json.loads(message.text) for message in await reader.take()]
    assert len(heard) == number
    return heard


async def caught_up(reader: ClientBuffer, number: int) -> list[dict[str, Any]]:
    """Return the first *number* things it is told after that the store is up."""
    first, *rest = await told(reader, number + 1)
    assert (first["kind"], first["detail"]) == ("store", {"state": "up"})
    return rest


async def told_up(reader: ClientBuffer) -> str:
    """Return the number from which on the reader hears everything."""
    [first] = await told(reader, 1)
    assert (first["kind"], first["detail"]) == ("store", {"state": "up"})
    place: str = first["id"]
    return place


def messages(count: int, *, size: int = 0) -> list[StreamMessage]:
    detail = {"message": "x" * size}
    return [
        StreamMessage(
            StreamPayload(id=f"e-{number}", kind="error", at=1, detail=detail)
        )
        for number in range(count)
    ]


def ids(found: list[StreamMessage]) -> list[str]:
    return [json.loads(message.text)["id"] for message in found]


# -- what is kept ------------------------------------------------------------


def test_a_window_keeps_the_newest_and_tells_how_many_went() -> None:
    window = RecentMessages(3, 1_000_000)

    assert window.add(messages(2)) == 0
    assert window.add(messages(4)) == 3
    assert ids(window.take(1_000_000)) == ["e-1", "e-2", "e-3"]


def test_a_window_keeps_no_more_bytes_than_it_may() -> None:
    window = RecentMessages(1_000, 2_500)

    assert window.add(messages(5, size=1_000)) == 3
    assert window.add(messages(1, size=5_000)) == 3
    assert len(window) == 0


def test_a_window_is_emptied_by_pieces() -> None:
    window = RecentMessages(10, 1_000_000)
    window.add(messages(3, size=1_000))

    assert ids(window.take(1_500)) == ["e-0", "e-1"]
    assert ids(window.take(1)) == ["e-2"]
    assert window.take(1) == []


# -- what is told ------------------------------------------------------------


async def test_a_reader_hears_of_what_it_wishes_alone(q: Kue) -> None:
    async with living(q) as live:
        wish = EventFilter(
            types=frozenset({"email"}), kinds=frozenset({Kind.CANCELLED})
        )
        with live.join(wish) as reader:
            await told_up(reader)
            for type in ("email", "report"):
                job = await q.enqueue(type)
                await job.cancel("no")
            last = await q.enqueue("email")
            await last.cancel("nor this")

            heard = await told(reader, 2)

    assert [one["detail"]["reason"] for one in heard] == ["no", "nor this"]


async def test_a_reader_hears_of_one_job_alone(q: Kue) -> None:
    async with living(q) as live:
        job = await q.enqueue("email")
        with live.join(EventFilter(job_id=job.id)) as reader:
            await told_up(reader)
            await q.enqueue("email")
            await job.cancel("no")

            [heard] = await told(reader, 1)

    assert (heard["kind"], heard["job_id"]) == ("cancelled", job.id)


async def test_a_reader_that_is_too_slow_is_told_how_many_it_missed(q: Kue) -> None:
    bounds = BufferLimits(pause=0, linger=0, buffer=10)
    async with living(q, bounds) as live:
        with live.join(ALL) as slow, live.join(ALL) as quick:
            await told_up(slow)
            await told_up(quick)
            jobs = []
            for _ in range(25):
                jobs.append(await q.enqueue("email"))
                # It takes what there is; the other does not.
                [heard] = await told(quick, 1)
                assert heard["job_id"] == jobs[-1].id

            lagged, *rest = await told(slow, 11)

    assert (lagged["kind"], lagged["detail"]) == ("lagged", {"missed": 15})
    assert [one["job_id"] for one in rest] == [job.id for job in jobs[-10:]]


async def test_silence_is_broken_by_a_sign_of_life(q: Kue) -> None:
    async with living(q, BufferLimits(pause=0, linger=0, keep_alive=0.01)) as live:
        with live.join(ALL) as reader:
            await told_up(reader)

            assert await reader.take() == []


async def test_a_burst_reaches_every_reader_in_order(q: Kue) -> None:
    async with living(q) as live:
        with live.join(ALL) as one, live.join(ALL) as two:
            await told_up(one)
            await told_up(two)

            jobs = [job.id for job in await q.enqueue_many("email", range(900))]

            for reader in (one, two):
                heard = await told(reader, 900)
                assert [event["job_id"] for event in heard] == jobs


# -- resuming ----------------------------------------------------------------


async def test_a_reader_that_comes_back_hears_what_it_missed_and_no_more(
    q: Kue,
) -> None:
    async with living(q) as live:
        with live.join(ALL) as stays, live.join(ALL) as leaves:
            await told_up(stays)
            await told_up(leaves)
            jobs = [job.id for job in await q.enqueue_many("email", range(20))]
            first = await told(leaves, 20)
            jobs += [job.id for job in await q.enqueue_many("email", range(20))]
            await told(stays, 40)
            with live.join(ALL, first[6]["id"]) as back:
                jobs.append((await q.enqueue("email")).id)

                rest = await caught_up(back, 34)

    assert [one["job_id"] for one in (*first[:7], *rest)] == jobs


async def test_what_is_on_its_way_when_a_reader_comes_back_is_told_once(
    q: Kue,
) -> None:
    async with living(q) as live:
        with live.join(ALL) as reader:
            place = await told_up(reader)
            event = Event(kind=Kind.UPDATE, job_id=7, type="email", at=1)
            # As the subscription does, in the moment before readers are handed it.
            live._publish(event)
            with live.join(ALL, place) as back:
                live._publish(event)

                heard = await caught_up(back, 2)

    assert [one["id"][-2:] for one in heard] == ["-1", "-2"]


async def test_whoever_heard_nothing_yet_can_come_back_too(q: Kue) -> None:
    async with living(q) as live:
        with live.join(ALL) as stays:
            with live.join(ALL) as leaves:
                place = await told_up(leaves)
            await told_up(stays)
            job = await q.enqueue("email")
            await told(stays, 1)
            with live.join(ALL, place) as back:
                [heard] = await caught_up(back, 1)

    assert heard["job_id"] == job.id


async def test_more_than_the_buffer_holds_is_told_to_whoever_comes_back(
    q: Kue,
) -> None:
    async with living(q, BufferLimits(pause=0, linger=0, buffer=5)) as live:
        with live.join(EventFilter(job_id=1 << 40)) as stays:
            place = await told_up(stays)
            await q.enqueue_many("email", range(50))
            with live.join(EventFilter(kinds=frozenset({Kind.CANCELLED}))) as other:
                await told_up(other)
                await (await q.enqueue("email")).cancel("the last")
                await told(other, 1)
            with live.join(ALL, place) as back:
                heard = await caught_up(back, 52)

    assert "lagged" not in {one["kind"] for one in heard}


@pytest.mark.parametrize(
    "strange",
    [
        "feedbeef-1",
        "feedbeef",
        "{epoch}-",
        "{epoch}-x",
        "{epoch}-²",
        "{epoch}-99",
        "{epoch}-" + "9" * 5_000,
    ],
)
async def test_a_number_that_was_never_given_is_told_as_a_lag(
    q: Kue, strange: str
) -> None:
    async with living(q) as live:
        with live.join(ALL) as first:
            epoch = (await told_up(first)).partition("-")[0]
            with live.join(ALL, strange.replace("{epoch}", epoch)) as reader:
                [heard] = await caught_up(reader, 1)

    assert (heard["kind"], heard["detail"]) == ("lagged", {"missed": 0})


async def test_whoever_was_away_for_too_many_events_is_told_so(q: Kue) -> None:
    async with living(q, BufferLimits(pause=0, linger=0, ring=10)) as live:
        with live.join(ALL) as stays:
            place = await told_up(stays)
            for _ in range(11):
                await q.enqueue("email")
                await told(stays, 1)
            with live.join(ALL, place) as back:
                [heard] = await caught_up(back, 1)

    assert heard["kind"] == "lagged"


async def test_whoever_comes_back_when_nobody_listened_any_more_is_told_so(
    q: Kue, watches: Watches
) -> None:
    async with living(q) as live:
        with live.join(ALL) as reader:
            place = await told_up(reader)
        await until(lambda: watches.begun == 1 and watches.open == 0)
        with live.join(ALL, place) as back:
            [heard] = await caught_up(back, 1)

    assert heard["kind"] == "lagged"


# -- the subscription --------------------------------------------------------


async def test_readers_share_one_subscription_which_ends_after_the_last(
    q: Kue, watches: Watches
) -> None:
    async with living(q) as live:
        with live.join(ALL) as one:
            await told_up(one)
            with live.join(ALL) as two:
                await told_up(two)
            assert (watches.begun, watches.open) == (1, 1)

        await until(lambda: watches.open == 0)
        with live.join(ALL) as three:
            await told_up(three)
            assert (watches.begun, watches.open) == (2, 1)


async def test_the_subscription_outlasts_a_short_absence(
    q: Kue, watches: Watches
) -> None:
    async with living(q, BufferLimits(pause=0, linger=60)) as live:
        with live.join(ALL) as reader:
            place = await told_up(reader)
        job = await q.enqueue("email")
        with live.join(ALL, place) as back:
            [heard] = await caught_up(back, 1)

    assert heard["job_id"] == job.id
    assert (watches.begun, watches.open) == (1, 0)


async def test_a_store_that_hangs_is_away_until_it_answers_again(
    tmp_path: Path,
) -> None:
    """The connection stays open, so nothing but asking can tell."""
    redis = RedisServer(tmp_path)
    bounds = BufferLimits(pause=0, linger=0, probe=0.05)
    try:
        async with Kue(redis.url, budget="300ms") as q, living(q, bounds) as live:
            with live.join(EventFilter(types=frozenset({"email"}))) as reader:
                await told_up(reader)
                os.kill(redis.pid, signal.SIGSTOP)
                [away] = await told(reader, 1)
                os.kill(redis.pid, signal.SIGCONT)

                [lagged] = await caught_up(reader, 1)

                job = await q.enqueue("email")
                [heard] = await told(reader, 1)
    finally:
        redis.kill()

    assert (away["kind"], away["detail"]) == ("store", {"state": "down"})
    # Only the first has a number: it would lead back to where the stream began.
    assert away["id"] == ""
    assert (lagged["kind"], lagged["detail"]) == ("lagged", {"missed": 0})
    assert heard["job_id"] == job.id


async def test_closing_lets_every_reader_go(q: Kue, watches: Watches) -> None:
    live = EventBroadcast(q, BRISK)
    with live.join(ALL) as reader:
        await told_up(reader)

        await live.close()

        assert not reader.is_open
        assert await reader.take() == []
    assert live.is_full
    assert watches.open == 0


async def test_there_is_no_place_for_more_readers_than_allowed(q: Kue) -> None:
    async with living(q, BufferLimits(clients=2, linger=0)) as live:
        with live.join(ALL):
            assert not live.is_full
            with live.join(ALL):
                assert live.is_full
            assert not live.is_full
