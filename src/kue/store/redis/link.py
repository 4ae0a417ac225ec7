"""
The way to Redis: URLs, connections, and when to try again.

redis-py's own retries are off: it would repeat a script whose reply was lost behind our
back.  Here the *same* call is repeated, which every script answers as the first time,
with jitter and within a budget.  Commands, beats and the blocking wait have connections
of their own, so that no beat queues up behind a large reply.

In a Cluster redis-py only tells which node has which slot; calls go to that node.  A
slot that is being moved answers ASK, which is not followed: half of a shard's keys
would be on either side, and a script must see all.  The shard pauses meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import hiredis
import redis.asyncio as aioredis
from redis import exceptions
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from kue.errors import StoreError, StoreFull, StoreRefused, StoreUnavailable
from kue.store.redis.channels import Channels
from kue.store.redis.lines import Command, Lines
from kue.store.redis.scripts import load

if TYPE_CHECKING:
    from kue.store.redis.address import Address
    from kue.store.redis.scripts import Script

T = TypeVar("T")
#: Sends a command; redis-py has no types for this.
Send = Callable[..., Awaitable[Any]]
#: Waits for a message, so many seconds.
Messages = Callable[[float], Awaitable[bytes | None]]

#: Longest blocking wait; a wake-up that got lost costs no more than this.
MAX_BLOCK_SECONDS = 5.0
COMMAND_TIMEOUT_SECONDS = 3.0
CONNECT_TIMEOUT_SECONDS = 2.0
#: Two cycles, an add or two, reads: more at once only queue up in Redis.  Whoever
#: sleeps or listens holds a connection all the while, and must never wait for one.
_CONNECTIONS = {
    "command": 16,
    "many": 16,
    "beat": 2,
    "block": 100_000,
    "listen": 100_000,
}

#: Everything redis-py and the system raise.
_ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)
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
    exceptions.SlotNotCoveredError,
    # Not even one node answered; no RedisError in redis-py's eyes.
    exceptions.RedisClusterException,
    ConnectionError,
    TimeoutError,
)
#: The same, where redis-py has no class for them: how their text begins.
_AGAIN_WORDS = ("NOREPLICAS", "UNBLOCKED", "LOADING", "MISCONF", "BUSY ", "CLUSTERDOWN")
#: Answers that no repetition will change; the message must reach the user.
_REFUSED = (exceptions.AuthenticationError, exceptions.NoPermissionError)


class _Packing:
    """
    Writes commands with hiredis.

    redis-py does so in its blocking connections only; in these it packs in Python,
    which was a third of what a job costs here.
    """

    def pack_command(self, *args: Any) -> list[bytes]:
        # "CLIENT SETINFO" and the like, which redis-py sends when it connects.
        command, *rest = args
        name = command.encode() if isinstance(command, str) else command
        return [hiredis.pack_command((*name.split(), *rest))]


class _TcpConnection(_Packing, aioredis.Connection):
    pass


class _TlsConnection(_Packing, aioredis.SSLConnection):
    pass


class _UnixConnection(_Packing, aioredis.UnixDomainSocketConnection):
    pass


class Link:
    """Connections to one Redis, its Sentinels or its Cluster, for one event loop."""

    #: What a subscription raises when its connection is lost.
    errors = _ERRORS

    def __init__(self, address: Address, *, budget_seconds: float) -> None:
        self._address = address
        self._budget = budget_seconds
        self._cluster: RedisCluster | None = None
        self._clients: dict[tuple[str, str, int], aioredis.Redis] = {}
        self._lines: dict[aioredis.Redis, Lines] = {}
        #: Lines by purpose and root, as long as we believe that they lead there.
        self._routes: dict[tuple[str, str], Lines] = {}
        self._sentinels: list[aioredis.Redis] = []

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

        async def once() -> list[Any]:
            client = await self._client("many", root)
            async with client.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return list(await pipe.execute())

        return await self._persist(_in_time(once))

    async def run_durably(
        self, script: str, root: str, *args: Any, wait_ms: int
    ) -> tuple[Any, int]:
        """Run a script and ask, on the same connection, how many replicas have it."""

        async def once() -> tuple[Any, int]:
            client = await self._client("many", root)
            async with client.pipeline(transaction=False) as pipe:
                pipe.execute_command("EVAL", load(script).source, 1, root, *args)
                pipe.execute_command("WAIT", 1, wait_ms)
                reply, replicas = await pipe.execute()
                return reply, int(replicas)

        return await self._persist(_in_time(once))

    async def info(self, root: str) -> dict[str, Any]:
        """Return what the node that holds *root*'s slot says of itself."""

        async def once() -> dict[str, Any]:
            send: Send = (await self._client("many", root)).execute_command
            info = dict(await send("INFO", "everything"))
            try:
                save = await send("CONFIG", "GET", "save")
            except exceptions.ResponseError:
                # Managed servers forbid CONFIG; then it is not known.
                return info
            return info | {"save": save[1].decode() if save else ""}

        return await self._persist(_in_time(once))

    async def block(self, root: str, keys: list[str], seconds: float) -> str | None:
        """Sleep until one of *keys* has a marker; take it and say whose it was."""
        try:
            deadline = _after(seconds + COMMAND_TIMEOUT_SECONDS)
            popped = await self._send("block", root, _pop(keys, seconds), deadline)
            return popped[0].decode() if popped else None
        except _ERRORS as exc:
            await self._look_again(exc)
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
            for reply in (replies := await lines.call_all(calls, deadline)):
                if isinstance(reply, Exception):
                    raise reply
        except exceptions.NoScriptError:
            return await self.run(script, root, *args)
        except _ERRORS as exc:
            await self._look_again(exc)
            raise self.translate(exc) from exc
        return replies[1]

    @asynccontextmanager
    async def subscription(self, root: str, *channels: str) -> AsyncIterator[Messages]:
        """Subscribe to channels of a shard; gives what waits for a message."""
        subscriber = (await self._client("listen", root)).pubsub(
            ignore_subscribe_messages=True
        )
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS):
                await subscriber.ssubscribe(*channels)
                # Confirmed by the server: from here on nothing is missed.
                for _ in channels:
                    await subscriber.parse_response()

            async def message(timeout: float) -> bytes | None:
                got = await subscriber.get_message(timeout=timeout)
                return None if got is None else got["data"]

            yield message
        finally:
            close: Send = subscriber.aclose
            await close()

    @asynccontextmanager
    async def listening(self, root: str, *channels: str) -> AsyncIterator[Messages]:
        """Do the same as `subscription` for who hears a great deal."""
        async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS):
            client = await self._client("listen", root)
            listener = await Channels.open(client.connection_pool)
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS):
                await listener.subscribe(channels)
            yield listener.message
        finally:
            await listener.close()

    async def close(self) -> None:
        """Close every connection."""
        for lines in self._lines.values():
            await lines.close()
        clients = [*self._clients.values(), *self._sentinels]
        self._routes.clear()
        self._lines.clear()
        self._clients.clear()
        self._sentinels.clear()
        for client in clients:
            await client.aclose()
        if self._cluster is not None:
            await self._cluster.aclose()

    async def _persist(self, call: Callable[[float], Awaitable[T]]) -> T:
        """Make *call*, with a deadline each time, until answered or out of budget."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        deadline = now + self._budget
        pause = 0.02
        reason: Exception | None = None
        while True:
            try:
                return await call(min(deadline, now + COMMAND_TIMEOUT_SECONDS))
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
                await self._look_again(exc)
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
        return StoreError(f"{name} answered with an error: {exc}")

    @property
    def has_lines(self) -> bool:
        """Whether calls can be lined up: not where redis-py looks for the master."""
        return not self._address.service

    async def _send(
        self, purpose: str, root: str, command: Command, deadline: float
    ) -> Any:
        """Send a command to the node of *root*'s slot."""
        if self.has_lines:
            lines = self._routes.get((purpose, root))
            if lines is None:
                lines = await self._way(purpose, root, deadline)
            return await lines.call(command, deadline)
        async with asyncio.timeout_at(deadline):
            # Its pool knows when there is another master; lines would not.
            send: Send = (await self._client(purpose, root)).execute_command
            return await send(*command)

    async def _way(self, purpose: str, root: str, deadline: float) -> Lines:
        """Return the lines to the node of *root*'s slot."""
        lines = self._routes.get((purpose, root))
        if lines is None:
            async with asyncio.timeout_at(deadline):
                client = await self._client(purpose, root)
            lines = self._lines.get(client)
            if lines is None:
                lines = Lines(client.connection_pool, _CONNECTIONS[purpose])
                self._lines[client] = lines
            self._routes[purpose, root] = lines
        return lines

    async def _client(self, purpose: str, root: str) -> aioredis.Redis:
        """Return a client of the node that holds *root*'s slot."""
        host, port = await self._node_of(root) if self._address.is_cluster else ("", 0)
        client = self._clients.get((purpose, host, port))
        if client is None:
            options = _options() | self._address.options
            options["max_connections"] = _CONNECTIONS[purpose]
            client = self._connect(host, port, options)
            self._clients[purpose, host, port] = client
        return client

    async def _node_of(self, root: str) -> tuple[str, int]:
        if self._cluster is None:
            self._cluster = RedisCluster(
                startup_nodes=[ClusterNode(*host) for host in self._address.hosts],
                **_options() | self._address.options,
            )
        await self._cluster.initialize()
        node = self._cluster.get_node_from_key(root)
        if node is None:
            raise exceptions.SlotNotCoveredError(f"no node has the slot of {root}")
        return str(node.host), int(node.port)

    async def _look_again(self, exc: Exception) -> None:
        """Have the next call ask anew which node has which slot."""
        if self._cluster is not None and not isinstance(exc, exceptions.AskError):
            self._routes.clear()
            await self._cluster.aclose()

    def _connect(self, host: str, port: int, options: dict[str, Any]) -> aioredis.Redis:
        address = self._address
        if address.service:
            watchers: Callable[..., Any] = Sentinel
            sentinel = watchers(
                address.hosts, sentinel_kwargs=address.sentinel_options, **options
            )
            self._sentinels += sentinel.sentinels
            master: aioredis.Redis = sentinel.master_for(address.service, db=address.db)
            return master
        options.pop("ssl", None)
        if address.path:
            kind: type[Any] = _UnixConnection
            options |= {"path": address.path}
            del options["socket_keepalive"]
        else:
            kind = _TlsConnection if address.is_tls else _TcpConnection
            if not host:
                host, port = address.hosts[0]
            options |= {"host": host, "port": port}
        return aioredis.Redis.from_pool(
            aioredis.BlockingConnectionPool(
                connection_class=kind,
                db=address.db,
                timeout=None,
                **options,
            )
        )


