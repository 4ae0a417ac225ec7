"""`Store.workers`: who is there, until when, and with how much in hand."""

from __future__ import annotations

from kue.model.job import Completed
from kue.store.contract import Store
from kue.store.values import RenewRequest, WorkerStatus
from tests.support.jobs import SECOND, T0, add_many, claim, end, start_one

TYPES = ["email", "sms", "video", "report", "page"]


async def test_nobody_is_there_at_first(store: Store) -> None:
    assert await store.workers(now=T0) == []


async def test_a_claim_makes_a_worker_known(store: Store) -> None:
    await start_one(store)

    assert await store.workers(now=T0) == [
        WorkerStatus(name="w1", deadline=T0 + 10 * SECOND, alive=True, active=1)
    ]


async def test_a_claim_that_got_nothing_makes_a_worker_known_too(store: Store) -> None:
    await claim(store, lease=3 * SECOND)

    assert await store.workers(now=T0) == [
        WorkerStatus(name="w1", deadline=T0 + 3 * SECOND, alive=True, active=0)
    ]


async def test_each_claim_renews_the_lease(store: Store) -> None:
    await start_one(store)
    await claim(store, "sms", now=T0 + 4 * SECOND)

    [worker] = await store.workers(now=T0 + 4 * SECOND)
    assert (worker.deadline, worker.active) == (T0 + 14 * SECOND, 1)


async def test_a_worker_is_one_on_all_types_together(store: Store) -> None:
    for type in TYPES:
        await add_many(store, 2, type)
    jobs = await claim(store, *TYPES, limit=10)
    for job in jobs[:3]:
        await end(store, job, Completed())

    [worker] = await store.workers(now=T0)
    assert (worker.name, worker.active) == ("w1", 7)


async def test_workers_are_told_by_name(store: Store) -> None:
    for name in ("w2", "w10", "a worker", "w1"):
        await store.renew(RenewRequest(name), now=T0)

    names = [worker.name for worker in await store.workers(now=T0)]
    assert names == ["a worker", "w1", "w10", "w2"]


async def test_a_worker_past_its_deadline_is_not_alive(store: Store) -> None:
    await store.renew(RenewRequest("w1"), now=T0)
    await store.renew(RenewRequest("w2", lease=60 * SECOND), now=T0)

    early = await store.workers(now=T0 + 10 * SECOND - 1)
    late = await store.workers(now=T0 + 10 * SECOND + 1)

    assert [worker.alive for worker in early] == [True, True]
    assert [worker.alive for worker in late] == [False, True]


async def test_a_worker_shows_what_it_said_of_itself(store: Store) -> None:
    info = {"host": "a.b", "pid": 7, "types": ["email"], "busy": {"of": 20}, "π": 3.14}
    await store.renew(RenewRequest("w1", info=info), now=T0)
    await start_one(store)

    [worker] = await store.workers(now=T0)
    assert worker.info == info


async def test_workers_are_everybodys(store: Store, other_store: Store) -> None:
    await store.renew(RenewRequest("w1", info={"host": "a"}), now=T0)

    assert await other_store.workers(now=T0) == await store.workers(now=T0)
