"""Requests, replies, replies to replies, and every way to fail."""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass

import pytest

from kue.bus import EventBus, FailureKind, Message, Proceed, RequestFailed
from tests.bus.hearing import Ear, failure_of, listen, turns


async def test_a_request_gets_its_reply(bus: EventBus) -> None:
    bus.consumer("double", lambda message: message.reply(2 * message.body))

    reply = await bus.request("double", 21)

    assert reply.body == 42
    assert reply.is_send


async def test_requests_have_timeouts_failures_headers_codecs_and_interceptors(
    bus: EventBus,
) -> None:
    def sign(message: Message, proceed: Proceed) -> None:
        message.headers.add("signed", "yes")
        proceed()

    @dataclass
    class Price:
        euros: int

    def sell(message: Message) -> None:
        if message.headers["tip"] == "none":
            message.fail(402, f"not for {message.body.euros}")
        else:
            message.reply(message.body, headers=message.headers)

    bus.outbound.add(sign)
    bus.codecs.register_default(Price)
    bus.consumer("shop", sell)
    listen(bus, "deaf")

    sold = await bus.request("shop", Price(7), headers={"tip": "small"}, timeout=5)
    refused = await failure_of(bus.request("shop", Price(1), headers={"tip": "none"}))
    slow = failure_of(bus.request("deaf", timeout=0.01))
    late = await asyncio.wait_for(slow, 5)

    assert (sold.body, sold.headers["tip"]) == (Price(7), "small")
    assert sold.headers.all("signed") == ["yes", "yes"]
    assert (refused.code, str(refused)) == (402, "not for 1")
    assert late.kind is FailureKind.TIMEOUT


async def test_an_async_handler_replies_when_it_is_ready(bus: EventBus) -> None:
    async def double(message: Message) -> None:
        await asyncio.sleep(0)
        message.reply(2 * message.body, headers={"unit": "m"})

    bus.consumer("double", double)

    reply = await bus.request("double", 21)

    assert (reply.body, reply.headers["Unit"]) == (42, "m")


async def test_requests_are_shared_out_in_turn(bus: EventBus) -> None:
    bus.consumer("who", lambda message: message.reply("a"))
    bus.consumer("who", lambda message: message.reply("b"))

    names = [(await bus.request("who")).body for _ in range(4)]

    assert names == ["a", "b", "a", "b"]


async def test_a_reply_can_be_replied_to(bus: EventBus) -> None:
    said: list[object] = []

    async def talk(message: Message) -> None:
        said.append(message.body)
        answer = await message.reply_and_request("how are you?")
        said.append(answer.body)
        answer.reply("good")

    bus.consumer("talk", talk)

    question = await bus.request("talk", "hello")
    end = await question.reply_and_request("well, and you?")

    assert said == ["hello", "well, and you?"]
    assert (question.body, end.body) == ("how are you?", "good")


async def test_only_the_first_reply_counts(bus: EventBus) -> None:
    def twice(message: Message) -> None:
        message.reply(1)
        message.reply(2)

    bus.consumer("twice", twice)

    assert (await bus.request("twice")).body == 1
    assert (await bus.request("twice")).body == 1


async def test_a_reply_to_what_was_no_request_goes_nowhere(bus: EventBus) -> None:
    ear = listen(bus, "news")
    bus.send("news", 1)
    await ear.hears(1)

    ear.messages[0].reply("thanks")
    ear.messages[0].fail(1, "no")

    with pytest.raises(ValueError, match="the message to news expects no reply"):
        await ear.messages[0].reply_and_request("thanks")


async def test_whoever_knows_the_reply_address_may_reply(bus: EventBus) -> None:
    """A reply is a message to an address, which bridges rely on."""
    ear = listen(bus, "ask")
    asked = asyncio.create_task(bus.request("ask"), name="ask")
    await ear.hears(1)
    address = ear.messages[0].reply_address
    assert address is not None

    bus.send(address, "from elsewhere")

    assert (await asked).body == "from elsewhere"
    assert address.startswith("__vertx.reply.")


async def test_nobody_there_is_no_handlers(bus: EventBus) -> None:
    failure = await failure_of(bus.request("nobody", 1))

    assert failure.kind is FailureKind.NO_HANDLERS
    assert int(failure.kind) == 1
    assert failure.code == -1
    assert str(failure) == "No handlers for address nobody"


async def test_no_reply_in_time_is_a_timeout(bus: EventBus) -> None:
    ear = listen(bus, "deaf")

    failure = await failure_of(bus.request("deaf", 1, timeout=0.01))

    assert failure.kind is FailureKind.TIMEOUT
    assert int(failure.kind) == 0
    assert failure.code == -1
    assert str(failure) == (
        "Timed out after waiting 10(ms) for a reply. "
        f"address: {ear.messages[0].reply_address}, repliedAddress: deaf"
    )


