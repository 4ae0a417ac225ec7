"""
Clients and pools of redis-py, given instead of a URL: where they connect, and how.

Their settings are taken over, and Kue opens connections of its own with them.  What
redis-py does around its own calls (retries, timeouts, decoding, health checks) does not
concern those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio as aioredis
from msgspec.structs import replace
from redis import sentinel as blocking_sentinel
from redis.asyncio import sentinel as asyncio_sentinel

from kue.model.errors import ConfigError
from kue.store.redis.wire.url import MAX_SHARDS, RedisAddress, read_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.store import RedisOptions

_CLUSTERS = (redis.RedisCluster, aioredis.RedisCluster)
_CLIENTS = (redis.Redis, aioredis.Redis)
_POOLS = (redis.ConnectionPool, aioredis.ConnectionPool)
_SENTINELS = (blocking_sentinel.Sentinel, asyncio_sentinel.Sentinel)
_SENTINEL_POOLS = (
    blocking_sentinel.SentinelConnectionPool,
    asyncio_sentinel.SentinelConnectionPool,
)
_TLS = (redis.SSLConnection, aioredis.SSLConnection)
_UNIX = (redis.UnixDomainSocketConnection, aioredis.UnixDomainSocketConnection)
#: Classes of redis-py itself; all others may do anything when they connect.
_STANDARD = (
    *(redis.Connection, redis.SSLConnection, redis.UnixDomainSocketConnection),
    *(aioredis.Connection, aioredis.SSLConnection),
    aioredis.UnixDomainSocketConnection,
    blocking_sentinel.SentinelManagedConnection,
    blocking_sentinel.SentinelManagedSSLConnection,
    asyncio_sentinel.SentinelManagedConnection,
    asyncio_sentinel.SentinelManagedSSLConnection,
)
#: What is taken over as it is.
_OPTIONS = (
    *("client_name", "socket_keepalive_options", "socket_type"),
    "redis_connect_func",
)
#: What only blocking connections can do.
_REFUSED = (
    *("ssl_validate_ocsp", "ssl_validate_ocsp_stapled", "ssl_ocsp_context"),
    "ssl_ocsp_expected_cert",
)
#: Pools of redis-py may have any number; more than Kue's own would only queue up.
_MAX_CONNECTIONS = 16


def address_with(url: str, options: RedisOptions) -> RedisAddress:
    """
    Return where to connect, and how.

    Raises:
        ConfigError: The options contradict each other, or the URL.
    """
    if options.client is not None:
        address = address_of(options.client, options.shards)
    elif options.shards is not None:
        raise ConfigError(f"shards is for clients; write {url}?shards={options.shards}")
    else:
        address = read_url(url)
    if (provider := options.credential_provider) is not None:
        _check_provider(address, provider)
        address = replace(address, credential_provider=provider)
    if (context := options.ssl_context) is not None:
        _check_context(address, is_url=options.client is None)
        address = replace(address, ssl_context=context)
    return address


def _check_provider(address: RedisAddress, provider: Any) -> None:
    if address.username or address.password:
        raise ConfigError(
            f"{address.name} has a user or password; leave it out, as the "
            "credential_provider returns both"
        )
    if not hasattr(provider, "get_credentials"):
        raise ConfigError(
            f"credential_provider is one of redis-py's, not {type(provider).__name__}; "
            "it has get_credentials() or get_credentials_async()"
        )


def _check_context(address: RedisAddress, *, is_url: bool) -> None:
    if not address.is_tls or address.connection_class is not None:
        raise ConfigError(
            f"ssl_context is for TLS, and {address.name} is without; "
            "write rediss://…, or a client with ssl=True"
        )
    # A client has them in any case, though nobody asked for them.
    if is_url and address.tls:
        raise ConfigError(
            f"give ssl_context or {', '.join(sorted(address.tls))}, not both"
        )


def address_of(given: Any, shards: int | None = None) -> RedisAddress:
    """
    Return where *given*, a client or pool of redis-py, connects and how.

    Raises:
        ConfigError: It is something else, or has what cannot be taken over.
    """
    shards = 1 if shards is None else shards
    if not 1 <= shards <= MAX_SHARDS:
        raise ConfigError(f"shards is a number from 1 to {MAX_SHARDS}, not {shards}")
    if isinstance(given, _CLUSTERS):
        address = _of_cluster(given)
    else:
        pool = given.connection_pool if isinstance(given, _CLIENTS) else given
        if isinstance(pool, _SENTINELS):
            raise ConfigError("of Sentinels give the client: sentinel.master_for(name)")
        if not isinstance(pool, _POOLS):
            raise ConfigError(
                f"a {type(given).__name__} is neither a URL, nor a client or pool of "
                "redis-py, nor settings of Kue"
            )
        address = _of_pool(pool)
    return replace(address, shards=shards)


def _of_pool(pool: Any) -> RedisAddress:
    options, kind = pool.connection_kwargs, pool.connection_class
    address = _common(options, kind)
    limit = min(pool.max_connections, _MAX_CONNECTIONS)
    address = replace(address, max_connections=limit)
    if isinstance(pool, _SENTINEL_POOLS):
        return _of_sentinel(address, pool)
    db = int(options.get("db") or 0)
    if issubclass(kind, _UNIX):
        path = options["path"]
        name = f"unix://{path}" + (f"?db={db}" if db else "")
        return replace(address, name=name, path=path, db=db)
    host = _host(options)
    name = f"{_scheme(address)}://{_shown(host)}" + (f"/{db}" if db else "")
    return replace(address, name=name, hosts=[host], db=db)


def _of_sentinel(address: RedisAddress, pool: Any) -> RedisAddress:
    if not pool.is_master:
        raise ConfigError(
            f"{pool!r} connects to replicas; give sentinel.master_for(name)"
        )
    manager, service = pool.sentinel_manager, pool.service_name
    hosts = [_host(one.connection_pool.connection_kwargs) for one in manager.sentinels]
    db = int(pool.connection_kwargs.get("db") or 0)
    parts = "".join(f"/{part}" for part in (service, db) if part)
    return replace(
        address,
        name=f"{_scheme(address)}+sentinel://{_listed(hosts)}{parts}",
        hosts=hosts,
        service=service,
        db=db,
        sentinel_options=dict(manager.sentinel_kwargs),
    )


def _of_cluster(client: Any) -> RedisAddress:
    nodes = client.nodes_manager
    if getattr(client, "user_on_connect_func", None) is not None:
        raise ConfigError("redis_connect_func of a cluster cannot be called by Kue")
    known = getattr(client, "connection_kwargs", None) or nodes.connection_kwargs
    # Its own function, which makes connections read-only for replicas.
    options = {name: known[name] for name in known if name != "redis_connect_func"}
    is_tls = bool(options.get("ssl"))
    default = aioredis.SSLConnection if is_tls else aioredis.Connection
    address = _common(options, options.get("connection_class") or default)
    hosts = [(one.host, int(one.port)) for one in nodes.startup_nodes.values()]
    name = f"{_scheme(address)}+cluster://{_listed(hosts)}"
    return replace(address, name=name, hosts=hosts, is_cluster=True)


def _common(options: Mapping[str, Any], kind: type) -> RedisAddress:
    """Return what all kinds of addresses have."""
    taken = {name: options[name] for name in _OPTIONS if options.get(name)}
    custom = None if kind in _STANDARD else kind
    if custom is not None:
        _check_custom(custom)
        taken = {
            name: value
            for name, value in options.items()
            if name not in _PLACED and not name.startswith(_OF_POOL)
        }
    _check_options(options, kind)
    return RedisAddress(
        name="",
        hosts=[],
        is_tls=issubclass(kind, _TLS),
        username=options.get("username"),
        password=options.get("password"),
        credential_provider=options.get("credential_provider"),
        tls={
            name: value
            for name, value in options.items()
            if name.startswith("ssl_") and name not in _REFUSED and value is not None
        },
        options=taken,
        connection_class=custom,
    )


#: What an address has fields for, or what is Kue's own decision.
_PLACED = frozenset(
    {
        *("host", "port", "path", "db", "username", "password", "connection_pool"),
        *("credential_provider", "retry", "retry_on_error", "retry_on_timeout"),
        *("socket_timeout", "socket_connect_timeout", "protocol", "driver_info"),
        *("parser_class", "decode_responses", "health_check_interval"),
        "event_dispatcher",
    }
)
#: What redis-py passes to its own connections about their pool.
_OF_POOL = ("maint", "orig_", "oss_")


def _check_custom(kind: type) -> None:
    if not issubclass(kind, aioredis.Connection | aioredis.UnixDomainSocketConnection):
        raise ConfigError(
            f"{kind.__name__} is a connection class of your own for blocking code; "
            "give a client or pool of redis.asyncio that has one"
        )
    if issubclass(kind, asyncio_sentinel.SentinelManagedConnection):
        raise ConfigError(
            f"{kind.__name__} finds masters by itself, as Kue does; "
            "give a client of sentinel.master_for(name) without a class of its own"
        )


def _check_options(options: Mapping[str, Any], kind: type) -> None:
    for name in _REFUSED:
        if options.get(name):
            raise ConfigError(f"{name} is only for blocking code; leave it out")
    is_blocking = not issubclass(kind, aioredis.connection.AbstractConnection)
    if is_blocking and options.get("redis_connect_func"):
        raise ConfigError(
            "redis_connect_func of a blocking client cannot be called by Kue, which "
            "does not block; give a client of redis.asyncio"
        )


def _host(options: Mapping[str, Any]) -> tuple[str, int]:
    return options.get("host") or "localhost", int(options.get("port") or 6379)


def _scheme(address: RedisAddress) -> str:
    return "rediss" if address.is_tls else "redis"


def _listed(hosts: list[tuple[str, int]]) -> str:
    return ",".join(map(_shown, hosts))


def _shown(host: tuple[str, int]) -> str:
    name = f"[{host[0]}]" if ":" in host[0] else host[0]
    return f"{name}:{host[1]}"
