"""A day in the life of a worker, which takes seconds: the test owns the clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from kue import ActiveJob
from kue.model.draft import draft
from kue.model.job import State
from kue.store.contract import Store
from kue.worker import Processor, Worker, WorkerOptions
from tests.support.clocked import ClockedStore, OwnTime
from tests.support.engines import Engine
from tests.support.jobs import DAY, HOUR, MINUTE, add, get_one
from tests.support.patience import until
from tests.support.schedules import every

STEP = 10 * MINUTE


class Diary:
    """A handler that notes when it was called, in minutes of the day."""

    def __init__(self, time: OwnTime) -> None:
        self._time = time
        self._dawn = time.now_ms()
        self.entries: dict[str, list[int]] = {}

    async def __call__(self, job: ActiveJob) -> None:
        minute = (self._time.now_ms() - self._dawn) // MINUTE
        self.entries.setdefault(str(job.data), []).append(minute)
        if job.data == "fails":
            raise ValueError("oops")


class Day:
    """A store, a worker and a clock."""

    def __init__(self, store: Store) -> None:
        self.time = OwnTime()
        self.diary = Diary(self.time)
        self.clocked = ClockedStore(store, self.time)
        self.store = cast("Store", self.clocked)

    async def pass_(self, milliseconds: int) -> None:
        """Let time pass, step by step, each until everything due is done."""
        end = self.time.now_ms() + milliseconds
        # A pass that is under way when time moves on would be followed by a sleep from
        # the new time on, and nobody moves that.
        await self._tended()
        while self.time.now_ms() < end:
            await self.time.pass_(STEP)
            await self._tended()
            await self.settle()

    async def _tended(self) -> None:
        """Return once maintenance has made its pass of this time."""
        now = self.time.now_ms()
        await until(lambda: self.clocked.tended_at >= now)

    async def settle(self) -> None:
        """Return once no job is ready or runs."""
        while await self._is_busy():  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    async def _is_busy(self) -> bool:
        counts = await self.store.count()
        states = (State.WAITING, State.ACTIVE)
        return any(count.get(state) for count in counts.values() for state in states)


@pytest.fixture
async def day(place: Engine) -> AsyncIterator[Day]:
    store = place.new_store()
    try:
        yield Day(store)
    finally:
        await store.close()


@asynccontextmanager
async def at_work(
    day: Day, place: Engine, handler: Any = None, slots: int = 10
) -> AsyncIterator[None]:
    worker = Worker(
        day.store,
        [Processor("work", slots, handler or cast("Any", day.diary))],
        place.settings,
        WorkerOptions(supervised=True),
        sleep=day.time.sleep,
    )
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await day.time.pass_(HOUR)
        await running


async def test_a_day_of_schedules_delays_retries_and_upkeep(
    day: Day, place: Engine
) -> None:
    dawn = day.time.now_ms()
    hourly = every("hourly", "1h", draft("work", "hourly"), first_at=dawn + HOUR)
    await day.store.schedule(hourly)
    jobs = [
        draft("work", "at once"),
        draft("work", "in the evening", delay="18h"),
        draft("work", "fails", attempts=4, backoff=["1h", "2h", "4h"]),
        draft("work", "too late", delay="12h", expires="6h"),
        draft("work", "short-lived", retention="3h"),
    ]
    added = await add(day.store, jobs, now=dawn)

    async with at_work(day, place):
        await day.settle()
        await day.pass_(DAY)
        states = [job and job.state for job in await _jobs(day, added)]

    assert day.diary.entries == {
        "hourly": [hour * 60 for hour in range(1, 25)],
        "at once": [0],
        "in the evening": [18 * 60],
        "fails": [0, 60, 180, 420],
        "short-lived": [0],
    }
    complete, failed = State.COMPLETE, State.FAILED
    assert states == [complete, complete, failed, failed, None]


async def _jobs(day: Day, added: list[Any]) -> list[Any]:
    return await day.store.get([item.id for item in added])


async def test_a_sleep_of_two_days_holds_no_slot_and_ends_in_time(
    day: Day, place: Engine
) -> None:
    calls: list[str] = []

    async def handle(job: ActiveJob) -> str:
        if job.data == "other":
            return "ran"
        await job.step("mail", lambda: calls.append("mail"))
        await job.sleep("2d")
        await job.step("remind", lambda: calls.append("remind"))
        return "reminded"

    now = day.time.now_ms()
    async with at_work(day, place, handle, slots=1):
        [asleep] = await add(day.store, [draft("work")], now=now)
        await day.settle()
        # There is one slot, and it is free.
        [other] = await add(day.store, [draft("work", "other")], now=now)
        await day.settle()
        assert (await get_one(day.store, other.id)).state is State.COMPLETE
        await day.pass_(2 * DAY - STEP)
        assert (await get_one(day.store, asleep.id)).state is State.DELAYED
        await day.pass_(STEP)

    job = await get_one(day.store, asleep.id)
    assert (job.result, job.attempts, job.ended_at) == ("reminded", 1, now + 2 * DAY)
    assert calls == ["mail", "remind"]
