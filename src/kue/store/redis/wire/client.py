"""
The way to Redis: which node a call goes to, and when to try again.

redis-py's own retries are off: it would repeat a script whose reply was lost behind our
back.  Here the *same* call is repeated, which every script answers as the first time,
with jitter and within a budget.  Commands, heartbeats and the blocking wait have
connections of their own, so that no heartbeat queues up behind a large reply.

In a Cluster calls go to the node that has the slot, and follow MOVED.  A slot that is
being moved answers ASK, which is not followed: half of a shard's keys would be on
either side, and a script must see all.  The shard pauses until the slot has moved.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from redis import exceptions

from kue.model.errors import StoreError, StoreFull, StoreRefused, StoreUnavailable
from kue.store.damage import corrupt
from kue.store.redis.scripts import load
from kue.store.redis.wire.cluster_slots import ClusterSlots
from kue.store.redis.wire.connecting import Connector
from kue.store.redis.wire.connection import Command, RedisConnectionPool
from kue.store.redis.wire.durable import GROUPS, DurableCalls
from kue.store.redis.wire.pubsub import PubSub

if TYPE_CHECKING:
    from kue.store.redis.scripts import Script
    from kue.store.redis.wire.cluster_slots import Node
    from kue.store.redis.wire.url import RedisAddress

T = TypeVar("T")
#: Waits for a message, so many seconds.
Messages = Callable[[float], Awaitable[bytes | None]]

#: Longest blocking wait; a wake-up that got lost costs no more than this.
MAX_BLOCK_SECONDS = 5.0
COMMAND_TIMEOUT_SECONDS = 3.0
#: Two cycles, an add or two, reads: more at once only queue up in Redis.  A call that
#: sleeps holds a connection all the while, and must never wait for one.
_CONNECTIONS = {
    "command": 16,
    "many": 16,
    "beat": 2,
    "durable": GROUPS,
    "block": 100_000,
}

#: Everything redis-py and the system raise.
_ERRORS = (exceptions.RedisError, OSError)
#: Errors after which the same call may be sent again.
_AGAIN = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
    exceptions.MasterDownError,
    exceptions.MovedError,
    exceptions.AskError,
    ConnectionError,
    TimeoutError,
)
#: The same, where redis-py has no class for them: how their text begins.
_AGAIN_WORDS = ("NOREPLICAS", "UNBLOCKED", "LOADING", "MISCONF", "BUSY ", "CLUSTERDOWN")
#: What scripts and commands stop with at a key, a value or a score of the wrong kind.
_DAMAGE = re.compile(
    r"^(ERR )?(WRONGTYPE|DAMAGED|user_script:\d+:) "
    r"|(not|isn't) an integer|not a valid float|would overflow|is not a number"
)
#: Answers that no repetition will change; the message must reach the user.
_REFUSED = (exceptions.AuthenticationError, exceptions.NoPermissionError)


class RedisClient:
    """Connections to one Redis, its Sentinels or its Cluster, for one event loop."""

    #: What a subscription raises when its connection is lost.
    errors = _ERRORS

    def __init__(self, address: RedisAddress, *, budget_seconds: float) -> None:
        self._address = address
        self._budget = budget_seconds
        self._connector = Connector(address)
        self._slots = (
            ClusterSlots(address.hosts, self._ask_node) if address.is_cluster else None
        )
        self._lines: dict[tuple[str, Node | None], RedisConnectionPool] = {}
        #: How many calls failed, those that were repeated among them.
        self.losses = 0
        self._durable: dict[RedisConnectionPool, DurableCalls] = {}
        #: Lines by purpose and root, as long as we believe that they lead there.
        self._routes: dict[tuple[str, str], RedisConnectionPool] = {}

    async def run(self, script: str, root: str, *args: Any, beat: bool = False) -> Any:
        """Run a script on the shard of *root*; its arguments make it repeatable."""
        return await self.run_loaded(load(script), root, *args, beat=beat)

    async def run_loaded(
        self, loaded: Script, root: str, *args: Any, beat: bool = False
    ) -> Any:
        """Do the same with a script of another package."""
        purpose = "beat" if beat else "command"

        async def once(deadline: float) -> Any:
            try:
                command = ("EVALSHA", loaded.sha, 1, root, *args)
                return await self._send(purpose, root, command, deadline)
            except exceptions.NoScriptError:
                # Restarted, failed over or flushed: sending the text loads it again.
                command = ("EVAL", loaded.source, 1, root, *args)
                return await self._send(purpose, root, command, deadline)

        return await self._persist(once)

    async def read(self, root: str, *command: Any) -> Any:
        """Send a command that only reads, or that may be repeated."""
        return await self._persist(
            lambda deadline: self._send("command", root, command, deadline)
        )

    async def read_many(self, root: str, commands: list[Command]) -> list[Any]:
        """Send commands that only read, all of one shard, in one round trip."""
        if not commands:
            return []

        async def once(deadline: float) -> list[Any]:
            lines = await self._way("many", root, deadline)
            return _whole(await lines.call_all(commands, deadline))

        return await self._persist(once)

    async def run_durably(
        self, script: str, root: str, *args: Any, wait_ms: int
    ) -> tuple[Any, bool]:
        """Run a script; return its reply, and whether a replica has what it changed."""
        loaded = load(script)

        async def once(deadline: float) -> tuple[Any, bool]:
            calls = await self._durable_calls(root, deadline)
            call = partial(calls.call, wait_ms=wait_ms, deadline=deadline)
            try:
                return await call(("EVALSHA", loaded.sha, 1, root, *args))
            except exceptions.NoScriptError:
                return await call(("EVAL", loaded.source, 1, root, *args))

        # It may wait for a group before its own, and both for a replica.
        return await self._persist(once, patience=self._budget)

    async def info(self, root: str, *sections: str) -> dict[str, str]:
        """Return what the node that holds *root*'s slot reports of itself."""
        [text] = await self.read_many(root, [("INFO", *sections)])
        rows = (line.partition(":") for line in text.decode().splitlines())
        return {name: value for name, colon, value in rows if colon}

    async def config(self, root: str, name: str) -> str | None:
        """Return a setting of that node; None where the server keeps it to itself."""
        try:
            reply = await self.read(root, "CONFIG", "GET", name)
        except StoreUnavailable:
            raise
        except StoreError:
            # Managed servers forbid CONFIG.
            return None
        return reply[1].decode() if reply else ""

    async def block(self, root: str, keys: list[str], seconds: float) -> str | None:
        """Sleep until one of *keys* has a marker; take it and say whose it was."""
        try:
            deadline = _after(seconds + COMMAND_TIMEOUT_SECONDS)
            popped = await self._send("block", root, _pop(keys, seconds), deadline)
            return popped[0].decode() if popped else None
        except _ERRORS as exc:
            self._look_again(exc)
            raise self.translate(exc) from exc

    async def block_and_run(
        self, root: str, keys: list[str], seconds: float, script: str, *args: Any
    ) -> Any:
        """
        Sleep as `block` does, then run a script, woken or not.

        Redis has the script in its hands before it wakes us: that saves the time of a
        call.  Whoever gives up must find out what the script did.
        """
        command = ("EVALSHA", load(script).sha, 1, root, *args)
        try:
            deadline = _after(seconds + COMMAND_TIMEOUT_SECONDS)
            lines = await self._way("block", root, deadline)
            calls = [_pop(keys, seconds), command]
            replies = _whole(await lines.call_all(calls, deadline))
        except exceptions.NoScriptError:
            return await self.run(script, root, *args)
        except _ERRORS as exc:
            self._look_again(exc)
            raise self.translate(exc) from exc
        return replies[1]

    @asynccontextmanager
    async def subscription(self, root: str, *channels: str) -> AsyncIterator[Messages]:
        """Subscribe to channels of a shard; gives what waits for a message."""
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS) as limit:
                node = await self._node_of(root, limit.when() or 0)
                listener = PubSub(await self._connector.connect(node))
            try:
                async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS):
                    await listener.subscribe(channels)
                yield listener.message
            finally:
                await listener.close()
        except _ERRORS as exc:
            self._look_again(exc)
            raise

    async def close(self) -> None:
        """Close every connection."""
        for lines in self._lines.values():
            await lines.close()
        for calls in self._durable.values():
            await calls.close()
        self._routes.clear()
        self._durable.clear()
        self._lines.clear()
        await self._connector.close()

    async def _persist(
        self, call: Callable[[float], Awaitable[T]], *, patience: float | None = None
    ) -> T:
        """Make *call*, with a deadline each time, until answered or out of budget."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        deadline = now + self._budget
        patience = patience or COMMAND_TIMEOUT_SECONDS
        pause = 0.02
        reason: Exception | None = None
        while True:
            try:
                return await call(min(deadline, now + patience))
            except _ERRORS as exc:
                # A TimeoutError is an OSError: both the socket's and our deadline's.
                # The last try is often cut short; what went before tells more.
                if reason is None or not isinstance(exc, TimeoutError):
                    reason = exc
                error = self.translate(reason)
                wait = random.uniform(0.5, 1) * pause
                hopeless = not isinstance(error, StoreUnavailable)
                if hopeless or loop.time() + wait >= deadline:
                    raise error from exc
                self._look_again(exc)
            await asyncio.sleep(wait)
            pause = min(pause * 2, 1.0)
            now = loop.time()

    def translate(self, exc: Exception) -> StoreError:
        """Return what an error of redis-py or the system means to a store's user."""
        name = self._address.name
        if isinstance(exc, exceptions.OutOfMemoryError):
            return StoreFull(
                f"{name} has reached maxmemory and takes no new jobs; those it has "
                "go on and make room; raise maxmemory or add again later"
            )
        if isinstance(exc, exceptions.InvalidResponse):
            return StoreRefused(
                f"something answers at {name}, but not as Redis does; is the URL right "
                "(host, port, and rediss:// where TLS is wanted)?"
            )
        if "certificate verify failed" in str(exc):
            return StoreRefused(
                f"{name} shows a certificate that is not trusted ({exc}); add "
                "?ssl_ca_certs=/path/ca.pem to the URL if it is your own"
            )
        if isinstance(exc, _REFUSED):
            return StoreRefused(f"{name} refused: {exc}; check user, password and ACL")
        if isinstance(exc, _AGAIN) or str(exc).startswith(_AGAIN_WORDS):
            return StoreUnavailable(
                f"{name} cannot be reached or does not answer "
                f"({str(exc) or 'timed out'}); is it running, and is the URL right?"
            )
        if _DAMAGE.search(str(exc)):
            return corrupt(name, exc)
        return StoreError(f"{name} answered with an error: {exc}")

    async def _send(
        self, purpose: str, root: str, command: Command, deadline: float
    ) -> Any:
        """Send a command to the node of *root*'s slot."""
        lines = self._routes.get((purpose, root))
        if lines is None:
            lines = await self._way(purpose, root, deadline)
        return await lines.call(command, deadline)

    async def _way(
        self, purpose: str, root: str, deadline: float
    ) -> RedisConnectionPool:
        """Return the lines to the node of *root*'s slot."""
        lines = self._routes.get((purpose, root))
        if lines is None:
            lines = self._lines_to(purpose, await self._node_of(root, deadline))
            self._routes[purpose, root] = lines
        return lines

    async def _node_of(self, root: str, deadline: float) -> Node | None:
        """Return the node of *root*'s slot; None where there is but one."""
        if self._slots is None:
            return None
        return await self._slots.node_of(root, deadline)

    def _lines_to(self, purpose: str, node: Node | None) -> RedisConnectionPool:
        lines = self._lines.get((purpose, node))
        if lines is None:
            connect = partial(self._connector.connect, node)
            lines = self._lines[purpose, node] = RedisConnectionPool(
                connect, _CONNECTIONS[purpose]
            )
        return lines

    async def _durable_calls(self, root: str, deadline: float) -> DurableCalls:
        lines = await self._way("durable", root, deadline)
        calls = self._durable.get(lines)
        if calls is None:
            patience = COMMAND_TIMEOUT_SECONDS
            calls = self._durable[lines] = DurableCalls(lines, patience=patience)
        return calls

    async def _ask_node(self, node: Node, command: Command, deadline: float) -> Any:
        return await self._lines_to("command", node).call(command, deadline)

    def _look_again(self, exc: Exception) -> None:
        """Have the next call go where it should, after one that failed."""
        self.losses += 1
        if self._address.service:
            # The other lines lead to the same server, which may be no master any more.
            for lines in self._lines.values():
                lines.drop_idle()
        if self._slots is None or type(exc) is exceptions.AskError:
            return
        self._routes.clear()
        if isinstance(exc, exceptions.MovedError) and exc.host:
            self._slots.move(exc.slot_id, (exc.host, exc.port))
        else:
            self._slots.forget()


def _after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


def _pop(keys: list[str], seconds: float) -> Command:
    # 0 would mean for ever, a rounded-down millisecond a busy loop.
    return ("BZPOPMIN", *keys, max(seconds, 0.001))


def _whole(replies: list[Any]) -> list[Any]:
    """Return replies; raise the first error among them."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def pairs(reply: list[Any]) -> list[tuple[bytes, Any]]:
    """Return field and value, or member and score, of a reply."""
    return list(zip(reply[::2], reply[1::2], strict=True))


def short_pause() -> float:
    """Return how long to wait before a Redis that was lost is tried again, in s."""
    # Scattered: processes that lost their Redis together must not come back together.
    return random.uniform(0.02, 0.2)
