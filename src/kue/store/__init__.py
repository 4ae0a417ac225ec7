"""Stores, where jobs are kept.  `store_for` selects the engine by URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from kue.model.errors import ConfigError
from kue.model.settings import DEFAULT_PREFIX
from kue.store import null_store

if TYPE_CHECKING:
    from kue.model.clock import TimeSource
    from kue.model.settings import Settings
    from kue.store.contract import Store

_REDIS = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_CLUSTER = ("redis+cluster", "rediss+cluster")
#: Stores in the memory of one process.
PRIVATE = ("memory", "sync", "null")
_IN_MEMORY = "memory://"
Engine: TypeAlias = Literal["sqlite", "redis", "memory", "sync", "null"]


class RedisOptions(NamedTuple):
    """How to connect to a Redis, in addition to the URL: things that only code has."""

    #: Of redis-py; instead of a URL.
    client: Any = None
    credential_provider: Any = None
    ssl_context: Any = None
    #: With a client; a URL has its own.
    shards: int | None = None

    def __bool__(self) -> bool:
        return any(option is not None for option in self)


def url_of_client(options: RedisOptions) -> str:
    """
    Return the URL of the Redis that a client or pool of redis-py connects to.

    Raises:
        ConfigError: It is neither, or has what cannot be taken over.
    """
    from kue.store.redis.wire.given_client import address_of

    return address_of(options.client, options.shards).url


def store_for(
    settings: Settings,
    clock: TimeSource | None = None,
    options: RedisOptions = RedisOptions(),  # noqa: B008 - immutable
) -> Store:
    """
    Return the store of *settings*; nothing is opened yet.

    Raises:
        ConfigError: The URL names no engine or is malformed; the message lists forms.
            Or the engine cannot use a *clock*, or *options*.
    """
    scheme = scheme_of(settings.url)
    # Each engine is imported only when it is used: a worker on SQLite needs no redis.
    is_job_process = scheme in PRIVATE and null_store.is_job_process()
    if is_job_process or settings.url == null_store.URL:
        return cast("Store", null_store.NullStore())
    if options and scheme not in (*_REDIS, *_CLUSTER):
        raise ConfigError(
            "credential_provider, ssl_context and shards are for Redis, not for "
            f"{_shown(settings.url)}"
        )
    if settings.url in ("sync://", "null://"):
        return _named_memory(settings.url, clock)
    if scheme == "sqlite" and settings.prefix != DEFAULT_PREFIX:
        raise ConfigError(
            f"the prefix {settings.prefix!r} is for keys in Redis, and would not keep "
            "two queues in one file apart; give each its own file"
        )
    if scheme in ("sqlite", "memory"):
        from kue.store.sqlite.store import SqliteStore

        return SqliteStore.from_url(settings.url, clock, budget=settings.budget)
    if scheme in _REDIS or scheme in _CLUSTER:
        if clock is not None:
            raise ConfigError(
                f"{_shown(settings.url)} cannot use a clock of this program: Redis has "
                "its own, which all clients share; use memory:// or sqlite:///…, or "
                "kue.testing.fake(q, clock=clock)"
            )
        from kue.store.redis.store import RedisStore

        if not options:
            return RedisStore(settings)
        from kue.store.redis.wire.given_client import address_with

        return RedisStore(settings, address_with(settings.url, options))
    if scheme == "failover":
        raise ConfigError(
            f"{settings.url} is several stores; name the connection of one of them"
        )
    raise ConfigError(
        f"the URL {_shown(settings.url)!r} names no store; it should look like "
        "sqlite:///kue.db, memory://, redis://localhost:6379/0, rediss://…, "
        "unix:///run/redis.sock, redis+sentinel://host1,host2/service or "
        "redis+cluster://host1,host2?shards=4; sync:// runs jobs at once, null:// "
        "forgets them"
    )


def _named_memory(url: str, clock: TimeSource | None) -> Store:
    from kue.store.discarding_store import DiscardingStore
    from kue.store.sqlite.store import SqliteStore

    kind = DiscardingStore if url == "null://" else SqliteStore
    store = kind.from_url(_IN_MEMORY, clock)
    store.name = url
    return store


def scheme_of(url: str) -> str:
    """
    Return the scheme of *url*.

    Raises:
        ConfigError: It is malformed.
    """
    try:
        return urlsplit(url).scheme
    except ValueError as exc:
        raise ConfigError(
            f"the URL {_shown(url)!r} is malformed: {exc}; it should look like "
            "sqlite:///kue.db or redis://localhost:6379/0, with an IPv6 address like "
            "redis://[::1]:6379/0"
        ) from None


def refuse_missing_file(url: str) -> None:
    """Keep a mistyped name of a file from becoming a new, empty store."""
    if scheme_of(url) == "sqlite":
        from kue.store.sqlite.file_url import FileLocation

        path = FileLocation.of(url).path
        if path is not None and not path.exists():
            raise ConfigError(
                f"there is no store {path}; is the URL right? The first job creates it"
            )


def engine_of(url: str) -> Engine | None:
    """Return what keeps the jobs of *url*; None if it is not the URL of a store."""
    scheme = scheme_of(url)
    if scheme in (*_REDIS, *_CLUSTER):
        return "redis"
    return cast("Engine", scheme) if scheme in ("sqlite", *PRIVATE) else None


def _shown(url: str) -> str:
    """Return *url* without what may be a password."""
    before, at, after = url.rpartition("@")
    return f"{before.partition('://')[0]}://…@{after}" if at else url
