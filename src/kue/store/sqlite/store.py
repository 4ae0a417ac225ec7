"""SQLite store: jobs in one file, or in memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kue.model.clock import Clock, SystemClock
from kue.model.errors import StoreFull
from kue.model.job import BEGAN, State
from kue.model.settings import LEASE_MS
from kue.store.batches import (
    bytes_of_draft,
    bytes_of_outcome,
    producer_of_part,
    split,
)
from kue.store.sqlite.file_url import FileLocation
from kue.store.sqlite.reads import SqliteReads
from kue.store.sqlite.verbs import (
    add,
    maintenance,
    progress,
    records,
    schedules,
    settle,
    stats,
    workers,
)
from kue.store.sqlite.verbs import changes as changing
from kue.store.sqlite.verbs import claim as claiming
from kue.store.sqlite.verbs import limits as limiting
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
)
from kue.store.values import (
    MAX_BATCH,
    NOTHING_SEEN,
    Added,
    AuditEntry,
    Change,
    Claimed,
    ClaimRequest,
    ExpectedState,
    HeartbeatReply,
    KeepRequest,
    Limits,
    LogLine,
    MaintenanceResult,
    MoveRequest,
    Outcome,
    PauseRequest,
    Progress,
    RemoveRequest,
    RenewRequest,
    Reply,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kue.model.histogram import Timing
    from kue.model.job import Draft, Job
    from kue.model.schedule import Schedule
    from kue.model.settings import Keep

#: How long one call keeps trying to lock the file, in ms.
BUDGET_MS = 5_000


class SqliteStore(SqliteReads):
    """
    Jobs in a file, or in memory of this one object.

    May be used from several event loops and threads of the process that created it, and
    by several processes on one file, each with its own store.
    """

    def __init__(self, location: FileLocation, clock: Clock, budget: float) -> None:
        super().__init__(location, clock, budget)
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
        return cls(FileLocation.of(url), clock or SystemClock(), budget / 1000)

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
        return await self._write(now, claiming.claim, request)

    async def settle(
        self, outcomes: Sequence[Outcome], *, now: int | None = None
    ) -> list[Result]:
        check_batch(outcomes, "outcomes")
        results: list[Result] = []
        for part in split(outcomes, bytes_of_outcome):
            results += await self._write(now, settle.settle, part)
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
            results += await self._write(now, settle.settle, part)
        settled, claimed = await self._write(now, settle.cycle, last, request)
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
        return await self._write(now, progress.begin, job, BEGAN[not alone])

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
        moment = self._clock.now_ms() if now is None else now
        if not await self._read(schedules.are_due, moment):
            return 0, False
        call = partial(schedules.fire, limit=limit)
        try:
            fired: tuple[int, bool] = await self._engine.write(
                call, now=now, is_new=True
            )
        except StoreFull:
            return 0, False
        return fired

    async def progress(
        self, updates: Sequence[Progress], *, now: int | None = None
    ) -> list[Result]:
        check_batch(updates, "updates")
        return await self._write(now, progress.progress, updates)

    async def log(
        self,
        job_id: int,
        lines: Sequence[LogLine],
        *,
        created_at: int | None = None,
        now: int | None = None,
    ) -> Result:
        return await self._write(now, progress.log, job_id, lines, created_at)

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
        verb = changing.pause if request.worker is None else workers.pause
        await self._write(now, verb, request)

    async def resume(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        now: int | None = None,
    ) -> bool:
        check_pause(type, worker)
        if worker is not None:
            return await self._write(now, workers.resume, worker)
        name = limiting.EVERY if type is None else type
        return await self._write(now, changing.resume, name)

    async def order(self, worker: str, order: str, *, now: int | None = None) -> bool:
        check_order(order)
        return await self._write(now, workers.order, worker, order)

    async def write_stacks(
        self, worker: str, text: str, *, now: int | None = None
    ) -> None:
        await self._write(now, workers.write_stacks, worker, text)

    async def limit(
        self, type: str, limits: Limits | None, *, now: int | None = None
    ) -> None:
        check_limits(limits)
        await self._write(now, limiting.set_limits, type, limits)
        group: str | None = ""
        while group is not None:
            group = await self._write(now, limiting.release_held, type, group)

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
        await self._write(None, schedules.write, schedule)

    async def unschedule(self, name: str) -> bool:
        return await self._write(None, schedules.delete, name)

    async def keep(self, request: KeepRequest, *, now: int | None = None) -> bool:
        check_kept(request.room, request.name, request.value)
        return await self._write(now, records.keep, request)

    async def forget(self, room: str, name: str, *, now: int | None = None) -> bool:
        check_kept(room, name)
        return await self._write(now, records.forget, room, name)

    async def note(self, act: AuditEntry, *, now: int | None = None) -> int:
        return await self._write(now, records.note, act)
