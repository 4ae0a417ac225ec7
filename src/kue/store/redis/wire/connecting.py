"""
Connecting to Redis: one server, the master that Sentinels name, a node of a Cluster.

redis-py connects (TLS, password, database) and asks the Sentinels.  Who calls takes the
connection over: see `lines`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hiredis
import redis
import redis.asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.redis.wire.cluster_slots import Node
    from kue.store.redis.wire.url import RedisAddress

CONNECT_TIMEOUT_SECONDS = 2.0
#: What a client says of itself.  Left to redis-py from 7.1 on, every new connection
#: reads the metadata of the installed package, which takes longer than connecting.
DRIVER: dict[str, Any] = (
    {"driver_info": redis.DriverInfo()} if hasattr(redis, "DriverInfo") else {}
)


class _Packing:
    """
    Writes commands with hiredis.

    redis-py does so in its blocking connections only; in these it packs in Python.
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


class Connector:
    """Makes connections to what a URL names."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._sentinel: Sentinel | None = None

    async def connect(self, node: Node | None = None) -> Any:
        """Return a connection of redis-py's to *node*, or to the one there is."""
        connection = self._make(node or await self._find())
        try:
            await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def close(self) -> None:
        """Close the connections to Sentinels."""
        if self._sentinel is not None:
            for client in self._sentinel.sentinels:
                await client.aclose()

    def _make(self, node: Node) -> Any:
        address = self._address
        options = _options() | address.options | {"db": address.db}
        if address.path:
            del options["socket_keepalive"]
            return _UnixConnection(path=address.path, **options)
        kind = _TlsConnection if address.is_tls else _TcpConnection
        return kind(host=node[0], port=node[1], **options)

    async def _find(self) -> Node:
        """Return where the one server is; of a master, where it is now."""
        address = self._address
        if not address.service:
            return address.hosts[0] if address.hosts else ("", 0)
        if self._sentinel is None:
            watchers: Callable[..., Sentinel] = Sentinel
            self._sentinel = watchers(
                address.hosts, sentinel_kwargs=address.sentinel_options
            )
        host, port = await self._sentinel.discover_master(address.service)
        return host.decode() if isinstance(host, bytes) else host, int(port)


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
        **DRIVER,
    }
