"""
The SQLite store: jobs in one file, or in memory.

Verbs are functions in ``verbs/``, which take a transaction or a snapshot.  Most are
made methods in a table, with the signature of the contract.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
from contextlib import asynccontextmanager, suppress
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import msgspec

from kue.model.clock import MovableClock, SystemClock, TimeSource
from kue.model.errors import StoreError, StoreFull
from kue.model.job import State
from kue.model.settings import LEASE_MS
from kue.store.batches import bytes_of_draft, bytes_of_outcome, producer_of_part, split
from kue.store.contract import Events, OnProgress, Store
from kue.store.sqlite import dependencies, error_groups, flows, ranking
from kue.store.sqlite.engine import DatabaseThreads
from kue.store.sqlite.file_url import FileLocation
from kue.store.sqlite.verbs import (
    add,
    changes,
    failures,
    maintenance,
    named_limits,
    pages,
    queries,
    records,
    runs,
    schedules,
    stats,
    steps,
    stream,
    watch,
    workers,
)
from kue.store.sqlite.verbs import limits as limiting
from kue.store.sqlite.verbs.check import check
from kue.store.sqlite.verbs.watch import Subscriber
from kue.store.validation import (
    CHECKS,
    InvalidCall,
    check_batch,
    check_drafts,
    check_limit,
    check_limits,
    check_named_limit,
    read_cursor,
)
from kue.store.values import (
    MAX_BATCH,
    WATCH_MS,
    Added,
    Claimed,
    ClaimRequest,
    HeartbeatReply,
    Limits,
    MaintenanceResult,
    Outcome,
    Page,
    PageRequest,
    RenewRequest,
    Report,
    Result,
    StoreFacts,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence

    from kue.model.job import Draft
    from kue.model.named_limits import StoredLimit
    from kue.model.settings import Keep
    from kue.store.sqlite.verb_transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")

#: How long one call keeps trying to lock the file, in ms.
BUDGET_MS = 5_000


def _writing(
    contract: Callable[Concatenate[Store, P], Coroutine[Any, Any, T]],
    call: Callable[..., T],
) -> Callable[Concatenate[SqliteStore, P], Coroutine[Any, Any, T]]:
    """Make the verb *contract* of *call*, which is run in a transaction."""
    check = CHECKS.get(contract.__name__)

    async def verb(self: SqliteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if check is not None:
            check(*args, **kwargs)
        now: Any = kwargs.pop("now", None)
        return await self._write(now, call, *args, **kwargs)

    # Without its attributes: one of them marks it as abstract.
    return update_wrapper(verb, contract, updated=())


def _reading(
    contract: Callable[Concatenate[Store, P], Coroutine[Any, Any, T]],
    call: Callable[..., T],
    *,
    needs_now: bool = False,
) -> Callable[Concatenate[SqliteStore, P], Coroutine[Any, Any, T]]:
    """Make the verb *contract* of *call*, which reads a snapshot of the store."""
    check = CHECKS.get(contract.__name__)

    async def verb(self: SqliteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if check is not None:
            check(*args, **kwargs)
        now: Any = kwargs.pop("now", None)
        if needs_now:
            kwargs["now"] = self._moment(now)
        return await self._read(call, *args, **kwargs)

    return update_wrapper(verb, contract, updated=())


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
        cls, url: str, clock: TimeSource | None = None, *, budget: int = BUDGET_MS
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
        try:
            await asyncio.to_thread(self.stop)
        except RuntimeError:
            # An exiting interpreter starts no more threads; nothing else waits then.
            self.stop()

    def stop(self) -> None:
        """Do as `close` does, blocking."""
        if self._is_owner:
            self._engine.stop()

    def twin(self) -> Self:
        engine = self._engine
        if engine.location.path is None:
            # The only connection holds the data, while its owner keeps it open.
            return type(self)(engine, is_owner=False)
        return type(self)(DatabaseThreads(engine.location, engine.clock, engine.budget))

    async def now(self) -> int:
        return self._clock.now_ms()

    reserve = _writing(Store.reserve, add.reserve)

    async def add(
        self,
        drafts: Sequence[Draft],
        *,
        producer: str,
        seq: int,
        durable: bool = False,
        now: int | None = None,
    ) -> list[Added]:
        check_drafts(drafts)
        added: list[Added] = []
        for number, some in enumerate(split(drafts, bytes_of_draft)):
            name = producer_of_part(producer, number)
            part = add.CallPart(drafts, tuple(added), len(some))
            call = partial(add.add, part=part, producer=name, seq=seq)
            added += await self._engine.write(
                call, now=now, is_durable=durable, is_new=bool(some)
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
        # A clock that is set by a program differs from the machine's, and may.
        is_own = now is None and not isinstance(self._clock, MovableClock)
        result: MaintenanceResult = await self._write(
            now, maintenance.tend, limit, keep, lease, is_own
        )
        self._last_pass = await self._read(workers.last_pass)
        fired, has_more = await self._fire(limit, now)
        more = result.more or has_more
        return msgspec.structs.replace(result, fired=fired, more=more)

    async def _fire(self, limit: int, now: int | None) -> tuple[int, bool]:
        """Add the jobs of due schedules; on a full disk they stay due."""
        if not await self._read(schedules.has_due, self._moment(now)):
            return 0, False
        call = partial(schedules.fire_due, limit=limit)
        try:
            fired: tuple[int, bool] = await self._engine.write(
                call, now=now, is_new=True
            )
        except StoreFull:
            return 0, False
        return fired

    async def fire(self, name: str, *, now: int | None = None) -> Added | None:
        call = partial(schedules.fire, name=name)
        return await self._engine.write(call, now=now, is_new=True)

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

    async def limit(
        self, type: str, limits: Limits | None, *, now: int | None = None
    ) -> None:
        check_limits(limits)
        is_reordered = await self._write(now, limiting.set_limits, type, limits)
        after: int | None = 0 if is_reordered else None
        while after is not None:
            after = await self._write(now, ranking.reorder, type, after)
        group: str | None = ""
        while group is not None:
            group = await self._write(now, limiting.release_held, type, group)

    async def set_named_limit(
        self,
        name: str,
        limit: StoredLimit | None,
        *,
        types: Sequence[str] = (),
        now: int | None = None,
    ) -> None:
        check_named_limit(name)
        await self._write(now, named_limits.write_rule, name, limit)
        ref: str | None = ""
        while ref is not None:
            ref = await self._write(now, named_limits.release_named, name, ref)

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
        return await self._write(now, changes.clear, type, wanted, limit)

    async def page(self, request: PageRequest) -> Page:
        check_limit(request.limit)
        after = read_cursor(request.cursor)
        return await self._read(pages.page, request, after, self._clock.now_ms())

    async def members(
        self, flow: int, *, limit: int = 50, cursor: str | None = None
    ) -> Page:
        check_limit(limit)
        after = read_cursor(cursor)
        return await self._read(pages.members, flow, limit, after, self._clock.now_ms())

    async def facts(self) -> StoreFacts:
        began = time.perf_counter()
        size = await self._read(_size)
        rtt = (time.perf_counter() - began) * 1000
        return StoreFacts("sqlite", sqlite3.sqlite_version, size, round(rtt, 3))

    async def check(
        self, *, repair: bool = False, on_progress: OnProgress | None = None
    ) -> Report:
        return await check(self._engine, repair=repair, on_progress=on_progress)

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

    begin = _writing(Store.begin, runs.begin)
    progress = _writing(Store.progress, runs.progress)
    log = _writing(Store.log, runs.log)

    append_chunks = _writing(Store.append_chunks, stream.append_chunks)
    chunks = _reading(Store.chunks, stream.chunks)

    record_step = _writing(Store.record_step, steps.record_step)
    receive = _writing(Store.receive, steps.receive)
    signal = _writing(Store.signal, steps.signal)
    steps = _reading(Store.steps, steps.steps)

    update = _writing(Store.update, changes.update)
    move = _writing(Store.move, changes.move)
    cancel = _writing(Store.cancel, changes.cancel)
    remove = _writing(Store.remove, changes.remove)

    pause = _writing(Store.pause, limiting.pause)
    resume = _writing(Store.resume, limiting.resume)
    paused = _reading(Store.paused, limiting.paused, needs_now=True)
    limits = _reading(Store.limits, limiting.limits)
    limit_use = _reading(Store.limit_use, named_limits.limit_use, needs_now=True)
    named_limits = _reading(Store.named_limits, named_limits.named_limits)

    set_failure_rule = _writing(Store.set_failure_rule, failures.set_failure_rule)
    failure_rules = _reading(Store.failure_rules, failures.failure_rules)
    forget_failures = _writing(Store.forget_failures, failures.forget_failures)
    failures = _reading(Store.failures, failures.failures)

    schedule = _writing(Store.schedule, schedules.schedule)
    unschedule = _writing(Store.unschedule, schedules.unschedule)
    schedules = _reading(Store.schedules, schedules.schedules)

    leave = _writing(Store.leave, workers.leave)
    order = _writing(Store.order, workers.order)
    write_stacks = _writing(Store.write_stacks, workers.write_stacks)
    stacks = _reading(Store.stacks, workers.stacks, needs_now=True)
    workers = _reading(Store.workers, workers.show, needs_now=True)

    get = _reading(Store.get, pages.get, needs_now=True)
    flow_counts = _reading(Store.flow_counts, flows.counts)
    parents = _reading(Store.parents, dependencies.parents)
    count = _reading(Store.count, queries.count)
    types = _reading(Store.types, queries.types)
    logs = _reading(Store.logs, queries.logs)
    newest_logs = _reading(Store.newest_logs, queries.newest_logs)
    errors = _reading(Store.errors, error_groups.most)
    measure = _writing(Store.measure, stats.measure)
    hours = _reading(Store.hours, stats.hours)
    work_time = _reading(Store.work_time, stats.work_time)
    stats = _reading(Store.stats, stats.minutes)

    keep = _writing(Store.keep, records.keep)
    kept = _reading(Store.kept, records.show, needs_now=True)
    all_kept = _reading(Store.all_kept, records.show_all, needs_now=True)
    forget = _writing(Store.forget, records.forget)
    note = _writing(Store.note, records.note)
    acts = _reading(Store.acts, records.acts)

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
