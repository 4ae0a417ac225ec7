"""Codecs: what bodies may be, and how users add to it."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from kue.bus import ClassCodec, EventBus, frames
from kue.bus.codecs import copy_json
from kue.bus.message import Message
from tests.bus.hearing import Ear, listen


@dataclass
class Point:
    x: int
    y: int


class Spot(msgspec.Struct):
    tags: list[str]


class Colour(enum.StrEnum):
    RED = "red"


class Upper:
    """Text that comes out in capitals, elsewhere in small letters."""

    name = "upper"

    def copy(self, body: str) -> str:
        return body.upper()

    def encode(self, body: str) -> bytes:
        return body.lower().encode()

    def decode(self, encoded: bytes) -> str:
        return encoded.decode()


async def test_a_class_without_a_codec_is_refused(bus: EventBus) -> None:
    with pytest.raises(TypeError, match="there is no codec for Point; register one"):
        bus.send("news", Point(1, 2))


@pytest.mark.parametrize("cls", [Point, Spot])
async def test_a_class_with_a_default_codec_is_copied(
    bus: EventBus, cls: type[Any]
) -> None:
    ear = listen(bus, "news")
    bus.codecs.register_default(cls)
    body = Point(1, 2) if cls is Point else Spot(["a"])

    bus.send("news", body)

    assert await ear.hears(1) == [body]
    assert ear.bodies[0] is not body


async def test_a_codec_is_chosen_by_name(bus: EventBus) -> None:
    ear = listen(bus, "news")
    bus.codecs.register(Upper())

    bus.send("news", "rain", codec="upper")
    bus.send("news", "rain")

    assert await ear.hears(2) == ["RAIN", "rain"]


async def test_a_reply_may_have_a_codec(bus: EventBus) -> None:
    bus.codecs.register(Upper())
    bus.consumer("ask", lambda message: message.reply("yes", codec="upper"))

    assert (await bus.request("ask")).body == "YES"


async def test_an_unknown_codec_is_refused(bus: EventBus) -> None:
    with pytest.raises(ValueError, match="there is no codec named 'upper'"):
        bus.send("news", "rain", codec="upper")


async def test_a_codec_is_registered_once(bus: EventBus) -> None:
    bus.codecs.register(Upper())
    bus.codecs.register_default(Point)

    with pytest.raises(ValueError, match="a codec named 'upper' already"):
        bus.codecs.register(Upper())
    with pytest.raises(ValueError, match="a codec for Point already"):
        bus.codecs.register_default(Point, Upper())
    with pytest.raises(ValueError, match="a codec for str already"):
        bus.codecs.register_default(str, Upper())


async def test_a_codec_can_be_unregistered(bus: EventBus) -> None:
    bus.codecs.register(Upper())
    bus.codecs.register_default(Point)
    bus.codecs.unregister("upper")
    bus.codecs.unregister_default(Point)

    with pytest.raises(ValueError, match="no codec named"):
        bus.send("news", "rain", codec="upper")
    with pytest.raises(TypeError, match="no codec for Point"):
        bus.send("news", Point(1, 2))
    bus.codecs.register_default(Point)


async def test_built_in_codecs_stay(bus: EventBus) -> None:
    with pytest.raises(ValueError, match="the codec 'json' is built in"):
        bus.codecs.unregister("json")
    with pytest.raises(ValueError, match="the codec for dict is built in"):
        bus.codecs.unregister_default(dict)


async def test_a_codec_needs_a_name(bus: EventBus) -> None:
    with pytest.raises(ValueError, match="a codec must have 1 to 200 characters"):
        bus.codecs.register(ClassCodec(Point, "x" * 201))


def test_what_is_like_json_becomes_json() -> None:
    given = OrderedDict(a=(1, Colour.RED), b=Colour.RED)

    copied = copy_json(given)

    assert copied == {"a": [1, "red"], "b": "red"}
    assert type(copied) is dict
    assert type(copied["b"]) is str


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({1: "a"}, "has the key 1; JSON keys are text"),
        ({"a": object()}, "has a object, which JSON cannot express"),
        ({"a": math.nan}, "has nan, which JSON cannot express"),
        ([math.inf], "has inf"),
        (-math.inf, "has -inf"),
        ({"a": b"bytes"}, "has a bytes"),
    ],
)
async def test_what_json_cannot_say_is_refused_here_too(
    bus: EventBus, value: object, problem: str
) -> None:
    """A consumer of this process gets no more than one of another would."""
    bus.consumer("news", Ear())

    with pytest.raises((TypeError, ValueError), match=problem):
        bus.send("news", value)


async def test_a_body_that_contains_itself_is_refused(bus: EventBus) -> None:
    bus.consumer("news", Ear())
    body: list[Any] = []
    body.append(body)

    with pytest.raises(ValueError, match="nests deeper than 64 levels"):
        bus.send("news", body)


@pytest.mark.parametrize(
    "body", [None, True, 2**70, 1.5, "žluť", b"\x00\xff", {"a": [1]}, Spot(["a"])]
)
async def test_a_body_survives_the_wire(bus: EventBus, body: object) -> None:
    bus.codecs.register_default(Spot)
    sent = Message(bus, "news", body, bus.codecs.choose(body), reply_address="r")
    sent.headers.add("a", "1")
    sent.headers.add("A", "2")

    batch = frames.Batch("n1", "s1", 1, [frames.frame(sent)])
    [frame] = frames.unpack(frames.pack(batch)).frames
    got = frames.message(frame, bus, bus.codecs)

    assert (got.address, got.body, got.reply_address) == ("news", body, "r")
    assert got.is_send
    assert got.headers.all("a") == ["1", "2"]


async def test_a_body_that_is_too_large_for_the_wire_is_refused(bus: EventBus) -> None:
    body = b"x" * (frames.MAX_SIZE + 1)
    message = Message(bus, "news", body, bus.codecs.choose(body))

    with pytest.raises(ValueError, match="is 12,582,913 bytes, and the limit is"):
        frames.frame(message)
