"""
`Store.twin`: the same jobs for another event loop, in another thread of the process.

While the thread works the first loop is blocked: nothing here may need its help.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import Outcome, RenewRequest, Result
from tests.support.jobs import SECOND, T0, add_one, claim_one, get_one, start_one
from tests.support.patience import PATIENCE_SECONDS

T = TypeVar("T")


def in_a_thread(store: Store, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """Let a twin of *store* do *work* on a loop of its own; block until it is done."""
    answers: list[T] = []

    async def with_twin() -> T:
        twin = store.twin()
        try:
            return await work(twin)
        finally:
            await twin.close()

    thread = threading.Thread(target=lambda: answers.append(asyncio.run(with_twin())))
    thread.start()
    thread.join()
    [answer] = answers
    return answer


async def test_a_twin_beats_while_the_first_loop_is_blocked(store: Store) -> None:
    job = await start_one(store)

    beat = in_a_thread(
        store,
        lambda twin: twin.renew(
            RenewRequest("w1", lease=3 * SECOND, runs=[job], info={"from": "a thread"}),
            now=T0 + 1,
        ),
    )

    assert (beat.lost, beat.cancel) == ([], {})
    [worker] = await store.workers(now=T0 + 1)
    assert (worker.deadline, worker.active) == (T0 + 1 + 3 * SECOND, 1)
    assert worker.info == {"from": "a thread"}


async def test_a_twin_has_the_same_jobs(store: Store) -> None:
    job_id = await add_one(store, data={"to": "ann"})

    async def run_it(twin: Store) -> Result:
        job = await claim_one(twin)
        assert (job.id, job.data) == (job_id, {"to": "ann"})
        [word] = await twin.settle([Outcome(job, Completed("sent"))], now=T0)
        return word

    assert in_a_thread(store, run_it) is Result.DONE
    job = await get_one(store, job_id)
    assert (job.state, job.result) == (State.COMPLETE, "sent")


async def test_the_first_goes_on_when_a_twin_was_closed(store: Store) -> None:
    before = await add_one(store)
    for _ in range(2):
        in_a_thread(store, lambda twin: twin.open())

    after = await add_one(store)

    assert [job and job.id for job in await store.get([before, after])] == [
        before,
        after,
    ]


async def test_a_twin_of_a_store_that_is_not_open_opens_by_itself(store: Store) -> None:
    durability = in_a_thread(store, lambda twin: twin.open())

    assert durability == await store.open()
    assert store.twin().name == store.name


async def test_one_wakes_the_other(store: Store) -> None:
    twin = store.twin()
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[frozenset[str]] = loop.create_future()

    def sleep() -> None:
        async def nap() -> frozenset[str]:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    return await twin.wait(["email"], 30)
            finally:
                await twin.close()

        loop.call_soon_threadsafe(woken.set_result, asyncio.run(nap()))

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    await add_one(store)

    assert await woken == {"email"}
    sleeper.join()
