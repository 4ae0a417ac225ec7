"""Schedules of a queue: declared in code, and changed while it runs."""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from kue import ActiveJob, BadPayload, Job, Kue, ScheduleNotFound, StoreCorrupt
from kue.client.declared_schedules import module_of, reconcile
from kue.model.schedule import tag_of
from tests.support.patience import PATIENCE_SECONDS, eventually, until

FAR = datetime(2040, 1, 1, tzinfo=UTC)


async def written(q: Kue) -> dict[str, list[str]]:
    """Write what the queue declares, as a worker does when it starts."""
    return await reconcile(q.store, q._handlers.schedules, q._handlers.modules)


# -- declared in code ----------------------------------------------------------


async def test_a_worker_writes_what_is_declared_and_fires_it(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    moments: list[str] = []
    ticked = asyncio.Event()

    @q.every("100ms")
    async def sweep(job: ActiveJob) -> None:
        moments.append(job.job.spec.meta["scheduled_for"])

    @q.cron("* * * * * *")
    async def tick() -> None:
        ticked.set()

    with caplog.at_level(logging.INFO, logger="kue.client.declared_schedules"):
        async with q.work():
            await until(lambda: len(moments) >= 2 and ticked.is_set())

    assert "schedules added: sweep, tick" in caplog.text
    schedule, _ = await q.schedules()
    assert (schedule.words, schedule.draft.spec.max_attempts) == (
        "every 100 milliseconds",
        3,
    )
    assert len(set(moments)) == len(moments)


async def test_a_worker_that_has_nothing_to_do_writes_them_too(q: Kue) -> None:
    @q.cron("0 9 * * mon-fri", tz="Europe/Berlin")
    def digest() -> None: ...

    await q.run(burst=True, signals=False)

    [schedule] = await q.schedules()
    assert schedule.words == "every weekday at 9:00, Berlin"
    assert schedule.declared_by == __name__


async def test_a_task_may_have_several_schedules_with_arguments(q: Kue) -> None:
    @q.every("1h", name="hourly", arguments={"region": "eu"})
    @q.cron("@daily", name="daily", arguments={"region": "us"})
    @q.task(attempts=7)
    async def report(region: str) -> str:
        return region

    await written(q)

    daily, hourly = await q.schedules()
    assert (daily.cron, daily.draft.spec.data) == ("0 0 * * *", {"region": "us"})
    assert (hourly.every, hourly.draft.spec.data) == (3_600_000, {"region": "eu"})
    assert hourly.draft.spec.max_attempts == 7
    assert await report("eu") == "eu"


async def test_two_schedules_of_one_name_are_refused(q: Kue) -> None:
    with pytest.raises(ValueError, match=r"'sweep' is declared twice; give one of"):

        @q.every("1m")
        @q.every("2m")
        def sweep() -> None: ...


async def test_options_that_make_no_sense_fail_where_they_are_declared(q: Kue) -> None:
    with pytest.raises(ValueError, match=r"cron expression '9 am' cannot be read"):
        q.cron("9 am")(sweep)
    with pytest.raises(TypeError, match=r"needs_region\(\): missing a required"):

        @q.every("1m")
        def needs_region(region: str) -> None: ...


async def test_an_unknown_option_is_refused_with_the_nearest(q: Kue) -> None:
    options: dict[str, Any] = {"mised": "skip"}
    with pytest.raises(TypeError, match=r"mised is not .*; did you mean missed"):
        await q.schedule("s", q.draft("report"), every="1m", **options)


async def test_what_did_not_change_keeps_its_next_time(q: Kue) -> None:
    q.every("1h")(sweep)
    assert await written(q) == {"added": ["sweep"], "changed": [], "removed": []}
    [before] = await q.schedules()

    assert await written(q) == {"added": [], "changed": [], "removed": []}
    assert await q.schedules() == [before]


async def test_a_changed_declaration_keeps_pause_and_ticks(q: Kue) -> None:
    q.every("1h")(sweep)
    await written(q)
    await q.run_schedule("sweep")
    await q.pause_schedule("sweep")

    again = Kue(store=q.store)
    again.every("30m", overlap="skip")(sweep)
    assert (await written(again))["changed"] == ["sweep"]

    [schedule] = await q.schedules()
    assert (schedule.every, schedule.overlap) == (1_800_000, "skip")
    assert schedule.paused
    assert len(schedule.ticks) == 1


async def test_what_a_module_no_longer_declares_is_removed(q: Kue) -> None:
    q.every("1h")(sweep)
    await written(q)

    again = Kue(store=q.store)
    again.task(sweep)
    assert (await written(again))["removed"] == ["sweep"]

    assert await q.schedules() == []


async def test_what_others_declare_or_add_is_left_alone(q: Kue) -> None:
    q.every("1h", name="theirs")(from_module("billing.tasks"))
    await written(q)
    await q.schedule("by hand", q.draft("report"), every="1h")

    again = Kue(store=q.store)
    again.every("1h", name="ours")(from_module("shop.tasks"))
    assert (await written(again))["removed"] == []

    assert [one.name for one in await q.schedules()] == ["by hand", "ours", "theirs"]


async def test_workers_that_start_together_add_a_schedule_once(q: Kue) -> None:
    q.every("1h")(sweep)

    reports = await asyncio.gather(*(written(q) for _ in range(5)))

    assert sum(len(report["added"]) for report in reports) == 1
    assert len(await q.schedules()) == 1


async def test_a_stored_schedule_that_cannot_be_read_is_left_to_a_person(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer version may have written it; the others are written all the same."""
    good = await q.schedule("good", q.draft("sweep"), every="1h")
    await q.unschedule("good")
    await q.store.schedule(replace(good, name="bad", missed="thrice"))

    @q.every("1h", name="bad")
    @q.every("1h", name="good")
    def sweep() -> None: ...

    assert await written(q) == {"added": ["good"], "changed": [], "removed": []}
    assert "the stored schedule 'bad' cannot be read; delete it first" in caplog.text
    with pytest.raises(StoreCorrupt, match="schedule 'bad' cannot be read"):
        await q.schedule("bad", q.draft("sweep"), every="1h")

    assert await q.unschedule("bad")
    assert (await written(q))["added"] == ["bad"]


async def test_another_type_of_job_replaces_the_schedule(q: Kue) -> None:
    await q.schedule("nightly", q.draft("report"), every="1h")
    await q.schedule("nightly", q.draft("backup"), every="1h")

    [schedule] = await q.schedules()
    assert schedule.draft.type == "backup"


def test_the_module_of_a_script_is_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    function = from_module("__main__")
    script = ModuleType("__main__")
    script.__file__ = "/srv/app/nightly.py"
    monkeypatch.setitem(sys.modules, "__main__", script)

    assert module_of(function) == "nightly"
    assert module_of(sweep) == __name__


# -- at run time ---------------------------------------------------------------


async def test_a_schedule_declared_in_code_is_not_changed_at_run_time(q: Kue) -> None:
    q.every("1h")(sweep)
    await written(q)

    with pytest.raises(ValueError, match=rf"declared in code, by {__name__}; change"):
        await q.schedule("sweep", q.draft("report"), every="1m")


async def test_a_one_off_runs_once_and_is_gone(q: Kue) -> None:
    @q.task
    async def announce(text: str) -> str:
        return text

    await q.schedule("launch", announce.draft("hi"), at=datetime.now(UTC))
    async with q.work():
        [job] = await until_found(q, "launch")
        assert await q.handle(job).result(timeout=PATIENCE_SECONDS) == "hi"

    assert await q.schedules() == []


async def test_a_schedule_run_by_hand_shows_how_that_ended(q: Kue) -> None:
    q.every("1h")(sweep)
    await written(q)

    job = await q.run_schedule("sweep")
    assert (await q.get_schedule("sweep")).ticks[-1].status == "unfinished"
    async with q.work():
        await job.result(timeout=PATIENCE_SECONDS)

    [tick] = (await q.get_schedule("sweep")).ticks
    assert (tick.status, tick.job, tick.is_manual) == ("complete", job.id, True)
    assert (await q.schedules())[0].ticks == (tick,)


async def test_a_paused_schedule_has_no_next_time_until_it_is_resumed(q: Kue) -> None:
    added = await q.schedule("nightly", q.draft("report"), every="1h")

    assert (await q.pause_schedule("nightly")).next_at is None
    assert (await q.pause_schedule("nightly")).paused
    resumed = await q.resume_schedule("nightly")
    assert not resumed.paused
    assert resumed.next_at == added.next_at
    assert await q.resume_schedule("nightly") == resumed


async def test_what_there_is_not_cannot_be_paused_resumed_run_or_read(q: Kue) -> None:
    for verb in (q.pause_schedule, q.resume_schedule, q.run_schedule, q.get_schedule):
        with pytest.raises(ScheduleNotFound, match=r"schedule 'none' does not exist"):
            await verb("none")
    assert await q.unschedule("none") is False


async def test_jobs_of_a_schedule_are_found_by_its_tag(q: Kue) -> None:
    await q.schedule("nightly", q.draft("report", tags=["own"]), every="1h")
    await q.run_schedule("nightly")

    [job] = await until_found(q, "nightly")
    assert job.tags == ("own", "schedule:nightly")


async def test_a_job_of_a_schedule_has_no_time_or_parents_of_its_own(q: Kue) -> None:
    for options in ({"at": FAR}, {"after": [1]}, {"parent": 1}):
        with pytest.raises(ValueError, match=r"leave out at, after, parent and addr"):
            await q.schedule("s", q.draft("report", **options), every="1h")
    with pytest.raises(BadPayload, match=r"the limit is 16,384"):
        await q.schedule("s", q.draft("report", "x" * 20_000), every="1h")


async def test_a_schedule_that_starts_later_is_due_then(q: Kue) -> None:
    end = FAR + timedelta(hours=1)
    schedule = await q.schedule(
        "future", q.draft("report"), every="30m", start=FAR, end=end
    )

    times = [FAR + timedelta(minutes=30 * step) for step in range(3)]
    expected = [int(time.timestamp() * 1000) for time in times]
    assert list(schedule.upcoming(9, since=0)) == expected
    assert schedule.next_at == expected[0]


def test_blocking_code_has_the_same_methods(q: Kue) -> None:
    schedule = q.sync.schedule("nightly", q.draft("report"), cron="0 3 * * *")
    job = q.sync.run_schedule("nightly")

    assert q.sync.get(job.id).id == job.id
    assert [one.name for one in q.sync.schedules()] == [schedule.name]
    assert q.sync.unschedule("nightly")
    q.sync.close()


def sweep() -> None:
    """Stands for a task that is declared in this module."""


def from_module(name: str) -> Any:
    """Return a function of another module."""

    def task() -> None: ...

    task.__module__ = name
    task.__name__ = name.replace(".", "_")
    return task


async def until_found(q: Kue, name: str) -> list[Job]:
    """Return the jobs of a schedule, once there is one."""

    async def find() -> list[Job]:
        return (await q.find(tag=tag_of(name))).jobs

    return await eventually(find)
