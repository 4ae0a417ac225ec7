"""``kue worker --processes 1:3``: processes that come and go with the backlog."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import WorkerStatus
from tests.faults.supervised import Shift, Supervised, get, is_there, patiently
from tests.support.jobs import count_of, get_many
from tests.support.leases import PATIENT_LEASE_SECONDS
from tests.support.patience import eventually

MOST = 3
RANGE = ("--processes", f"1:{MOST}")
#: Two jobs at once in each process, and little patience with a backlog.
SLOTS = 2
EAGER = ("--balance", "--concurrency", f"{SLOTS}", "--target-wait", "100ms")
BRIEF, LONG = ("--cooldown", "10ms"), ("--cooldown", "1h")
#: A machine that is busy must not cost a worker its lease.
PATIENT = {"KUE_LEASE": f"{PATIENT_LEASE_SECONDS}s"}


async def started(workers: Supervised, number: int) -> list[list[str]]:
    """Return what handlers say until *number* jobs have started."""
    said: list[list[str]] = []
    while sum(words[0] == "started" for words in said) < number:
        said.append(await workers.line())
    return said


async def returned(workers: Supervised, number: int) -> list[list[str]]:
    said: list[list[str]] = []
    while sum(words[0] == "returned" for words in said) < number:
        said.append(await workers.line())
    return said


def ids(said: list[list[str]], word: str) -> list[int]:
    return sorted(int(words[1]) for words in said if words[0] == word)


async def alive(store: Store, **processes: int) -> list[WorkerStatus]:
    """Return the live workers, once all show these numbers of processes."""

    async def found() -> list[WorkerStatus]:
        alive = [one for one in await store.workers() if one.alive]
        shown = [one.info.get("processes") for one in alive]
        return alive if shown == [processes] * processes["now"] else []

    return await eventually(found)


async def test_a_burst_brings_processes_up_and_down_again_and_every_job_runs_once(
    shift: Shift, unused_tcp_port: int
) -> None:
    go_on = shift.folder / "go-on"
    added = await shift.add("nap", until=go_on, count=60)
    health = ("--health-port", str(unused_tcp_port))
    async with shift.start(*RANGE, *EAGER, *BRIEF, *health, environ=PATIENT) as workers:
        # All are up, and full.
        said = await started(workers, MOST * SLOTS)
        most = await alive(shift.store, now=MOST, least=1, most=MOST)
        _, shown = await get(unused_tcp_port, "/readyz")
        go_on.touch()
        said += await returned(workers, len(added))

        await patiently(lambda: len(workers.children()) == 1)
        await alive(shift.store, now=1, least=1, most=MOST)
        assert await workers.stopped() == 0

    assert len(most) == MOST
    assert shown["processes"] == {"now": MOST, "least": 1, "most": MOST}
    assert ids(said, "started") == ids(said, "returned") == added
    # Neither interrupted nor released, neither stalled nor run again.
    jobs = await get_many(shift.store, added)
    assert [job.history[0].outcome for job in jobs] == ["complete"] * len(added)
    assert {len(job.history) for job in jobs} == {1}
    scaled = [line.split("scaling ")[1] for line in workers.log if "scaling " in line]
    assert re.match(rf"from 1 to {MOST} processes: \d+ jobs wait, the first", scaled[0])
    assert [line.partition(":")[0] for line in scaled[1:]] == [
        "from 3 to 2 processes",
        "from 2 to 1 processes",
    ]
    assert not [line for line in workers.log if "ERROR" in line]


async def test_a_process_that_leaves_finishes_its_jobs_however_long_they_take(
    shift: Shift, unused_tcp_port: int
) -> None:
    """Not even a grace of nothing counts, which is for those who are in a hurry."""
    gates = {(await shift.add("nap", until=gate))[0]: gate for gate in new_gates(shift)}
    options = ("--processes", "1:2", "--concurrency", "4", "--target-wait", "100ms")
    health = ("--health-port", str(unused_tcp_port))
    async with shift.start(
        *options, *BRIEF, *health, "--grace", "0", environ=PATIENT
    ) as workers:
        said = await started(workers, len(gates))
        # One job is left in each of both.
        left = {int(pid): int(job_id) for _, job_id, pid in said}
        for job_id in gates.keys() - left.values():
            gates[job_id].touch()
        await workers.logged("scaling from 2 to 1 processes: no job waits for a slot")
        _, shown = await get(unused_tcp_port, "/readyz")
        [leaving] = [one for one in shown["children"] if one["state"] == "leaving"]
        [later] = await shift.add("nap")
        taken_by = (await shift.ended(later)).result
        assert is_there(leaving["pid"])

        for job_id in left.values():
            gates[job_id].touch()
        jobs = [await shift.ended(job_id) for job_id in left.values()]
        await patiently(lambda: not is_there(leaving["pid"]))
        assert await workers.stopped() == 0

    assert len(left) == 2
    assert shown["processes"] == {"now": 1, "least": 1, "most": 2}
    assert [job.result for job in jobs] == list(left)
    assert taken_by in left.keys() - {leaving["pid"]}
    assert {len(job.history) for job in await get_many(shift.store, [*gates])} == {1}


def new_gates(shift: Shift) -> list[Path]:
    return [shift.folder / f"gate-{number}" for number in range(8)]


async def full(shift: Shift, workers: Supervised) -> list[int]:
    """Return the pids of all processes, once as many as can be are at work."""
    said = await started(workers, MOST * SLOTS)
    return sorted({int(words[-1]) for words in said})


async def test_a_process_that_dies_while_scaled_up_is_replaced(shift: Shift) -> None:
    go_on = shift.folder / "go-on"
    added = await shift.add("nap", until=go_on, count=20)
    # Its jobs run again, elsewhere, without waiting for a lease.
    async with shift.start(*RANGE, *EAGER, *LONG, environ=PATIENT) as workers:
        first, *others = await full(shift, workers)
        os.kill(first, signal.SIGKILL)
        await started(workers, SLOTS)
        await patiently(lambda: len(workers.children()) == MOST)
        assert set(others) < set(workers.children())
        go_on.touch()
        assert [(await shift.ended(one)).state for one in added] == (
            [State.COMPLETE] * len(added)
        )
        assert await workers.stopped() == 0


async def test_a_stop_while_scaled_up_ends_all_of_them_in_order(shift: Shift) -> None:
    go_on = shift.folder / "go-on"
    added = await shift.add("nap", until=go_on, count=20)
    options = (*RANGE, *EAGER, *LONG, "--grace", "10m")
    async with shift.start(*options, environ=PATIENT) as workers:
        await full(shift, workers)
        workers.signal(signal.SIGTERM)
        await workers.logged("stopping: jobs may end")
        go_on.touch()
        assert await workers.ended() == 0

    counts = await count_of(shift.store, "nap")
    assert counts[State.COMPLETE] >= MOST * SLOTS
    assert sum(counts.values()) == len(added)
    assert counts.keys() <= {State.COMPLETE, State.WAITING}
    jobs = await get_many(shift.store, added)
    assert {past.outcome for job in jobs for past in job.history} <= {
        "complete",
        # Claimed as it stopped, and given back before it began.
        "released",
    }


async def test_a_hang_up_while_scaled_up_replaces_all_of_them(lone: Shift) -> None:
    async with lone.start(*RANGE, *EAGER, *LONG, environ=PATIENT) as workers:
        go_on = lone.folder / "go-on"
        await lone.add("nap", until=go_on, count=20)
        before = await full(lone, workers)
        go_on.touch()
        workers.signal(signal.SIGHUP)
        await workers.logged("all worker processes are replaced")
        after = workers.children()

    assert len(after) == MOST
    assert not set(before) & set(after)


async def test_a_process_that_is_ordered_to_stop_lowers_the_most(lone: Shift) -> None:
    go_on = lone.folder / "go-on"
    async with lone.start(*RANGE, *EAGER, *LONG, environ=PATIENT) as workers:
        added = await lone.add("nap", until=go_on, count=20)
        await full(lone, workers)
        first, *_ = await alive(lone.store, now=MOST, least=1, most=MOST)
        assert await lone.store.order(first.name, "stop")
        go_on.touch()
        await patiently(lambda: len(workers.children()) == MOST - 1)
        for job_id in added:
            await lone.ended(job_id)
        await alive(lone.store, now=MOST - 1, least=1, most=MOST - 1)
        assert await workers.stopped() == 0


async def test_a_burst_run_with_a_range_ends_when_nothing_is_left(lone: Shift) -> None:
    added = await lone.add("nap", seconds=0.1, count=100)
    async with lone.start("--burst", *RANGE, *EAGER, *LONG) as workers:
        assert await workers.ended() == 0

    assert await count_of(lone.store, "nap") == {State.COMPLETE: len(added)}


async def test_processes_that_are_recycled_are_scaled_all_the_same(
    lone: Shift,
) -> None:
    go_on = lone.folder / "go-on"
    added = await lone.add("nap", until=go_on, count=80)
    options = (*RANGE, *EAGER, *BRIEF, "--max-jobs", "20")
    async with lone.start(*options, environ=PATIENT) as workers:
        await workers.logged(f"scaling from 1 to {MOST} processes")
        go_on.touch()
        said = await returned(workers, len(added))
        await workers.logged("from 2 to 1 processes")
        assert await workers.stopped() == 0

    assert ids(said, "returned") == added
    assert len({words[-1] for words in said}) > MOST


async def test_jobs_in_the_memory_of_a_process_are_not_scaled(lone: Shift) -> None:
    environ = {"KUE_URL": "memory://"}
    options = (*RANGE, *EAGER, "--log-format", "json")
    async with lone.start(*options, environ=environ) as workers:
        said = await workers.logged("the number of processes stays at 1")
        assert await workers.stopped() == 0

    record: dict[str, Any] = json.loads(said)
    assert record["level"] == "warning"
