"""`Store.add`: what becomes of drafts.  Keys and repeats have files of their own."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from kue.model.backoff import exponential, listed
from kue.model.draft import draft
from kue.model.errors import DurabilityUnknown
from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, Added
from tests.support.engines import Engine
from tests.support.jobs import SECOND, T0, add, add_many, add_one, count_of, get_one


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


async def test_a_draft_becomes_a_waiting_job(store: Store) -> None:
    [added] = await add(store, [draft("email", {"to": "a@b.c"})])

    job = await get_one(store, added.id)
    assert added == Added(job.id, new=True, created_at=job.created_at)
    assert (job.state, job.type, job.priority) == (State.WAITING, "email", 0)
    assert job.data == {"to": "a@b.c"}
    assert (job.created_at, job.updated_at) == (T0, T0)
    assert (job.attempts, job.max_attempts, job.stalls) == (0, 1, 0)
    assert (job.token, job.run, job.fence, job.worker) == ("", None, 0, None)
    assert (job.history, job.result, job.error, job.duration) == ((), None, None, None)
    assert (job.started_at, job.ended_at, job.failed_at) == (None, None, None)
    assert (job.promote_at, job.progress, job.progress_data) == (None, 0, None)
    assert (job.cancelling, job.held) == (False, "")


async def test_ids_count_from_one_where_there_is_one_shard(
    store: Store, engine: Engine
) -> None:
    if engine.shards > 1:
        ids = await add_many(store, 3)
        assert all(b - a == engine.shards for a, b in itertools.pairwise(ids))
        return

    first = await add(store, [draft("email"), draft("sms"), draft("email")])
    second = await add(store, [draft("video")])

    assert [added.id for added in first + second] == [1, 2, 3, 4]


async def test_ids_of_a_type_grow_in_the_order_given(store: Store) -> None:
    ids = await add_many(store, 120) + await add_many(store, 3, priority="high")

    assert ids == sorted(ids)
    assert len(set(ids)) == 123
    jobs = await store.get(ids)
    assert [job.data["i"] for job in jobs if job] == [*range(120), 0, 1, 2]


async def test_answers_come_in_the_order_asked_whatever_the_types(store: Store) -> None:
    types = ["email", "sms", "video", "email", "report", "sms", "page", "email"]
    added = await add(store, [draft(type, n) for n, type in enumerate(types)])

    jobs = await store.get([answer.id for answer in added])
    assert [(job.type, job.data) for job in jobs if job] == [
        (type, n) for n, type in enumerate(types)
    ]


async def test_no_two_jobs_of_any_types_have_the_same_id(store: Store) -> None:
    types = [f"type {n % 17}" for n in range(170)]
    added = await add(store, [draft(type) for type in types])

    assert len({answer.id for answer in added}) == 170


async def test_a_delay_makes_a_job_delayed_until_then(store: Store) -> None:
    job = await get_one(store, await add_one(store, delay="10m"))

    assert job.state is State.DELAYED
    assert job.promote_at == T0 + 600 * SECOND
    assert job.spec.delay == 600 * SECOND


async def test_a_moment_in_the_future_makes_a_job_delayed(store: Store) -> None:
    job = await get_one(store, await add_one(store, at=moment(T0 + 1)))

    assert (job.state, job.promote_at) == (State.DELAYED, T0 + 1)


@pytest.mark.parametrize("ms", [T0, T0 - 1, 1], ids=["now", "just past", "1970"])
async def test_a_moment_that_is_not_in_the_future_makes_it_wait(
    store: Store, ms: int
) -> None:
    job = await get_one(store, await add_one(store, at=moment(ms)))

    assert (job.state, job.promote_at) == (State.WAITING, None)


async def test_everything_asked_for_is_kept(store: Store) -> None:
    """D-28: what a worker reads is what was written, of the same type."""
    parent = await add_one(store, "parent")
    job_id = await add_one(
        store,
        data={"n": 1},
        priority=-7,
        delay=5,
        attempts=4,
        backoff=exponential("1s", max="1m", jitter=0.5),
        timeout="30s",
        ttl="20s",
        expires="1d",
        unique="the one",
        unique_for="2h",
        group="customer 7",
        tags=["mail", "slow"],
        parent=parent,
        remove_on_complete=True,
        retention="3d",
        delivery="at-most-once",
        meta={"trace": "00-ab"},
        address_id="3f2b7c1e-8a44-4e0b-9d0a-2f6f6f1f0a11",
    )

    job = await get_one(store, job_id)
    spec = job.spec
    assert (job.priority, job.unique, job.unique_for) == (-7, "the one", 7_200_000)
    assert (job.group, job.ttl, job.expires) == ("customer 7", 20_000, 86_400_000)
    assert (job.once, job.after_any) == (True, False)
    assert (spec.delay, spec.max_attempts, spec.timeout) == (5_000, 4, 30_000)
    assert spec.backoff == exponential("1s", max="1m", jitter=0.5)
    assert (spec.tags, spec.parent) == (("mail", "slow"), parent)
    assert (spec.remove_on_complete, spec.retention) == (True, 259_200_000)
    assert spec.meta == {"trace": "00-ab"}
    assert job.address_id == "3f2b7c1e-8a44-4e0b-9d0a-2f6f6f1f0a11"
    assert job.expires_at == T0 + 86_400_000


async def test_what_was_left_out_has_its_default(store: Store) -> None:
    plain = draft("email")
    job = await get_one(store, await add_one(store))

    assert (job.unique, job.unique_for, job.group) == (None, 0, None)
    assert (job.ttl, job.expires, job.once, job.after_any) == (0, 0, False, False)
    assert job.spec == plain.spec.__class__()


async def test_a_list_of_backoffs_comes_back_as_a_list(store: Store) -> None:
    job = await get_one(store, await add_one(store, backoff=["1s", "5s"]))

    assert job.spec.backoff == listed("1s", "5s")


async def test_two_jobs_have_different_addresses(store: Store) -> None:
    """D-16: nobody listens at an address that two jobs share."""
    first, second = await store.get(await add_many(store, 2))

    assert first is not None
    assert second is not None
    assert first.address_id != second.address_id


async def test_an_address_stays_the_same_for_ever(store: Store) -> None:
    job_id = await add_one(store)

    assert (await get_one(store, job_id)).address_id == (
        await get_one(store, job_id)
    ).address_id


async def test_a_full_batch_is_taken(store: Store) -> None:
    added = await add(store, [draft("email", n) for n in range(MAX_BATCH)])

    assert len(added) == MAX_BATCH
    assert await count_of(store) == {State.WAITING: MAX_BATCH}


async def test_more_than_a_batch_is_refused_and_nothing_is_added(store: Store) -> None:
    with pytest.raises(ValueError, match="at most 500"):
        await add(store, [draft("email")] * (MAX_BATCH + 1))

    assert await store.types() == []


async def test_no_drafts_are_no_jobs(store: Store) -> None:
    assert await add(store, []) == []
    assert await store.count() == {}


async def test_a_durable_add_is_stored_confirmed_or_not(store: Store) -> None:
    """A lone server has no replica to confirm; the jobs are there all the same."""
    try:
        added = await store.add(
            [draft("email"), draft("sms")], producer="p", seq=1, durable=True, now=T0
        )
        ids = [answer.id for answer in added]
    except DurabilityUnknown as unknown:
        ids = unknown.job_ids

    assert len(ids) == 2
    assert None not in await store.get(ids)


async def test_the_engine_reads_its_own_clock_when_none_is_given(store: Store) -> None:
    """So that nobody compares the clocks of two hosts."""
    before = await store.now()
    [added] = await store.add([draft("email")], producer="p", seq=1)
    after = await store.now()

    job = await get_one(store, added.id)
    assert before <= job.created_at <= after
