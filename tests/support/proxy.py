"""
A TCP proxy in front of a Redis, which does to calls what networks do to them.

It knows where a command and an answer end, so that a fault strikes at a chosen point:
before a call arrives, or after it was done and before its answer is back.  Only calls
of scripts meet a fate of their own, because those are the verbs of a store; what a
client says to introduce itself passes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from random import Random

from tests.support.servers import HOST

_READ_BYTES = 65_536


class Fate(Enum):
    """What becomes of one call."""

    PASS = auto()
    #: It is done and never answered; the connection stays open and says no more.
    MUTE = auto()
    #: It is done, and the connection is cut in place of the answer.
    CUT_AFTER = auto()
    #: The connection is cut before it reaches Redis.
    CUT_BEFORE = auto()
    #: The connection is cut, and the call reaches Redis only upon `Proxy.release`.
    HOLD = auto()


class Proxy:
    """
    Listens on a port of its own from ``async with`` on and passes everything through.

    Faults begin when a method says so and last until `heal`.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._decide: Callable[[], Fate] = _pass
        self._held: deque[bytes] = deque()
        self.port = 0
        #: How many calls met each fate, so that a test can tell that its fault struck.
        self.struck: Counter[Fate] = Counter()
        self.delay_seconds = 0.0
        self.is_swallowing = False

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    async def __aenter__(self) -> Proxy:
        await self.accept()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.refuse()
        self.cut()
        await asyncio.gather(*(connection.closed for connection in self._connections))

    async def accept(self) -> None:
        """Take new connections, on the same port as ever."""
        self._server = await asyncio.start_server(self._connect, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def lead_to(self, port: int) -> None:
        """Lead new connections to another Redis, and end those there are."""
        self._target = port
        self.cut()

    def refuse(self) -> None:
        """Take no new connections; those there are stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def cut(self) -> None:
        """End all connections at once."""
        for connection in self._connections:
            connection.cut()

    def swallow(self) -> None:
        """Let nothing through in either direction, without notice: half-open."""
        self.is_swallowing = True

    def delay(self, seconds: float) -> None:
        """Hold up each answer."""
        self.delay_seconds = seconds

    def plan(self, *fates: Fate) -> None:
        """Let the next calls meet *fates*, in this order; those after them pass."""
        left = deque(fates)
        self._decide = lambda: left.popleft() if left else Fate.PASS

    def always(self, fate: Fate) -> None:
        self._decide = lambda: fate

    def draw(self, random: Random, chances: Mapping[Fate, float]) -> None:
        """Let each call meet a fate drawn by *random*; the rest of the chances pass."""
        fates = [*chances, Fate.PASS]
        weights = [*chances.values(), 1 - sum(chances.values())]
        self._decide = lambda: random.choices(fates, weights)[0]

    def heal(self) -> None:
        """End every fault but `refuse`; a connection that went mute stays mute."""
        self._decide = _pass
        self.delay_seconds = 0.0
        self.is_swallowing = False

    async def release(self) -> bytes:
        """Bring Redis the oldest call that was held; return its answer, as sent."""
        reader, writer = await asyncio.open_connection(HOST, self._target)
        writer.write(self._held.popleft())
        reply = bytearray()
        while end_of_message(reply) < 0:
            reply += await reader.read(_READ_BYTES)
        writer.close()
        return bytes(reply)

    def fate_of(self, call: bytes) -> Fate:
        if not _is_script(call):
            return Fate.PASS
        fate = self._decide()
        self.struck[fate] += 1
        if fate is Fate.HOLD:
            self._held.append(call)
        return fate

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            there = await asyncio.open_connection(HOST, self._target)
        except OSError:
            # Redis is down: to the client it must look so.
            writer.transport.abort()
            return
        connection = _Connection(self, (reader, writer), there)
        self._connections.add(connection)
        await connection.closed
        self._connections.discard(connection)


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """One client's connection and the one to Redis that belongs to it."""

    def __init__(self, proxy: Proxy, here: _Stream, there: _Stream) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = here
        self._from_redis, self._to_redis = there
        #: Fates of the calls that Redis has not answered yet; it answers in order.
        self._open: deque[Fate] = deque()
        self._is_mute = False
        self.closed = asyncio.gather(
            self._pump(self._from_client, self._send),
            self._pump(self._from_redis, self._answer),
        )

    def cut(self) -> None:
        self._to_client.transport.abort()
        self._to_redis.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, handle: Callable[[bytes], None]
    ) -> None:
        """Hand over whole messages until either side is gone."""
        data = bytearray()
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_READ_BYTES):
                data += chunk
                if self._proxy.delay_seconds and reader is self._from_redis:
                    # The wait is the fault.
                    await asyncio.sleep(self._proxy.delay_seconds)
                for message in messages(data):
                    handle(message)
        self.cut()

    def _send(self, call: bytes) -> None:
        # Cut while more had been read: uvloop does not forgive a write after that.
        if self._proxy.is_swallowing or self._to_redis.is_closing():
            return
        fate = self._proxy.fate_of(call)
        if fate in (Fate.CUT_BEFORE, Fate.HOLD):
            self.cut()
            return
        self._open.append(fate)
        self._to_redis.write(call)

    def _answer(self, reply: bytes) -> None:
        # Nobody asked for what a subscription receives.
        fate = self._open.popleft() if self._open else Fate.PASS
        if fate is Fate.CUT_AFTER:
            self.cut()
        # What got lost once is not followed by anything: TCP has no gaps.
        self._is_mute = self._is_mute or fate is Fate.MUTE
        is_delivered = not (self._is_mute or self._proxy.is_swallowing)
        if is_delivered and not self._to_client.is_closing():
            self._to_client.write(reply)


def messages(data: bytearray) -> Iterable[bytes]:
    """Take whole messages off the front of *data*."""
    while (end := end_of_message(data)) >= 0:
        yield bytes(data[:end])
        del data[:end]


def end_of_message(data: bytearray, at: int = 0) -> int:
    """Return where the command or answer that begins at *at* ends; -1 if not yet."""
    line = data.find(b"\r\n", at)
    if line < 0:
        return -1
    kind, end = chr(data[at]), line + 2
    if kind not in "$*":
        return end
    size = int(data[at + 1 : line])
    if kind == "$":
        end += size + 2 if size >= 0 else 0
        return end if end <= len(data) else -1
    for _ in range(size):
        end = end_of_message(data, end)
        if end < 0:
            return -1
    return end


def _is_script(call: bytes) -> bool:
    return b"\r\nEVAL" in call[:24]


def _pass() -> Fate:
    return Fate.PASS
