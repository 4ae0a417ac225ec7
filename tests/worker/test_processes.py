"""Handlers in processes of their own: killable, and without credentials."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

import pytest

from kue import JobCancelled, JobFailed, Kue, State, Task
from kue.worker.pools.processes import FunctionTarget, ProcessPool, environment
from tests.faults.supervised import children_of
from tests.support.engines import Engine
from tests.support.patience import PATIENCE_SECONDS, until
from tests.worker import child_tasks
from tests.worker.working import worked


def apart(q: Kue, function: Callable[..., Any], **options: Any) -> Task[..., Any, Any]:
    task: Task[..., Any, Any] = q.task(execution="process", **options)(function)
    return task


def is_running(pid: int) -> bool:
    """Tell whether a process is there, and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("function", [child_tasks.double, child_tasks.triple])
async def test_plain_and_coroutine_functions_run_in_a_child(
    q: Kue, function: Callable[..., Any]
) -> None:
    task = apart(q, function)

    assert await worked(q, await task.enqueue(n=4)) in (8, 12)


async def test_a_child_gets_the_results_of_earlier_jobs(q: Kue) -> None:
    double, triple = apart(q, child_tasks.double), apart(q, child_tasks.triple)
    handle = await (double.s(4) | triple.s()).enqueue()

    async with q.work():
        assert await handle.result(timeout=PATIENCE_SECONDS) == 24


async def test_a_child_is_used_again_and_ends_with_its_worker(q: Kue) -> None:
    task = apart(q, child_tasks.pid, concurrency=1)
    async with q.work():
        first = await (await task.enqueue()).result(timeout=PATIENCE_SECONDS)
        second = await (await task.enqueue()).result(timeout=PATIENCE_SECONDS)
        assert is_running(first)

    assert first == second != os.getpid()
    assert not is_running(first)


async def test_a_child_knows_nothing_that_leads_to_the_store(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUE_URL", "redis://user:secret@somewhere")
    monkeypatch.setenv("REDIS_URL", "redis://user:secret@somewhere")
    monkeypatch.setenv("MINE", "kept")
    task = apart(q, child_tasks.environment)

    known = await worked(q, await task.enqueue())

    assert known["MINE"] == "kept"
    assert "secret" not in str(known)
    assert [name for name in known if name.startswith("KUE_")] == ["KUE_URL"]


async def test_a_child_that_adds_jobs_is_told_what_to_do_instead(q: Kue) -> None:
    awaiting = apart(q, child_tasks.add_awaiting, attempts=1)
    blocking = apart(q, child_tasks.add_blocking, attempts=1)
    in_memory = apart(q, child_tasks.add_in_memory, attempts=1)

    async with q.work():
        for task in (awaiting, blocking, in_memory):
            job = await task.enqueue()
            with pytest.raises(JobFailed, match="return what is to be done"):
                await job.result(timeout=PATIENCE_SECONDS)


def test_what_a_child_inherits_is_everything_else() -> None:
    """Friction 18: a REDIS_URL that is not that of the queue is the program's own."""
    cache, queue = "redis://cache:6379/1", "redis://:pw@db:6379"
    given = {"HOME": "/root", "KUE_PREFIX": "x", "REDIS_URL": queue}

    kept = environment(given, queue)
    as_ours = environment({**given, "KUE_URL": queue}, "sqlite:///kue.db")
    with_its_own = environment(given, cache)

    assert kept.keys() == as_ours.keys() == {"HOME", "KUE_URL", "PYTHONPATH"}
    assert kept["KUE_URL"] == "nowhere://"
    assert with_its_own["REDIS_URL"] == queue


@pytest.mark.parametrize(
    ("queue", "other"),
    [
        ("redis://:pw@db:6379/0", "redis://:pw@db:6379"),
        ("redis://db", "redis://ann:pw@DB:6379/2"),
        ("redis+cluster://a:7000,b", "redis://b:6379"),
        ("redis://[::1]", "redis://[::1]:6379"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock"),
    ],
)
def test_a_child_is_not_told_of_the_same_server(queue: str, other: str) -> None:
    assert "REDIS_URL" not in environment({"REDIS_URL": other}, queue)


@pytest.mark.parametrize("queue", ["redis://db:6380", "sqlite:///db", "redis://[db"])
def test_a_child_is_told_of_another_server(queue: str) -> None:
    given = {"REDIS_URL": "redis://db"}
    assert environment(given, queue)["REDIS_URL"] == "redis://db"


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        (child_tasks.leave, {"code": 3}, "exited with code 3 before the job ended"),
        (child_tasks.leave, {"code": 0}, "exited with code 0 before the job ended"),
        (
            child_tasks.die,
            {"number": 9},
            "was killed by SIGKILL, perhaps out of memory",
        ),
        (child_tasks.die, {"number": 11}, "was killed by SIGSEGV"),
        (child_tasks.die, {"number": 40}, "was killed by signal 40"),
    ],
    ids=["exit 3", "exit 0", "SIGKILL", "SIGSEGV", "a real-time signal"],
)
async def test_the_death_of_a_child_fails_the_run_with_what_is_known(
    q: Kue, function: Callable[..., Any], argument: dict[str, Any], message: str
) -> None:
    task = apart(q, function, attempts=1)
    double = apart(q, child_tasks.double)

    job = await task.enqueue(**argument)
    async with q.work():
        with pytest.raises(JobFailed) as caught:
            await job.result(timeout=PATIENCE_SECONDS)
        # The worker goes on.
        assert await (await double.enqueue(n=2)).result(timeout=PATIENCE_SECONDS) == 4

    assert caught.value.kind == "ProcessLost"
    assert message in caught.value.message


