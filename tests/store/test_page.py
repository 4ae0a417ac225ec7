"""`Store.page` and `Store.get`: D-34, ordered, whole, and steady under change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kue.model.job import Completed, Failed, Job, State
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    MoveRequest,
    PageRequest,
    RemoveRequest,
    sort_key,
)
from tests.support.jobs import (
    MINUTE,
    OOPS,
    T0,
    add_many,
    add_one,
    all_ids,
    claim_one,
    end,
    job_in,
    start_one,
)
from tests.support.patience import PATIENCE_SECONDS

TYPES = ["email", "sms", "video", "report"]
FINISHED = [State.COMPLETE, State.FAILED, State.CANCELLED]


async def leaf(
    store: Store, state: State | None = None, type: str | None = None, **options: Any
) -> list[int]:
    return await all_ids(store, PageRequest(state, type, **options))


def in_order(jobs: list[Job], state: State | None) -> list[int]:
    ordered = sorted(jobs, key=lambda job: (sort_key(job, state), job.id))
    return [job.id for job in ordered]


async def fill(store: Store, state: State) -> list[int]:
    """Bring 20 jobs of several types into *state*, in no order of time or priority."""
    ids = []
    for number in range(20):
        options: dict[str, Any] = {"priority": (number * 7) % 5}
        if state is State.DELAYED:
            options["delay"] = 60 + (number * 13) % 9
        now = T0 + (number * 11) % 6 if state in FINISHED else T0
        ids.append(await job_in(store, state, TYPES[number % 4], now=now, **options))
    return ids


@pytest.mark.parametrize("state", list(State))
async def test_pages_of_a_state_are_in_its_order(store: Store, state: State) -> None:
    """D-35 for delayed: by the time they are due, whatever their priority."""
    ids = await fill(store, state)
    jobs = [job for job in await store.get(ids) if job]
    expected = in_order(jobs, state)

    for limit in (1, 7, 50):
        assert await leaf(store, state, limit=limit) == expected
        down = await leaf(store, state, limit=limit, descending=True)
        assert down == expected[::-1]


@pytest.mark.parametrize("state", list(State))
async def test_pages_of_a_type_are_in_its_order(store: Store, state: State) -> None:
    ids = await fill(store, state)
    jobs = [job for job in await store.get(ids) if job and job.type == "sms"]
    expected = in_order(jobs, state)

    assert len(expected) == 5
    assert await leaf(store, state, "sms", limit=2) == expected
    down = await leaf(store, state, "sms", limit=2, descending=True)
    assert down == expected[::-1]


async def test_pages_of_all_states_are_in_the_order_of_ids(store: Store) -> None:
    for number, state in enumerate(State):
        # Each is ahead of those before it, so that it is the one to be started.
        await job_in(store, state, "email", priority=-number)
        await job_in(store, state, "sms", priority=-number)

    # Blocked ones bring a parent each.
    for type, jobs in ((None, 2 * len(State) + 2), ("email", len(State))):
        ids = await leaf(store, None, type, limit=4)
        assert ids == sorted(ids)
        assert len(ids) == jobs
        assert await leaf(store, None, type, limit=4, descending=True) == ids[::-1]


async def test_a_page_shows_jobs_as_get_does(store: Store) -> None:
    for state in State:
        await job_in(store, state, str(state))
    page = await store.page(PageRequest())

    assert page.jobs == await store.get([job.id for job in page.jobs])


async def test_the_last_page_has_no_cursor(store: Store) -> None:
    await add_many(store, 4)

    assert (await store.page(PageRequest(State.WAITING, limit=5))).cursor is None
    first = await store.page(PageRequest(State.WAITING, limit=3))
    assert first.cursor is not None
    assert (
        await store.page(PageRequest(State.WAITING, limit=3, cursor=first.cursor))
    ).cursor is None


async def test_an_empty_store_has_one_empty_page(store: Store) -> None:
    page = await store.page(PageRequest())
    assert (page.jobs, page.cursor) == ([], None)
    page = await store.page(PageRequest(State.FAILED, "nothing"))
    assert (page.jobs, page.cursor) == ([], None)


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("state", [State.WAITING, None], ids=["waiting", "all"])
async def test_the_first_ones_may_be_skipped(
    store: Store, state: State | None, descending: bool
) -> None:
    for type in TYPES:
        await add_many(store, 5, type)
    everything = await leaf(store, state, descending=descending)

    for skip in (0, 1, 7, 19, 20, 99):
        page = await store.page(
            PageRequest(state, skip=skip, limit=4, descending=descending)
        )
        assert [job.id for job in page.jobs] == everything[skip : skip + 4]
        rest = await leaf(store, state, skip=skip, descending=descending)
        assert rest == everything[skip:]


async def test_a_cursor_of_ones_own_making_is_refused(store: Store) -> None:
    for cursor in ("", "x", "1", "1:x", "x:1", "1:2:3", "%"):
        with pytest.raises(ValueError, match="cursor"):
            await store.page(PageRequest(cursor=cursor))


async def test_a_page_has_a_size(store: Store) -> None:
    for limit in (-1, MAX_BATCH + 1):
        with pytest.raises(ValueError, match="limit"):
            await store.page(PageRequest(limit=limit))


async def test_a_large_page_is_one_call(store: Store) -> None:
    ids = await add_many(store, MAX_BATCH + 3)

    page = await store.page(PageRequest(State.WAITING, limit=MAX_BATCH))

    assert [job.id for job in page.jobs] == ids[:MAX_BATCH]


async def test_a_job_that_stays_is_on_exactly_one_page(store: Store) -> None:
    """Others come, go, start and end while the pages are turned."""
    stay: dict[int, int] = {}
    go: list[int] = []
    for number in range(40):
        job_id = await add_one(store, TYPES[number % 4], priority=number % 3)
        if number % 2:
            stay[job_id] = number % 3
        else:
            go.append(job_id)
    seen: list[int] = []
    cursor = None
    while True:
        page = await store.page(PageRequest(State.WAITING, limit=5, cursor=cursor))
        seen += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
        await store.remove(RemoveRequest(go[:2]), now=T0)
        await store.cancel(go[2:3], now=T0)
        del go[:3]
        await add_one(store, TYPES[len(seen) % 4], priority=-5)

    expected = sorted(stay, key=lambda job_id: (stay[job_id], job_id))
    assert [job_id for job_id in seen if job_id in stay] == expected
    assert len(seen) == len(set(seen))


async def test_a_page_goes_on_though_its_last_job_is_gone(store: Store) -> None:
    ids = await add_many(store, 6)
    page = await store.page(PageRequest(State.WAITING, limit=3))
    await store.remove(RemoveRequest(ids[:4]), now=T0)

    rest = await store.page(PageRequest(State.WAITING, limit=3, cursor=page.cursor))

    assert [job.id for job in rest.jobs] == ids[4:]


async def test_ended_jobs_are_in_the_order_they_ended(store: Store) -> None:
    first = await start_one(store, "email")
    second = await start_one(store, "sms")
    await end(store, second, Completed(), now=T0 + 1)
    await end(store, first, Completed(), now=T0 + 2)

    assert await leaf(store, State.COMPLETE) == [second.id, first.id]


async def test_a_job_that_failed_again_is_where_it_failed_last(store: Store) -> None:
    first = await start_one(store)
    await end(store, first, Failed(OOPS), now=T0 + 1)
    second = await start_one(store, now=T0 + 2)
    await end(store, second, Failed(OOPS), now=T0 + 2)
    await store.move(MoveRequest([first.id], State.WAITING), now=T0 + 3)
    again = await claim_one(store, now=T0 + 3)
    await end(store, again, Failed(OOPS), now=T0 + MINUTE)

    assert await leaf(store, State.FAILED) == [second.id, first.id]


async def test_get_answers_in_the_order_asked(store: Store) -> None:
    email = await add_one(store, "email")
    sms = await add_one(store, "sms")

    jobs = await store.get([sms, 987_654, email, sms])

    assert [job.id if job else None for job in jobs] == [sms, None, email, sms]


async def test_get_takes_a_batch_and_no_more(store: Store) -> None:
    ids = await add_many(store, MAX_BATCH)

    assert None not in await store.get(ids)
    assert await store.get([]) == []
    with pytest.raises(ValueError, match="at most 500"):
        await store.get([*ids, 1])


async def test_an_id_nobody_has_is_no_job(store: Store) -> None:
    assert await store.get([0, -1, 2**53, 2**63 - 1]) == [None] * 4


async def test_reading_changes_nothing(store: Store) -> None:
    """D-29: what cannot be understood is never deleted for being looked at."""
    ids = [await job_in(store, state, str(state)) for state in State]
    before = await store.get(ids)
    await store.page(PageRequest())
    await store.count()

    assert await store.get(ids) == before


async def test_jobs_that_are_kept_for_a_time_of_their_own_are_in_order_too(
    store: Store,
) -> None:
    """By when they ended, as all others: not by when they are to go, nor by id."""
    first = await start_one(store, retention="1h")
    second = await start_one(store, retention="2h")
    third = await start_one(store)
    await end(store, second, Completed(), now=T0 + 1)
    await end(store, third, Completed(), now=T0 + 2)
    await end(store, first, Completed(), now=T0 + 3)

    assert await leaf(store, State.COMPLETE) == [second.id, third.id, first.id]


@pytest.mark.parametrize("descending", [False, True])
async def test_a_cursor_from_far_beyond_is_no_way_to_keep_the_store_busy(
    store: Store, descending: bool
) -> None:
    ids = await add_many(store, 3)
    beyond = f"{-(10**16 - 1)}:{10**16 - 1}"

    async with asyncio.timeout(PATIENCE_SECONDS):
        page = await store.page(
            PageRequest(limit=5, cursor=beyond, descending=descending)
        )

    assert [job.id for job in page.jobs] == (ids[::-1] if descending else [])
    assert page.cursor is None
