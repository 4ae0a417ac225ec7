"""Redis URLs: parsing them, with a clear error for what is not supported."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from kue.model.errors import ConfigError

MAX_SHARDS = 1024
#: Options that a URL may have after its question mark.
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_password")
#: How to log in to the Sentinels themselves.
_SENTINEL = ("sentinel_username", "sentinel_password")
_KNOWN = ("shards", "db", "max_connections", *_SENTINEL, *_TLS)
MAX_CONNECTIONS = 10_000


class RedisAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a Redis is and how to log in."""

    #: For messages: no credentials in it.
    name: str
    hosts: list[tuple[str, int]]
    path: str = ""
    db: int = 0
    shards: int = 1
    #: For commands, to each node; 0 for the usual number.
    max_connections: int = 0
    is_tls: bool = False
    is_cluster: bool = False
    #: Name of the master that Sentinels watch.
    service: str = ""
    username: str | None = None
    password: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    tls: dict[str, Any] = {}
    #: Asked for user and password by each new connection, instead of those above.
    credential_provider: Any = None
    #: An `ssl.SSLContext`, instead of *tls*.
    ssl_context: Any = None
    #: More options of redis-py's connections, and those of connections to Sentinels.
    options: dict[str, Any] = {}
    sentinel_options: dict[str, Any] = {}
    #: A class of asyncio connections of its own.
    connection_class: Any = None

    @property
    def url(self) -> str:
        """The same without logins, and without what a URL cannot have."""
        mark = "&" if "?" in self.name else "?"
        return self.name + (f"{mark}shards={self.shards}" if self.shards > 1 else "")


def read_url(url: str) -> RedisAddress:
    """
    Parse a Redis URL.

    Raises:
        ConfigError: The URL is invalid; the message says why.
    """
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        raise ConfigError(f"the URL of Redis is malformed: {exc}") from None
    query = _query(parts)
    form, _, kind = parts.scheme.partition("+")
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    where = hosts or parts.path
    common: dict[str, Any] = {
        "name": f"{parts.scheme}://{where}",
        "shards": _number(query, "shards", 1, 1, MAX_SHARDS),
        "max_connections": _number(query, "max_connections", 0, 1, MAX_CONNECTIONS),
        "is_tls": form == "rediss",
        "username": unquote(username) or None,
        "password": unquote(password) or None,
        "tls": {name: query[name] for name in _TLS if name in query},
        **{name: query.get(name) for name in _SENTINEL},
    }
    if form == "unix":
        if not parts.path:
            raise ConfigError("a unix:// URL needs a path: unix:///run/redis.sock")
        db = _number(query, "db", 0, 0, 1_000_000)
        common["name"] += f"?db={db}" if db else ""
        return RedisAddress(hosts=[], path=unquote(parts.path), db=db, **common)
    default = 26379 if kind == "sentinel" else 6379
    listed = [_host(text, default) for text in hosts.split(",")]
    if kind == "cluster":
        return RedisAddress(hosts=listed, is_cluster=True, **common)
    if len(listed) > 1 and kind != "sentinel":
        raise ConfigError(
            f"{common['name']} names several hosts; use redis+sentinel:// or "
            "redis+cluster:// for those"
        )
    segments = [segment for segment in parts.path.split("/") if segment]
    service = ""
    if kind == "sentinel":
        if not segments:
            raise ConfigError(
                "a redis+sentinel:// URL needs the name of the master: "
                "redis+sentinel://host1,host2/mymaster"
            )
        service = segments.pop(0)
    db = _db(segments, query)
    # What distinguishes queues on the same hosts; database 0 is left out.
    common["name"] += "".join(f"/{part}" for part in (service, db) if part)
    return RedisAddress(hosts=listed, service=service, db=db, **common)


def _query(parts: SplitResult) -> dict[str, str]:
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in query:
        if name not in _KNOWN:
            raise ConfigError(
                f"a Redis URL has no option {name!r}; it has {', '.join(_KNOWN)}"
            )
    return query


def _host(text: str, default: int) -> tuple[str, int]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"{port!r} is not a port, in {text!r}")
    return host or "localhost", int(port) if port else default


def _db(segments: list[str], query: dict[str, str]) -> int:
    if segments and not segments[0].isdecimal():
        raise ConfigError(
            f"the database in a Redis URL is a number, not {segments[0]!r}"
        )
    return int(segments[0]) if segments else _number(query, "db", 0, 0, 1_000_000)


def _number(query: dict[str, str], name: str, default: int, low: int, high: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not low <= int(text) <= high:
        raise ConfigError(f"{name} is a number from {low} to {high}, not {text!r}")
    return int(text)