async def test_a_child_that_was_starting_ends_with_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = asyncio.Event()

    async def connect(**options: Any) -> Never:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(asyncio, "open_connection", connect)
    target = FunctionTarget(child_tasks.__name__, "double")
    run: Any = None  # is not looked at before the child has started
    others = children_of(os.getpid())
    calling = asyncio.create_task(ProcessPool().call(target, run))
    await started.wait()
    [pid] = set(children_of(os.getpid())) - set(others)

    calling.cancel()
    await asyncio.wait([calling])

    assert not is_running(pid)


@pytest.mark.parametrize(
    ("kind", "state", "outcome"),
    [
        ("value", State.DELAYED, "retry"),
        ("exit", State.DELAYED, "retry"),
        ("retry", State.DELAYED, "retry"),
        ("release", State.DELAYED, "released"),
        ("fail", State.FAILED, "failed"),
        ("cancel", State.CANCELLED, "cancelled"),
        ("skip", State.COMPLETE, "complete"),
    ],
)
async def test_a_handler_steers_its_run_from_the_child(
    q: Kue, kind: str, state: State, outcome: str
) -> None:
    task = apart(q, child_tasks.raise_it, backoff=60)

    job = await task.enqueue(kind=kind)
    async with q.work():
        while (await job.refresh()).state not in (state, State.FAILED):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    ended = await job.refresh()
    assert (ended.state, ended.history[-1].outcome) == (state, outcome)
    if kind == "value":
        assert ended.error is not None
        assert "child_tasks.py" in ended.error.stack
        assert "kue/worker" not in ended.error.stack


async def test_what_a_child_says_is_kept_with_the_job(q: Kue) -> None:
    task = apart(q, child_tasks.speak)

    job = await task.enqueue()
    heard: list[Any] = []
    job.on("progress", heard.append)
    assert await worked(q, job) == "said"

    lines = [(line.text, line.level, line.attempt) for line in await job.logs()]
    assert lines == [
        ("by hand", "warning", 1),
        ("by logging", "error", 1),
        ("by print", "info", 1),
    ]
    assert [event.detail["progress"] for event in heard] == [25]


async def test_a_child_past_its_timeout_is_killed_with_what_it_started(
    q: Kue, tmp_path: Path
) -> None:
    path = tmp_path / "pids"
    task = apart(q, child_tasks.beget, timeout="3s", attempts=1)

    job = await task.enqueue(path=str(path))
    async with q.work():
        with pytest.raises(JobFailed, match="RunTimeout"):
            await job.result(timeout=PATIENCE_SECONDS)
        pids = [int(pid) for pid in path.read_text().split()]
        await until(lambda: not any(is_running(pid) for pid in pids))


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_a_child_is_killed_when_its_job_expires(q: Kue, tmp_path: Path) -> None:
    path = tmp_path / "pids"
    task = apart(q, child_tasks.beget, expires="8s")

    async with q.work():
        job = await task.enqueue(path=str(path))
        with pytest.raises(JobFailed, match="Expired: the job expired while it ran"):
            await job.result(timeout=PATIENCE_SECONDS)
        pids = [int(pid) for pid in path.read_text().split()]
        await until(lambda: not any(is_running(pid) for pid in pids))


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_a_soft_timeout_is_raised_in_the_child(q: Kue) -> None:
    task = apart(q, child_tasks.outstay, soft_timeout=0.1, timeout="60s", attempts=1)
    tidy, not_tidy = await task.enqueue(True), await task.enqueue(False)

    async with q.work():
        assert await tidy.result(timeout=PATIENCE_SECONDS) == "tidied"
        with pytest.raises(JobFailed, match="SoftTimeout"):
            await not_tidy.result(timeout=PATIENCE_SECONDS)


