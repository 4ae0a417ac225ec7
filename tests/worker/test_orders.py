"""What a worker does when someone orders it to."""

from __future__ import annotations

import asyncio
import threading
import time

from kue import ActiveJob, Kue
from kue.store.values import MAX_STACKS, Stacks
from kue.worker.stacks import stacks
from tests.support.patience import PATIENCE_SECONDS, until


async def written(q: Kue, worker: str) -> Stacks:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (found := await q.stacks(worker)) is None:  # noqa: ASYNC110 - there
            await asyncio.sleep(0.005)
    return found


async def test_a_worker_that_is_ordered_to_stop_ends_what_it_has(q: Kue) -> None:
    go = asyncio.Event()

    async def wait(job: ActiveJob) -> str:
        await go.wait()
        return "done"

    q.process("wait", 1, wait)
    first = await q.create_job("wait").save()
    second = await q.create_job("wait").save()
    async with q.work() as worker:
        await until(lambda: worker.running == 1)
        assert await q.order(worker.name, "stop")
        await until(lambda: worker.is_stopping)
        go.set()
        await worker.ended()

    assert (await first.refresh()).state == "complete"
    assert (await second.refresh()).state == "waiting"


async def test_stacks_tell_where_each_job_is(q: Kue) -> None:
    go, go_on = asyncio.Event(), threading.Event()

    async def deep_inside() -> None:
        await go.wait()

    async def on_the_loop(job: ActiveJob) -> None:
        secret = "hunter2"
        await deep_inside()
        del secret

    def in_a_thread(job: ActiveJob) -> None:
        go_on.wait()

    q.process("loop", 1, on_the_loop)
    q.process("thread", 1, in_a_thread)
    one = await q.create_job("loop").save()
    two = await q.create_job("thread").save()
    async with q.work() as worker:
        await until(lambda: worker.running == 2)
        assert await q.order(worker.name, "stacks")
        text = (await written(q, worker.name)).text
        go.set()
        go_on.set()

    of_one = text.partition(f"job {one.id} of type loop, attempt 1, task")[2]
    assert "in on_the_loop" in of_one.split("\n\n")[0]
    assert "in deep_inside" in of_one.split("\n\n")[0]
    of_two = text.partition(f"job {two.id} of type thread, attempt 1, thread")[2]
    assert "in in_a_thread" in of_two
    assert "kue heartbeat" in text
    assert "'hunter2'" not in text.replace('secret = "hunter2"', "")


def test_a_worker_whose_loop_is_held_tells_where(plain_q: Kue) -> None:
    """Its beating thread hears the order, and it is then that people ask."""
    held, go_on = threading.Event(), threading.Event()

    async def hold_the_loop(job: ActiveJob) -> None:
        held.set()
        go_on.wait()

    plain_q.process("hold", 1, hold_the_loop)
    sync = plain_q.sync
    sync.create_job("hold").save()

    async def work() -> None:
        async with plain_q:
            await plain_q.run(signals=False)

    working = threading.Thread(target=lambda: asyncio.run(work()))
    working.start()
    try:
        assert held.wait(PATIENCE_SECONDS)
        [worker] = sync.workers()
        assert sync.order(worker.name, "stacks")
        deadline = time.monotonic() + 10
        while (found := sync.stacks(worker.name)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert sync.order(worker.name, "stop")
    finally:
        go_on.set()
    working.join(PATIENCE_SECONDS)

    assert "in hold_the_loop" in found.text
    assert not working.is_alive()


async def test_stacks_of_very_many_tasks_are_cut() -> None:
    loop = asyncio.get_running_loop()
    gate = asyncio.Event()
    tasks = [asyncio.create_task(gate.wait()) for _ in range(3000)]
    await asyncio.sleep(0)

    text = stacks(loop, [], {})
    gate.set()
    await asyncio.gather(*tasks)

    assert MAX_STACKS < len(text) < MAX_STACKS + 10_000
