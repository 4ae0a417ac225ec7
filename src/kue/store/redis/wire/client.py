"""
Redis client: routes calls to nodes, reconnects, and retries.

redis-py's own retries are off: it would silently repeat a script whose reply was lost.
Here the *same* call is repeated, which every script answers as it did the first time,
with jitter and within a time budget.  Commands, heartbeats and the blocking wait have
separate connections, so that no heartbeat queues up behind a large reply.

In a Cluster calls go to the node that has the slot, and follow MOVED.  A slot that is
being moved answers ASK, which is not followed: the shard's keys would be split between
two nodes, and a script must see all.  The shard pauses until the slot has moved.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from redis import exceptions

from kue.model.errors import StoreError, StoreFull, StoreRefused, StoreUnavailable
from kue.store.corruption_errors import corrupt
from kue.store.redis.scripts import load
from kue.store.redis.wire.cluster_slots import ClusterSlots
from kue.store.redis.wire.connecting import Connector
from kue.store.redis.wire.connection import SENT, Command, RedisConnectionPool
from kue.store.redis.wire.durable import GROUPS, DurableCalls
from kue.store.redis.wire.pubsub import PubSub

if TYPE_CHECKING:
    from kue.store.redis.scripts import Script
    from kue.store.redis.wire.cluster_slots import Node
    from kue.store.redis.wire.url import RedisAddress

T = TypeVar("T")
#: Waits for a message, for at most this many seconds.
Messages = Callable[[float], Awaitable[bytes | None]]

#: Longest blocking wait, and so the longest delay that a lost wake-up can cause.
MAX_BLOCK_SECONDS = 5.0
COMMAND_TIMEOUT_SECONDS = 3.0
#: Most connections, by purpose.  A worker makes two cycles, an add or two and reads at
#: once: more would only queue up in Redis.  A blocking call keeps its connection while
#: it sleeps, and must never wait for one.
_CONNECTIONS = {
    "command": 16,
    "many": 16,
    "heartbeat": 2,
    "durable": GROUPS,
    "block": 100_000,
}
#: Those that the URL's ``max_connections`` is for.
_SIZED = frozenset({"command", "many"})

#: Errors of redis-py and the operating system.
_ERRORS = (exceptions.RedisError, OSError)
#: Errors after which the same call may be retried.
_RETRYABLE = (
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
_RETRYABLE_TEXTS = (
    "NOREPLICAS",
    "UNBLOCKED",
    "LOADING",
    "MISCONF",
    "BUSY ",
    "CLUSTERDOWN",
)
#: Errors of scripts and commands at a key, a value or a score of the wrong kind.
_DAMAGE = re.compile(
    r"^(ERR )?(WRONGTYPE|DAMAGED|user_script:\d+:) "
    r"|(not|isn't) an integer|not a valid float|would overflow|is not a number"
)
#: Errors that a retry does not change; the message must reach the user.
_REFUSED = (exceptions.AuthenticationError, exceptions.NoPermissionError)


class RedisClient:
    """Connections to one Redis, its Sentinels or its Cluster, for one event loop."""

    def __init__(self, address: RedisAddress, *, budget_seconds: float) -> None:
        self.name = address.name
        self._address = address
        self._finds_masters = bool(address.is_cluster or address.service)
        self._budget = budget_seconds
        self._connector = Connector(address)
        self._slots = (
            ClusterSlots(address.hosts, self._ask_node) if address.is_cluster else None
        )
        self._pools: dict[tuple[str, Node | None], RedisConnectionPool] = {}
        #: How many calls failed, including those that were retried.
        self.losses = 0
        self._durable: dict[RedisConnectionPool, DurableCalls] = {}
        #: Pools by purpose and root, until a call shows that a slot has moved.
        self._routes: dict[tuple[str, str], RedisConnectionPool] = {}

    @property
    def has_one_server(self) -> bool:
        """Whether all shards are on the same server: they are, except in a Cluster."""
        return self._slots is None

    async def run(
        self, script: Script | str, root: str, *args: Any, heartbeat: bool = False
    ) -> Any:
        """
        Run a script on the shard of *root*; the script must be idempotent.

        A name is that of a script of the store; other packages pass their scripts.
        """
        loaded = load(script) if isinstance(script, str) else script
        purpose = "heartbeat" if heartbeat else "command"

        async def once(deadline: float) -> Any:
            pool = await self._pool_for(purpose, root, deadline)
            try:
                command = ("EVALSHA", loaded.sha, 1, root, *args)
                [reply] = await pool.call([command], deadline)
            except exceptions.NoScriptError:
                # Restarted, failed over or flushed: sending the text loads it again.
                command = ("EVAL", loaded.source, 1, root, *args)
                [reply] = await pool.call([command], deadline)
            return reply

        return await self._retry(once)

    async def read(self, root: str, *command: Any) -> Any:
        """Send a command that only reads, or that is idempotent."""
        [reply] = await self._read("command", root, [command])
        return reply

    async def read_many(self, root: str, commands: list[Command]) -> list[Any]:
        """Send commands that only read to one shard, in one round trip."""
        return await self._read("many", root, commands) if commands else []

    async def _read(
        self, purpose: str, root: str, commands: list[Command]
    ) -> list[Any]:
        async def once(deadline: float) -> list[Any]:
            pool = await self._pool_for(purpose, root, deadline)
            return await pool.call(commands, deadline)

        return await self._retry(once)

    async def run_durably(
        self, script: str, root: str, *args: Any, wait_ms: int
    ) -> tuple[Any, bool]:
        """Run a script; return its reply, and whether a replica has what it changed."""
        loaded = load(script)

        async def once(deadline: float) -> tuple[Any, bool]:
            pool = await self._pool_for("durable", root, deadline)
            calls = self._durable.get(pool)
            if calls is None:
                calls = DurableCalls(pool, timeout=COMMAND_TIMEOUT_SECONDS)
                self._durable[pool] = calls
            call = partial(calls.call, wait_ms=wait_ms, deadline=deadline)
            try:
                return await call(("EVALSHA", loaded.sha, 1, root, *args))
            except exceptions.NoScriptError:
                return await call(("EVAL", loaded.source, 1, root, *args))

        # It may wait for an earlier group of calls, and both for a replica.
        return await self._retry(once, timeout=self._budget)

    async def info(self, root: str, *sections: str) -> dict[str, str]:
        """Return INFO of the node that holds *root*'s slot."""

        async def once(deadline: float) -> dict[str, str]:
            pool = await self._pool_for("command", root, deadline)
            [text] = await pool.call([("INFO", *sections)], deadline)
            lines = text.decode().splitlines()
            found = dict(line.split(":", 1) for line in lines if ":" in line)
            # INFO has no key, and so a node that has just become a replica answers it.
            if self._finds_masters and found.get("role", "master") != "master":
                raise exceptions.ReadOnlyError("the node has become a replica")
            return found

        return await self._retry(once)

    async def config(self, root: str, name: str) -> str | None:
        """Return a setting of that node; None if the server does not allow CONFIG."""
        try:
            reply = await self.read(root, "CONFIG", "GET", name)
        except StoreUnavailable:
            raise
        except StoreError:
            # As on managed servers.
            return None
        return reply[1].decode() if reply else ""

    async def block(self, root: str, keys: list[str], seconds: float) -> str | None:
        """Sleep until one of *keys* has a marker; remove it and return its key."""
        with self._translated():
            [popped] = await self._block(root, keys, seconds)
        return popped[0].decode() if popped else None

    async def block_and_run(
        self, root: str, keys: list[str], seconds: float, script: str, *args: Any
    ) -> Any:
        """
        Sleep as `block` does, then run a script, woken or not.

        Both are sent together, which saves a round trip after the wake-up.  A caller
        that gives up must find out what the script did.
        """
        command = ("EVALSHA", load(script).sha, 1, root, *args)
        with self._translated():
            try:
                _, reply = await self._block(root, keys, seconds, command)
            except exceptions.NoScriptError:
                reply = await self.run(script, root, *args)
        return reply

    async def _block(
        self, root: str, keys: list[str], seconds: float, *then: Command
    ) -> list[Any]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds + COMMAND_TIMEOUT_SECONDS
        pool = await self._pool_for("block", root, deadline)
        # 0 would block forever; less than a millisecond would be a busy loop.
        pop = ("BZPOPMIN", *keys, max(seconds, 0.001))
        return await pool.call([pop, *then], deadline)

    @asynccontextmanager
    async def subscription(self, root: str, *channels: str) -> AsyncIterator[Messages]:
        """
        Subscribe to channels of a shard; yield a function that gets a message.

        Raises:
            StoreError: The connection was lost, or could not be made.
        """
        with self._translated():
            async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS) as limit:
                node = await self._node_of(root, limit.when() or 0)
                pubsub = PubSub(await self._connector.connect(node))
        try:
            with self._translated():
                async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS):
                    await pubsub.subscribe(channels)

            async def message(seconds: float) -> bytes | None:
                with self._translated():
                    return await pubsub.message(seconds)

            yield message
        finally:
            await pubsub.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise errors of redis-py and the system as `StoreError`."""
        try:
            yield
        except _ERRORS as exc:
            self._handle_failure(exc)
            raise self.translate(exc) from exc

    async def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.close()
        for calls in self._durable.values():
            await calls.close()
        self._routes.clear()
        self._durable.clear()
        self._pools.clear()
        await self._connector.close()

    async def _retry(
        self, call: Callable[[float], Awaitable[T]], *, timeout: float | None = None
    ) -> T:
        """Make *call*, with a deadline each time, until answered or out of budget."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        deadline = now + self._budget
        timeout = timeout or COMMAND_TIMEOUT_SECONDS
        pause = 0.02
        reason: Exception | None = None
        is_unknown = False
        while True:
            try:
                return await call(min(deadline, now + timeout))
            except _ERRORS as exc:
                # A TimeoutError, of the socket or of our deadline, is an OSError.  The
                # last try is often cut short: an earlier error explains more.
                if reason is None or not isinstance(exc, TimeoutError):
                    reason = exc
                error = self.translate(reason)
                is_unknown = is_unknown or SENT in getattr(exc, "__notes__", ())
                if isinstance(error, StoreUnavailable):
                    error.is_unknown = is_unknown
                wait = random.uniform(0.5, 1) * pause
                is_final = not isinstance(error, StoreUnavailable)
                if is_final or loop.time() + wait >= deadline:
                    raise error from exc
                self._handle_failure(exc)
            await asyncio.sleep(wait)
            pause = min(pause * 2, 1.0)
            now = loop.time()

    def translate(self, exc: Exception) -> StoreError:
        """Return the `StoreError` for an error of redis-py or the system."""
        name = self.name
        if isinstance(exc, exceptions.OutOfMemoryError):
            return StoreFull(
                f"{name} has reached maxmemory and takes no new jobs; existing jobs "
                "still run and make room; raise maxmemory or add again later"
            )
        if isinstance(exc, exceptions.InvalidResponse):
            return StoreRefused(
                f"the server at {name} does not answer as Redis does; is the URL right "
                "(host, port, and rediss:// where TLS is wanted)?"
            )
        if "certificate verify failed" in str(exc):
            return StoreRefused(
                f"the certificate of {name} is not trusted ({exc}); add "
                "?ssl_ca_certs=/path/ca.pem to the URL if it is your own"
            )
        if isinstance(exc, _REFUSED):
            return StoreRefused(f"{name} refused: {exc}; check user, password and ACL")
        if isinstance(exc, _RETRYABLE) or str(exc).startswith(_RETRYABLE_TEXTS):
            return StoreUnavailable(
                f"{name} cannot be reached or does not answer "
                f"({str(exc) or 'timed out'}); is it running, and is the URL right?"
            )
        if _DAMAGE.search(str(exc)):
            return corrupt(name, exc)
        return StoreError(f"{name} answered with an error: {exc}")

    async def _pool_for(
        self, purpose: str, root: str, deadline: float
    ) -> RedisConnectionPool:
        """Return the pool of connections to the node of *root*'s slot."""
        pool = self._routes.get((purpose, root))
        if pool is None:
            pool = self._pool_to(purpose, await self._node_of(root, deadline))
            self._routes[purpose, root] = pool
        return pool

    async def _node_of(self, root: str, deadline: float) -> Node | None:
        """Return the node of *root*'s slot; None if this is not a Cluster."""
        if self._slots is None:
            return None
        return await self._slots.node_of(root, deadline)

    def _pool_to(self, purpose: str, node: Node | None) -> RedisConnectionPool:
        pool = self._pools.get((purpose, node))
        if pool is None:
            connect = partial(self._connector.connect, node)
            limit = _CONNECTIONS[purpose]
            if purpose in _SIZED:
                limit = self._address.max_connections or limit
            # Their limits differ: large replies leave connections for commands.
            sharing = self._pool_to("command", node) if purpose == "many" else None
            pool = RedisConnectionPool(connect, limit, sharing)
            self._pools[purpose, node] = pool
        return pool

    async def _ask_node(self, node: Node, command: Command, deadline: float) -> Any:
        [reply] = await self._pool_to("command", node).call([command], deadline)
        return reply

    def _handle_failure(self, exc: Exception) -> None:
        """Count a failed call, and update the route of the next one."""
        self.losses += 1
        if self._address.service:
            # All connections are to the same server, which may no longer be the master.
            for pool in self._pools.values():
                pool.drop_idle()
        if self._slots is None or type(exc) is exceptions.AskError:
            return
        self._routes.clear()
        if isinstance(exc, exceptions.MovedError) and exc.host:
            self._slots.move(exc.slot_id, (exc.host, exc.port))
        else:
            self._slots.forget()


def pairs(reply: list[Any]) -> list[tuple[bytes, Any]]:
    """Return the pairs in a reply: field and value, or member and score."""
    return list(zip(reply[::2], reply[1::2], strict=True))
