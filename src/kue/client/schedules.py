"""Schedules of a queue: added, changed, paused and run at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from kue.client.backpressure import queue_full
from kue.client.declared_schedules import DeclaredSchedule, put_schedule
from kue.client.handle import JobHandle, added_handle
from kue.model.errors import ScheduleDeclared, ScheduleNotFound
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.client.connection import Connection
    from kue.model.job import Draft, Job
    from kue.model.schedule import Schedule
    from kue.model.schedule_options import ScheduleOptions
    from kue.store.contract import Store


class Schedules:
    """The methods of a queue for jobs that recur."""

    _connection: Connection

    async def schedule(
        self, name: str, draft: Draft, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """
        Add a job again and again, or change the schedule of that name.

        The job is a draft, of a task or of any type::

            await q.schedule("eu", report.draft(region="eu"), cron="0 3 * * *")
            await q.schedule("ping", q.draft("ping"), every="30s")
            await q.schedule("launch", announce.draft("hi"), at=datetime(…))

        Give one of *every*, *cron* and *at* (an aware datetime; once); the others are
        as for `every`.  A changed schedule keeps its pause, its last ticks and, if its
        times are the same, its next one.

        Raises:
            ValueError, TypeError: An option makes no sense.
            ScheduleDeclared: The schedule is declared in code.
            BadPayload: The data is larger than 16 KiB.
        """
        store = self._connection.store
        for known in await store.schedules(name):
            _check_not_declared(known)
        declared = DeclaredSchedule(name, draft, "", options)
        schedule, _ = await put_schedule(store, declared)
        return schedule

    async def unschedule(self, name: str) -> bool:
        """
        Delete a schedule; return whether there was one.

        Its jobs stay.  One that is declared in code comes back when a worker starts:
        pause it instead.
        """
        return await self._connection.store.unschedule(name)

    async def schedules(self) -> list[Schedule]:
        """Return all schedules by name, each with its last ticks and their outcomes."""
        return await self._settled(await self._connection.store.schedules())

    async def get_schedule(self, name: str) -> Schedule:
        """
        Return a schedule, with its last ticks and their outcomes.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        found = await self._settled(await self._connection.store.schedules(name))
        if not found:
            raise ScheduleNotFound(name)
        return found[0]

    async def pause_schedule(self, name: str) -> Schedule:
        """
        Let a schedule fire no more until it is resumed.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        return await self._change(name, lambda known, _: replace(known, paused=True))

    async def resume_schedule(self, name: str) -> Schedule:
        """
        End the pause of a schedule; what it missed is not made up for.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        return await self._change(
            name, lambda known, now: known.resumed(now) if known.paused else known
        )

    async def run_schedule(self, name: str) -> JobHandle[Any]:
        """
        Add the job of a schedule now, in addition to its times; also if it is paused.

        Raises:
            ScheduleNotFound: There is none of that name.
            QueueFull: The cap of its type refuses the job.
        """
        connection = self._connection
        for schedule in await connection.store.schedules(name):
            added = await connection.store.fire(name)
            if added is not None and added.is_refused:
                raise await queue_full(connection.store, schedule.draft.type)
            if added is not None:
                return added_handle(connection, schedule.draft.type, added)
        raise ScheduleNotFound(name)

    async def _change(
        self, name: str, change: Callable[[Schedule, int], Schedule]
    ) -> Schedule:
        """Change a schedule as it is now, even if others change it at the same time."""
        store = self._connection.store
        while found := await store.schedules(name):
            known = found[0]
            changed = change(known, await store.now())
            if changed == known or await store.schedule(changed, expected=known):
                return changed
        raise ScheduleNotFound(name)

    async def _settled(self, schedules: list[Schedule]) -> list[Schedule]:
        """Return *schedules* with the outcomes of jobs that have ended since."""
        ids = [job_id for one in schedules for job_id in one.open_jobs]
        jobs = await _jobs(self._connection.store, ids)
        return [one.settled(jobs) for one in schedules]


async def _jobs(store: Store, ids: list[int]) -> dict[int, Job | None]:
    found: dict[int, Job | None] = {}
    for start in range(0, len(ids), MAX_BATCH):
        part = ids[start : start + MAX_BATCH]
        found.update(zip(part, await store.get(part), strict=True))
    return found


def _check_not_declared(schedule: Schedule) -> None:
    if schedule.declared_by:
        raise ScheduleDeclared(schedule.name, schedule.declared_by)