async def test_a_cancelled_child_is_killed(q: Kue, tmp_path: Path) -> None:
    path = tmp_path / "pids"
    task = apart(q, child_tasks.beget)

    job = await task.enqueue(path=str(path))
    async with q.work():
        await until(path.exists)
        await until(lambda: len(path.read_text().split()) == 2)
        await job.cancel("changed my mind")
        with pytest.raises(JobCancelled, match="changed my mind"):
            await job.result(timeout=PATIENCE_SECONDS)
        pids = [int(pid) for pid in path.read_text().split()]
        await until(lambda: not any(is_running(pid) for pid in pids))


async def test_a_worker_that_stops_kills_what_outlasts_its_grace(
    q: Kue, tmp_path: Path
) -> None:
    path = tmp_path / "pids"
    task = apart(q, child_tasks.beget)

    job = await task.enqueue(path=str(path))
    async with q.work(grace=0.1):
        await until(path.exists)

    ended = await job.refresh()
    assert (ended.state, ended.attempts) == (State.WAITING, 0)


async def test_a_result_that_is_too_large_fails_in_the_child(q: Kue) -> None:
    task = apart(q, child_tasks.too_much, attempts=1)

    with pytest.raises(JobFailed, match="result: is 1,000,002 bytes"):
        await worked(q, await task.enqueue())


async def test_a_function_that_the_child_cannot_find_is_told_with_the_job(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_tasks.double, "__qualname__", "gone")
    task = apart(q, child_tasks.double, attempts=1)

    with pytest.raises(JobFailed, match=r"AttributeError: .*gone"):
        await worked(q, await task.enqueue(n=1))


PROGRAM = """
import asyncio, os, signal, sys
import kue
from kue.worker.pools import processes
from tests.worker import slow_tasks

q = kue.Kue(sys.argv[1])
task = q.task(execution="process")(slow_tasks.touch)

async def die(self, reader):
    # The job was written, and nothing received.
    os.kill(os.getpid(), signal.SIGKILL)

processes.PoolProcess._receive = die

async def main():
    await task.enqueue(path=sys.argv[2])
    await q.run()

asyncio.run(main())
"""


def test_a_child_that_is_still_starting_when_its_worker_dies_runs_nothing(
    tmp_path: Path,
) -> None:
    """Its job is in the line already, and will be someone else's."""
    url, effect = f"sqlite:///{tmp_path / 'kue.db'}", tmp_path / "effect"

    # The child holds the other end of the pipe, and its end is the end of the output.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, str(effect)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert done.returncode == -9, done.stdout
    assert done.stdout == b""
    assert not effect.exists()


@pytest.mark.parametrize("place", ["memory"], indirect=True)
@pytest.mark.parametrize("function", [child_tasks.spell, child_tasks.spell_async])
async def test_generators_run_in_a_child_process(
    q: Kue, function: Callable[..., Any]
) -> None:
    task = apart(q, function, attempts=1)
    job = await task.enqueue("kue")

    result = await worked(q, job)

    assert result == (3 if function is child_tasks.spell else None)
    assert [chunk async for chunk in job.stream()] == ["k", "u", "e"]


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_a_child_process_sends_chunks(q: Kue) -> None:
    task = apart(q, child_tasks.send_words, attempts=1)
    job = await task.enqueue(2000)
    await worked(q, job)

    assert [chunk async for chunk in job.stream()] == [
        {"word": number} for number in range(2000)
    ]


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_a_child_process_that_sends_too_much_is_stopped(place: Engine) -> None:
    async with Kue(place.settings.url, max_chunks=100) as q:
        task = apart(q, child_tasks.send_words, attempts=1)
        job = await task.enqueue(10_000_000)

        with pytest.raises(JobFailed, match="has sent 100 chunks, which is the limit"):
            await worked(q, job)
