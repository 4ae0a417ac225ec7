"""
Connecting to Redis: one server, the master that Sentinels name, a node of a Cluster.

redis-py connects (TLS, password, database) and asks the Sentinels.  The caller then
takes over the connection: see `connection`.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import hiredis
import redis
import redis.asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from kue.store.redis.wire.cluster_slots import Node
    from kue.store.redis.wire.url import RedisAddress

CONNECT_TIMEOUT_SECONDS = 2.0
#: Name and version of the client library.  Without it redis-py 7.1 and later reads the
#: installed package's metadata for each connection, which takes longer than connecting.
DRIVER: dict[str, Any] = (
    {"driver_info": redis.DriverInfo()} if hasattr(redis, "DriverInfo") else {}
)


class _Packing:
    """
    Packs commands with hiredis.

    redis-py does so in blocking connections only; in asyncio ones it packs in Python.
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


class _NoRetries(Retry):
    """Never tries again; it has nothing that connections could not share."""

    def __deepcopy__(self, memo: object) -> _NoRetries:
        # redis-py copies it for each connection, which takes as long as to connect.
        return self


_NO_RETRIES = _NoRetries(NoBackoff(), 0)


class _GivenContext:
    """Stands for what redis-py makes a TLS context with."""

    def __init__(self, context: SSLContext) -> None:
        self._context = context

    def get(self) -> SSLContext:
        return self._context


def _with_context(context: SSLContext, **options: Any) -> _TlsConnection:
    connection = _TlsConnection(**options)
    connection.ssl_context = cast("Any", _GivenContext(context))
    return connection


class _UnixConnection(_Packing, aioredis.UnixDomainSocketConnection):
    pass


def _class_for(address: RedisAddress) -> Callable[..., Any]:
    """Return what makes the connections."""
    own = address.connection_class
    if own is not None:
        return type(own.__name__, (_Packing, own), {})
    if address.path:
        return _UnixConnection
    if address.ssl_context is not None:
        return partial(_with_context, address.ssl_context)
    return _TlsConnection if address.is_tls else _TcpConnection


class Connector:
    """Connects to the server, Sentinels or Cluster that a URL names."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._class = _class_for(address)
        self._sentinel: Sentinel | None = None

    async def connect(self, node: Node | None = None) -> Any:
        """Return a redis-py connection to *node*, or to the only server."""
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
        options: dict[str, Any] = {
            # Every call here has its own deadline.  With redis-py's timeout, a write
            # goes through asyncio.wait_for, which before Python 3.12 loses a
            # cancellation that coincides with the end of the wait: callers would hang
            # past their deadline.
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS,
            "socket_keepalive": True,
            "retry": _NO_RETRIES,
            "retry_on_error": [],
            # Replies as plain lists, the same from every server version.
            "protocol": 2,
            **DRIVER,
            **self._tls(),
            **address.options,
            **self._login(),
            "db": address.db,
        }
        if address.path:
            options.pop("socket_keepalive", None)
            options["path"] = address.path
        else:
            options |= {"host": node[0], "port": node[1]}
        return self._class(**options)

    def _tls(self) -> dict[str, Any]:
        # redis-py below 6.0 does not check the host's name by itself.
        checked = {"ssl_check_hostname": True} if self._address.is_tls else {}
        return {**checked, **self._address.tls}

    def _login(self) -> dict[str, Any]:
        address = self._address
        if address.credential_provider is not None:
            return {"credential_provider": address.credential_provider}
        return {"username": address.username, "password": address.password}

    async def _find(self) -> Node:
        """Return the address of the server; with Sentinels, of the current master."""
        address = self._address
        if not address.service:
            return address.hosts[0] if address.hosts else ("", 0)
        if self._sentinel is None:
            new_sentinel: Callable[..., Sentinel] = Sentinel
            options: dict[str, Any] = {
                "socket_timeout": 2.0,
                "username": address.sentinel_username,
                "password": address.sentinel_password,
            }
            if address.sentinel_options:
                options = {"socket_timeout": 2.0, **address.sentinel_options}
            elif address.is_tls:
                options |= {"ssl": True, **self._tls()}
            self._sentinel = new_sentinel(address.hosts, sentinel_kwargs=options)
            if address.ssl_context is not None:
                for client in self._sentinel.sentinels:
                    client.connection_pool.connection_class = cast("Any", self._class)
        # A search moves the Sentinel that answered to the front of the list.  In a list
        # that two searches share, another one would be overwritten by that.
        search = copy(self._sentinel)
        search.sentinels = list(search.sentinels)
        host, port = await search.discover_master(address.service)
        self._sentinel = search
        return host.decode() if isinstance(host, bytes) else host, int(port)
