"""What a job logs and prints is kept with it, without being asked for."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kue import ActiveJob, JobFailed, Kue
from kue.client.handle import JobHandle
from kue.worker import log_capture
from tests.support.patience import PATIENCE_SECONDS
from tests.worker.working import worked

logger = logging.getLogger("shop.mail")


@pytest.fixture(autouse=True)
def _everything_is_logged() -> Iterator[None]:
    logging.getLogger("shop").setLevel(logging.DEBUG)
    yield
    logging.getLogger("shop").setLevel(logging.NOTSET)


async def lines_of(job: JobHandle[object]) -> list[tuple[str, str]]:
    return [(line.level, line.text) for line in await job.logs()]


async def test_records_keep_their_level_and_prints_are_info(q: Kue) -> None:
    @q.task
    async def send() -> None:
        logger.debug("a %s", "detail")
        logger.warning("careful")
        print("one\ntwo", end="")  # noqa: T201
        print(" and a half")  # noqa: T201

    job = await send.enqueue()
    await worked(q, job)

    assert await lines_of(job) == [
        ("debug", "a detail"),
        ("warning", "careful"),
        ("info", "one"),
        ("info", "two and a half"),
    ]


async def test_a_line_that_was_never_ended_is_kept(q: Kue) -> None:
    @q.task
    def send() -> None:
        print("half", end="")  # noqa: T201

    job = await send.enqueue()
    await worked(q, job)

    assert await lines_of(job) == [("info", "half")]


async def test_lines_know_their_attempt_and_exceptions_their_stack(q: Kue) -> None:
    @q.task(attempts=2, backoff=None)
    async def send(job: ActiveJob) -> None:
        try:
            raise ValueError("oops")
        except ValueError:
            logger.exception("attempt %d", job.attempt)
            raise

    job = await send.enqueue()
    with pytest.raises(JobFailed):
        await worked(q, job)

    lines = await job.logs()
    assert [line.attempt for line in lines] == [1, 1, 2, 2]
    assert lines[0].text.startswith("attempt 1\nTraceback")
    assert lines[0].text.endswith("ValueError: oops")


async def test_jobs_that_run_at_once_do_not_hear_each_other(q: Kue) -> None:
    both = asyncio.Barrier(2)

    @q.task
    async def send(name: str) -> None:
        await both.wait()
        logger.info("from %s", name)
        await both.wait()
        print(f"of {name}")  # noqa: T201

    jobs = {name: await send.enqueue(name) for name in ("ann", "bob")}
    async with q.work():
        for name, job in jobs.items():
            await job.result(timeout=PATIENCE_SECONDS)
            assert await lines_of(job) == [
                ("info", f"from {name}"),
                ("info", f"of {name}"),
            ]


async def test_a_stream_handler_on_stdout_is_not_heard_twice(q: Kue) -> None:
    @q.task
    async def send() -> None:
        handler = logging.StreamHandler(sys.stdout)
        logger.addHandler(handler)
        logger.info("once")
        logger.removeHandler(handler)

    job = await send.enqueue()
    await worked(q, job)

    assert await lines_of(job) == [("info", "once")]


async def test_an_attempt_that_never_stops_talking_is_cut_off(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_capture, "MAX_CAPTURED", 3)

    @q.task
    def send() -> None:
        for number in range(100):
            print(number)  # noqa: T201

    job = await send.enqueue()
    await worked(q, job)

    lines = await lines_of(job)
    assert lines[:3] == [("info", "0"), ("info", "1"), ("info", "2")]
    assert lines[3:] == [("warning", log_capture.ENOUGH)]


async def test_nothing_is_left_behind_when_the_worker_stops(q: Kue) -> None:
    stdout, handlers = sys.stdout, list(logging.getLogger().handlers)
    q.process("email", print)

    async with q.work():
        await asyncio.sleep(0)

    assert sys.stdout is stdout
    assert logging.getLogger().handlers == handlers


async def test_prints_still_reach_the_terminal(
    q: Kue, capsys: pytest.CaptureFixture[str]
) -> None:
    @q.task
    async def send() -> None:
        print("for everyone")  # noqa: T201

    await worked(q, await send.enqueue())

    assert "for everyone" in capsys.readouterr().out


PROGRAM = """
import asyncio, logging
import kue

q = kue.Kue("memory://")

@q.task
async def send() -> None:
    logging.getLogger("shop").info("for the job alone")
    logging.getLogger("shop").warning("for everyone")

async def main():
    async with q, q.work():
        job = await send.enqueue()
        await job.result()
        print([line.text for line in await job.logs()])
    assert logging.getLogger().level == logging.WARNING

asyncio.run(main())
"""


def test_without_any_logging_set_up_warnings_are_still_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.stdout == "['for the job alone', 'for everyone']\n"
    assert done.stderr == "for everyone\n"


async def test_capturing_can_be_switched_off() -> None:
    async with Kue("memory://", capture=False) as q:

        @q.task
        async def send() -> None:
            print("unheard")  # noqa: T201

        job = await send.enqueue()
        async with q.work():
            await job.result(timeout=PATIENCE_SECONDS)

        assert await job.logs() == []
