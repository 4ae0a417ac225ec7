"""The master is lost, a replica takes over: fences hold, and work goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kue.model.draft import draft
from kue.model.errors import DurabilityUnknown, StoreError
from kue.model.job import Completed, Job, State
from kue.store.contract import Store
from kue.store.values import Claim, ClaimRequest, Outcome, RenewRequest, Result
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.sentinels import Replicated, Sentinels
from tests.support.jobs import add_many, count_of, get_one
from tests.support.patience import until
from tests.support.proxy import Fate, Proxy


@pytest.fixture
def sentinels(tmp_path: Path, pair: Replicated) -> Iterator[Sentinels]:
    sentinels = Sentinels(tmp_path, pair.master)
    yield sentinels
    sentinels.stop()


async def claim(store: Store, seq: int, *, worker: str = "w1") -> list[Job]:
    """Claim by the clock of the servers, because their fences are of it."""
    claimed = await store.claim(
        ClaimRequest(["email"], 10, worker=worker, claim=Claim("a", seq))
    )
    return claimed.jobs


@pytest.mark.usefixtures("patient")
async def test_work_goes_on_by_itself_after_a_failover(
    pair: Replicated, sentinels: Sentinels, new_store: NewStore
) -> None:
    store = new_store(sentinels.url, budget="30s")
    await store.add([draft("email")] * 30, producer="p", seq=1)
    before = await claim(store, 1)
    await store.add([draft("email")], producer="p", seq=2, durable=True)

    pair.master.kill()
    added, after = await asyncio.gather(
        store.add([draft("email")] * 5, producer="p", seq=3), claim(store, 2)
    )

    assert [one.id for one in added] == [32, 33, 34, 35, 36]
    assert [job.id for job in before + after] == list(range(1, 21))
    assert min(job.fence for job in after) > max(job.fence for job in before)
    words = await store.settle([Outcome(job, Completed(None)) for job in before])
    assert set(words) == {Result.DONE}
    await assert_sound(store)


async def test_a_sleeping_worker_wakes_on_the_new_master(
    pair: Replicated, sentinels: Sentinels, new_store: NewStore
) -> None:
    store = new_store(sentinels.url, budget="30s")
    await store.open()

    pair.master.kill()
    await store.add([draft("other")], producer="p", seq=1)
    sleeper = asyncio.create_task(store.wait(["email"], 30))
    await store.add([draft("email")], producer="p", seq=2)

    await asyncio.wait_for(sleeper, 50)
    await assert_sound(store)


async def test_a_sentinel_less_changes_nothing(
    pair: Replicated, sentinels: Sentinels, new_store: NewStore
) -> None:
    sentinels.stop_one()
    store = new_store(sentinels.url)

    await add_many(store, 3)

    assert await count_of(store) == {State.WAITING: 3}
    await assert_sound(store)


async def test_closing_lets_go_of_the_sentinels_too(
    pair: Replicated, sentinels: Sentinels, new_store: NewStore
) -> None:
    store = new_store(sentinels.url)
    await store.open()
    await store.renew(RenewRequest("w1"))
    assert sentinels.callers() != []

    await store.close()

    await until(lambda: not sentinels.callers())


async def test_fences_grow_across_a_failover_that_lost_the_last_claims(
    pair: Replicated, new_store: NewStore
) -> None:
    old = new_store(pair.master.url)
    await old.add([draft("email")] * 10, producer="p", seq=1)
    pair.promote()
    lost = await claim(old, 1, worker="zombie")
    pair.master.kill()

    store = new_store(pair.replica.url)
    again = await claim(store, 1, worker="w2")
    words = await store.settle([Outcome(job, Completed("late")) for job in lost])
    renewed = await store.renew(RenewRequest("zombie", runs=lost))

    assert [job.id for job in again] == [job.id for job in lost]
    assert min(job.fence for job in again) > max(job.fence for job in lost)
    assert set(words) == {Result.LOST}
    assert renewed.lost == [job.id for job in lost]
    assert await count_of(store) == {State.ACTIVE: 10}
    await assert_sound(store)


async def test_an_ending_lost_in_a_failover_can_be_said_again(
    pair: Replicated, new_store: NewStore
) -> None:
    old = new_store(pair.master.url)
    await old.add([draft("email")] * 10, producer="p", seq=1)
    running = await claim(old, 1)
    outcomes = [Outcome(job, Completed("fine")) for job in running]
    pair.promote()
    assert set(await old.settle(outcomes)) == {Result.DONE}
    pair.master.kill()

    store = new_store(pair.replica.url)
    words = await store.settle(outcomes)

    assert set(words) == {Result.DONE}
    assert await count_of(store) == {State.COMPLETE: 10}
    await assert_sound(store)


async def test_an_id_given_out_again_after_a_failover_is_another_job(
    pair: Replicated, new_store: NewStore
) -> None:
    old = new_store(pair.master.url)
    await old.open()
    pair.promote()
    [lost] = await old.add([draft("email")], producer="p", seq=1)
    first = await get_one(old, lost.id)
    pair.master.kill()

    store = new_store(pair.replica.url)
    [added] = await store.add([draft("email")], producer="q", seq=1)
    second = await get_one(store, added.id)

    assert added.id == lost.id
    assert first.address_id != second.address_id
    await assert_sound(store)


@pytest.mark.usefixtures("patient")
async def test_a_durable_add_is_confirmed_by_the_replica(
    pair: Replicated, new_store: NewStore
) -> None:
    old = new_store(pair.master.url, budget="60s")
    added = await old.add([draft("email")] * 5, producer="p", seq=1, durable=True)
    pair.master.kill()
    pair.promote()

    store = new_store(pair.replica.url)

    jobs = await store.get([one.id for one in added])
    assert all(jobs)
    await assert_sound(store)


async def test_a_durable_add_says_when_no_replica_confirmed_it(
    pair: Replicated, new_store: NewStore, request: pytest.FixtureRequest
) -> None:
    store = new_store(pair.master.url, budget="60s")
    await store.open()
    drafts = [draft("email")] * 5

    with (
        pair.replica.frozen(),
        pytest.raises(DurabilityUnknown, match="no replica confirmed") as caught,
    ):
        await store.add(drafts, producer="p", seq=1, durable=True)

    request.getfixturevalue("patient")
    added = await store.add(drafts, producer="p", seq=1, durable=True)
    assert [one.id for one in added] == caught.value.job_ids
    assert await count_of(store) == {State.WAITING: 5}
    await assert_sound(store)


async def test_a_durable_add_without_any_replica_says_so(
    pair: Replicated, new_store: NewStore
) -> None:
    store = new_store(pair.master.url)
    await store.open()
    pair.replica.kill()

    with pytest.raises(DurabilityUnknown):
        await store.add([draft("email")], producer="p", seq=1, durable=True)


async def test_a_durable_add_that_is_repeated_does_not_take_silence_for_consent(
    pair: Replicated, new_store: NewStore
) -> None:
    """The second connection wrote nothing; WAIT must not be satisfied by that."""
    async with Proxy(pair.master.port) as proxy:
        store = new_store(proxy.url)
        await store.open()
        proxy.plan(Fate.CUT_AFTER)
        with pair.replica.frozen(), pytest.raises(DurabilityUnknown):
            await store.add([draft("email")], producer="p", seq=1, durable=True)
        assert proxy.struck[Fate.CUT_AFTER] == 1
        await assert_sound(store)


async def test_sentinels_may_ask_for_a_password(
    sentinels: Sentinels, new_store: NewStore
) -> None:
    sentinels.protect("s3cret")
    refused = new_store(sentinels.url, budget="100ms")
    with pytest.raises(StoreError):
        await refused.open()

    store = new_store(f"{sentinels.url}?sentinel_password=s3cret")
    await store.add([draft("email")], producer="p", seq=1)

    assert await count_of(store) == {State.WAITING: 1}
    assert "s3cret" not in store.name
