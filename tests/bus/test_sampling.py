"""Some messages are kept for whoever looks: small, and without harm to any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from kue.bus import EventBus, FailureKind, Message, RequestFailed, sampling
from kue.bus.sampling import MAX_TAKEN, MessageSampler
from kue.bus.stats import MessageSample
from tests.bus.hearing import listen


@dataclass
class Order:
    id: int
    lines: list[str]


@pytest.fixture
def sampler(bus: EventBus, monkeypatch: pytest.MonkeyPatch) -> Iterator[MessageSampler]:
    """One that never rests, however slow the machine is."""
    monkeypatch.setattr(sampling, "_PAUSE_FACTOR", 0)
    sampler = MessageSampler("n1")
    bus.outbound.add(sampler)
    yield sampler
    bus.outbound.remove(sampler)


def sample_of(bus: EventBus, sampler: MessageSampler, body: Any) -> MessageSample:
    bus.send("news", body)
    [sample] = sampler.take()
    return sample


async def test_a_message_is_shown_with_what_matters(
    bus: EventBus, sampler: MessageSampler
) -> None:
    bus.publish("news", {"to": "ann"}, headers={"Action": "save", "token": "t"})

    [sample] = sampler.take()

    assert (sample.node, sample.address, sample.kind) == ("n1", "news", "publish")
    assert (sample.body, sample.size) == ({"to": "ann"}, len('{"to":"ann"}'))
    assert sample.headers == ["Action", "token"]
    assert not sample.is_cut
    assert "save" not in msgspec.json.encode(sample).decode()


async def test_requests_replies_and_failures_are_told_apart(
    bus: EventBus, sampler: MessageSampler
) -> None:
    def refuse(message: Message) -> None:
        message.fail(7, "no room")

    bus.consumer("rooms", refuse)
    with pytest.raises(RequestFailed):
        await bus.request("rooms", 2)

    asked, answered = sampler.take()

    assert (asked.kind, asked.body) == ("request", 2)
    assert (answered.kind, answered.codec) == ("reply", "failure")
    kind = FailureKind.RECIPIENT_FAILURE.name
    assert answered.body == {"failure": kind, "code": 7, "text": "no room"}


async def test_no_more_than_a_few_are_kept_and_all_arrive(
    bus: EventBus, sampler: MessageSampler
) -> None:
    ear = listen(bus, "news")

    for number in range(50):
        bus.send("news", number)

    assert await ear.hears(50) == list(range(50))
    assert [one.body for one in sampler.take()] == list(range(MAX_TAKEN))
    assert sampler.take() == []


async def test_after_a_body_that_took_long_others_pass_unseen(
    bus: EventBus, sampler: MessageSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "_PAUSE_FACTOR", 1e9)

    bus.send("news", [{"n": number} for number in range(10_000)])
    bus.send("news", 2)

    assert len(sampler.take()) == 1


async def test_large_bodies_become_small_and_keep_their_form(
    bus: EventBus, sampler: MessageSampler
) -> None:
    deep: Any = "bottom"
    for _ in range(20):
        deep = {"down": deep}
    body = {"text": "x" * 10_000, "list": list(range(5_000)), "deep": deep}

    sample = sample_of(bus, sampler, body)

    assert sample.is_cut
    assert len(sample.body["text"]) == sampling.MAX_TEXT
    assert sample.body["list"] == list(range(sampling.MAX_ITEMS))
    assert sample.body["deep"]["down"]["down"]
    assert "bottom" not in str(sample.body)
    assert sample.size > 30_000


async def test_a_body_of_many_small_parts_is_cut(
    bus: EventBus, sampler: MessageSampler
) -> None:
    body = [[[number] * 25 for number in range(25)] for _ in range(25)]

    sample = sample_of(bus, sampler, body)

    assert sample.is_cut
    assert len(msgspec.json.encode(sample.body)) < 5_000


async def test_bytes_are_not_shown_and_classes_are(
    bus: EventBus, sampler: MessageSampler
) -> None:
    bus.codecs.register_default(Order)

    raw = sample_of(bus, sampler, b"\x00\x01")
    order = sample_of(bus, sampler, Order(7, ["a"]))

    assert (raw.codec, raw.body, raw.size) == ("bytes", None, 2)
    assert (order.codec, order.body) == ("Order", {"id": 7, "lines": ["a"]})


async def test_a_codec_that_fails_does_not_stop_the_message(
    bus: EventBus, sampler: MessageSampler
) -> None:
    class Broken:
        name = "broken"

        def copy(self, body: Any) -> Any:
            return body

        def encode(self, body: Any) -> bytes:
            raise ValueError("cannot")

        def decode(self, encoded: bytes) -> Any:
            raise ValueError("cannot")

    bus.codecs.register(Broken())
    ear = listen(bus, "news")

    bus.send("news", 1, codec="broken")

    assert await ear.hears(1) == [1]
    assert sampler.take() == []
