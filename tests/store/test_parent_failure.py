"""What the end of a parent does to a job, by its `on_parent_failure`."""

from __future__ import annotations

import pytest

from kue.model.errors import UnknownParent
from kue.model.job import (
    Cancelled,
    Completed,
    Ending,
    Failed,
    Job,
    OnParentFailure,
    State,
)
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.values import RemoveRequest
from tests.support.flows import add_linked, linked, run_all, states_of
from tests.support.jobs import (
    HOUR,
    OOPS,
    T0,
    add,
    add_one,
    claim_ids,
    count_of,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import tend

POLICIES: tuple[OnParentFailure, ...] = ("block", "cancel", "run", "only")
NONE_FAILED = "none of the jobs it waited for failed"
BLOCKED, WAITING, CANCELLED = State.BLOCKED, State.WAITING, State.CANCELLED
#: How a parent ends, and what becomes of jobs with each policy that wait for it alone.
TABLE: dict[str, tuple[State, State, State, State]] = {
    "complete": (WAITING, WAITING, WAITING, CANCELLED),
    "failed": (BLOCKED, CANCELLED, WAITING, WAITING),
    "cancelled": (CANCELLED, CANCELLED, WAITING, CANCELLED),
    "removed": (CANCELLED, CANCELLED, WAITING, CANCELLED),
}
ENDINGS: dict[str, Ending] = {
    "complete": Completed(),
    "failed": Failed(OOPS),
    "cancelled": Cancelled(),
}
ENDS = pytest.mark.parametrize("how", TABLE)


async def bring_to_end(store: Store, parent: Job, how: str) -> None:
    if how == "removed":
        await store.remove(RemoveRequest([parent.id], force=True), now=T0)
    else:
        await end(store, parent, ENDINGS[how])
    await tend(store)


async def ended_parent(store: Store, how: str, type: str = "parent") -> int:
    if how != "removed":
        return await job_in(store, State(how), type)
    parent = await job_in(store, State.FAILED, type)
    await store.remove(RemoveRequest([parent]), now=T0)
    return parent


async def children_of(store: Store, *parents: int) -> list[int]:
    """Add a job of each policy, each of another type."""
    drafts = [
        linked(f"child {policy}", after=parents, on_parent_failure=policy)
        for policy in POLICIES
    ]
    return await add_linked(store, *drafts)


async def reasons_of(store: Store, ids: list[int]) -> set[str]:
    jobs = [await get_one(store, job_id) for job_id in ids]
    return {job.history[-1].reason for job in jobs if job.state is CANCELLED}


def reasons_for(parent: int, how: str) -> set[str]:
    because = how if how == "failed" else f"was {how}"
    text = f"job {parent}, which it waited for, {because}"
    reasons = set() if how == "complete" else {text}
    return reasons if how == "failed" else reasons | {NONE_FAILED}


@ENDS
async def test_the_end_of_a_parent_does_what_the_policy_says(
    store: Store, how: str
) -> None:
    parent = await start_one(store, "parent")
    children = await children_of(store, parent.id)
    assert await states_of(store, children) == [BLOCKED] * 4

    await bring_to_end(store, parent, how)

    assert await states_of(store, children) == list(TABLE[how])
    assert await reasons_of(store, children) == reasons_for(parent.id, how)


@ENDS
async def test_a_parent_that_has_ended_does_the_same(store: Store, how: str) -> None:
    parent = await ended_parent(store, how)

    children = await children_of(store, parent)

    assert await states_of(store, children) == list(TABLE[how])
    assert await reasons_of(store, children) == reasons_for(parent, how)


async def test_the_failure_of_a_parent_cancels_downwards(store: Store) -> None:
    parent = await start_one(store, "parent")
    child, last, tidy_up = await add_linked(
        store,
        linked("child", after=[parent.id], on_parent_failure="cancel"),
        linked("last", after=[-1], on_parent_failure="cancel"),
        linked("tidy up", after=[-2], on_parent_failure="run"),
    )

    await bring_to_end(store, parent, "failed")

    assert await states_of(store, [child, last, tidy_up]) == [
        *(CANCELLED, CANCELLED),
        WAITING,
    ]
    reason = f"job {child}, which it waited for, was cancelled"
    assert await reasons_of(store, [last]) == {reason}


async def test_a_job_for_failures_runs_with_the_first_and_waits_for_no_other(
    store: Store,
) -> None:
    parents = [await start_one(store, type) for type in ("email", "sms", "video")]
    [catch] = await add_linked(
        store,
        linked("catch", after=[job.id for job in parents], on_parent_failure="only"),
    )
    await bring_to_end(store, parents[0], "complete")
    assert await state_of(store, catch) is BLOCKED

    await bring_to_end(store, parents[1], "failed")
    assert await run_all(store, "catch") == [catch]
    await bring_to_end(store, parents[2], "failed")

    assert await state_of(store, catch) is State.COMPLETE


async def test_a_job_for_failures_runs_if_one_of_many_has_failed_before(
    store: Store,
) -> None:
    running = await start_one(store, "email")
    failed = await job_in(store, State.FAILED, "sms")

    [catch] = await add_linked(
        store, linked("catch", after=[running.id, failed], on_parent_failure="only")
    )

    assert await state_of(store, catch) is WAITING
    await bring_to_end(store, running, "complete")
    assert await claim_ids(store, "catch") == [catch]


async def test_a_job_for_failures_is_cancelled_with_the_last_parent(
    store: Store,
) -> None:
    parents = [await start_one(store, type) for type in ("email", "sms", "video")]
    [catch] = await add_linked(
        store,
        linked("catch", after=[job.id for job in parents], on_parent_failure="only"),
    )

    for parent, how in zip(parents, ("cancelled", "removed", "complete"), strict=True):
        assert await state_of(store, catch) is BLOCKED
        await bring_to_end(store, parent, how)

    assert await reasons_of(store, [catch]) == {NONE_FAILED}


async def test_jobs_after_a_cancelled_one_for_failures_are_cancelled_too(
    store: Store,
) -> None:
    parent = await start_one(store, "parent")
    _, last = await add_linked(
        store,
        linked("catch", after=[parent.id], on_parent_failure="only"),
        linked("last", after=[-1]),
    )

    await bring_to_end(store, parent, "complete")

    assert await state_of(store, last) is CANCELLED


async def test_a_delay_of_a_job_for_failures_counts_from_the_failure(
    store: Store,
) -> None:
    parent = await start_one(store, "parent")
    [catch] = await add_linked(
        store, linked("catch", after=[parent.id], on_parent_failure="only", delay="1h")
    )

    await bring_to_end(store, parent, "failed")

    assert (await get_one(store, catch)).promote_at == T0 + HOUR


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_job_without_parents_just_waits(
    store: Store, policy: OnParentFailure
) -> None:
    job_id = await add_one(store, on_parent_failure=policy)

    job = await get_one(store, job_id)
    assert (job.state, job.on_parent_failure) == (WAITING, policy)


async def test_a_policy_is_replaced_with_its_job(store: Store) -> None:
    job_id = await add_one(store, unique="k", on_parent_failure="cancel")
    again = linked("email", unique="k", on_conflict="replace", on_parent_failure="only")

    await add(store, [again])

    assert (await get_one(store, job_id)).on_parent_failure == "only"


@pytest.mark.parametrize("how", ["removed", "pruned", "at once"])
async def test_a_parent_that_was_removed_after_it_succeeded_has_succeeded(
    store: Store, how: str
) -> None:
    parent = await start_one(store, "parent", remove_on_complete=how == "at once")
    await end(store, parent, Completed())
    if how == "pruned":
        await tend(store, keep=Keep(complete_count=0))
    else:
        await store.remove(RemoveRequest([parent.id]), now=T0)
    assert await state_of(store, parent.id) is None

    children = await children_of(store, parent.id)

    assert await states_of(store, children) == list(TABLE["complete"])


@pytest.mark.parametrize("state", [WAITING, State.ACTIVE, State.FAILED, CANCELLED])
async def test_a_parent_that_was_removed_otherwise_counts_as_cancelled(
    store: Store, state: State
) -> None:
    parent = await job_in(store, state, "parent")
    await store.remove(RemoveRequest([parent], force=True), now=T0)

    children = await children_of(store, parent)

    assert await states_of(store, children) == list(TABLE["cancelled"])


async def test_a_failed_parent_that_is_pruned_cancels_what_waits_for_its_retry(
    store: Store,
) -> None:
    parent = await job_in(store, State.FAILED, "parent")
    [child] = await add_linked(store, linked("child", after=[parent]))

    await tend(store, T0 + 2, keep=Keep(failed_age=1))

    assert await state_of(store, child) is CANCELLED
    [again] = await add_linked(store, linked("child", after=[parent]))
    assert await state_of(store, again) is CANCELLED


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_parent_that_was_never_added_is_refused(
    store: Store, policy: OnParentFailure
) -> None:
    known = await add_one(store, "email")
    drafts = [
        *(linked(type) for type in ("email", "sms", "video", "page")),
        linked("child", after=[known, 987_654], on_parent_failure=policy),
    ]

    with pytest.raises(UnknownParent, match="job 987654, which one should wait") as why:
        await add(store, drafts)

    assert why.value.job_id == 987_654
    assert await count_of(store, "email") == {WAITING: 1}
    for type in ("sms", "video", "page", "child"):
        assert await count_of(store, type) == {}


async def test_a_call_that_was_refused_may_be_made_again(store: Store) -> None:
    first, second = [await add_one(store, "child") for _ in range(2)]
    drafts = [linked("child", after=[2 * second - first])]
    with pytest.raises(UnknownParent):
        await store.add(drafts, producer="p", seq=1, now=T0)
    await add_one(store, "child")

    [added] = await store.add(drafts, producer="p", seq=1, now=T0)

    assert await state_of(store, added.id) is BLOCKED
