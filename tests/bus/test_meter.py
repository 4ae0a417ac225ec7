"""What passes a bus is counted by address, within limits."""

from __future__ import annotations

import pytest

from kue.bus import EventBus, FailureKind, Message, RequestFailed, metrics
from kue.bus.interceptors import InterceptorChain
from kue.bus.metrics import BusMetrics
from kue.bus.requests import PendingRequests
from kue.bus.stats import AddressStats, BusStats, sums
from tests.bus.hearing import Ear, turns


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counts(clock: Clock) -> BusMetrics:
    return BusMetrics(InterceptorChain(), PendingRequests(), clock)


def facts_of(bus: EventBus, address: str) -> AddressStats:
    [found] = [one for one in bus.meter.facts().addresses if one.address == address]
    return found


async def test_messages_are_counted_where_they_go_and_where_they_arrive(
    bus: EventBus,
) -> None:
    first, second = Ear(), Ear()
    bus.consumer("news", first)
    bus.consumer("news", second)

    bus.publish("news", 1)
    bus.send("news", 2)
    bus.send("nobody", 3)
    await turns()

    news, nobody = facts_of(bus, "news"), facts_of(bus, "nobody")
    assert (news.consumers, news.sent, news.received) == (2, 2, 2)
    assert (nobody.consumers, nobody.sent, nobody.received) == (0, 1, 0)
    total = bus.meter.facts().total
    assert (total.consumers, total.sent, total.received) == (2, 3, 2)


async def test_a_consumer_that_left_is_not_counted(bus: EventBus) -> None:
    consumer = bus.consumer("news", Ear())
    bus.send("news")

    consumer.unregister()

    news = facts_of(bus, "news")
    assert (news.consumers, news.sent) == (0, 1)


async def test_requests_have_their_latency_and_their_failures(bus: EventBus) -> None:
    def answer(message: Message) -> None:
        message.reply("yes")

    bus.consumer("who", answer)
    for _ in range(3):
        await bus.request("who")
    with pytest.raises(RequestFailed):
        await bus.request("nobody")

    facts = bus.meter.facts()
    who, nobody = facts_of(bus, "who"), facts_of(bus, "nobody")
    assert sum(who.waits.values()) == 3
    assert (who.failures, nobody.failures) == ({}, {"NO_HANDLERS": 1})
    assert sum(facts.total.waits.values()) == 3
    assert facts.total.failures == {"NO_HANDLERS": 1}


async def test_replies_make_no_addresses(bus: EventBus) -> None:
    async def ask_back(message: Message) -> None:
        await message.reply_and_request("and you?")

    bus.consumer("who", ask_back)
    reply = await bus.request("who")
    reply.reply("me")
    await turns()

    assert [one.address for one in bus.meter.facts().addresses] == ["who"]


async def test_requests_that_wait_are_counted(bus: EventBus) -> None:
    waiting: list[BusStats] = []

    def look(message: Message) -> None:
        waiting.append(bus.meter.facts())
        message.reply()

    bus.consumer("who", look)
    await bus.request("who")

    assert [facts.waiting for facts in waiting] == [1]
    assert bus.meter.facts().waiting == 0


def test_rates_follow_what_happens_and_fade(counts: BusMetrics, clock: Clock) -> None:
    rates = []
    for number in [100] * 30 + [0] * 60:
        counts.counts["news"].sent += number
        clock.now += 1
        [news] = counts.facts().addresses
        rates.append(news.send_rate)

    assert 0 < rates[0] < rates[10] < 100
    assert rates[29] == pytest.approx(100, abs=1)
    assert rates[-1] == 0


def test_replies_of_long_ago_are_forgotten(counts: BusMetrics, clock: Clock) -> None:
    counts.counts["who"].answered(0.02)

    seen = []
    for _ in range(3):
        clock.now += 61
        [who] = counts.facts().addresses
        seen.append(sum(who.waits.values()))

    assert seen == [1, 0, 0]


def test_addresses_beyond_the_limit_are_counted_together(
    counts: BusMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_ADDRESSES", 10)
    for number in range(25):
        counts.counts[f"a{number}"].sent += 1

    facts = counts.facts()

    assert len(facts.addresses) == 10
    assert (facts.rest, facts.total.sent) == (1, 25)


def test_addresses_that_nobody_uses_make_room(
    counts: BusMetrics, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_ADDRESSES", 10)
    counts.counts["held"].consumers = 1
    for number in range(9):
        counts.counts[f"a{number}"].sent += 1
        counts.counts[f"a{number}"].failed(FailureKind.TIMEOUT)
    clock.now += 1
    counts.facts()
    clock.now += 1
    counts.counts["a3"].sent += 1

    facts = counts.facts()
    counts.counts["new"].sent += 1

    assert {one.address for one in facts.addresses} == {"held", "a3"}
    assert (facts.total.sent, facts.total.failures) == (10, {"TIMEOUT": 9})
    assert "new" in counts.counts


def test_the_busiest_addresses_are_told(
    counts: BusMetrics, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_REPORTED", 3)
    for number in range(8):
        counts.counts[f"a{number}"].sent += number
    clock.now += 1

    facts = counts.facts()

    assert [one.address for one in facts.addresses] == ["a7", "a6", "a5"]
    assert (facts.rest, facts.total.sent) == (5, 28)


def test_what_nodes_tell_is_added_up() -> None:
    total = AddressStats("")
    here = BusStats(total, [AddressStats("news", 2, 10, 4, 1.5, 0.5, {1: 2, 5: 1})])
    there = BusStats(
        total,
        [
            AddressStats("work", 1, 1, 1, 9.0),
            AddressStats("news", 0, 5, 0, 0.5, 0.0, {5: 1}, {"TIMEOUT": 2}),
        ],
    )

    work, news = sums([("n1", here), ("n2", there)])

    assert (work.address, work.nodes) == ("work", ["n2"])
    assert (news.nodes, news.consumers, news.sent) == (["n1"], 2, 15)
    assert (news.send_rate, news.waits) == (2.0, {1: 2, 5: 2})
    assert news.failures == {"TIMEOUT": 2}
