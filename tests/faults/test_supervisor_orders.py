"""Orders for the processes of ``kue worker``, given through the store."""

from __future__ import annotations

from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import WorkerStatus
from tests.faults.supervised import Shift, is_there, patiently
from tests.support.jobs import count_of
from tests.support.patience import eventually


async def alive(store: Store, number: int) -> list[WorkerStatus]:
    """Return the workers that live, once *number* have sent their status."""

    async def found() -> list[WorkerStatus]:
        alive = [one for one in await store.workers() if one.alive and one.info]
        return alive if len(alive) == number else []

    return await eventually(found)


async def test_a_process_that_is_ordered_to_stop_is_not_replaced(shift: Shift) -> None:
    async with shift.start("--processes", "2") as workers:
        first, second = await alive(shift.store, 2)
        [job_id] = await shift.add("nap", seconds=1)
        _, _, pid = await workers.line()
        busy = first if first.info["pid"] == int(pid) else second
        other = second if busy is first else first

        assert await shift.store.order(busy.name, "stop")
        job = await shift.ended(job_id)
        await patiently(lambda: not is_there(int(pid)))
        [left] = await alive(shift.store, 1)
        [later] = await shift.add("nap")
        assert (await shift.ended(later)).result == other.info["pid"]

        assert workers.children() == [other.info["pid"]]
        assert await shift.store.order(other.name, "stop")
        assert await workers.ended() == 0

    assert job.result == int(pid)
    assert left.name == other.name
    assert await count_of(shift.store, "nap") == {State.COMPLETE: 2}


async def test_a_grace_that_is_over_hands_back_what_runs(lone: Shift) -> None:
    async with lone.start("--grace", "0.2") as workers:
        [worker] = await alive(lone.store, 1)
        [job_id] = await lone.add("nap", seconds=600)
        await workers.line()

        assert await lone.store.order(worker.name, "stop")
        assert await workers.ended() == 0

    assert (await lone.job(job_id)).state is State.WAITING
    assert await lone.outcomes(job_id) == ["released"]


async def test_a_process_writes_down_its_stacks(shift: Shift) -> None:
    async with shift.start() as workers:
        [worker] = await alive(shift.store, 1)
        [job_id] = await shift.add("nap", seconds=600)
        await workers.line()

        assert await shift.store.order(worker.name, "stacks")
        found = await eventually(lambda: shift.store.stacks(worker.name))

    assert found is not None
    text = found.text.partition(f"job {job_id} of type nap, attempt 1, task")[2]
    assert "in nap" in text.split("\n\n")[0]
