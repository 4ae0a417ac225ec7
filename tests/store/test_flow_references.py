"""Drafts of one call that wait for each other."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.job import State
from kue.store.contract import Store
from kue.store.validation import InvalidCall
from kue.store.values import MAX_CALL_BYTES, Limits
from tests.support.flows import add_linked, linked, run_all, states_of
from tests.support.jobs import (
    T0,
    add,
    add_one,
    claim_one,
    get_one,
    job_in,
    start_one,
    state_of,
)

#: Enough types that some of them live on different shards.
TYPES = ["email", "sms", "video", "report", "page", "thumbnail"]


@pytest.mark.parametrize("types", [TYPES, ["email"] * 6], ids=["types", "one type"])
async def test_a_chain_is_added_by_one_call(store: Store, types: list[str]) -> None:
    drafts = [
        linked(type, after=[-number] if number else [])
        for number, type in enumerate(types)
    ]

    ids = await add_linked(store, *drafts)

    jobs = [await get_one(store, job_id) for job_id in ids]
    assert [job.spec.after for job in jobs] == [(), *((one,) for one in ids[:-1])]
    assert [job.state for job in jobs] == [State.WAITING] + [State.BLOCKED] * 5
    for job_id in ids:
        assert await run_all(store, *TYPES) == [job_id]


async def test_references_and_ids_may_be_mixed(store: Store) -> None:
    parent = await start_one(store, "parent")
    first, second = await add_linked(
        store,
        linked("email"),
        linked("sms", after=[parent.id, -1], data={"i": 1}, tags=["a"]),
    )

    job = await get_one(store, second)
    assert job.spec.after == (parent.id, first)
    assert (job.data, job.tags, job.state) == ({"i": 1}, ("a",), State.BLOCKED)


async def test_a_worker_gets_ids_for_references(store: Store) -> None:
    first, second = await add_linked(store, linked("email"), linked("sms", after=[-1]))
    await run_all(store, "email")

    job = await claim_one(store, "sms")

    assert (job.id, job.spec.after) == (second, (first,))


async def test_a_reference_stands_for_the_holder_of_the_unique_key(
    store: Store,
) -> None:
    holder = await add_one(store, "email", unique="k")

    same, child = await add_linked(
        store, linked("email", unique="k"), linked("sms", after=[-1])
    )

    assert same == holder
    assert (await get_one(store, child)).spec.after == (holder,)
    assert await run_all(store, "email") == [holder]
    assert await state_of(store, child) is State.WAITING


async def test_positions_stay_if_two_references_are_one_job(store: Store) -> None:
    first, _, child = await add_linked(
        store,
        linked("email", unique="k"),
        linked("email", unique="k"),
        linked("sms", after=[-1, -2]),
    )

    assert (await get_one(store, child)).spec.after == (first, first)
    await run_all(store, "email")
    assert await state_of(store, child) is State.WAITING


async def test_a_refused_draft_refuses_those_that_refer_to_it(store: Store) -> None:
    await store.limit("email", Limits(max_waiting=1), now=T0)
    await add_one(store, "email")

    added = await add(
        store,
        [
            linked("email"),
            linked("sms", after=[-1]),
            linked("video", after=[-2]),
            linked("report", flow=-1),
            linked("page", before=[-3]),
            linked("thumbnail"),
        ],
    )

    assert [one.is_refused for one in added] == [True] * 5 + [False]


async def test_a_draft_after_one_that_is_cancelled_at_once_is_cancelled(
    store: Store,
) -> None:
    unwanted = await job_in(store, State.CANCELLED, "parent")

    ids = await add_linked(
        store,
        linked("email", after=[unwanted]),
        linked("sms", after=[-1]),
        linked("video", after=[-1], on_parent_failure="run"),
    )

    assert await states_of(store, ids) == [
        *(State.CANCELLED, State.CANCELLED),
        State.WAITING,
    ]


async def test_a_repeated_call_adds_nothing(store: Store) -> None:
    drafts = [linked(type, after=[-1] if type != "email" else []) for type in TYPES]
    first = await store.add(drafts, producer="p", seq=1, now=T0)

    again = await store.add(drafts, producer="p", seq=1, now=T0)

    assert again == first
    counts = await store.count()
    assert sum(sum(of_type.values()) for of_type in counts.values()) == len(TYPES)


async def test_references_reach_across_the_parts_of_a_large_call(store: Store) -> None:
    text = "x" * (MAX_CALL_BYTES // 5)
    drafts = [
        linked("email", after=[-number] if number else [], data=text)
        for number in range(8)
    ]

    ids = await add_linked(store, *drafts, linked("sms", after=[-1, -4, -8]))

    assert (await get_one(store, ids[8])).spec.after == (ids[0], ids[3], ids[7])
    for job_id in ids[:8]:
        assert await run_all(store, "email") == [job_id]
    assert await state_of(store, ids[8]) is State.WAITING


@pytest.mark.parametrize("where", ["after", "before", "flow"])
@pytest.mark.parametrize("wrong", [0, -3])
async def test_a_reference_to_a_later_draft_is_refused(
    store: Store, where: str, wrong: int
) -> None:
    given: dict[str, Any] = {where: wrong if where == "flow" else [wrong]}

    with pytest.raises(InvalidCall, match=f"^{where} has ids of jobs.* not {wrong}$"):
        await add(store, [linked("email"), linked("sms", **given), linked("video")])

    assert await store.types() == []


@pytest.mark.parametrize("where", ["after", "before"])
async def test_a_reference_to_the_draft_itself_is_refused(
    store: Store, where: str
) -> None:
    given: dict[str, Any] = {where: [-1]}

    with pytest.raises(InvalidCall, match=r"not -1$"):
        await add(store, [linked("email", **given)])
