"""Kue: the queue a user holds."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING, Any

from kue.client import inline_connection
from kue.client.admin import QueueAdmin
from kue.client.alerts import Alerts
from kue.client.batch_queries import Batches
from kue.client.builder import JobBuilder
from kue.client.bulk_actions import BulkActions
from kue.client.bulk_enqueue import BulkEnqueue, drafts
from kue.client.circuits import Circuits
from kue.client.connection import Connection
from kue.client.connections import connect
from kue.client.failover_connection import FailoverConnection
from kue.client.failures import Failures
from kue.client.flow_actions import FlowActions
from kue.client.handle import JobHandle, added_handle
from kue.client.hooks import Hooks
from kue.client.inline_connection import InlineConnection
from kue.client.queries import Queries
from kue.client.registration_methods import Registration
from kue.client.registry import HandlerRegistry
from kue.client.schedules import Schedules
from kue.client.subscriptions import QUEUE_PREFIX, Callback, kind_of
from kue.client.sync import SyncKue
from kue.client.worker_runner import RunMethods
from kue.model import settings as settings_
from kue.model.connections import FAILOVER, refuse_own_settings
from kue.model.errors import ConfigError
from kue.model.events import Event, Kind
from kue.model.settings import Settings
from kue.store import PRIVATE, RedisOptions, scheme_of, store_for, url_of_client
from kue.store.sealed_store import sealed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from ssl import SSLContext
    from typing import TypeAlias

    from redis import ConnectionPool, CredentialProvider, Redis, RedisCluster
    from redis.asyncio import ConnectionPool as AsyncConnectionPool
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

    from kue.client.bulk_enqueue import OnAdded
    from kue.model.clock import TimeSource
    from kue.model.job import Draft
    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.worker import Worker

    #: What redis-py has to connect with.
    RedisClient: TypeAlias = (
        Redis
        | RedisCluster
        | ConnectionPool
        | AsyncRedis
        | AsyncRedisCluster
        | AsyncConnectionPool
    )


class Kue(
    Queries,
    QueueAdmin,
    Batches,
    FlowActions,
    Circuits,
    Failures,
    Schedules,
    Alerts,
    BulkActions,
    Registration,
    RunMethods,
):
    """
    A queue of jobs.

    Making one does no I/O; the store is opened by the first method that needs it.
    Several in one process are fine, on one store or on many.  Close it when you are
    done, or use it as an async context manager.

    Args:
        url: Where jobs are kept; else $KUE_URL, $REDIS_URL, or ``./kue.db``.  Or a
            client or connection pool of redis-py, whose settings are taken over for
            connections of the queue's own.  Or all settings, ready-made.
        store: A custom store instead of the one the URL names.
        clock: The time by which jobs are due, for tests: see `kue.testing.Clock`.
        credential_provider: Of redis-py: each new connection to Redis asks it for user
            and password, which may change.
        ssl_context: How to check the certificate of a Redis with TLS.
        shards: Of a Redis that is given as a client; a URL has ``?shards=``.
        settings: See `kue.model.settings.Settings`; each has a KUE_* variable.

    Raises:
        ConfigError: A setting is unknown or makes no sense; or *clock* is given, and
            the store has its own, as Redis does.
    """

    def __init__(
        self,
        url: str | Settings | RedisClient | None = None,
        *,
        store: Store | None = None,
        clock: TimeSource | None = None,
        credential_provider: CredentialProvider | None = None,
        ssl_context: SSLContext | None = None,
        shards: int | None = None,
        **settings: Any,
    ) -> None:
        client = None if url is None or isinstance(url, str | Settings) else url
        redis = RedisOptions(client, credential_provider, ssl_context, shards)
        if isinstance(url, Settings):
            known = url
        else:
            where = url if client is None else url_of_client(redis)
            known = settings_.load(url=where, **settings)
            refuse_own_settings(known.url, settings)
        #: The clock that it was given.
        self.clock = clock
        #: The name by which `kue.connect` knows it.
        self.connection_name: str | None = None
        self._is_given = store is not None
        #: Whether its settings are not enough to connect.
        self._has_redis_options = bool(redis)
        self._handlers = HandlerRegistry()
        self._hooks = Hooks()
        self._connection = self._connect(store, known, clock, redis)
        self._workers: set[Worker] = set()
        self._sync = SyncKue(self)

    def __repr__(self) -> str:
        name = f" {self.connection_name}" if self.connection_name else ""
        return f"<Kue{name} on {self._connection.store.name}>"

    @property
    def settings(self) -> Settings:
        return self._connection.settings

    @property
    def store(self) -> Store:
        """Where its jobs are kept."""
        return self._connection.store

    @property
    def is_shared(self) -> bool:
        """Whether another process that has its settings sees the same jobs."""
        return not self.is_private and not self._has_redis_options

    @property
    def is_private(self) -> bool:
        """Whether its jobs may be in the memory of this process alone."""
        return self._is_given or scheme_of(self.settings.url) in PRIVATE

    @property
    def sync(self) -> SyncKue:
        """The same queue for code that does not await: threads, views, scripts."""
        return self._sync

    @property
    def _connection(self) -> Connection:
        """The connection of the running event loop; the loop of `sync` has its own."""
        sync = self._sync._sync_connection
        return sync.queue._home if sync and sync.loop.is_here else self._home

    @_connection.setter
    def _connection(self, connection: Connection) -> None:
        self._home = connection

    def _twin(self) -> Kue:
        """Return the same queue for another event loop: handlers are shared."""
        twin = copy(self)
        twin._connection = self._connection.twin()
        twin._workers = set()
        twin._sync = SyncKue(twin)
        return twin

    def _connect(
        self,
        store: Store | None,
        settings: Settings,
        clock: TimeSource | None = None,
        redis: RedisOptions = RedisOptions(),  # noqa: B008 - immutable
    ) -> Connection:
        if store is not None and (clock is not None or redis):
            raise ConfigError("give a store, or how to make one: not both")
        is_failover = not self._is_given and scheme_of(settings.url) == FAILOVER
        if is_failover and clock is None and not redis:
            return FailoverConnection.of(settings.url, self._hooks)
        store = sealed(store or store_for(settings, clock, redis), settings)
        if settings.url == inline_connection.URL:
            return InlineConnection(store, settings, self._handlers, self._hooks)
        return Connection(store, settings)

    def on_connection(self, name: str) -> Kue:
        """
        Return the same queue, with all its handlers and hooks, on another connection.

        It shares the store of ``kue.connect(name)``.  Tasks go on to add their jobs to
        the queue that they were registered with.

        Raises:
            ConfigError: There is no such connection, or it is not defined well.
        """
        other = connect(name)
        queue = copy(self)
        queue.connection_name, queue._is_given = name, other._is_given
        queue.clock = other.clock
        queue._has_redis_options = other._has_redis_options
        queue._connection = queue._connect(other.store, other.settings)
        queue._workers = set()
        queue._sync = SyncKue(queue)
        return queue

    @property
    def members(self) -> list[Kue]:
        """The same queue on each connection of a fail-over; empty for all others."""
        if not isinstance(self._connection, FailoverConnection):
            return []
        return [self.on_connection(one.name) for one in self._connection.members]

    async def open(self) -> str:
        """
        Connect now, and return a sentence on how durable the store is.

        Raises:
            StoreRefused, StoreCorrupt, StoreUnavailable: see there.
        """
        return await self._connection.store.open()

    async def close(self) -> None:
        """Stop workers and subscriptions, let pending adds arrive, close the store."""
        if self._sync.is_open:
            await asyncio.to_thread(self._sync.close)
        self.stop()
        await asyncio.gather(*(worker.ended() for worker in self._workers))
        await self._connection.close()

    async def __aenter__(self) -> Kue:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- producing -------------------------------------------------------------

    def create_job(self, type: str, data: JSON = None) -> JobBuilder:
        """
        Start building a job; ``await ….save()`` stores it.

        Raises:
            BadPayload: *data* is not JSON, or too much of it.
            ValueError, TypeError: *type* is not a name.
        """
        return JobBuilder(self._connection, type, data)

    create = create_job

    def draft(self, type: str, data: JSON = None, **options: Any) -> Draft:
        """Return a job as a value, for `enqueue_many`; options as of `draft.draft`."""
        return self._connection.draft(type, data, options)

    async def enqueue(
        self, type: str, data: JSON = None, *, durable: bool = False, **options: Any
    ) -> JobHandle[Any]:
        """
        Store a job.

        Calls made at the same time are sent together.  With *durable* it returns only
        when the store's replicas have the job, too.

        Raises:
            BadPayload, ValueError, TypeError: Something given makes no sense.
            DuplicateJob: ``on_conflict="reject"``, and another job has its unique key.
            StoreFull, StoreUnavailable, DurabilityUnknown: see there.
        """
        connection = self._connection
        draft = connection.draft(type, data, options)
        added = await connection.add(draft, durable=durable)
        return added_handle(connection, draft.type, added)

    async def enqueue_many(
        self,
        what: str | Iterable[Draft],
        data: Iterable[JSON] = (),
        *,
        durable: bool = False,
        on_progress: OnAdded | None = None,
        **options: Any,
    ) -> list[JobHandle[Any]]:
        """
        Store many jobs: one of type *what* for each of *data*, or drafts of any type.

        They are sent in chunks of 500, each added whole or not at all; handles come,
        and ids grow, in the order given.  *on_progress* is called with how many were
        added so far.

        Raises:
            As `enqueue`; a note on the error has the number of jobs that were added.
        """
        connection = self._connection
        await connection.subscriptions.ready()
        made = drafts(connection, what, data, options)
        return await BulkEnqueue(connection, made, durable, on_progress).deliver()

    # -- events ----------------------------------------------------------------

    def on(self, event: str, callback: Callback) -> Kue:
        """
        Call *callback* with each such event of any job: "job_complete", "job_failed" …

        Every subscriber receives every event.  A callback may be a coroutine function;
        one that raises is logged and disturbs no other.  "alert" is reported by every
        process that checks thresholds: see `alert`.  "error" is every failed run, and
        what fails in this process where nobody awaits it: calls that workers and
        subscriptions repeat until the store can answer them, and listeners that raise.

        Raises:
            ValueError: There is no such event; the message lists those there are.
        """
        if event == Kind.ALERT:
            self._connection.alert_events.on(callback)
        elif event == Kind.ERROR:
            self._connection.errors.on(callback)
        else:
            kind = kind_of(event, prefix=QUEUE_PREFIX)
            self._connection.subscriptions.on(kind, callback)
        return self

    def off(self, event: str, callback: Callback | None = None) -> Kue:
        """Unregister *callback*, or with None all callbacks of *event*."""
        if event == Kind.ALERT:
            self._connection.alert_events.off(callback)
        elif event == Kind.ERROR:
            self._connection.errors.off(callback)
        else:
            kind = kind_of(event, prefix=QUEUE_PREFIX)
            self._connection.subscriptions.off(kind, callback)
        return self

    def events(self, *names: str) -> AsyncIterator[Event]:
        """
        Yield what happens to any job: everything, or the events named.

        A reader that is too slow misses the oldest and gets a ``lagged`` event.
        ``q.events("alert")`` yields alerts, which no other events come with.

        Raises:
            ValueError: There is no such event.
        """
        if names == (Kind.ALERT,):
            return self._connection.alert_events.iterate()
        kinds = [kind_of(name, prefix=QUEUE_PREFIX) for name in names]
        return self._events(frozenset([*kinds, Kind.LAGGED] if kinds else Kind))

    async def _events(self, kinds: frozenset[Kind]) -> AsyncIterator[Event]:
        async with self._connection.store.watch() as events:
            async for event in events:
                if event.kind in kinds:
                    yield event
