"""The life of ``kue worker``: start, recycling, restarts, reloads, the end."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from textwrap import dedent

import pytest

from kue import Kue
from kue.model.job import State
from tests.faults.supervised import SMALL, Shift, is_there, patiently
from tests.support.jobs import count_of


def pid_of(words: list[str]) -> int:
    return int(words[-1])


async def test_a_burst_ends_when_nothing_is_left(lone: Shift) -> None:
    ids = await lone.add("nap", seconds=0.01, count=50)
    async with lone.start("--burst", "--processes", "2") as workers:
        assert await workers.ended() == 0

    assert await count_of(lone.store, "nap") == {State.COMPLETE: len(ids)}


async def test_a_worker_serves_queues_by_pattern_on_another_connection(
    lone: Shift, tmp_path: Path
) -> None:
    url, data = f"sqlite:///{tmp_path}/spare.db", {"seconds": 0, "until": ""}
    async with Kue(url) as spare:
        for queue in ("nap-a", "nap-b", "other"):
            await spare.enqueue("nap", data, queue=queue)
        await lone.add("nap")
        options = ("--queues", "nap-*", "--connection", "spare", "--burst")
        environ = {"KUE_CONNECTIONS": f"spare={url}"}
        async with lone.start(*options, environ=environ) as workers:
            assert await workers.ended() == 0

        counts = await spare.counts_by_type()
        assert [counts[name][State.COMPLETE] for name in sorted(counts)] == [1, 1, 0]
    assert await count_of(lone.store, "nap") == {State.WAITING: 1}


async def test_a_failover_needs_a_worker_for_each_of_its_stores(lone: Shift) -> None:
    both = {"KUE_CONNECTIONS": "a=memory:// b=memory:// both=failover://a,b"}
    async with lone.start("--connection", "both", environ=both) as workers:
        assert await workers.ended() == 1
        log = "".join(workers.log)

    assert "is a fail-over connection of a and b: start a worker for each" in log


async def test_a_process_is_replaced_after_so_many_jobs(lone: Shift) -> None:
    await lone.add("nap", count=12)
    options = ("--max-jobs", "5", "--concurrency", "1", "--burst")
    async with lone.start(*options) as workers:
        said = await workers.lines()
        assert await workers.ended() == 0

    assert len({pid_of(words) for words in said}) == 3
    assert await count_of(lone.store, "nap") == {State.COMPLETE: 12}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--max-jobs", "1"), ""),
        (("--max-age", "1s"), "s old"),
        (("--max-memory", "1MB"), "MB of memory"),
    ],
    ids=["jobs", "age", "memory"],
)
async def test_a_process_is_replaced_for_its_jobs_its_age_or_its_memory(
    lone: Shift, options: tuple[str, ...], reason: str
) -> None:
    [job_id] = await lone.add("nap", seconds=3)
    # Recycling is never urgent: the grace does not count.
    async with lone.start(*options, "--grace", "0") as workers:
        _, _, old = await workers.line()
        if reason:
            logged = await workers.logged("is replaced", reason)
            assert f"pid {old}" in logged
        job = await lone.ended(job_id)
        await patiently(lambda: not is_there(int(old)))
        [later] = await lone.add("nap")
        fresh = (await lone.ended(later)).result

    assert job.result == int(old)
    assert fresh != int(old)


async def test_a_hang_up_replaces_all_processes_one_after_the_other(
    lone: Shift,
) -> None:
    async with lone.start("--processes", "2", "--health-port", "0") as workers:
        await patiently(lambda: len(workers.children()) == 2)
        before = workers.children()
        await workers.up()
        [job_id] = await lone.add("nap", seconds=1)
        await workers.line()
        workers.signal(signal.SIGHUP)
        await workers.logged("all worker processes are replaced")
        after = workers.children()
        job = await lone.job(job_id)

    assert len(after) == 2
    assert not set(before) & set(after)
    assert job.state is State.COMPLETE
    assert job.result in before


async def test_a_hang_up_replaces_a_process_that_is_still_starting(lone: Shift) -> None:
    """It may have read the old code already."""
    go = lone.folder / "go"
    source = f"""
        import pathlib, time
        while not pathlib.Path({str(go)!r}).exists():
            time.sleep(0.01)
    """
    target = f"{lone.write()}:q"
    small = lone.folder / "small.py"
    small.write_text(dedent(source) + small.read_text())
    async with lone.start(target=target) as workers:
        await patiently(lambda: len(workers.children()) == 1)
        [early] = workers.children()
        workers.signal(signal.SIGHUP)
        await workers.logged("replacing all worker processes")
        go.touch()
        await workers.logged("all worker processes are replaced")
        after = workers.children()

    assert len(after) == 1
    assert early not in after


async def test_a_hang_up_with_broken_code_leaves_the_old_processes_at_work(
    lone: Shift,
) -> None:
    async with lone.start(target=f"{lone.write()}:q") as workers:
        await workers.up()
        (lone.folder / "small.py").write_text("1 / 0\n")
        workers.signal(signal.SIGHUP)
        await workers.logged("goes on: its replacement did not come up")
        await lone.add("nap")
        said = await workers.line()

    assert said[0] == "old"
    assert any("ZeroDivisionError" in line for line in workers.log)


async def test_changed_code_is_loaded_and_broken_code_waited_out(
    lone: Shift,
) -> None:
    async with lone.start("--reload", target=f"{lone.write()}:q") as workers:
        await lone.add("nap")
        first = await workers.line()

        (lone.folder / "small.py").write_text("import nothing_of_this_name\n")
        broken = await workers.logged("did not start", "waiting for a change")
        await lone.add("nap")

        lone.write("newer")
        second = await workers.line()

    assert (first[0], second[0]) == ("old", "newer")
    assert "nothing_of_this_name" in broken
    assert [line for line in workers.log if "small.py changed" in line]


async def test_the_supervisor_renews_in_the_file_that_the_queue_has_settled_on(
    lone: Shift,
) -> None:
    """Also when the application has changed its working folder."""
    elsewhere = lone.folder / "else where 100%"
    elsewhere.mkdir()
    source = f"import os; os.chdir({str(elsewhere)!r})\n{SMALL.format(word='old')}"
    (lone.folder / "small.py").write_text(source)
    ready = lone.folder / "ready"
    options = ("--health-file", str(ready))
    environ = {"KUE_URL": "sqlite:///jobs.db"}
    async with lone.start(*options, target="small.py:q", environ=environ) as workers:
        await patiently(ready.exists)
        assert await workers.stopped() == 0

    assert [file.parent for file in lone.folder.rglob("jobs.db")] == [elsewhere]


async def test_a_child_that_is_asked_to_end_finishes_and_is_replaced(
    lone: Shift,
) -> None:
    [job_id] = await lone.add("nap", seconds=1)
    async with lone.start() as workers:
        child = pid_of(await workers.line())
        os.kill(child, signal.SIGTERM)
        [later] = await lone.add("nap")
        results = [(await lone.ended(each)).result for each in (job_id, later)]

    assert results[0] == child
    assert results[1] != child


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "there is no file 'small.py'"),
        ("1 / 0", "importing 'small' failed: ZeroDivisionError: division by zero"),
        ("import kue\nq = 3", "small:q is an int, not a queue"),
        ("import kue\nq = kue.Kue()", "there is nothing to work on"),
        (
            "import kue\nq = kue.Kue()\nq.process('a', id)\nq.on_startup(lambda: 1/0)",
            "jobs of small.py:q: ZeroDivisionError: division by zero",
        ),
        ("import sys; sys.exit(3)", "importing 'small' failed: SystemExit: 3"),
        ("import os; os.kill(os.getpid(), 9)", "it was killed by SIGKILL before"),
    ],
)
async def test_a_target_that_cannot_be_worked_on_is_reported_once_and_exits_with_1(
    lone: Shift, source: str | None, message: str
) -> None:
    if source is not None:
        (lone.folder / "small.py").write_text(source)
    async with lone.start("--processes", "2", target="small.py:q") as workers:
        assert await workers.ended() == 1

    assert sum(message in line for line in workers.log) == 1
    assert workers.log[-1].startswith("kue: cannot run the jobs of small.py:q: ")
