"""Workers while the store is away: nothing is lost and nothing runs twice."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kue import ActiveJob, Kue, State, StoreCorrupt
from kue.aio.retry import MAX_BUGS
from kue.store.values import PauseRequest
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS, until
from tests.worker.working import worked


def messages(
    caplog: pytest.LogCaptureFixture, name: str = "kue.aio.retry"
) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == name]


def task_names() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


def returning(result: object) -> Callable[[ActiveJob], Awaitable[object]]:
    """Return a handler that returns *result*."""

    async def handler(job: ActiveJob) -> object:
        return result

    return handler


async def test_a_claim_whose_reply_was_lost_is_repeated_and_runs_once(
    q: Kue, wire: Wire
) -> None:
    ran: Counter[int] = Counter()

    @q.process("email", 4)
    async def handler(job: ActiveJob) -> None:
        ran[job.id] += 1

    handles = await q.enqueue_many("email", range(40))
    wire.lose_reply("cycle", 5)
    async with q.work():
        await asyncio.gather(
            *(handle.result(timeout=PATIENCE_SECONDS) for handle in handles)
        )

    assert ran == dict.fromkeys((handle.id for handle in handles), 1)
    assert await q.complete_count() == 40


async def test_an_outcome_is_kept_until_the_store_is_back(q: Kue, wire: Wire) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @q.process("email")
    async def handler(job: ActiveJob) -> str:
        started.set()
        await release.wait()
        return "kept"

    handle = await q.enqueue("email")
    async with q.work():
        await started.wait()
        wire.is_cut = True
        tried = wire.times("cycle")
        release.set()
        await wire.until_called("cycle", tried + 3)
        wire.is_cut = False
        assert await handle.result(timeout=PATIENCE_SECONDS) == "kept"

    assert (await handle.refresh()).attempts == 1


async def test_an_error_while_a_failure_is_recorded_costs_the_worker_no_slot(
    q: Kue, wire: Wire
) -> None:
    """U-9: the only slot takes the next job, and the failure is recorded."""
    started, release = asyncio.Event(), asyncio.Event()

    @q.process("email", 1)
    async def handler(job: ActiveJob) -> object:
        started.set()
        await release.wait()
        if job.data == "bad":
            raise ValueError("oops")
        return job.data

    bad = await q.enqueue("email", "bad")
    async with q.work():
        await started.wait()
        wire.spoil("cycle", StoreCorrupt("damaged"))
        wire.spoil("settle", StoreCorrupt("damaged"))
        tried = wire.times("cycle")
        release.set()
        await wire.until_called("cycle", tried + 2)
        wire.mend()
        good = await q.enqueue("email", "good")
        assert await good.result(timeout=PATIENCE_SECONDS) == "good"

    assert (await bad.refresh()).state is State.FAILED


async def test_an_outage_is_one_line_at_its_beginning_and_one_at_its_end(
    q: Kue, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    q.process("email", returning(None))
    async with q.work():
        await wire.until_called("stand_by")
        # What the program declares is written by then: that would be two more lines.
        await until(lambda: "kue declarations" not in task_names())
        with caplog.at_level(logging.INFO):
            wire.is_cut = True
            await wire.until_called("tend", wire.times("tend") + 3)
            await wire.until_called("renew", wire.times("renew") + 3)
            wire.is_cut = False
            await until(lambda: len(messages(caplog)) >= 2)

    began, ended = messages(caplog)
    assert began.endswith("does not answer, trying until it does: the wire is cut")
    assert "answers again after" in ended


async def test_a_store_that_is_away_at_the_start_is_waited_for(
    q: Kue, wire: Wire
) -> None:
    q.process("email", returning("at last"))
    handle = await q.enqueue("email")
    wire.is_cut = True
    async with q.work():
        await wire.until_called("renew", 3)
        wire.is_cut = False
        assert await handle.result(timeout=PATIENCE_SECONDS) == "at last"


async def test_signs_of_life_that_cannot_be_sent_do_not_fail_the_job(
    q: Kue, wire: Wire
) -> None:
    @q.process("email")
    async def handler(job: ActiveJob) -> str:
        wire.is_cut = True
        await job.log("to nobody")
        await job.progress(1, 2)
        wire.is_cut = False
        mended.set()
        return "done all the same"

    mended = asyncio.Event()
    handle = await q.enqueue("email")
    async with q.work():
        # Whoever asks the store while it is away is told so.
        await mended.wait()
        assert await handle.result(timeout=PATIENCE_SECONDS) == "done all the same"

    assert await handle.logs() == []


async def test_an_idle_worker_stops_soon_though_the_store_is_away(
    q: Kue, wire: Wire
) -> None:
    q.process("email", returning(None))
    wire.is_cut = True
    running = asyncio.create_task(q.run(grace=3600))
    await wire.until_called("renew", 2)

    q.stop()
    await asyncio.wait_for(running, 50)

    wire.is_cut = False


async def test_an_outcome_that_cannot_be_written_within_the_lease_is_given_up(
    q: Kue, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is not lost: the store takes it back from the worker that left."""

    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        wire.is_cut = True

    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run(grace=0))
    await until(lambda: wire.is_cut)
    q.stop()
    await asyncio.wait_for(running, 50)

    wire.is_cut = False
    assert "1 outcomes unwritten; the jobs will run again" in caplog.text
    assert (await handle.refresh()).state is State.ACTIVE