async def test_a_reply_that_comes_too_late_has_no_handlers(bus: EventBus) -> None:
    ear = listen(bus, "deaf")
    with pytest.raises(RequestFailed):
        await bus.request("deaf", timeout=0.01)

    ear.messages[0].reply("late")
    with pytest.raises(RequestFailed, match="No handlers for address __vertx"):
        await ear.messages[0].reply_and_request("late")


async def test_a_recipient_fails_with_a_code_of_its_own(bus: EventBus) -> None:
    bus.consumer("pay", lambda message: message.fail(402, "no money"))

    failure = await failure_of(bus.request("pay"), "no money")

    assert failure.kind is FailureKind.RECIPIENT_FAILURE
    assert int(failure.kind) == 2
    assert failure.code == 402


async def test_a_handler_may_raise_the_failure(
    bus: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    async def pay(message: Message) -> None:
        raise RequestFailed("no money", code=402)

    bus.consumer("pay", pay)

    failure = await failure_of(bus.request("pay"), "no money")

    assert (failure.kind, failure.code) == (FailureKind.RECIPIENT_FAILURE, 402)
    assert caplog.records == []


async def test_a_handler_that_raises_fails_its_request_at_once(
    bus: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever asked learns what was raised but not what it said: the log has that."""

    def broken(message: Message) -> None:
        raise RuntimeError("the password is 1234")

    bus.consumer("broken", broken)

    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(RequestFailed) as failed,
    ):
        await bus.request("broken")

    assert failed.value.kind is FailureKind.ERROR
    assert (failed.value.kind, failed.value.code) == (3, -1)
    assert str(failed.value) == "The consumer of broken raised RuntimeError"
    assert "1234" in caplog.text


async def test_a_reply_may_fail_in_its_turn(bus: EventBus) -> None:
    failures: list[RequestFailed] = []

    async def talk(message: Message) -> None:
        try:
            await message.reply_and_request("sure?")
        except RequestFailed as failure:
            failures.append(failure)

    bus.consumer("talk", talk)

    (await bus.request("talk")).fail(7, "not sure")
    await turns()

    assert [(each.code, each.text) for each in failures] == [(7, "not sure")]


async def test_whoever_stops_waiting_leaves_nothing_behind(bus: EventBus) -> None:
    ear = listen(bus, "deaf")
    asked = asyncio.create_task(bus.request("deaf"), name="ask")
    await ear.hears(1)

    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked

    assert bus.waiting == 0
    ear.messages[0].reply("too late")


async def test_requests_that_wait_fail_when_the_bus_closes() -> None:
    bus = EventBus()
    ear = listen(bus, "deaf")
    asked = asyncio.create_task(bus.request("deaf"), name="ask")
    await ear.hears(1)

    await bus.close()

    failure = await failure_of(asked, "The bus was closed")
    assert failure.kind is FailureKind.ERROR
    ear.messages[0].reply("too late")


@pytest.mark.parametrize("timeout", [0, -1.0, math.inf, math.nan])
async def test_a_timeout_is_within_bounds(bus: EventBus, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be more than 0 and at most"):
        await bus.request("a", timeout=timeout)


async def test_each_request_has_its_own_deadline(bus: EventBus) -> None:
    """Those that wait equally long share a timer, which goes on to the next."""
    ear = listen(bus, "deaf")
    asked: list[asyncio.Task[Message]] = []
    for number in range(3):
        asked.append(asyncio.create_task(bus.request("deaf", timeout=0.05), name="ask"))
        await ear.hears(number + 1)
        # So that their deadlines lie apart.
        await asyncio.sleep(0.01)

    for each in asked:
        with pytest.raises(RequestFailed, match=r"waiting 50\(ms\)"):
            await each


async def test_timeouts_that_never_come_again_leave_nothing_behind(
    bus: EventBus,
) -> None:
    bus.consumer("ask", lambda message: message.reply(1))
    for number in range(500):
        await bus.request("ask", timeout=30 + number / 1000)
    bus.consumer("deaf", Ear())

    with pytest.raises(RequestFailed, match=r"waiting 7\(ms\)"):
        await bus.request("deaf", timeout=0.007)
    assert len(bus._requests._queues) == 64


async def test_many_requests_wait_side_by_side(bus: EventBus) -> None:
    ear = listen(bus, "ask")
    asked = [asyncio.create_task(bus.request("ask", n), name="ask") for n in range(500)]
    await ear.hears(500)

    for message in reversed(ear.messages):
        message.reply(message.body + 1)

    replies = await asyncio.gather(*asked)
    assert [reply.body for reply in replies] == list(range(1, 501))