def _after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


def _pop(keys: list[str], seconds: float) -> Command:
    # 0 would mean for ever, a rounded-down millisecond a busy loop.
    return ("BZPOPMIN", *keys, max(seconds, 0.001))


def _in_time(call: Callable[[], Awaitable[T]]) -> Callable[[float], Awaitable[T]]:
    """Give a call of redis-py's, which has no limit of its own, a deadline."""

    async def within(deadline: float) -> T:
        async with asyncio.timeout_at(deadline):
            return await call()

    return within


def _options() -> dict[str, Any]:
    return {
        # Every call here has a limit of its own.  With redis-py's, a write goes through
        # asyncio.wait_for, which until Python 3.12 forgets a cancellation that meets
        # the end of what it waited for: callers would hang past their time.
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        # Replies as plain lists, the same from every server version.
        "protocol": 2,
    }


def pairs(reply: Any) -> list[tuple[bytes, Any]]:
    """Return field and value of a reply, in whichever form redis-py gives it."""
    if isinstance(reply, dict):
        return list(reply.items())
    if reply and isinstance(reply[0], tuple | list):
        return [(field, value) for field, value in reply]
    return list(zip(reply[::2], reply[1::2], strict=True))


def short_pause() -> float:
    """Return how long to wait before a Redis that was lost is tried again, in s."""
    # Scattered: processes that lost their Redis together must not come back together.
    return random.uniform(0.02, 0.2)
