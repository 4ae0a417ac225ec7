"""How long jobs waited and ran, as a worker measures it and tells the store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kue import ActiveJob, Cancel, Kue, Retry
from kue.model.histogram import added
from kue.worker import metrics
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS


async def measured(q: Kue, type: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return the waits and the runs of a type in the last hours."""
    hour = await q.now() // 3_600_000
    found = [stat for stat in await q.store.hours(hour - 1, hour) if stat.type == type]
    return added(stat.waits for stat in found), added(stat.runs for stat in found)


async def until_measured(q: Kue, type: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await measured(q, type))[1]:  # noqa: ASYNC110 - in the store
            await asyncio.sleep(0.01)


async def test_a_run_and_its_wait_are_told_when_the_worker_leaves(q: Kue) -> None:
    async def nap(job: ActiveJob) -> None:
        # It has to take some time to be measured.
        await asyncio.sleep(0.05)

    q.process("nap", nap)
    for _ in range(3):
        await q.create_job("nap").save()

    await q.run(burst=True)

    waits, runs = await measured(q, "nap")
    assert sum(waits.values()) == sum(runs.values()) == 3
    assert min(runs) >= 50


async def test_a_worker_that_goes_on_tells_every_few_seconds(
    q: Kue, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "TIMING_SECONDS", 0.01)

    async def nothing(job: ActiveJob) -> None: ...

    q.process("quick", nothing)
    running = asyncio.create_task(q.run())
    job = await q.create_job("quick").save()
    await job.result()

    await until_measured(q, "quick")

    assert not running.done()
    q.stop()
    await running


async def test_every_run_of_a_job_is_measured_from_when_it_could_run(q: Kue) -> None:
    async def flaky(job: ActiveJob) -> None:
        if job.attempt == 1:
            raise Retry(after="2s")

    q.process("flaky", flaky)
    await q.create_job("flaky").attempts(2).delay("2s").save()

    await q.run(max_jobs=2)

    waits, runs = await measured(q, "flaky")
    assert sum(waits.values()) == sum(runs.values()) == 2
    # Neither the delay nor the pause before the second attempt is waiting in line.
    assert min(waits) < 2000


async def test_a_job_for_a_moment_waits_from_that_moment_on(q: Kue) -> None:
    async def nothing(job: ActiveJob) -> None: ...

    q.process("later", nothing)
    moment = datetime.now(UTC) + timedelta(seconds=2)
    await q.create_job("later").delay(moment).save()

    await q.run(max_jobs=1)

    [waited] = (await measured(q, "later"))[0]
    assert waited < 2000


async def test_what_waited_for_others_has_no_wait_of_its_own(q: Kue) -> None:
    async def nothing(job: ActiveJob) -> None: ...

    q.process("step", nothing)
    first = await q.create_job("step").save()
    await q.create_job("step").after(first).save()

    await q.run(max_jobs=2)

    waits, runs = await measured(q, "step")
    assert (sum(waits.values()), sum(runs.values())) == (1, 2)


async def test_a_run_that_was_cancelled_says_nothing_of_the_work(q: Kue) -> None:
    async def give_up(job: ActiveJob) -> Any:
        raise Cancel("no need")

    q.process("moot", give_up)
    await q.create_job("moot").save()

    await q.run(burst=True)

    assert (await measured(q, "moot"))[1] == {}


async def test_measures_that_cannot_be_told_keep_nobody(q: Kue, wire: Wire) -> None:
    async def nothing(job: ActiveJob) -> None: ...

    q.process("quick", nothing)
    job = await q.create_job("quick").save()
    wire.break_off("measure")

    await q.run(burst=True)

    wire.mend()
    assert (await job.refresh()).state == "complete"
    assert await measured(q, "quick") == ({}, {})
