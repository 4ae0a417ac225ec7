"""Flows whose jobs are on several shards."""

from __future__ import annotations

import pytest

import kue
from kue import Kue, State
from kue.store.contract import Store
from tests.support.patience import PATIENCE_SECONDS, eventually

#: Enough for jobs on each of four shards.
NAMES = [f"step {number}" for number in range(8)]


@pytest.fixture
async def q(store: Store) -> Kue:
    return Kue(store=store)


def steps(q: Kue) -> list[kue.Task[[int], object, int]]:
    """Return tasks that add one, of types on all shards."""

    def make(name: str) -> kue.Task[[int], object, int]:
        @q.task(name=name, attempts=1)
        async def step(number: int) -> int:
            return number + 1

        return step

    return [make(name) for name in NAMES]


@pytest.mark.parametrize("engine", ["redis-shards", "redis-cluster"], indirect=True)
async def test_a_chain_across_shards_passes_its_results_on(q: Kue) -> None:
    first, *rest = steps(q)
    assert q.store.spans_shards(NAMES)
    flow = await kue.chain(first.s(0), *(task.s() for task in rest)).enqueue()

    async with q.work():
        assert await flow.result(timeout=PATIENCE_SECONDS) == len(NAMES)

    graph = await q.flow(flow.id)
    assert (graph.total, graph.complete) == (len(NAMES), len(NAMES))


@pytest.mark.parametrize("engine", ["redis-shards", "redis-cluster"], indirect=True)
async def test_a_batch_across_shards_ends_once_with_its_callbacks(q: Kue) -> None:
    called: list[int] = []

    @q.task
    async def done(batch_id: int) -> None:
        called.append(batch_id)

    tasks = steps(q)
    batch = (
        await kue.batch()
        .then(done.s())
        .finally_(done.s())
        .enqueue(task.s(number) for number in range(10) for task in tasks)
    )

    async with q.work():
        result = await batch.result(timeout=PATIENCE_SECONDS)
        page = await q.flow(batch.id)
        for node in page.nodes:
            if node.type == "done":
                await (await q.get(node.id)).result(timeout=PATIENCE_SECONDS)

    assert (result["total"], result["complete"]) == (80, 80)
    assert set(called) == {batch.id}


@pytest.mark.parametrize("engine", ["redis-shards", "redis-cluster"], indirect=True)
async def test_a_cancelled_batch_across_shards_is_retried_with_its_callbacks(
    q: Kue,
) -> None:
    called: list[str] = []
    broken = {0}

    @q.task(attempts=1)
    async def load(number: int) -> None:
        if number in broken:
            raise ValueError("bad luck")

    def callback(name: str) -> kue.Signature[None]:
        @q.task(name=name)
        async def call(job_id: int) -> None:
            called.append(name)

        return call.s()

    tasks = steps(q)
    # Ids on one shard are far from those on the others.
    await q.enqueue_many(tasks[0].name, [{"number": 1}] * 60)
    batch = kue.batch().then(callback("then")).catch(callback("catch"))
    others = (task.s(1) for task in tasks)
    handle = await batch.enqueue([load.s(0), *others])

    await handle.cancel()
    async with q.work():
        with pytest.raises(kue.JobCancelled):
            await handle.result(timeout=PATIENCE_SECONDS)
        await handle.retry_failed()
        with pytest.raises(kue.JobFailed):
            await handle.result(timeout=PATIENCE_SECONDS)
        await eventually(lambda: is_called(called, "catch"))
        broken.clear()
        await handle.retry_failed()
        await handle.result(timeout=PATIENCE_SECONDS)
        await eventually(lambda: is_called(called, "then"))

    assert called == ["catch", "then"]


async def is_called(called: list[str], name: str) -> bool:
    return name in called


@pytest.mark.parametrize("engine", ["redis-shards", "redis-cluster"], indirect=True)
async def test_a_batch_across_shards_calls_before_and_while_its_jobs_end(
    q: Kue,
) -> None:
    seen: list[tuple[int, int]] = []

    @q.task
    async def look(batch_id: int) -> None:
        progress = await q.batch(batch_id).progress()
        seen.append((progress.done, progress.total))

    tasks = steps(q)
    batch = kue.batch().before(look.s()).progress(look.s())
    await batch.enqueue(task.s(number) for number in range(3) for task in tasks)

    async with q.work():
        await eventually(lambda: is_seen(seen, (24, 24)))
        await eventually(lambda: is_complete(q, "kue.progress"))

    assert seen[0] == (0, 24)


async def is_seen(seen: list[tuple[int, int]], figures: tuple[int, int]) -> bool:
    return figures in seen


async def is_complete(q: Kue, type: str) -> bool:
    return await q.count(State.COMPLETE, type) == 1
