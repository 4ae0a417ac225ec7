"""Pages over many jobs that share one place in the order."""

from __future__ import annotations

import random

import pytest

from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import PageRequest, RemoveRequest
from tests.support.jobs import HOUR, T0, add_many, all_ids

#: More than a script reads at a time; ids of one to four digits.
MANY = 1_400


async def leaf(
    store: Store, *, limit: int, descending: bool, job_type: str | None = "email"
) -> list[int]:
    request = PageRequest(State.DELAYED, job_type, limit, descending=descending)
    return await all_ids(store, request)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [90, 500])
async def test_jobs_due_at_the_same_moment_are_each_on_one_page(
    store: Store, descending: bool, limit: int
) -> None:
    ids = await add_many(store, MANY, delay=HOUR // 1000, now=T0)

    found = await leaf(store, limit=limit, descending=descending)

    assert found == sorted(ids, reverse=descending)


@pytest.mark.parametrize("descending", [False, True])
async def test_gaps_between_them_do_not_matter(store: Store, descending: bool) -> None:
    ids = await add_many(store, 2 * MANY, delay=HOUR // 1000, now=T0)
    gone = random.Random(7).sample(ids, MANY - 200)
    for start in range(0, len(gone), 500):
        await store.remove(RemoveRequest(gone[start : start + 500]), now=T0)

    found = await leaf(store, limit=130, descending=descending)

    assert found == sorted(set(ids) - set(gone), reverse=descending)


async def test_those_before_and_after_the_moment_are_in_their_places(
    store: Store,
) -> None:
    soon = await add_many(store, 3, delay=60, now=T0)
    same = await add_many(store, MANY, delay=3600, now=T0)
    late = await add_many(store, 3, delay=7200, now=T0)

    assert await leaf(store, limit=500, descending=False) == soon + same + late
    assert await leaf(store, limit=500, descending=True) == (soon + same + late)[::-1]


@pytest.mark.parametrize("descending", [False, True])
async def test_types_share_the_order_of_ids(store: Store, descending: bool) -> None:
    ids: list[int] = []
    for turn in range(8):
        ids += await add_many(store, 40, f"type-{turn % 2}", delay=60, now=T0)

    found = await leaf(store, limit=90, descending=descending, job_type=None)

    assert found == sorted(ids, reverse=descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("needles", [(), ("a word",)])
async def test_none_is_passed_over_when_those_seen_leave_between_pages(
    store: Store, descending: bool, needles: tuple[str, ...]
) -> None:
    """Others become so few that scripts read them in another way."""
    ids = await add_many(store, 1_200, delay=3600, now=T0, tags=["a word"])
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        request = PageRequest(
            State.DELAYED,
            "email",
            500,
            cursor=cursor or None,
            descending=descending,
            needles=needles,
            scan=500,
        )
        page = await store.page(request)
        here = [job.id for job in page.jobs]
        await store.remove(RemoveRequest(here), now=T0)
        seen += here
        cursor = page.cursor

    assert seen == sorted(ids, reverse=descending)
