"""SQLite store: jobs in one file, or in memory."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

import msgspec

from kue.model.clock import Clock, SystemClock
from kue.model.errors import StoreError, StoreFull
from kue.model.job import BEGAN, State
from kue.model.settings import LEASE_MS
from kue.store.batches import bytes_of_draft, bytes_of_outcome, producer_of_part, split
from kue.store.contract import Events, OnProgress, Store
from kue.store.sqlite import error_groups
from kue.store.sqlite.engine import DatabaseThreads
from kue.store.sqlite.file_url import FileLocation
from kue.store.sqlite.verbs import (
    add,
    maintenance,
    pages,
    queries,
    records,
    runs,
    stats,
    watch,
    workers,
)
from kue.store.sqlite.verbs import changes as changing
from kue.store.sqlite.verbs import limits as limiting
from kue.store.sqlite.verbs.check import check
from kue.store.sqlite.verbs.watch import Subscriber
from kue.store.validation import (
    InvalidCall,
    check_batch,
    check_kept,
    check_limit,
    check_limits,
    check_move,
    check_order,
    check_pause,
    check_timings,
    read_act_cursor,
    read_cursor,
)
from kue.store.values import (
    MAX_BATCH,
    MAX_ERRORS,
    NOTHING_SEEN,
    WATCH_MS,
    Added,
    AuditEntry,
    AuditPage,
    Change,
    Claimed,
    ClaimRequest,
    Errors,
    ExpectedState,
    HeartbeatReply,
    KeepRequest,
    Limits,
    LogLine,
    MaintenanceResult,
    MoveRequest,
    Outcome,
    Page,
    PageRequest,
    Pause,
    PauseRequest,
    Progress,
    RemoveRequest,
    RenewRequest,
    Reply,
    Report,
    Result,
    Stacks,
    Stat,
    StoreFacts,
    WorkerStatus,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from kue.model.histogram import Timing
    from kue.model.job import Draft, Job
    from kue.model.schedule import Schedule
    from kue.model.settings import Keep
    from kue.store.sqlite.verb_transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")

#: How long one call keeps trying to lock the file, in ms.
BUDGET_MS = 5_000


class SqliteStore(Store):
    """
    Jobs in a file, or in memory of this one object.

    May be used from several event loops and threads of the process that created it, and
    by several processes on one file, each with its own store.
    """

    def __init__(self, engine: DatabaseThreads, *, is_owner: bool = True) -> None:
        self.name = engine.location.name
        self._engine = engine
        self._is_owner = is_owner
        self._clock = engine.clock
        #: The last maintenance pass made by this store, or found by its first `tend`.
        self._last_pass: int | None = None

    @classmethod
    def from_url(
        cls, url: str, clock: Clock | None = None, *, budget: int = BUDGET_MS
    ) -> SqliteStore:
        """
        Return the store at ``sqlite:///relative.db``, ``sqlite:////abs.db``, ``memory://``.

        Args:
            budget: How long a call waits for other processes that lock the file, in ms.

        Raises:
            ConfigError: The URL names no file.
        """
        location = FileLocation.of(url)
        return cls(DatabaseThreads(location, clock or SystemClock(), budget / 1000))

    async def open(self) -> str:
        version = sqlite3.sqlite_version
        await self._write(None, lambda tx: None)
        path = self._engine.location.path
        if path is None:
            return f"SQLite {version} in memory: jobs are lost when the program ends"
        return (
            f"SQLite {version} at {path}: jobs survive a crash of any "
            "process; a power cut may cost the last moments, but no durable add"
        )

    async def close(self) -> None:
        if not self._is_owner:
            return
        try:
            await asyncio.to_thread(self._engine.stop)
        except RuntimeError:
            # An exiting interpreter starts no more threads; nothing else waits then.
            self._engine.stop()

    def twin(self) -> Self:
        engine = self._engine
        if engine.location.path is None:
            # The only connection holds the data, while its owner keeps it open.
            return type(self)(engine, is_owner=False)
        return type(self)(DatabaseThreads(engine.location, engine.clock, engine.budget))

    async def now(self) -> int:
        return self._clock.now_ms()

    async def add(
        self,
        drafts: Sequence[Draft],
        *,
        producer: str,
        seq: int,
        durable: bool = False,
        now: int | None = None,
    ) -> list[Added]:
        check_batch(drafts, "drafts")
        added: list[Added] = []
        for number, part in enumerate(split(drafts, bytes_of_draft)):
            name = producer_of_part(producer, number)
            call = partial(add.add, drafts=part, producer=name, seq=seq)
            added += await self._engine.write(
                call, now=now, is_durable=durable, is_new=bool(part)
            )
        return added

    async def claim(self, request: ClaimRequest, *, now: int | None = None) -> Claimed:
        check_limit(request.limit)
        return await self._write(now, runs.claim, request)

    async def settle(
        self, outcomes: Sequence[Outcome], *, now: int | None = None
    ) -> list[Result]:
        check_batch(outcomes, "outcomes")
        results: list[Result] = []
        for part in split(outcomes, bytes_of_outcome):
            results += await self._write(now, runs.settle, part)
        return results

    async def cycle(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest,
        *,
        now: int | None = None,
    ) -> tuple[list[Result], Claimed]:
        check_batch(outcomes, "outcomes")
        check_limit(request.limit)
        *first, last = split(outcomes, bytes_of_outcome)
        results: list[Result] = []
        for part in first:
            results += await self._write(now, runs.settle, part)
        settled, claimed = await self._write(now, runs.cycle, last, request)
        return results + settled, claimed

    async def renew(
        self, request: RenewRequest, *, now: int | None = None
    ) -> HeartbeatReply:
        check_batch(request.runs, "runs")
        return await self._write(now, workers.renew, request)

    async def measure(
        self, timings: Sequence[Timing], *, now: int | None = None
    ) -> None:
        check_batch(timings, "types")
        check_timings(timings)
        await self._write(now, stats.measure, timings)

    async def begin(
        self, job: Job, *, alone: bool, now: int | None = None
    ) -> Job | Result:
        return await self._write(now, runs.begin, job, BEGAN[not alone])

    async def leave(self, worker: str, *, now: int | None = None) -> None:
        await self._write(now, workers.leave, worker)

    async def tend(
        self,
        *,
        limit: int = MAX_BATCH,
        keep: Keep | None = None,
        lease: int = LEASE_MS,
        now: int | None = None,
    ) -> MaintenanceResult:
        check_limit(limit)
        if now is None:
            is_due, last = await self._read(maintenance.check_due, self._clock.now_ms())
            if self._last_pass is None:
                self._last_pass = last
            if not is_due:
                return MaintenanceResult(quiet=True, elsewhere=last != self._last_pass)
        result: MaintenanceResult = await self._write(
            now, maintenance.tend, limit, keep, lease, now is None
        )
        self._last_pass = await self._read(workers.last_pass)
        fired, has_more = await self._fire(limit, now)
        more = result.more or has_more
        return msgspec.structs.replace(result, fired=fired, more=more)

    async def _fire(self, limit: int, now: int | None) -> tuple[int, bool]:
        """Add the jobs of due schedules; on a full disk they stay due."""
        if not await self._read(maintenance.has_due_schedules, self._moment(now)):
            return 0, False
        call = partial(maintenance.fire, limit=limit)
        try:
            fired: tuple[int, bool] = await self._engine.write(
                call, now=now, is_new=True
            )
        except StoreFull:
            return 0, False
        return fired

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
                due = await self._read(limiting.next_chances, types, now)
                waiter.ready.update(type for type, at in due.items() if at <= now)
                left = deadline - loop.time()
                if waiter.ready or left <= 0:
                    return frozenset(waiter.ready)
                soonest = min(due.values(), default=math.inf)
                await waiter.sleep(min(left, (soonest - now) / 1000))

    async def progress(
        self, updates: Sequence[Progress], *, now: int | None = None
    ) -> list[Result]:
        check_batch(updates, "updates")
        return await self._write(now, runs.progress, updates)

    async def log(
        self,
        job_id: int,
        lines: Sequence[LogLine],
        *,
        created_at: int | None = None,
        now: int | None = None,
    ) -> Result:
        return await self._write(now, runs.log, job_id, lines, created_at)

    async def update(
        self, changes: Sequence[Change], *, now: int | None = None
    ) -> list[Result]:
        check_batch(changes, "changes")
        return await self._write(now, changing.update, changes)

    async def move(
        self, request: MoveRequest, *, now: int | None = None
    ) -> list[Reply]:
        check_batch(request.job_ids, "jobs")
        check_move(request.to, request.at)
        return await self._write(now, changing.move, request)

    async def cancel(
        self,
        job_ids: Sequence[int],
        *,
        reason: str = "",
        seen: Mapping[int, ExpectedState] = NOTHING_SEEN,
        now: int | None = None,
    ) -> list[Reply]:
        check_batch(job_ids, "jobs")
        return await self._write(now, changing.cancel, job_ids, reason, seen)

    async def remove(
        self, request: RemoveRequest, *, now: int | None = None
    ) -> list[Reply]:
        check_batch(request.job_ids, "jobs")
        return await self._write(now, changing.remove, request)

    async def pause(self, request: PauseRequest, *, now: int | None = None) -> None:
        check_pause(request.type, request.worker)
        await self._write(now, limiting.pause, request)

    async def resume(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        now: int | None = None,
    ) -> bool:
        check_pause(type, worker)
        return await self._write(now, limiting.resume, type, worker)

    async def paused(self) -> list[Pause]:
        now = self._clock.now_ms()
        return await self._read(
            lambda db: limiting.pauses(db, now) + limiting.worker_pauses(db, now)
        )

    async def order(self, worker: str, order: str, *, now: int | None = None) -> bool:
        check_order(order)
        return await self._write(now, workers.order, worker, order)

    async def write_stacks(
        self, worker: str, text: str, *, now: int | None = None
    ) -> None:
        await self._write(now, workers.write_stacks, worker, text)

    async def stacks(self, worker: str, *, now: int | None = None) -> Stacks | None:
        return await self._read(workers.stacks, worker, self._moment(now))

    async def limit(
        self, type: str, limits: Limits | None, *, now: int | None = None
    ) -> None:
        check_limits(limits)
        await self._write(now, limiting.set_limits, type, limits)
        group: str | None = ""
        while group is not None:
            group = await self._write(now, limiting.release_held, type, group)

    async def limits(self) -> dict[str, Limits]:
        return await self._read(limiting.limits)

    async def clear(
        self,
        type: str | None,
        states: Iterable[State],
        *,
        limit: int = MAX_BATCH,
        now: int | None = None,
    ) -> int:
        check_limit(limit)
        wanted = tuple(dict.fromkeys(states))
        if State.ACTIVE in wanted:
            raise InvalidCall(
                "active jobs cannot be cleared: cancel them, or remove them by force"
            )
        return await self._write(now, changing.clear, type, wanted, limit)

    async def schedule(self, schedule: Schedule) -> None:
        await self._write(None, maintenance.schedule, schedule)

    async def unschedule(self, name: str) -> bool:
        return await self._write(None, maintenance.unschedule, name)

    async def schedules(self) -> list[Schedule]:
        return await self._read(maintenance.schedules)

    async def get(self, job_ids: Sequence[int]) -> list[Job | None]:
        check_batch(job_ids, "jobs")
        return await self._read(pages.get, job_ids, self._clock.now_ms())

    async def page(self, request: PageRequest) -> Page:
        check_limit(request.limit)
        after = read_cursor(request.cursor)
        return await self._read(pages.page, request, after, self._clock.now_ms())

    async def count(self) -> dict[str, dict[State, int]]:
        return await self._read(queries.count)

    async def types(self) -> list[str]:
        return await self._read(queries.types)

    async def logs(self, job_id: int, start: int = 0, stop: int = -1) -> list[LogLine]:
        return await self._read(queries.logs, job_id, start, stop)

    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        return await self._read(workers.show, self._moment(now))

    async def stats(self, since: int, until: int) -> list[Stat]:
        return await self._read(stats.minutes, since, until)

    async def hours(
        self, since: int, until: int, *, now: int | None = None
    ) -> list[Stat]:
        return await self._read(stats.hours, since, until)

    async def facts(self) -> StoreFacts:
        began = time.perf_counter()
        size = await self._read(_size)
        rtt = (time.perf_counter() - began) * 1000
        return StoreFacts("sqlite", sqlite3.sqlite_version, size, round(rtt, 3))

    async def errors(self, type: str | None = None, *, limit: int = 50) -> Errors:
        check_limit(limit, least=1, most=MAX_ERRORS)
        return await self._read(error_groups.most, type, limit)

    async def check(
        self, *, repair: bool = False, on_progress: OnProgress | None = None
    ) -> Report:
        return await check(self._engine, repair=repair, on_progress=on_progress)

    async def keep(self, request: KeepRequest, *, now: int | None = None) -> bool:
        check_kept(request.room, request.name, request.value)
        return await self._write(now, records.keep, request)

    async def kept(self, room: str, name: str, *, now: int | None = None) -> str | None:
        check_kept(room, name)
        return await self._read(records.show, room, name, self._moment(now))

    async def all_kept(self, room: str, *, now: int | None = None) -> dict[str, str]:
        check_kept(room, room)
        return await self._read(records.show_all, room, self._moment(now))

    async def forget(self, room: str, name: str, *, now: int | None = None) -> bool:
        check_kept(room, name)
        return await self._write(now, records.forget, room, name)

    async def note(self, act: AuditEntry, *, now: int | None = None) -> int:
        return await self._write(now, records.note, act)

    async def acts(self, limit: int = 50, cursor: str | None = None) -> AuditPage:
        check_limit(limit)
        return await self._read(records.acts, limit, read_act_cursor(cursor))

    @asynccontextmanager
    async def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AsyncIterator[Events]:
        check_batch(job_ids or (), "jobs")
        subscriber = Subscriber(job_ids, buffer)
        subscribers = self._engine.subscribers
        with self._engine.watching_changes():
            subscribers.add(subscriber)
            try:
                last, _ = await self._write(None, watch.subscribe, subscriber)
                subscribers.begin(subscriber, last)
                renewing = asyncio.create_task(
                    self._keep_subscribed(subscriber), name="kue-listener"
                )
                try:
                    yield subscriber
                finally:
                    renewing.cancel()
            finally:
                subscribers.discard(subscriber)
                with suppress(StoreError):
                    await self._write(None, watch.unsubscribe, subscriber)

    async def _keep_subscribed(self, subscriber: Subscriber) -> None:
        while True:
            await asyncio.sleep(WATCH_MS / 3000)
            # Callers of the store notice an outage; here the next renewal will do.
            with suppress(StoreError):
                _, is_known = await self._write(None, watch.subscribe, subscriber)
                if not is_known:
                    # Events may be missing: the subscription had expired.
                    subscriber.lag(1)

    def _moment(self, now: int | None) -> int:
        return self._clock.now_ms() if now is None else now

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
