"""Flows: which jobs belong to one, and how many of them have ended, and how."""

from __future__ import annotations

from itertools import cycle, islice

import pytest

from kue.model.job import Cancelled, Completed, Draft, Failed, State
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.validation import InvalidCall
from kue.store.values import FlowCounts, MoveRequest, RemoveRequest
from tests.support.flows import add_linked, linked, run_all
from tests.support.jobs import (
    HOUR,
    OOPS,
    T0,
    add,
    add_one,
    claim,
    end,
    get_one,
    job_in,
    start_one,
)
from tests.support.upkeep import lose_worker, tend

#: Enough types that some of them live on different shards.
TYPES = ["email", "sms", "video", "report", "page", "thumbnail"]


async def ids_of(store: Store, flow: int, limit: int = 500) -> list[int]:
    """Return the ids of all members, page by page."""
    page = await store.members(flow, limit=limit)
    ids = [job.id for job in page.jobs]
    while page.cursor is not None:
        page = await store.members(flow, limit=limit, cursor=page.cursor)
        ids += [job.id for job in page.jobs]
    return ids


async def counts_of(store: Store, flow: int) -> FlowCounts:
    await tend(store)
    [counts] = await store.flow_counts([flow])
    return counts


def members(flow: int, count: int, *types: str) -> list[Draft]:
    kinds = cycle(types or TYPES)
    return [linked(type, flow=flow) for type in islice(kinds, count)]


async def test_members_are_listed_by_id_and_counted(store: Store) -> None:
    root = await add_one(store, "root")
    other = await add_one(store, "root")
    ids = await add_linked(store, *members(root, 8))
    more = await add_linked(store, *members(root, 3))
    await add_linked(store, *members(other, 2))

    assert await ids_of(store, root) == sorted(ids + more)
    assert (await get_one(store, ids[0])).flow == root
    assert (await get_one(store, root)).flow is None
    assert await store.flow_counts([root, other, root]) == [
        FlowCounts(11),
        FlowCounts(2),
        FlowCounts(11),
    ]


@pytest.mark.parametrize("limit", [1, 3, 7, 50])
async def test_pages_of_members_have_each_once(store: Store, limit: int) -> None:
    root = await add_one(store, "root")
    ids = await add_linked(store, *members(root, 7))

    assert await ids_of(store, root, limit) == sorted(ids)


async def test_members_are_jobs_as_they_are(store: Store) -> None:
    root = await add_one(store, "root")
    await add_linked(store, *members(root, 1, "email"))
    await run_all(store, "email")

    [job] = (await store.members(root)).jobs

    assert job == await get_one(store, job.id)
    assert job.state is State.COMPLETE


async def test_a_draft_may_be_a_member_of_itself_and_of_another_draft(
    store: Store,
) -> None:
    root, *rest = await add_linked(store, *(linked(type, flow=-1) for type in TYPES))

    assert await ids_of(store, root) == sorted([root, *rest])
    assert await counts_of(store, root) == FlowCounts(6)
    assert {job.flow for job in (await store.members(root)).jobs} == {root}


async def test_counts_follow_the_jobs(store: Store) -> None:
    root = await add_one(store, "root")
    [good, bad, *_] = await add_linked(store, *members(root, 6))

    await run_all(store, "email")
    await run_all(store, "sms", ending=Failed(OOPS))
    await run_all(store, "video", ending=Cancelled())
    [pages] = [job.id for job in (await store.members(root)).jobs if job.type == "page"]
    await store.cancel([pages], now=T0)

    counts = await counts_of(store, root)
    assert counts == FlowCounts(6, complete=1, failed=1, cancelled=2)
    assert counts.unfinished == 2

    for job_id in (good, bad, pages):
        await store.move(MoveRequest([job_id], State.WAITING), now=T0)
    assert await counts_of(store, root) == FlowCounts(6, cancelled=1)
    await run_all(store, "email", "sms", "page")
    assert await counts_of(store, root) == FlowCounts(6, complete=3, cancelled=1)


async def test_a_member_that_is_cancelled_as_it_is_added_counts(store: Store) -> None:
    unwanted = await job_in(store, State.CANCELLED, "parent")
    root = await add_one(store, "root")

    [member] = await add_linked(store, linked("email", after=[unwanted], flow=root))

    assert await counts_of(store, root) == FlowCounts(1, cancelled=1)
    assert await ids_of(store, root) == [member]


