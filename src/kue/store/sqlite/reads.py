"""Read side of the SQLite store: opening, queries, waiting for work, subscriptions."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

from kue.model.errors import StoreError
from kue.store.contract import Events, OnProgress, Store
from kue.store.sqlite import error_groups
from kue.store.sqlite.engine import DatabaseThreads
from kue.store.sqlite.verbs import (
    limits,
    queries,
    records,
    schedules,
    stats,
    watch,
    workers,
)
from kue.store.sqlite.verbs.check import check
from kue.store.sqlite.verbs.watch import Subscriber
from kue.store.validation import (
    check_batch,
    check_errors,
    check_kept,
    check_limit,
    read_act_cursor,
    read_cursor,
)
from kue.store.values import (
    WATCH_MS,
    AuditPage,
    Errors,
    Limits,
    LogLine,
    Page,
    PageRequest,
    Pause,
    Report,
    Stacks,
    Stat,
    StoreFacts,
    WorkerStatus,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from kue.model.clock import Clock
    from kue.model.job import Job, State
    from kue.model.schedule import Schedule
    from kue.store.sqlite.file_url import FileLocation
    from kue.store.sqlite.transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")


class SqliteReads(Store):
    """The verbs of `SqliteStore` that change no jobs."""

    def __init__(self, location: FileLocation, clock: Clock, budget: float) -> None:
        self.name = location.name
        self._location = location
        self._clock = clock
        self._budget = budget
        self._shares_threads = False
        self._engine = DatabaseThreads(location, clock, budget)

    async def open(self) -> str:
        version = sqlite3.sqlite_version
        await self._write(None, _connect)
        if self._location.path is None:
            return f"SQLite {version} in memory: jobs are lost when the program ends"
        return (
            f"SQLite {version} at {self._location.path}: jobs survive a crash of any "
            "process; a power cut may cost the last moments, but no durable add"
        )

    async def close(self) -> None:
        if self._shares_threads:
            return
        try:
            await asyncio.to_thread(self._engine.stop)
        except RuntimeError:
            # An exiting interpreter starts no more threads; nothing else waits then.
            self._engine.stop()

    def twin(self) -> Self:
        twin = type(self)(self._location, self._clock, self._budget)
        if self._location.path is None:
            # The only connection holds the data, while its owner keeps it open.
            twin._engine = self._engine
            twin._shares_threads = True
        return twin

    async def now(self) -> int:
        return self._clock.now_ms()

    async def wait(self, types: Sequence[str], timeout: float) -> frozenset[str]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        with (
            self._engine.watching_changes(),
            self._engine.waiters.enter(types) as waiter,
        ):
            # In this order, or a job added between checking and sleeping is missed.
            while True:
                now = self._clock.now_ms()
                due = await self._read(limits.next_chances, types, now)
                waiter.ready.update(type for type, at in due.items() if at <= now)
                left = deadline - loop.time()
                if waiter.ready or left <= 0:
                    return frozenset(waiter.ready)
                soonest = min(due.values(), default=math.inf)
                await waiter.sleep(min(left, (soonest - now) / 1000))

    async def paused(self) -> list[Pause]:
        now = self._clock.now_ms()
        return await self._read(
            lambda db: limits.pauses(db, now) + workers.pauses(db, now)
        )

    async def limits(self) -> dict[str, Limits]:
        return await self._read(limits.limits)

    async def schedules(self) -> list[Schedule]:
        return await self._read(schedules.show)

    async def get(self, job_ids: Sequence[int]) -> list[Job | None]:
        check_batch(job_ids, "jobs")
        return await self._read(queries.get, job_ids, self._clock.now_ms())

    async def page(self, request: PageRequest) -> Page:
        check_limit(request.limit)
        after = read_cursor(request.cursor)
        return await self._read(queries.read_page, request, after, self._clock.now_ms())

    async def count(self) -> dict[str, dict[State, int]]:
        return await self._read(queries.count)

    async def types(self) -> list[str]:
        return await self._read(queries.types)

    async def logs(self, job_id: int, start: int = 0, stop: int = -1) -> list[LogLine]:
        return await self._read(queries.logs, job_id, start, stop)

    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        moment = self._clock.now_ms() if now is None else now
        return await self._read(workers.show, moment)

    async def stats(self, since: int, until: int) -> list[Stat]:
        return await self._read(stats.minutes, since, until)

    async def hours(
        self, since: int, until: int, *, now: int | None = None
    ) -> list[Stat]:
        return await self._read(stats.hours, since, until)

    async def stacks(self, worker: str, *, now: int | None = None) -> Stacks | None:
        moment = self._clock.now_ms() if now is None else now
        return await self._read(workers.stacks, worker, moment)

    async def facts(self) -> StoreFacts:
        began = time.perf_counter()
        size = await self._read(_size)
        rtt = (time.perf_counter() - began) * 1000
        return StoreFacts("sqlite", sqlite3.sqlite_version, size, round(rtt, 3))

    async def kept(self, room: str, name: str, *, now: int | None = None) -> str | None:
        check_kept(room, name)
        moment = self._clock.now_ms() if now is None else now
        return await self._read(records.show, room, name, moment)

    async def all_kept(self, room: str, *, now: int | None = None) -> dict[str, str]:
        check_kept(room, room)
        moment = self._clock.now_ms() if now is None else now
        return await self._read(records.show_all, room, moment)

    async def acts(self, limit: int = 50, cursor: str | None = None) -> AuditPage:
        check_limit(limit)
        return await self._read(records.acts, limit, read_act_cursor(cursor))

    async def errors(self, type: str | None = None, *, limit: int = 50) -> Errors:
        check_errors(limit)
        return await self._read(error_groups.most, type, limit)

    async def check(
        self, *, repair: bool = False, on_progress: OnProgress | None = None
    ) -> Report:
        return await check(self._engine, repair=repair, on_progress=on_progress)

    @asynccontextmanager
    async def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AsyncIterator[Events]:
        check_batch(job_ids or (), "jobs")
        subscriber = Subscriber(job_ids, buffer, self._clock)
        subscribers = self._engine.subscribers
        with self._engine.watching_changes():
            subscribers.add(subscriber)
            try:
                last, _ = await self._subscribe(subscriber, job_ids)
                subscribers.begin(subscriber, last)
                renewing = asyncio.create_task(
                    self._keep_subscribed(subscriber, job_ids), name="kue-listener"
                )
                try:
                    yield subscriber
                finally:
                    renewing.cancel()
            finally:
                subscribers.discard(subscriber)
                with suppress(StoreError):
                    await self._write(None, watch.unsubscribe, subscriber.name)

    async def _subscribe(
        self, subscriber: Subscriber, job_ids: Sequence[int] | None
    ) -> tuple[int, bool]:
        return await self._write(None, watch.subscribe, subscriber.name, job_ids)

    async def _keep_subscribed(
        self, subscriber: Subscriber, job_ids: Sequence[int] | None
    ) -> None:
        while True:
            await asyncio.sleep(WATCH_MS / 3000)
            # Callers of the store notice an outage; here the next renewal will do.
            with suppress(StoreError):
                _, is_known = await self._subscribe(subscriber, job_ids)
                if not is_known:
                    # Events may be missing: the subscription had expired.
                    subscriber.lag(1)

    async def _read(
        self,
        call: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return await self._engine.read(lambda db: call(db, *args, **kwargs))

    async def _write(
        self,
        now: int | None,
        call: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return await self._engine.write(lambda tx: call(tx, *args, **kwargs), now=now)


def _size(db: sqlite3.Connection) -> int:
    """Return the size of the file, or of the store in memory, in bytes."""
    [[pages]], [[page_size]] = (
        db.execute(f"PRAGMA {name}").fetchall() for name in ("page_count", "page_size")
    )
    return int(pages) * int(page_size)


def _connect(tx: Transaction) -> None:
    """Do nothing: running it opens the connection."""
