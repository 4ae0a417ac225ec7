"""Large jobs: a call is bounded by bytes as well as by number, and loses nothing."""

from __future__ import annotations

import asyncio

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, Draft, Job, State
from kue.store.batches import bytes_of_job
from kue.store.contract import Store
from kue.store.values import (
    MAX_CALL_BYTES,
    MAX_PAGE_BYTES,
    Claim,
    ClaimRequest,
    Filter,
    Outcome,
    PageRequest,
    Result,
)
from tests.support.hands import Hands
from tests.support.jobs import T0, add, all_pages, claim, count_of

LARGE = 200_000
COUNT = 45


def drafts(count: int = COUNT) -> list[Draft]:
    return [draft("email", {"i": i, "text": "x" * LARGE}) for i in range(count)]


def numbers(jobs: list[Job]) -> list[int]:
    return [job.data["i"] for job in jobs]


async def test_a_batch_of_large_drafts_is_added_whole_and_in_order(
    store: Store,
) -> None:
    """R-7: 500 payloads of 256 KiB were one script of half a second."""
    added = await add(store, drafts())

    ids = [one.id for one in added]
    assert ids == sorted(set(ids))
    jobs = await store.get(ids)
    assert numbers([job for job in jobs if job]) == list(range(COUNT))


async def test_a_batch_of_large_drafts_said_again_adds_nothing(store: Store) -> None:
    first = await store.add(drafts(), producer="p", seq=1, now=T0)

    again = await store.add(drafts(), producer="p", seq=1, now=T0)

    assert again == first
    assert await count_of(store) == {State.WAITING: COUNT}


async def test_a_small_call_after_a_large_one_adds(store: Store) -> None:
    await store.add(drafts(), producer="p", seq=1, now=T0)
    await store.add(drafts(2), producer="p", seq=2, now=T0)
    await store.add(drafts(20), producer="p", seq=3, now=T0)

    assert await count_of(store) == {State.WAITING: COUNT + 22}
    with pytest.raises(ValueError, match=r"seq|call"):
        await store.add(drafts(), producer="p", seq=1, now=T0)
    assert await count_of(store) == {State.WAITING: COUNT + 22}


async def test_a_large_call_that_was_cut_off_is_completed_by_the_same_call(
    store: Store, other_store: Store
) -> None:
    """Whatever of it was stored: each draft becomes one job."""
    adding = asyncio.create_task(store.add(drafts(), producer="p", seq=1, now=T0))
    while not adding.done():
        if await count_of(other_store):
            break
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)

    added = await store.add(drafts(), producer="p", seq=1, now=T0)

    assert await count_of(store) == {State.WAITING: COUNT}
    jobs = await store.get([one.id for one in added])
    assert numbers([job for job in jobs if job]) == list(range(COUNT))


async def test_a_unique_key_holds_across_the_parts_of_a_call(store: Store) -> None:
    many = [draft("email", "x" * LARGE, unique=f"k{i % 2}") for i in range(20)]

    added = await add(store, many)

    assert [one.new for one in added] == [True, True] + [False] * 18
    assert {one.id for one in added} == {added[0].id, added[1].id}


async def test_jobs_with_very_many_parents_are_added_in_parts(store: Store) -> None:
    parents = [one.id for one in await add(store, [draft("email")] * 400)]
    many = [draft("email", {"i": i}, after=parents) for i in range(10)]

    added = await add(store, many)

    jobs = await store.get([one.id for one in added])
    assert numbers([job for job in jobs if job]) == list(range(10))
    assert {job.state for job in jobs if job} == {State.BLOCKED}


async def test_a_claim_takes_a_part_of_large_jobs_and_leaves_the_rest(
    store: Store,
) -> None:
    await add(store, drafts())
    found: list[int] = []
    claims = 0

    while len(found) < COUNT:
        jobs = await claim(store, limit=COUNT)
        assert jobs, "it takes one at least"
        found += numbers(jobs)
        claims += 1

    assert found == list(range(COUNT))
    assert claims > 1


async def test_large_results_are_settled_in_parts(store: Store) -> None:
    await add(store, [draft("email", {"i": i}) for i in range(100)])
    jobs = await claim(store, limit=100)
    outcomes = [Outcome(job, Completed("y" * 60_000)) for job in jobs]

    words, claimed = await store.cycle(
        outcomes,
        ClaimRequest(["email"], 1, worker="w1", claim=Claim("lane", 1)),
        now=T0,
    )

    assert words == [Result.DONE] * 100
    assert claimed.jobs == []
    assert set(await store.settle(outcomes, now=T0)) == {Result.ALREADY}
    done = await store.get([job.id for job in jobs])
    assert {job.result for job in done if job} == {"y" * 60_000}


@pytest.mark.parametrize("state", [None, State.WAITING])
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
async def test_a_page_ends_at_some_bytes_and_goes_on(
    store: Store, state: State | None, descending: bool
) -> None:
    """S-2: pages were bounded by number, and one of 200 had 50 MB."""
    await add(store, drafts())

    request = PageRequest(state, limit=200, descending=descending)
    pages = await all_pages(store, request)

    assert len(pages) > 1
    for page in pages:
        size = sum(map(bytes_of_job, page.jobs))
        assert 0 < size < MAX_PAGE_BYTES + 2 * MAX_CALL_BYTES
    found = numbers([job for page in pages for job in page.jobs])
    assert found == sorted(range(COUNT), reverse=descending)


async def test_what_is_found_ends_at_some_bytes_and_goes_on(store: Store) -> None:
    await add(store, drafts())

    pages = [await store.find(Filter(text="xx"), limit=200)]
    while (cursor := pages[-1].cursor) is not None:
        pages.append(await store.find(Filter(text="xx"), limit=200, cursor=cursor))

    assert len(pages) > 1
    for page in pages:
        size = sum(map(bytes_of_job, page.jobs))
        assert 0 < size < MAX_PAGE_BYTES + 2 * MAX_CALL_BYTES
    assert numbers([job for page in pages for job in page.jobs]) == list(range(COUNT))


@pytest.mark.parametrize("engine", ["redis"], indirect=True)
async def test_no_script_carries_more_than_some_bytes(
    store: Store, hands: Hands
) -> None:
    """R-7: as many calls as there are megabytes."""
    megabytes = COUNT * LARGE // MAX_CALL_BYTES
    before = hands.scripts()
    added = await add(store, drafts())
    assert hands.scripts() - before >= megabytes

    before = hands.scripts()
    await store.get([one.id for one in added])
    assert hands.scripts() - before >= megabytes / 2