async def test_members_that_expire_or_lose_their_worker_are_counted(
    store: Store,
) -> None:
    root = await add_one(store, "root")
    await add_linked(
        store,
        linked("email", flow=root, expires="1s"),
        linked("sms", flow=root, delivery="at-most-once"),
    )
    await claim(store, "sms")

    await lose_worker(store, T0)

    [counts] = await store.flow_counts([root])
    assert counts == FlowCounts(2, failed=2)


async def test_members_cancelled_with_their_parent_are_counted(store: Store) -> None:
    root = await add_one(store, "root")
    [first, *_] = await add_linked(
        store,
        linked("email", flow=root),
        *(linked(type, after=[-1], flow=root) for type in TYPES),
    )

    await store.cancel([first], now=T0)

    assert await counts_of(store, root) == FlowCounts(7, cancelled=7)


@pytest.mark.parametrize("how", ["removed", "pruned", "at once"])
async def test_members_that_are_removed_after_they_ended_still_count(
    store: Store, how: str
) -> None:
    root = await add_one(store, "root")
    ids = await add_linked(
        store,
        linked("email", flow=root, remove_on_complete=how == "at once"),
        linked("sms", flow=root, retention="0s"),
    )
    await run_all(store, "email")
    await run_all(store, "sms", ending=Failed(OOPS))

    if how == "removed":
        await store.remove(RemoveRequest(ids), now=T0)
    keep = Keep(complete_count=0) if how == "pruned" else Keep()
    await tend(store, T0 + HOUR, keep=keep)

    assert await ids_of(store, root) == []
    assert await counts_of(store, root) == FlowCounts(2, complete=1, failed=1)


async def test_a_member_that_is_removed_before_it_ended_counts_as_cancelled(
    store: Store,
) -> None:
    root = await add_one(store, "root")
    first, second, third = await add_linked(store, *members(root, 3))
    [job] = await claim(store, TYPES[1])

    await store.remove(RemoveRequest([first, second], force=True), now=T0)
    await end(store, job, Completed())

    assert await counts_of(store, root) == FlowCounts(3, cancelled=2)
    assert await ids_of(store, root) == [third]


async def test_the_index_goes_with_the_job_and_members_stay(store: Store) -> None:
    root = await start_one(store, "root", remove_on_complete=True)
    ids = await add_linked(store, *members(root.id, 6))

    await end(store, root, Completed())

    assert await counts_of(store, root.id) == FlowCounts()
    assert await ids_of(store, root.id) == []
    assert [(await get_one(store, job_id)).flow for job_id in ids] == [root.id] * 6
    await run_all(store, *TYPES)
    assert await counts_of(store, root.id) == FlowCounts()


async def test_members_of_a_job_that_is_gone_are_added_and_not_counted(
    store: Store,
) -> None:
    root = await job_in(store, State.FAILED, "root")
    await store.remove(RemoveRequest([root]), now=T0)

    for flow in (root, 987_654):
        [member] = await add_linked(store, *members(flow, 1))
        assert (await get_one(store, member)).flow == flow
        assert await counts_of(store, flow) == FlowCounts()
        assert await ids_of(store, flow) == []


async def test_only_new_jobs_become_members(store: Store) -> None:
    root = await add_one(store, "root")
    await add_one(store, "email", unique="k")

    await add_linked(store, linked("email", unique="k", flow=root))

    assert await counts_of(store, root) == FlowCounts()


async def test_a_replaced_job_keeps_its_flow(store: Store) -> None:
    root = await add_one(store, "root")
    [member] = await add_linked(store, linked("email", unique="k", flow=root))

    await add(store, [linked("email", unique="k", on_conflict="replace")])

    assert await ids_of(store, root) == [member]
    assert (await get_one(store, member)).flow == root
    await run_all(store, "email")
    assert await counts_of(store, root) == FlowCounts(1, complete=1)


async def test_a_worker_knows_the_flow_of_its_job(store: Store) -> None:
    root = await add_one(store, "root")
    await add_linked(store, *members(root, 1, "email"))

    [job] = await claim(store, "email")

    assert job.flow == root


async def test_clearing_members_counts_them_as_cancelled(store: Store) -> None:
    root = await add_one(store, "root")
    await add_linked(store, *members(root, 4, "email"))

    await store.clear("email", [State.WAITING], now=T0)

    assert await counts_of(store, root) == FlowCounts(4, cancelled=4)


async def test_a_page_of_members_has_a_limit(store: Store) -> None:
    with pytest.raises(InvalidCall, match="limit must be from 0 to 500, not 501"):
        await store.members(1, limit=501)


async def test_counts_of_too_many_flows_are_refused(store: Store) -> None:
    with pytest.raises(InvalidCall, match="one call takes at most 500 flows, not 501"):
        await store.flow_counts(range(1, 502))
