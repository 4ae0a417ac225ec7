"""Functions around a run, and what is called when workers and jobs end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kue import ActiveJob, JobFailed, Kue, Skip, State
from tests.support.patience import PATIENCE_SECONDS
from tests.worker import child_tasks
from tests.worker.working import worked

CallNext = Callable[[ActiveJob], Awaitable[Any]]


def layer(name: str, story: list[str]) -> Any:
    async def middleware(job: ActiveJob, call_next: CallNext) -> Any:
        story.append(f"{name} before")
        result = await call_next(job)
        story.append(f"{name} after")
        return result

    return middleware


async def test_the_queues_layers_are_around_the_tasks_in_the_order_given(
    q: Kue,
) -> None:
    story: list[str] = []
    q.middleware(layer("outer", story))
    q.middleware(layer("inner", story))

    @q.task(middleware=[layer("own", story)])
    async def send() -> None:
        story.append("run")

    await worked(q, await send.enqueue())

    assert story == [
        "outer before",
        "inner before",
        "own before",
        "run",
        "own after",
        "inner after",
        "outer after",
    ]


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_a_layer_may_change_the_result_or_keep_the_handler_from_running(
    q: Kue, kind: str
) -> None:
    ran: list[int] = []

    @q.middleware
    async def gate(job: ActiveJob, call_next: CallNext) -> Any:
        if job.data == {"n": 0}:
            raise Skip("nothing to do")
        return {"wrapped": await call_next(job)}

    if kind == "coroutine":

        @q.task(name="work")
        async def work(n: int) -> int:
            ran.append(n)
            return n
    else:

        @q.task(name="work")
        def work(n: int) -> int:
            ran.append(n)
            return n

    skipped = await q.enqueue("work", {"n": 0})
    done = await q.enqueue("work", {"n": 1})
    async with q.work():
        assert await done.result(timeout=PATIENCE_SECONDS) == {"wrapped": 1}
        assert await skipped.result(timeout=PATIENCE_SECONDS) is None

    assert ran == [1]
    assert (await skipped.refresh()).history[-1].reason == "nothing to do"


async def test_a_layer_hears_of_errors_and_an_error_of_its_own_ends_the_run(
    q: Kue,
) -> None:
    heard: list[BaseException] = []

    @q.middleware
    async def listen(job: ActiveJob, call_next: CallNext) -> Any:
        try:
            return await call_next(job)
        except Exception as exc:
            heard.append(exc)
            raise RuntimeError("translated") from exc

    @q.task(attempts=1)
    async def send() -> None:
        raise ValueError("oops")

    job = await send.enqueue()
    with pytest.raises(JobFailed, match="RuntimeError: translated"):
        await worked(q, job)

    assert [str(exc) for exc in heard] == ["oops"]


# -- resources ---------------------------------------------------------------


class Database:
    """Something that is opened once and may go stale."""

    opened = 0

    def __init__(self) -> None:
        Database.opened += 1
        self.number = Database.opened
        self.is_open = True

    def ping(self) -> bool:
        if not self.is_open:
            raise ConnectionError("gone away")
        return True


@pytest.fixture(autouse=True)
def _none_is_open() -> None:
    Database.opened = 0


async def test_a_resource_is_opened_once_and_closed_with_the_worker(q: Kue) -> None:
    closed: list[int] = []

    @q.resource
    async def database() -> AsyncIterator[Database]:
        connection = Database()
        yield connection
        closed.append(connection.number)

    @q.task(uses=[database])
    async def report() -> int:
        return database.value.number

    @q.task
    async def other() -> None: ...

    assert Database.opened == 0
    jobs = await report.enqueue_many({} for _ in range(5))
    await other.enqueue()
    async with q.work():
        assert [await job.result(timeout=PATIENCE_SECONDS) for job in jobs] == [1] * 5
        assert closed == []

    assert closed == [1]
    with pytest.raises(RuntimeError, match=r"write uses=\[database\]"):
        assert database.value


async def test_a_stale_resource_is_opened_anew_before_the_run(q: Kue) -> None:
    """The database connection that hung up overnight costs no job."""

    @q.resource(check=Database.ping)
    async def database() -> AsyncIterator[Database]:
        yield Database()

    @q.task(attempts=1, uses=[database])
    async def report() -> int:
        assert database.value.ping()
        return database.value.number

    async with q.work():
        assert await (await report.enqueue()).result(timeout=PATIENCE_SECONDS) == 1
        database.value.is_open = False
        assert await (await report.enqueue()).result(timeout=PATIENCE_SECONDS) == 2


async def test_a_resource_that_cannot_be_opened_fails_the_run_and_is_tried_again(
    q: Kue,
) -> None:
    attempts: list[int] = []

    @q.resource
    async def database() -> AsyncIterator[str]:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("not yet")
        yield "open"

    @q.task(attempts=2, backoff=None, uses=[database])
    async def report() -> str:
        return database.value

    assert await worked(q, await report.enqueue()) == "open"


async def test_a_task_in_a_process_cannot_use_what_the_worker_opened(q: Kue) -> None:
    @q.resource
    async def database() -> AsyncIterator[str]:
        yield "open"

    with pytest.raises(ValueError, match="let the function open what it needs"):
        q.task(execution="process", uses=[database])(child_tasks.double)


# -- hooks -------------------------------------------------------------------


async def test_start_up_comes_before_the_first_job_and_shutdown_after_the_last(
    q: Kue,
) -> None:
    story: list[str] = []

    @q.on_startup
    async def first() -> None:
        story.append("first")

    @q.on_startup
    def second() -> None:
        story.append("second")

    @q.on_shutdown
    async def last() -> None:
        story.append("last")

    @q.on_shutdown
    def next_to_last() -> None:
        story.append("next to last")
        raise ValueError("does not matter")

    @q.task
    async def send() -> None:
        story.append("job")

    await send.enqueue()
    await q.run(burst=True, signals=False)

    assert story == ["first", "second", "job", "next to last", "last"]


async def test_a_start_up_that_raises_keeps_the_worker_from_starting(q: Kue) -> None:
    @q.on_startup
    def fail() -> None:
        raise RuntimeError("no licence")

    q.process("email", print)
    job = await q.enqueue("email")

    with pytest.raises(RuntimeError, match="no licence"):
        await q.run(signals=False)
    assert (await job.refresh()).state is State.WAITING
