"""Handlers misbehave in every way: their own run ends, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kue import Cancel, JobCancelled, JobFailed, Kue, State
from kue.model.draft import draft
from kue.model.retry_policy import MAX_STALLS
from kue.store.contract import Store
from kue.store.redis.keys import Keys, root_of
from kue.worker.active_job import ActiveJob
from kue.worker.handler_adapters import Execution
from tests.faults import program_handlers
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.processes import Process
from tests.faults.program_handlers import (
    BLOCKED_LEASE_SECONDS,
    BLOCKED_SECONDS,
    DEATHS,
    LEASE_SECONDS,
    NEIGHBOURS,
    RAISED,
    RETURNED,
    UNSPEAKABLE,
)
from tests.support.jobs import count_of, get_one, outcomes, until_ended
from tests.support.leases import PATIENT_LEASE_SECONDS
from tests.support.patience import PATIENCE_SECONDS
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

KINDS: dict[Execution, Callable[[str], Any]] = {
    "loop": program_handlers.in_loop,
    "thread": program_handlers.in_thread,
    "process": program_handlers.in_child,
}


@pytest.fixture
async def q(url: str, prefix: str, store: Store) -> AsyncIterator[Kue]:
    """A queue with a handler that behaves; its jobs must be sound in the end."""
    async with Kue(url, prefix=prefix, lease=PATIENT_LEASE_SECONDS, budget="60s") as q:

        @q.process("good", 1)
        async def good(job: ActiveJob) -> str:
            return "fine"

        yield q


async def assert_at_work(q: Kue) -> None:
    handle = await q.enqueue("good")
    assert await handle.result(timeout=PATIENCE_SECONDS) == "fine"


@pytest.mark.parametrize("execution", KINDS)
async def test_whatever_a_handler_raises_ends_its_own_run_alone(
    q: Kue, execution: Execution
) -> None:
    errors = await failures_of(q, execution, RAISED)

    assert {what: error.kind for what, error in errors.items()} == {
        what: what for what in RAISED
    }
    assert all(len(error.message) < 5_000 for error in errors.values())


async def failures_of(q: Kue, execution: Execution, whats: Iterable[str]) -> Any:
    """
    Run a job for each of *whats*, a few at once, and return the errors of each.

    The worker must be at work after that.
    """
    q.task(name="bad", execution=execution, concurrency=3)(KINDS[execution])
    handles = {
        what: await q.enqueue("bad", {"what": what}, attempts=1, backoff=None)
        for what in whats
    }
    errors = {}
    async with q.work():
        for what, handle in handles.items():
            with pytest.raises(JobFailed):
                await handle.result(timeout=PATIENCE_SECONDS)
            errors[what] = (await handle.refresh()).error
        await assert_at_work(q)
    return errors


@pytest.mark.parametrize("execution", KINDS)
async def test_an_exception_that_raises_what_nobody_catches_is_shown_as_it_can_be(
    q: Kue, execution: Execution
) -> None:
    errors = await failures_of(q, execution, UNSPEAKABLE)

    for error in errors.values():
        assert error.kind == "Unprintable"
        assert error.message.startswith("(its message cannot be shown: ")


@pytest.mark.parametrize("execution", KINDS)
async def test_a_result_that_cannot_be_kept_fails_its_own_run_alone(
    q: Kue, execution: Execution
) -> None:
    errors = await failures_of(q, execution, RETURNED)

    assert {error.kind for error in errors.values()} == {"BadPayload"}
    assert all(error.message.startswith("result") for error in errors.values())


async def test_a_handler_that_never_ends_has_as_many_runs_as_attempts(q: Kue) -> None:
    runs: list[int] = []

    @q.process("bad", 1)
    async def never(job: ActiveJob) -> None:
        runs.append(job.attempt)
        await asyncio.Event().wait()

    handle = await q.enqueue("bad", timeout=0.1, attempts=3, backoff=None)
    async with q.work():
        with pytest.raises(JobFailed, match="RunTimeout"):
            await handle.result(timeout=PATIENCE_SECONDS)
        await assert_at_work(q)

    assert runs == [1, 2, 3]
    assert outcomes(await handle.refresh()) == ["retry", "retry", "failed"]


async def test_a_handler_that_blocks_the_loop_loses_no_lease(
    store: Store, url: str, prefix: str
) -> None:
    """Neither its own nor that of its neighbours: a thread sends the heartbeats."""
    neighbours = [draft("neighbour", {"seconds": 0.5})] * 5
    added = await store.add(neighbours, producer="n", seq=1)
    program = "tests.faults.program_handlers"
    async with Process("block", url, prefix, "", program=program) as worker:
        for _ in added:
            await worker.line()
        added += await store.add([draft("block")], producer="b", seq=1)
        assert (await worker.line()).startswith("blocked")
        rescued = await tended(store, BLOCKED_SECONDS)
        for one in added:
            assert outcomes(await until_ended(store, one.id)) == ["complete"]

    assert rescued == 0


async def tended(store: Store, seconds: float) -> int:
    """Tend as another worker would for *seconds*; return how many runs it took back."""
    rescued = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rescued += (await store.tend(lease=int(BLOCKED_LEASE_SECONDS * 1000))).rescued
        # Time itself is awaited: a lease of the real clock would run out.
        await asyncio.sleep(0.05)
    return rescued


async def test_tasks_that_outlive_their_handler_do_no_harm(q: Kue) -> None:
    """They may go on talking; the job has ended as its handler did."""
    tasks: list[asyncio.Task[None]] = []
    go_on = asyncio.Event()

    async def outlive(job: ActiveJob) -> None:
        await go_on.wait()
        sys.stdout.write("late words\n")
        await job.log("late line")
        with contextlib.suppress(Exception):
            await job.progress(50)
        raise Cancel("nobody receives this")

    @q.process("bad", 1)
    async def leave_behind(job: ActiveJob) -> str:
        tasks.append(asyncio.create_task(outlive(job)))
        return "done"

    handle = await q.enqueue("bad")
    async with q.work():
        assert await handle.result(timeout=PATIENCE_SECONDS) == "done"
        go_on.set()
        await asyncio.wait(tasks)
        await assert_at_work(q)

    assert isinstance(tasks[0].exception(), Cancel)
    job = await handle.refresh()
    assert (job.state, job.progress, outcomes(job)) == (
        State.COMPLETE,
        100,
        ["complete"],
    )


@pytest.mark.long
async def test_a_job_that_kills_its_workers_fails_and_its_neighbours_complete(
    new_store: NewStore, url: str, prefix: str
) -> None:
    """However often they go down with it: they are not to blame."""
    async with asyncio.timeout(300), asyncio.TaskGroup() as group:
        for death in DEATHS:
            # A file of its own, or keys of its own: all wait for leases at once.
            place = (url.replace("kue.db", f"{death}.db"), prefix)
            if place[0] == url:
                place = (url, f"{prefix}-{death}")
            group.create_task(assert_only_the_pill_fails(new_store, *place, death))


async def assert_only_the_pill_fails(
    new_store: NewStore, url: str, prefix: str, death: str
) -> None:
    store = new_store(url, prefix=prefix)
    innocent = [draft("neighbour", {"seconds": 0.3})] * NEIGHBOURS
    [pill] = await store.add([draft("pill", attempts=1)], producer="p", seq=1)
    neighbours = await store.add(innocent, producer="n", seq=1)

    program = "tests.faults.program_handlers"
    restarts = 0
    while await unfinished(store):
        async with Process("pill", url, prefix, death, program=program) as worker:
            await until_over(store, worker)
        restarts += 1

    job = await get_one(store, pill.id)
    assert (job.state, job.stalls) == (State.FAILED, MAX_STALLS), death
    assert job.error is not None
    assert job.error.kind == "WorkerLost", death
    assert restarts >= MAX_STALLS + 1, death
    for one in neighbours:
        assert (await get_one(store, one.id)).state is State.COMPLETE, death
    await assert_sound(store)


async def unfinished(store: Store) -> int:
    counts = await store.count()
    return sum(
        number
        for states in counts.values()
        for state, number in states.items()
        if not state.is_final
    )


async def until_over(store: Store, worker: Process) -> None:
    """Return when the worker is dead, or has nothing left to do."""
    death = asyncio.create_task(worker.ended())
    while not death.done() and await unfinished(store):
        await asyncio.wait([death], timeout=0.1)
    worker.kill()
    await death


@pytest.fixture
def damage(
    request: pytest.FixtureRequest, url: str, prefix: str, tmp_path: Path
) -> Callable[[int], None]:
    """Writes into the store by hand that a job's payload is not JSON."""

    def in_sqlite(job_id: int) -> None:
        with closing(sqlite3.connect(tmp_path / "kue.db")) as file, file:
            file.execute("UPDATE jobs SET body = '{\"data\":' WHERE id = ?", [job_id])

    def in_redis(job_id: int) -> None:
        server: RedisServer = request.getfixturevalue("redis_server")
        key = Keys(root_of(prefix, 0, 1)).job(job_id)
        with closing(server.client()) as client:
            client.set(key, b'0\t1\tgood\n{"data":')

    return in_sqlite if url.startswith("sqlite") else in_redis


