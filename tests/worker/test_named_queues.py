"""Queues with a name of their own: several tasks in one, one task in several."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kue import ActiveJob, ConfigError, JobCancelled, JobHandle, Kue, State, concurrency
from kue.worker import queued_tasks
from kue.worker import worker as worker_module
from tests.support.patience import PATIENCE_SECONDS, eventually, until


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "FIND_SECONDS", 0.01)
    monkeypatch.setattr(queued_tasks, "_logged", set())


async def test_one_queue_has_jobs_of_several_tasks_and_one_task_is_in_several_queues(
    q: Kue,
) -> None:
    @q.task(queue="mail")
    async def welcome(job: ActiveJob, name: str) -> str:
        return f"welcome {name} from {job.queue}"

    @q.task
    def receipt(job: ActiveJob, number: int) -> list[object]:
        return [job.name, job.queue, number]

    first = await welcome.enqueue("ann")
    second = await receipt.options(queue="mail").enqueue(7)
    third = await receipt.enqueue(8)
    fourth = await q.create_job("welcome", {"name": "bob"}).queue("bulk").save()

    waiting = await q.page("waiting", "mail")
    assert [job.name for job in waiting.jobs] == ["welcome", "receipt"]
    async with q.work(queues=["mail", "receipt", "bulk"]):
        assert await first.result(timeout=PATIENCE_SECONDS) == "welcome ann from mail"
        assert await second.result(timeout=PATIENCE_SECONDS) == ["receipt", "mail", 7]
        assert await third.result(timeout=PATIENCE_SECONDS) == ["receipt", "receipt", 8]
        assert await fourth.result(timeout=PATIENCE_SECONDS) == "welcome bob from bulk"


async def test_a_worker_serves_the_queues_that_tasks_name(q: Kue) -> None:
    @q.task(queue="mail")
    async def welcome() -> str:
        return "hello"

    job = await welcome.enqueue()
    by_name = await q.enqueue("welcome")

    async with q.work() as worker:
        assert await job.result(timeout=PATIENCE_SECONDS) == "hello"
        assert await by_name.result(timeout=PATIENCE_SECONDS) == "hello"
        assert [one.type for one in worker.processors] == ["welcome", "mail"]


async def test_a_queue_that_has_the_name_of_a_task_may_have_jobs_of_others(
    q: Kue,
) -> None:
    @q.task
    async def mail() -> str:
        return "mail"

    @q.task
    async def sms() -> str:
        return "sms"

    job, other = await mail.enqueue(), await sms.options(queue="mail").enqueue()

    async with q.work(types=["mail"]):
        assert await job.result(timeout=PATIENCE_SECONDS) == "mail"
        assert await other.result(timeout=PATIENCE_SECONDS) == "sms"


async def test_queues_that_match_a_pattern_are_served_when_they_appear(q: Kue) -> None:
    @q.task
    async def send() -> str:
        return "sent"

    async with q.work(queues=["mail-*", "!mail-bulk"]) as worker:
        assert worker.processors == ()
        bulk = await send.options(queue="mail-bulk").enqueue()
        job = await send.options(queue="mail-eu").enqueue()
        assert await job.result(timeout=PATIENCE_SECONDS) == "sent"
        later = await send.options(queue="mail-us").enqueue()
        assert await later.result(timeout=PATIENCE_SECONDS) == "sent"
        assert (await bulk.refresh()).state is State.WAITING
        assert set(worker.loads()) == {"mail-eu", "mail-us"}


async def test_a_worker_that_finds_no_queue_stops_quietly(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    @q.task
    async def send() -> None: ...

    async with q.work(queues=["mail-*"]):
        pass
    await q.run(queues=["mail-*"], burst=True, signals=False)

    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


async def test_without_handlers_a_pattern_is_refused_too(q: Kue) -> None:
    with pytest.raises(ConfigError, match="there is nothing to work on"):
        await q.run(queues=["mail-*"], signals=False)


async def test_a_burst_serves_queues_that_it_has_yet_to_find(q: Kue) -> None:
    @q.task
    async def send() -> str:
        return "sent"

    job = await send.options(queue="mail-eu").enqueue()

    await q.run(queues=["mail-*"], burst=True, signals=False)

    assert (await job.refresh()).result == "sent"


@pytest.mark.parametrize("has_handler", [True, False])
async def test_a_pattern_serves_dead_letters_only_if_there_is_a_handler_for_them(
    q: Kue, has_handler: bool
) -> None:
    @q.task(attempts=1, dead_letter="dead")
    async def send() -> None:
        raise ValueError("oops")

    if has_handler:

        @q.process("dead")
        async def bury(job: ActiveJob) -> None: ...

    await send.options(queue="mail-eu").enqueue()

    await q.run(queues=["*"], burst=True, signals=False)

    [letter] = (await q.find(type="dead")).jobs
    assert letter.state is (State.COMPLETE if has_handler else State.WAITING)
    assert letter.releases == 0


async def test_in_strict_order_queues_that_are_found_keep_their_place(q: Kue) -> None:
    order: list[str] = []

    @q.task
    async def send(job: ActiveJob) -> None:
        order.append(job.queue)

    for queue in ("low-1", "high-2", "low-2", "high-1"):
        await q.enqueue_many([send.options(queue=queue).draft() for _ in range(20)])
    await q.run(
        queues=["high-*", "low-*"],
        strict=True,
        concurrency=4,
        burst=True,
        signals=False,
    )

    assert len(order) == 80
    assert {queue.rstrip("12") for queue in order[:30]} == {"high-"}


async def test_a_job_whose_task_the_worker_does_not_know_is_released_and_logged_once(
    q: Kue, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queued_tasks, "UNKNOWN_DELAY_MS", 60_000)

    @q.task
    async def known() -> str:
        return "done"

    jobs = [await q.enqueue("unknown", queue="mail", attempts=1) for _ in range(2)]
    jobs.append(await q.enqueue("mail"))
    run = await q.enqueue("known", queue="mail")

    async with q.work(queues=["mail"]):
        assert await run.result(timeout=PATIENCE_SECONDS) == "done"
        await eventually(lambda: _are_delayed(q, 3))

    first = await jobs[0].refresh()
    assert (first.attempts, first.releases) == (0, 1)
    assert first.history[-1].reason == "its worker does not know task 'unknown'"
    logged = [text for text in caplog.messages if "does not know" in text]
    assert len(logged) == 2
    assert "queue 'mail' has jobs of task 'unknown'" in logged[0]


async def _are_delayed(q: Kue, number: int) -> bool:
    return (await q.counts("mail"))[State.DELAYED] == number


async def test_a_task_runs_no_more_at_once_in_a_queue_than_in_its_own(q: Kue) -> None:
    running = most = 0

    @q.task(concurrency=2)
    async def slow() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        # Others that were claimed with it could begin here.
        await asyncio.sleep(0.01)
        running -= 1

    @q.task
    async def quick() -> None: ...

    await q.enqueue_many([slow.options(queue="mail").draft() for _ in range(8)])
    await q.enqueue_many([quick.options(queue="mail").draft() for _ in range(8)])
    await q.run(queues=["mail"], burst=True, signals=False)

    assert most == 2
    assert (await q.counts("mail"))[State.COMPLETE] == 16


async def test_a_job_that_waits_for_others_of_its_task_spends_none_of_its_ttl(
    q: Kue,
) -> None:
    may_end = asyncio.Event()

    @q.task(concurrency=1, ttl="3s", attempts=1)
    async def slow(job: ActiveJob) -> None:
        while not may_end.is_set():
            await job.progress(1)
            await asyncio.sleep(0.01)

    @q.task
    async def quick() -> None: ...

    jobs = [await slow.options(queue="mail").enqueue() for _ in range(2)]
    async with q.work(queues=["mail"]):
        await eventually(lambda: _was_released(jobs[1]))
        may_end.set()
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)

    assert [one.outcome for one in (await jobs[0].refresh()).history] == ["complete"]
    outcomes = {one.outcome for one in (await jobs[1].refresh()).history}
    assert outcomes == {"released", "complete"}


async def _was_released(job: JobHandle[None]) -> bool:
    return (await job.refresh()).releases > 0


async def test_a_job_that_waits_for_others_of_its_task_can_be_cancelled(
    q: Kue,
) -> None:
    may_end = asyncio.Event()

    @q.task(concurrency=1)
    async def slow() -> None:
        await may_end.wait()

    @q.task
    async def quick() -> None: ...

    first, second = [await slow.options(queue="mail").enqueue() for _ in range(2)]
    async with q.work(queues=["mail"]) as worker:
        await until(lambda: worker.running == 2)
        await second.cancel("not needed")
        with pytest.raises(JobCancelled):
            await second.result(timeout=PATIENCE_SECONDS)
        may_end.set()
        await first.result(timeout=PATIENCE_SECONDS)


async def test_types_whose_jobs_wait_in_another_queue_are_refused(q: Kue) -> None:
    @q.task(queue="mail")
    async def welcome() -> None: ...

    with pytest.raises(ConfigError, match="wait in queue 'mail': name the queue"):
        await q.run(types=["welcome"], signals=False)
    with pytest.raises(ConfigError, match="types or queues, not both"):
        await q.run(types=["welcome"], queues=["mail"], signals=False)


async def test_arguments_are_a_unique_key_of_the_task_also_in_a_shared_queue(
    q: Kue,
) -> None:
    @q.task(queue="mail", unique=True)
    async def welcome(user: int) -> None: ...

    @q.task(queue="mail", unique=True)
    async def goodbye(user: int) -> None: ...

    first, again = await welcome.enqueue(1), await welcome.enqueue(1)
    other = await goodbye.enqueue(1)

    assert first.id == again.id
    assert other.is_new


async def test_a_named_limit_of_a_task_holds_in_every_queue(q: Kue) -> None:
    @q.task(limits=[concurrency(1)])
    async def send() -> None: ...

    draft = send.options(queue="mail").draft()

    assert draft.limited_by == send.draft().limited_by


async def test_a_schedule_adds_its_jobs_to_the_queue_of_its_draft(q: Kue) -> None:
    @q.task(queue="mail")
    async def digest() -> None: ...

    await q.schedule("daily", digest.draft(), every="1d")
    job = await (await q.run_schedule("daily")).refresh()

    assert (job.name, job.queue) == ("digest", "mail")
