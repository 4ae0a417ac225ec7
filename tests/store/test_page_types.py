"""Pages of one type among very many jobs of others."""

from __future__ import annotations

import pytest

from kue.model.job import State
from kue.store.contract import Store
from kue.store.redis import job_ids_of_type
from kue.store.values import Filter, PageRequest
from tests.support.hands import Hands
from tests.support.jobs import add_many, all_pages, job_in


async def scatter(store: Store, count: int, others: int) -> list[int]:
    """Add *count* jobs of type "rare" in all states, between jobs of another type."""
    ids: list[int] = []
    for number in range(count):
        if number % 10 == 0:
            await add_many(store, others * 10 // count, "usual")
        # Most states are reached by a claim, which takes the best of the type.
        state = list(State)[-1 - number % len(State)]
        ids.append(await job_in(store, state, "rare", priority=-number))
    return ids


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
async def test_a_page_of_a_type_has_all_its_states_by_id(
    store: Store, descending: bool
) -> None:
    ids = await scatter(store, 21, 210)

    page = await store.page(PageRequest(type="rare", limit=100, descending=descending))
    found = await store.find(
        Filter(type="rare"), limit=100, scan=50, descending=descending
    )

    assert [job.id for job in page.jobs] == sorted(ids, reverse=descending)
    assert page.cursor is None
    assert (found.jobs, found.cursor) == (page.jobs, None)


@pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True)
async def test_a_rare_type_is_found_at_once_among_very_many(
    store: Store, hands: Hands
) -> None:
    """Friction 1: an empty list under "all 33.3K", and 48 clicks on "Search on"."""
    ids = await scatter(store, 50, 30_000)

    before = hands.commands()
    page = await store.page(PageRequest(type="rare", limit=100))

    assert [job.id for job in page.jobs] == sorted(ids)
    # Some 60 for the indexes, and those of get.lua for each job that is of the type.
    assert hands.commands() - before < 60 + 20 * len(ids)


@pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True)
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
async def test_a_type_with_very_many_jobs_is_read_page_by_page(
    store: Store, descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ids are too many to sort; the walk over all of them is bounded."""
    monkeypatch.setattr(job_ids_of_type, "FEW", 20)
    monkeypatch.setattr(job_ids_of_type, "MANY", 20)
    monkeypatch.setattr(job_ids_of_type, "MAX_PASSED", 100)
    ids = await scatter(store, 42, 2_000)
    request = PageRequest(type="rare", limit=10, descending=descending)

    pages = await all_pages(store, request)

    found = [job.id for page in pages for job in page.jobs]
    assert found == sorted(ids, reverse=descending)
    assert len(pages) > len(ids) / 10
    [job] = (await store.page(PageRequest(type="rare", limit=1, skip=40))).jobs
    assert job.id == sorted(ids)[40]


@pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True)
async def test_a_page_of_a_type_is_full_however_far_away_its_jobs_are(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ids are all read when those of other types come first."""
    monkeypatch.setattr(job_ids_of_type, "FEW", 20)
    monkeypatch.setattr(job_ids_of_type, "MAX_PASSED_FIRST", 100)
    old = await add_many(store, 30, "rare")
    await add_many(store, 2_000, "usual")
    new = await add_many(store, 10, "rare")
    request = PageRequest(type="rare", limit=20, descending=True)

    pages = await all_pages(store, request)

    assert [len(page.jobs) for page in pages] == [20, 20]
    found = [job.id for page in pages for job in page.jobs]
    assert found == sorted(old + new, reverse=True)