@pytest.mark.damages
async def test_a_payload_that_is_garbage_fails_its_job_and_stops_no_worker(
    q: Kue, store: Store, damage: Callable[[int], None]
) -> None:
    before, bad, after = [await q.enqueue("good", attempts=3) for _ in range(3)]
    damage(bad.id)

    async with q.work():
        assert await after.result(timeout=PATIENCE_SECONDS) == "fine"
        assert await before.result(timeout=PATIENCE_SECONDS) == "fine"
        await assert_at_work(q)

    assert await count_of(store, "good") == {State.COMPLETE: 3, State.FAILED: 1}


async def test_a_type_that_nobody_handles_waits_untouched(q: Kue) -> None:
    stranger = await q.enqueue("strange")
    async with q.work():
        await assert_at_work(q)

    job = await stranger.refresh()
    assert (job.state, job.attempts, job.history) == (State.WAITING, 0, ())


async def test_a_job_is_cancelled_before_it_runs_and_while_it_does(q: Kue) -> None:
    began: list[str] = []
    running = asyncio.Event()

    @q.process("bad", 1)
    async def never(job: ActiveJob) -> None:
        began.append(job.data)
        running.set()
        await asyncio.Event().wait()

    active = await q.enqueue("bad", "active")
    waiting = await q.enqueue("bad", "waiting")
    delayed = await q.enqueue("bad", "delayed", delay="1s")
    async with q.work():
        await running.wait()
        for handle in (waiting, delayed, active):
            await handle.cancel("not wanted")
        for handle in (waiting, delayed, active):
            with pytest.raises(JobCancelled):
                await handle.result(timeout=PATIENCE_SECONDS)
        # The slot is free again, and what was cancelled does not take it.
        await assert_at_work(q)

    assert began == ["active"]
    assert (await active.refresh()).attempts == 1


