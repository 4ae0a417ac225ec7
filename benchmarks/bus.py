"""
Event bus: throughput in one process and between processes, and failure detection.

``python -m benchmarks.bus`` starts a Redis and, for each side, a process that replies:
a node of the bus, and programs with bare redis-py that publish back what they receive,
in an event loop and blocking.  All get requests in turn; what counts is the ratio of
their medians.  Then a node is killed, and the time until that is detected is measured.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import click
import redis
import uvloop
from tests.support.servers import RedisServer

from benchmarks.bus_echo import (
    ANSWER,
    ANSWER_BLOCKING,
    ASK,
    ASK_BLOCKING,
    PREFIX,
    bare_client,
)
from benchmarks.steps import in_turn
from kue.bus import EventBus, RequestFailed
from kue.bus.redis import RedisCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis
    from redis.client import PubSub

    from kue.bus import Message

Ask = Callable[[int], Awaitable[object]]

#: Requests in flight.
CONCURRENCY = (1, 100)
#: Consumers, or addresses.
FEW, MANY = 1_000, 10_000
#: Messages sent to each of them.
PASSES = 5
#: The minimum ratio of clustered round trips to bare ones.
TARGET = 0.6


class Echo(NamedTuple):
    """A process that replies, and its node name if it is one."""

    process: asyncio.subprocess.Process
    node: str


class Blocking:
    """Sends requests from a thread, without an event loop; one at a time."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._answers: PubSub = client.pubsub()  # type: ignore[no-untyped-call]
        self._answers.subscribe(ANSWER_BLOCKING)
        next(self._answers.listen())

    def rate(self, seconds: float) -> float:
        answers = self._answers.listen()  # type: ignore[no-untyped-call]
        answered = 0
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            self._client.publish(ASK_BLOCKING, b"%d" % answered)
            next(answers)
            answered += 1
        return answered / (time.perf_counter() - began)


