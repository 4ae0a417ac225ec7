"""`Store.reserve`: ids that are known before their jobs are added."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.errors import UnknownParent
from kue.model.job import State
from kue.store.contract import Store
from kue.store.validation import IdNotReserved, InvalidCall
from kue.store.values import MAX_BATCH, PageRequest, RemoveRequest
from tests.support.jobs import T0, add, add_one, claim, get_one


async def test_a_draft_gets_the_id_that_was_reserved_for_it(store: Store) -> None:
    ids = await store.reserve(["email", "sms", "email"])
    between = await add_one(store, "email")

    drafts = [draft("email", 1), draft("sms", 2, delay=5), draft("email", 3)]
    added = await add(
        store, [replace(one, id=id) for one, id in zip(drafts, ids, strict=True)]
    )

    assert [one.id for one in added] == ids
    assert all(one.new for one in added)
    jobs = await store.get(ids)
    assert [job.data for job in jobs if job] == [1, 2, 3]
    assert between not in ids
    page = await store.page(PageRequest())
    assert sorted([*ids, between]) == [job.id for job in page.jobs]
    assert (await claim(store, "email", limit=3))[0].id == ids[0]


async def test_reserved_ids_of_a_type_grow_and_are_never_given_again(
    store: Store,
) -> None:
    first = await store.reserve(["email"] * 3)
    second = await store.reserve(["email"])
    added = await add_one(store, "email")

    order = [*first, *second, added]
    assert all(a < b for a, b in itertools.pairwise(order))
    assert await store.reserve([]) == []


async def test_an_id_that_is_not_reserved_is_refused_and_nothing_is_added(
    store: Store,
) -> None:
    [id] = await store.reserve(["email"])
    used = await add_one(store, "email")
    for wrong in (used, id + 1_000_000):
        with pytest.raises(IdNotReserved, match=f"id {wrong} is not reserved"):
            await add(store, [draft("email"), replace(draft("email"), id=wrong)])

    with pytest.raises(IdNotReserved):
        await add(store, [replace(draft("email"), id=id)] * 2)

    assert [job.id for job in (await store.page(PageRequest())).jobs] == [used]


async def test_a_repeated_call_with_other_reserved_ids_adds_nothing(
    store: Store,
) -> None:
    one, two = await store.reserve(["email", "email"])
    first = await store.add(
        [replace(draft("email"), id=one)], producer="p", seq=1, now=T0
    )

    again = await store.add(
        [replace(draft("email"), id=two)], producer="p", seq=1, now=T0
    )

    assert first == again
    assert await store.get([two]) == [None]


async def test_an_id_whose_draft_was_not_added_stays_unused(store: Store) -> None:
    [spare] = await store.reserve(["email"])
    holder = await add_one(store, "email", unique="k")

    [added] = await add(store, [replace(draft("email", unique="k"), id=spare)])

    assert (added.id, added.new) == (holder, False)
    assert await store.get([spare]) == [None]
    # Nobody waits for it: it counts as one that was done and removed.
    child = await add_one(store, "email", after=[spare])
    assert (await get_one(store, child)).state is State.WAITING


async def test_a_job_with_a_reserved_id_holds_its_key_within_the_call(
    store: Store,
) -> None:
    ids = await store.reserve(["email", "email"])
    made = [
        draft("email", n, unique="k", on_conflict="replace", delay="1h")
        for n in range(2)
    ]

    added = await add(
        store, [replace(one, id=id) for one, id in zip(made, ids, strict=True)]
    )

    assert [(one.id, one.new, one.replaced) for one in added] == [
        (ids[0], True, False),
        (ids[0], False, True),
    ]
    assert (await get_one(store, ids[0])).data == 1


async def test_jobs_with_reserved_ids_are_tied_like_any_others(store: Store) -> None:
    ids = await store.reserve(["a", "b", "c"])
    made = [
        replace(draft("a"), id=ids[0], flow=-1),
        replace(draft("b"), id=ids[1], flow=-1),
        replace(draft("c"), id=ids[2], flow=-1, before=(-2,)),
    ]
    made[1] = replace(made[1], spec=replace(made[1].spec, after=(-1,)))

    await add(store, made)

    one, two, three = [await get_one(store, id) for id in ids]
    assert (one.state, two.state, three.state) == (
        State.WAITING,
        State.BLOCKED,
        State.WAITING,
    )
    assert (two.spec.after, two.flow, one.flow) == ((ids[0],), ids[0], ids[0])
    assert [job.id for job in (await store.members(ids[0])).jobs] == sorted(ids)


async def test_a_removed_job_with_a_reserved_id_is_remembered(store: Store) -> None:
    [id] = await store.reserve(["email"])
    await add(store, [replace(draft("email"), id=id)])
    await store.remove(RemoveRequest([id]))

    child = await add_one(store, "email", after=[id], on_parent_failure="cancel")

    assert (await get_one(store, child)).state is State.CANCELLED
    with pytest.raises(UnknownParent):
        await add_one(store, "email", after=[id + 1_000_000])


async def test_no_more_than_a_batch_is_reserved_at_once(store: Store) -> None:
    with pytest.raises(InvalidCall, match="at most 500 drafts"):
        await store.reserve(["email"] * (MAX_BATCH + 1))