class Cut:
    """A worker whose Redis goes out of reach while it runs a job."""

    def __init__(self, q: Kue, proxy: Proxy) -> None:
        self.q = q
        self.proxy = proxy
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        #: How often the handler was called.
        self.runs = 0
        self.cancelled = asyncio.Event()
        q.process("email", 1, self._handle)

    async def _handle(self, job: ActiveJob) -> str:
        self.runs += 1
        self.entered.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "done"

    def out_of_reach(self, how: str) -> None:
        if how == "refused":
            self.proxy.refuse()
            self.proxy.cut()
        else:
            self.proxy.swallow()

    async def back(self, how: str) -> None:
        self.proxy.heal()
        if how == "refused":
            await self.proxy.accept()
        else:
            self.proxy.cut()


HOW = ("refused", "mute")
STRICT_LEASE_SECONDS = 2.0


@pytest.mark.parametrize("how", HOW)
async def test_a_strict_worker_gives_up_what_it_runs_when_its_lease_ends(
    proxy: Proxy, direct: Store, prefix: str, how: str
) -> None:
    """Nobody can tell any more that it is still its own; back again, it runs again."""
    lease = STRICT_LEASE_SECONDS
    async with Kue(proxy.url, prefix=prefix, lease=lease, strict_lease=True) as q:
        cut = Cut(q, proxy)
        [added] = await direct.add([draft("email")], producer="p", seq=1)
        async with q.work():
            await cut.entered.wait()
            cut.out_of_reach(how)
            [worker] = await direct.workers()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await cut.cancelled.wait()
            gave_up_at = await direct.now()
            cut.go_on.set()
            await cut.back(how)
            job = await until_ended(direct, added.id)

    # Towards the end of the lease that its last heartbeat got it, and not before.
    assert gave_up_at > worker.deadline - 1000 * lease / 2
    assert (job.state, job.attempts, cut.runs) == (State.COMPLETE, 1, 2)
    assert job.stalls == outcomes(job).count("stalled")


@pytest.mark.parametrize("how", HOW)
async def test_a_worker_out_of_reach_for_a_while_goes_on_and_completes(
    proxy: Proxy, direct: Store, prefix: str, how: str
) -> None:
    """Until someone has taken the run back it is its own, however late."""
    async with Kue(proxy.url, prefix=prefix, lease=LEASE_SECONDS) as q:
        cut = Cut(q, proxy)
        [added] = await direct.add([draft("email")], producer="p", seq=1)
        async with q.work():
            await cut.entered.wait()
            cut.out_of_reach(how)
            # The fault has a length: longer than the lease.
            await asyncio.sleep(1.5 * LEASE_SECONDS)
            cut.go_on.set()
            await cut.back(how)
            job = await until_ended(direct, added.id)

    assert (job.state, job.result, cut.runs) == (State.COMPLETE, "done", 1)
    assert outcomes(job) == ["complete"]