@pytest.mark.parametrize("verb", ["cycle", "stand_by"])
async def test_a_bug_is_logged_each_time_and_stops_the_worker(
    q: Kue, wire: Wire, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    """R-6: a TypeError of a verb is neither an outage nor silence."""
    q.process("email", returning("by the next worker"))
    wire.spoil(verb, TypeError("unsupported operand"))
    with pytest.raises(TypeError, match="unsupported operand"):
        await q.run()

    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) >= MAX_BUGS
    assert all(error.exc_info for error in errors)
    assert [worker.stopped for worker in await q.workers()] == [True]
    wire.mend()
    assert await worked(q, await q.enqueue("email")) == "by the next worker"


async def test_a_bug_in_a_service_lets_running_jobs_finish(q: Kue, wire: Wire) -> None:
    release = asyncio.Event()

    @q.process("email")
    async def handler(job: ActiveJob) -> str:
        await release.wait()
        return "finished"

    handle = await q.enqueue("email")
    running = asyncio.create_task(q.run())
    await until(lambda: any(worker.running for worker in q.working))
    wire.spoil("tend", TypeError("unsupported operand"))
    await until(lambda: all(worker.is_stopping for worker in q.working))
    release.set()

    with pytest.raises(TypeError, match="unsupported operand"):
        await running
    assert await handle.result() == "finished"


async def test_damage_is_an_error_and_seen_in_workers(
    q: Kue, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """R-6: a damaged structure is neither an outage nor silence."""
    q.process("email", returning("at last"))
    wire.spoil("cycle", StoreCorrupt("a row is bad"))
    async with q.work():
        wire.break_off("stand_by")
        handle = await q.enqueue("email")
        await wire.until_answered("cycle", 2)
        during = await trouble_of(q, wire)
        wire.mend()
        assert await handle.result(timeout=PATIENCE_SECONDS) == "at last"
        after = await trouble_of(q, wire)

    assert (during, after) == ("cycle: StoreCorrupt: a row is bad", None)
    [error] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert error.exc_info is not None


async def trouble_of(q: Kue, wire: Wire) -> str | None:
    """Return what the worker says is wrong, after another heartbeat."""
    await wire.until_answered("renew", wire.times("renew") + 2)
    [worker] = await q.workers()
    return worker.trouble


async def test_a_store_that_is_not_fit_is_heard_of_at_once(tmp_path: Path) -> None:
    path = tmp_path / "kue.db"
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    q = Kue(f"sqlite:///{path}")
    q.process("email", returning(None))
    with pytest.raises(StoreCorrupt):
        await q.run()
    await q.close()


async def test_a_store_that_can_do_all_but_wait_is_not_asked_without_rest(
    q: Kue, wire: Wire
) -> None:
    """As where a rule of the server forbids the blocking command alone."""
    q.process("email", returning(None))
    wire.break_off("stand_by", "wait")

    async with q.work():
        await wire.until_answered("wait", 3)
        tries = wire.times("stand_by")
        job = await q.enqueue("email")
        wire.mend()
        await job.result(timeout=PATIENCE_SECONDS)

    assert tries == 1


async def test_a_pause_does_not_lose_what_a_broken_call_got(q: Kue, wire: Wire) -> None:
    q.process("email", returning("received"))
    async with q.work():
        await wire.until_called("stand_by")
        answer = wire.hold("claim")
        wire.lose_reply("stand_by", 10)
        handle = await q.enqueue("email")
        await wire.until_called("claim")
        await wire.unseen.pause(
            PauseRequest(worker=wire.last_request("stand_by").worker)
        )
        # The first heartbeat after the pause was answered, and acted on.
        await wire.until_answered("renew", wire.times("renew") + 3)
        answer.set()
        assert await handle.result(timeout=PATIENCE_SECONDS) == "received"
