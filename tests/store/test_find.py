"""`Store.find` and `Filter`: what matches, page by page, in bounded steps."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.job import Error, Failed, State
from kue.store.contract import Store
from kue.store.values import Filter
from tests.support.jobs import T0, add_many, add_one, end, job_in, start_one

BOOM = Error("ConnectionError", "Server näher at 10.0.0.1 refused", "Traceback …")


async def found(store: Store, **wanted: Any) -> list[int]:
    return [job.id for job in (await store.find(Filter(**wanted))).jobs]


async def leaf(store: Store, wanted: Filter, **options: Any) -> list[int]:
    ids: list[int] = []
    cursor = None
    for _ in range(1000):
        page = await store.find(wanted, cursor=cursor, **options)
        ids += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return ids
    raise AssertionError("find never came to an end")


async def test_a_filter_that_asks_for_nothing_finds_everything(store: Store) -> None:
    ids = [
        await job_in(store, state, "email") for state in (State.FAILED, State.ACTIVE)
    ]
    ids.append(await add_one(store, "sms"))

    assert sorted(await found(store)) == sorted(ids)


async def test_jobs_are_found_by_type_and_state(store: Store) -> None:
    failed = await job_in(store, State.FAILED, "email")
    await job_in(store, State.FAILED, "sms")
    await job_in(store, State.COMPLETE, "email")

    assert await found(store, type="email", state=State.FAILED) == [failed]


async def test_jobs_are_found_by_tag(store: Store) -> None:
    tagged = await add_one(store, tags=["slow", "mail"])
    await add_one(store, tags=["slower"])

    assert await found(store, tag="slow") == [tagged]


@pytest.mark.parametrize("text", ["hello", "HELLO", "llo W", "größe", '"n":1', "🚀"])
async def test_jobs_are_found_by_what_their_data_says(store: Store, text: str) -> None:
    job_id = await add_one(store, data={"t": "Hello World", "n": 1, "Größe": "🚀"})
    await add_one(store, data={"t": "goodbye"})

    assert await found(store, text=text) == [job_id]


@pytest.mark.parametrize("error", ["connection", "REFUSED", "Error: server", "NÄHER"])
async def test_jobs_are_found_by_their_last_error(store: Store, error: str) -> None:
    job = await start_one(store)
    await end(store, job, Failed(BOOM))
    await job_in(store, State.FAILED)
    await job_in(store, State.COMPLETE)

    assert await found(store, error=error) == [job.id]


async def test_jobs_are_found_by_when_they_were_made(store: Store) -> None:
    ids = [await add_one(store, now=T0 + number) for number in range(5)]

    assert await found(store, since=T0 + 3) == ids[3:]
    assert await found(store, until=T0 + 2) == ids[:2]
    assert await found(store, since=T0 + 1, until=T0 + 3) == ids[1:3]


async def test_everything_that_is_given_must_match(store: Store) -> None:
    await add_one(store, data="a", tags=["x"])
    both = await add_one(store, data="b", tags=["x"])
    await add_one(store, data="b", tags=["y"])

    assert await found(store, text="b", tag="x") == [both]


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("limit", [1, 3, 7, 50])
async def test_what_is_found_comes_in_the_order_of_pages(
    store: Store, limit: int, descending: bool
) -> None:
    wanted = []
    for number in range(30):
        tags = ["odd"] if number % 2 else []
        type = ["email", "sms", "video"][number % 3]
        job_id = await add_one(store, type, priority=(number * 7) % 4, tags=tags)
        if number % 2:
            wanted.append(((number * 7) % 4, job_id))
    expected = [job_id for _, job_id in sorted(wanted, reverse=descending)]

    got = await leaf(
        store,
        Filter(state=State.WAITING, tag="odd"),
        limit=limit,
        descending=descending,
    )

    assert got == expected


async def test_a_search_looks_at_so_many_jobs_and_goes_on_from_there(
    store: Store,
) -> None:
    """A page may be empty and still not be the last."""
    ids = await add_many(store, 1200)
    needle = await add_one(store, tags=["needle"])

    first = await store.find(Filter(tag="needle"), scan=500)

    assert first.jobs == []
    assert first.cursor is not None
    assert await leaf(store, Filter(tag="needle"), scan=500) == [needle]
    assert needle > ids[-1]


async def test_a_full_page_at_the_very_end_has_no_cursor(store: Store) -> None:
    await add_many(store, 3, tags=["t"])

    assert (await store.find(Filter(tag="t"), limit=3)).cursor is None
    assert (await store.find(Filter(tag="t"), limit=2)).cursor is not None


async def test_nothing_found_is_an_empty_page(store: Store) -> None:
    await add_many(store, 3)
    page = await store.find(Filter(tag="nowhere"))

    assert (page.jobs, page.cursor) == ([], None)


async def test_a_cursor_of_ones_own_making_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="cursor"):
        await store.find(Filter(tag="t"), cursor="here")
