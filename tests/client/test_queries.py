"""Looking at a queue: counts, ranges, pages, searches."""

from __future__ import annotations

import pytest

from kue import JobNotFound, Kue, State
from kue.model.job import Completed, Failed
from kue.store.contract import Store
from tests.support.jobs import OOPS, claim_one, end


async def one_in_each_state(q: Kue, store: Store) -> None:
    """Leave five jobs of type email, and one of another type."""
    now = await store.now()
    for ending in (Completed("fine"), Failed(OOPS)):
        await q.enqueue("email")
        await end(store, await claim_one(store, now=now), ending, now=now)
    await q.enqueue("email")
    await claim_one(store, now=now)
    await q.enqueue("email", {"to": "Ann"}, tags=["vip"])
    await q.enqueue("email", delay="1h")
    await q.enqueue("report")


async def test_a_job_is_found_by_its_id(q: Kue) -> None:
    saved = await q.enqueue("email", {"to": "a@b.c"})

    handle = await q.get(saved.id)

    assert handle.job is not None
    assert (handle.id, handle.type, handle.job.data) == (
        saved.id,
        "email",
        {"to": "a@b.c"},
    )


async def test_a_job_that_does_not_exist_is_not_found(q: Kue) -> None:
    with pytest.raises(JobNotFound, match="job 404 does not exist"):
        await q.get(404)
    assert not await q.exists(404)


async def test_counts_are_in_all_and_by_type(q: Kue, kue_store: Store) -> None:
    await one_in_each_state(q, kue_store)

    assert await q.counts() == {
        State.WAITING: 2,
        State.ACTIVE: 1,
        State.DELAYED: 1,
        State.COMPLETE: 1,
        State.FAILED: 1,
        State.CANCELLED: 0,
        State.BLOCKED: 0,
    }
    assert (await q.counts("report"))[State.WAITING] == 1
    assert sum((await q.counts("nobody's")).values()) == 0
    assert (await q.counts_by_type())["email"][State.ACTIVE] == 1


async def test_kues_names_for_counts(q: Kue, kue_store: Store) -> None:
    await one_in_each_state(q, kue_store)

    assert await q.inactive_count() == 2
    assert await q.inactive_count("email") == 1
    assert await q.active_count() == 1
    assert await q.delayed_count("report") == 0
    assert await q.complete_count() == 1
    assert await q.failed_count() == 1
    assert await q.count("inactive") == await q.count(State.WAITING) == 2


async def test_an_unknown_state_is_refused_with_the_known_ones(q: Kue) -> None:
    for verb in (q.count("bogus"), q.page("bogus"), q.find(state="bogus")):
        with pytest.raises(ValueError, match="'bogus' is unknown; there are waiting, "):
            await verb


async def test_types_are_all_that_ever_were(q: Kue, kue_store: Store) -> None:
    await one_in_each_state(q, kue_store)

    assert await q.types() == ["email", "report"]


async def test_a_range_includes_both_ends(q: Kue) -> None:
    handles = await q.enqueue_many("email", range(10))
    ids = [handle.id for handle in handles]

    assert [job.id for job in await q.range(0, 0)] == ids[:1]
    assert [job.id for job in await q.range(2, 4)] == ids[2:5]
    assert [job.id for job in await q.range(8, 99)] == ids[8:]
    assert [job.id for job in await q.range(50, 60)] == []
    assert [job.id for job in await q.range(0, -1)] == ids
    assert [job.id for job in await q.range(0, 2, "desc")] == ids[:-4:-1]


async def test_a_range_can_be_longer_than_a_page_of_the_store(q: Kue) -> None:
    handles = await q.enqueue_many("email", range(1_100))

    jobs = await q.range(50, 1_049)

    assert [job.id for job in jobs] == [handle.id for handle in handles[50:1_050]]


async def test_jobs_are_counted_and_listed_by_state_and_type(
    q: Kue, kue_store: Store
) -> None:
    await one_in_each_state(q, kue_store)

    [failed] = await q.range(0, -1, state="failed")
    waiting = await q.range(0, -1, state="inactive", type="email")
    page = await q.page("waiting", "email")

    assert failed.state is State.FAILED
    assert [job.data for job in waiting] == [{"to": "Ann"}]
    assert [job.id for job in page.jobs] == [job.id for job in waiting]
    assert await q.count("waiting") == 2
    assert await q.count("waiting", "email") == 1
    assert await q.types() == ["email", "report"]


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (5, 4), (0, -2)])
async def test_a_range_that_makes_no_sense_is_refused(
    q: Kue, first: int, last: int
) -> None:
    with pytest.raises(ValueError, match=f"{first} to {last}"):
        await q.range(first, last)


async def test_an_order_that_makes_no_sense_is_refused(q: Kue) -> None:
    with pytest.raises(ValueError, match="order is 'asc' or 'desc', not 'up'"):
        await q.range(0, 1, "up")  # type: ignore[arg-type]


async def test_pages_follow_each_other(q: Kue) -> None:
    handles = await q.enqueue_many("email", range(5))

    first = await q.page(limit=3)
    second = await q.page(limit=3, cursor=first.cursor)

    ids = [job.id for job in [*first.jobs, *second.jobs]]
    assert ids == [handle.id for handle in handles]


async def test_jobs_are_found_by_what_they_are(q: Kue, kue_store: Store) -> None:
    await one_in_each_state(q, kue_store)

    by_text = await q.find(text="ann")
    by_tag = await q.find(tag="vip", type="email", state="waiting")
    by_error = await q.find(error="OOPS")

    assert [job.data for job in by_text.jobs] == [{"to": "Ann"}]
    assert by_tag.jobs == by_text.jobs
    assert [job.state for job in by_error.jobs] == [State.FAILED]


async def test_work_time_is_that_of_successful_runs_or_of_the_last_minutes(
    q: Kue, kue_store: Store
) -> None:
    assert await q.work_time() == 0
    started = await kue_store.now() - 90_000
    for seconds, ending in ((2, Completed()), (3, Completed()), (5, Failed(OOPS))):
        await q.enqueue("email")
        job = await claim_one(kue_store, now=started)
        await end(kue_store, job, ending, now=started + seconds * 1000)

    assert await q.work_time() == 5_000
    assert await q.work_time("24h") == 10_000
    assert await q.work_time(0) == 0
    with pytest.raises(ValueError, match="within must be at most 24 hours"):
        await q.work_time("25h")