class Bare:
    """Sends requests over two channels, with redis-py and nothing else."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._numbers = count()
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}

    async def ask(self, number: int) -> bytes:
        """Publish, and wait for the reply."""
        body = b"%d %d" % (next(self._numbers), number)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[body] = answer
        await self._redis.publish(ASK, body)
        return await answer

    async def listen(self) -> None:
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(ANSWER)
            async for message in pubsub.listen():
                if message["type"] == "message":
                    body = message["data"]
                    self._waiting.pop(body).set_result(body)


@click.command()
@click.option("--rounds", default=7, show_default=True)
@click.option("--seconds", default=1.0, show_default=True, help="Per measurement.")
@click.option("--deaths", default=5, show_default=True, help="Nodes to kill.")
def main(rounds: int, seconds: float, deaths: int) -> None:
    """
    Measure the event bus.

    Needs redis-server in PATH, and starts it on a free port.
    """
    with TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        try:
            uvloop.run(_measure(server.url, rounds, seconds, deaths))
        finally:
            server.stop()


async def _measure(url: str, rounds: int, seconds: float, deaths: int) -> None:
    await _alone(rounds, seconds)
    await _growth(url)
    await _between_processes(url, rounds, seconds)
    await _killed(url, deaths)


# -- one process ------------------------------------------------------------------


async def _alone(rounds: int, seconds: float) -> None:
    async with EventBus() as bus:
        bus.consumer("echo", lambda message: message.reply(message.body))
        received = _Counter()
        bus.consumer("news", received)

        async def ask(number: int) -> Message:
            return await bus.request("echo", {"i": number})

        async def publish(number: int) -> None:
            # As many as the loop takes in one turn.
            for each in range(64):
                bus.publish("news", {"i": each})
            await asyncio.sleep(0)

        for at_once in CONCURRENCY:
            rates = [await _rate(ask, at_once, seconds) for _ in range(rounds)]
            _print(
                f"local requests per second, {at_once} at once", f"{median(rates):,.0f}"
            )
        rates = [64 * await _rate(publish, 1, seconds) for _ in range(rounds)]
        _print("local messages published per second", f"{median(rates):,.0f}")
        assert received.count, "no published message was received"


async def _growth(url: str) -> None:
    """
    Ten times as many consumers, or addresses, should take ten times as long.

    Within the process CPU time is measured, which other load affects least.
    """
    for what, measure in (
        ("a delivery, µs, {:,} consumers at one address", _deliveries),
        ("a consumer of one address comes and goes, µs, {:,} there", _comings),
        ("a message, µs, {:,} addresses", _addresses),
    ):
        for size in (FEW, MANY):
            _print(what.format(size), f"{await measure(size) * 1e6:.2f}")
    for size in (FEW, MANY):
        known, forgotten = await _registrations(url, size)
        _print(f"an address known to another node, µs, {size:,}", f"{known * 1e6:.1f}")
        _print(f"the same, forgotten, µs, {size:,}", f"{forgotten * 1e6:.1f}")


async def _deliveries(size: int) -> float:
    async with EventBus() as bus:
        received = _Counter()
        for _ in range(size):
            bus.consumer("news", received)
        times = []
        for _ in range(PASSES * MANY // size):
            began, wanted = time.process_time(), received.count + size
            bus.publish("news", 1)
            await received.reaches(wanted)
            times.append((time.process_time() - began) / size)
        return median(times)


async def _comings(size: int) -> float:
    async with EventBus() as bus:
        began = time.process_time()
        consumers = [bus.consumer("news", _Counter()) for _ in range(size)]
        for consumer in consumers:
            consumer.unregister()
        return (time.process_time() - began) / size


async def _addresses(size: int) -> float:
    async with EventBus() as bus:
        received = _Counter()
        for number in range(size):
            bus.consumer(f"at-{number}", received)
        times = []
        for _ in range(PASSES * MANY // size):
            began = time.process_time()
            for start in range(0, size, 100):
                wanted = received.count + 100
                for number in range(start, start + 100):
                    bus.send(f"at-{number}", number)
                await received.reaches(wanted)
            times.append((time.process_time() - began) / size)
        return median(times)


async def _registrations(url: str, size: int) -> tuple[float, float]:
    prefix = f"{PREFIX}-{size}"
    one = RedisCluster(url, prefix=prefix)
    async with EventBus(one) as here, EventBus(RedisCluster(url, prefix=prefix)) as far:
        began = time.perf_counter()
        consumers = [far.consumer(f"at-{n}", _Counter()) for n in range(size)]
        await _until(lambda: bool(one.registrations(f"at-{size - 1}")))
        known = time.perf_counter() - began
        assert (await _no_answer(here, "nobody")) is not None
        began = time.perf_counter()
        for consumer in consumers:
            consumer.unregister()
        await _until(lambda: not one.registrations(f"at-{size - 1}"))
        return known / size, (time.perf_counter() - began) / size


# -- several ----------------------------------------------------------------------


async def _between_processes(url: str, rounds: int, seconds: float) -> None:
    rates: dict[tuple[str, int], list[float]] = {}
    async with AsyncExitStack() as stack:
        for kind in ("kue", "bare", "blocking"):
            await stack.enter_async_context(_echo(kind, url))
        bus = await stack.enter_async_context(
            EventBus(RedisCluster(url, prefix=PREFIX))
        )
        bare = Bare(await stack.enter_async_context(bare_client(url)))
        listening = asyncio.create_task(bare.listen(), name="listen")
        blocking = Blocking(stack.enter_context(redis.Redis.from_url(url)))

        async def ask(number: int) -> Message:
            return await bus.request("echo", {"i": number})

        sides: list[tuple[str, Ask]] = [("kue", ask), ("bare", bare.ask)]
        for _, each in sides:
            await _rate(each, 10, seconds / 2)
        for number in range(rounds):
            for at_once in CONCURRENCY:
                for side, each in in_turn(sides, number):
                    rate = await _rate(each, at_once, seconds)
                    rates.setdefault((side, at_once), []).append(rate)
            rate = await asyncio.to_thread(blocking.rate, seconds)
            rates.setdefault(("blocking", 1), []).append(rate)
        listening.cancel()
    for at_once in CONCURRENCY:
        kue, bare_rate = (median(rates[side, at_once]) for side in ("kue", "bare"))
        _print(
            f"requests between processes per second, {at_once} at once", f"{kue:,.0f}"
        )
        _print(f"bare redis-py, {at_once} at once", f"{bare_rate:,.0f}")
        _print(f"ratio, {at_once} at once", _ratio(kue, bare_rate))
    kue, bare_rate = median(rates["kue", 1]), median(rates["blocking", 1])
    _print("blocking redis-py, 1 at once", f"{bare_rate:,.0f}")
    _print("ratio, 1 at once", _ratio(kue, bare_rate))


async def _killed(url: str, deaths: int) -> None:
    """Measure how long a survivor takes, with the default heartbeat and lease."""
    noticed: list[float] = []
    failed: list[float] = []
    cluster = RedisCluster(url, prefix=PREFIX)
    async with EventBus(cluster) as bus:
        for _ in range(deaths):
            async with _echo("kue", url) as echo:
                await bus.request("echo", 1)
                asked = asyncio.create_task(_no_answer(bus, "deaf"), name="ask")
                await bus.flush()
                echo.process.send_signal(signal.SIGKILL)
                began = time.perf_counter()
                await _until(lambda node=echo.node: node not in bus.nodes)  # type: ignore[misc]
                noticed.append(time.perf_counter() - began)
                await asked
                failed.append(time.perf_counter() - began)
    if deaths:
        _print(
            "a killed node is noticed and removed, s, median and worst",
            f"{median(noticed):.2f}, {max(noticed):.2f}",
        )
        _print(
            "a request to it fails, s, median and worst",
            f"{median(failed):.2f}, {max(failed):.2f}",
        )


@asynccontextmanager
async def _echo(kind: str, url: str) -> AsyncIterator[Echo]:
    """Start a process that replies, and kill it after the body."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.bus_echo", kind, url),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield Echo(process, (await process.stdout.readline()).decode().strip())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


# -- helpers ----------------------------------------------------------------------


class _Counter:
    """A handler that counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, message: Message) -> None:
        self.count += 1

    async def reaches(self, number: int) -> None:
        while self.count < number:  # noqa: ASYNC110 - an event would cost what is measured
            await asyncio.sleep(0)  # one iteration of the loop


async def _rate(ask: Ask, at_once: int, seconds: float) -> float:
    """Keep *at_once* requests in flight; return replies per second."""
    answered = 0
    began = time.perf_counter()
    until = began + seconds

    async def ask_repeatedly() -> None:
        nonlocal answered
        while time.perf_counter() < until:
            await ask(answered)
            answered += 1

    await asyncio.gather(*(ask_repeatedly() for _ in range(at_once)))
    return answered / (time.perf_counter() - began)


async def _no_answer(bus: EventBus, address: str) -> RequestFailed | None:
    try:
        await bus.request(address)
    except RequestFailed as failure:
        return failure
    return None


async def _until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.001)


def _ratio(kue: float, bare: float) -> str:
    verdict = "" if kue / bare >= TARGET else f", below {TARGET}"
    return f"{kue / bare:.2f}{verdict}"


def _print(what: str, value: str) -> None:
    print(f"{what:62}{value}", flush=True)


if __name__ == "__main__":
    main()
