"""Jobs that are added before others: blocked jobs wait for them as well."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.errors import InvalidTransition, JobNotFound, UnknownParent
from kue.model.events import Kind
from kue.model.job import MAX_BEFORE, MAX_PARENTS, Completed, Failed, State
from kue.store.contract import Store
from kue.store.validation import InvalidCall
from kue.store.values import Limits, MoveRequest, RemoveRequest
from tests.support.flows import add_linked, linked, run_all, states_of
from tests.support.jobs import (
    HOUR,
    OOPS,
    T0,
    add,
    add_one,
    claim_one,
    count_of,
    end,
    get_one,
    job_in,
    state_of,
)
from tests.support.listening import story_of
from tests.support.upkeep import tend

#: Enough types that some of them live on different shards.
TYPES = ["email", "sms", "video", "report", "page", "thumbnail"]
NONE_FAILED = "none of the jobs it waited for failed"


async def blocked(store: Store, type: str = "target", **options: Any) -> int:
    """Add a job that waits for another, which never ends."""
    parent = await add_one(store, "parent", delay="30d")
    return await add_one(store, type, after=[parent], **options)


async def free(store: Store, target: int) -> None:
    """Complete the job that a blocked one waited for at first."""
    [parent] = (await get_one(store, target)).spec.after
    await store.move(MoveRequest([parent], State.WAITING), now=T0)
    assert await run_all(store, "parent") == [parent]


@pytest.mark.parametrize("type", TYPES)
async def test_a_blocked_job_waits_for_a_new_one_as_well(
    store: Store, type: str
) -> None:
    target = await blocked(store)
    after = (await get_one(store, target)).spec.after

    [new] = await add_linked(store, linked(type, before=[target]))
    await free(store, target)

    job = await get_one(store, target)
    assert (job.state, job.spec.after) == (State.BLOCKED, after)
    assert await run_all(store, type) == [new]
    assert await state_of(store, target) is State.WAITING


@pytest.mark.parametrize("type", TYPES)
async def test_a_new_job_that_ends_at_once_is_not_waited_for(
    store: Store, type: str
) -> None:
    """No maintenance between the two: the end may overtake the joining."""
    target = await blocked(store)
    await add(store, [linked(type, before=[target])])

    await end(store, await claim_one(store, type), Completed())
    await tend(store)
    assert await state_of(store, target) is State.BLOCKED
    await free(store, target)

    assert await state_of(store, target) is State.WAITING


@pytest.mark.parametrize("type", TYPES)
async def test_the_parents_of_a_blocked_job_are_those_it_waits_for_now(
    store: Store, type: str
) -> None:
    target, free_one = await blocked(store), await add_one(store, "free")
    [parent] = (await get_one(store, target)).spec.after
    [new] = await add_linked(store, linked(type, before=[target]))

    assert await store.parents([free_one, target]) == [[], sorted([parent, new])]
    await free(store, target)
    assert await store.parents([target, 4711]) == [[new], []]
    await run_all(store, type)
    assert await store.parents([target]) == [[]]


async def test_a_job_may_be_before_several(store: Store) -> None:
    targets = [await blocked(store, type) for type in TYPES]
    [new] = await add_linked(store, linked("new", before=targets))
    for target in targets:
        await free(store, target)
    assert set(await states_of(store, targets)) == {State.BLOCKED}

    assert await run_all(store, "new") == [new]

    assert set(await states_of(store, targets)) == {State.WAITING}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("block", State.BLOCKED),
        ("cancel", State.CANCELLED),
        ("run", State.WAITING),
        ("only", State.WAITING),
    ],
)
async def test_the_policy_of_the_blocked_job_decides(
    store: Store, policy: str, expected: State
) -> None:
    target, new = await add_linked(
        store,
        linked("target", on_parent_failure=policy),
        linked("new", before=[-1]),
    )

    assert await run_all(store, "new", ending=Failed(OOPS)) == [new]

    assert await state_of(store, target) is expected


async def test_a_draft_that_another_is_before_is_blocked(store: Store) -> None:
    target, *new = await add_linked(
        store,
        linked("target", delay="1h"),
        *(linked(type, before=[-1]) for type in TYPES),
    )
    assert await state_of(store, target) is State.BLOCKED
    assert (await get_one(store, target)).spec.after == ()

    for type, job_id in zip(TYPES, new, strict=True):
        assert await state_of(store, target) is State.BLOCKED
        assert await run_all(store, type) == [job_id]

    job = await get_one(store, target)
    assert (job.state, job.promote_at) == (State.DELAYED, T0 + HOUR)


async def test_more_jobs_than_a_job_may_name_may_be_before_it(store: Store) -> None:
    target, *_ = await add_linked(
        store, linked("email"), *[linked("email", before=[-1])] * 400
    )
    for _ in range(2):
        await add_linked(store, *[linked("email", before=[target])] * 400)
    left = 3 * 400
    assert left > MAX_PARENTS

    while left:
        assert await state_of(store, target) is State.BLOCKED
        left -= len(await run_all(store, "email"))

    assert await state_of(store, target) is State.WAITING


async def test_drafts_of_one_call_may_join_a_job_and_each_other(store: Store) -> None:
    target = await blocked(store, on_parent_failure="run")
    first, second = await add_linked(
        store,
        linked("email", before=[target]),
        linked("sms", after=[-1], before=[target]),
    )
    await free(store, target)

    assert await run_all(store, "email") == [first]
    assert await state_of(store, target) is State.BLOCKED
    assert await run_all(store, "sms") == [second]
    assert await state_of(store, target) is State.WAITING


@pytest.mark.parametrize("type", ["email", "sms"])
async def test_a_new_job_that_is_cancelled_at_once_counts_as_cancelled(
    store: Store, type: str
) -> None:
    unwanted = await job_in(store, State.CANCELLED, "parent")
    target = await blocked(store)
    patient = await blocked(store, "patient", on_parent_failure="run")

    await add_linked(store, linked(type, after=[unwanted], before=[target, patient]))

    assert await state_of(store, target) is State.CANCELLED
    assert await state_of(store, patient) is State.BLOCKED
    await free(store, patient)
    assert await state_of(store, patient) is State.WAITING


@pytest.mark.parametrize("state", sorted(set(State) - {State.BLOCKED}))
async def test_a_job_that_is_not_blocked_is_refused(store: Store, state: State) -> None:
    target = await job_in(store, state, "target")
    drafts = [linked("email"), linked("sms", before=[target]), linked("video")]

    with pytest.raises(InvalidTransition, match=f"{target} is {state} and cannot wait"):
        await add(store, drafts)
    await tend(store)

    assert [await count_of(store, type) for type in ("email", "sms", "video")] == [
        *({}, {}, {})
    ]


async def test_a_job_that_does_not_exist_is_refused(store: Store) -> None:
    removed = await blocked(store)
    await store.remove(RemoveRequest([removed]), now=T0)

    for target in (removed, 987_654):
        with pytest.raises(JobNotFound, match=f"job {target} does not exist"):
            await add(store, [linked("email"), linked("sms", before=[target])])

    assert await count_of(store, "email") == {}


async def test_an_unknown_parent_is_named_first_and_then_the_lowest_id(
    store: Store,
) -> None:
    waiting = await add_one(store, "target")
    drafts = [
        linked("email", before=[987_654]),
        linked("email", before=[waiting]),
        linked("email", after=[987_654]),
    ]

    with pytest.raises(InvalidTransition, match=f"job {waiting} is waiting"):
        await add(store, drafts[:2])
    with pytest.raises(UnknownParent):
        await add(store, drafts)


async def test_a_job_cannot_both_wait_for_another_and_precede_it(store: Store) -> None:
    target = await blocked(store)

    with pytest.raises(InvalidCall, match=f"wait for job {target} and precede it"):
        await add(store, [linked("email", after=[target], before=[target])])


async def test_a_job_is_before_a_limited_number_of_others(store: Store) -> None:
    before = range(1, MAX_BEFORE + 2)

    with pytest.raises(InvalidCall, match="at most 100 others wait for it, not 101"):
        await add(store, [linked("email", before=before)])


async def test_a_draft_that_replaces_a_job_is_before_none(store: Store) -> None:
    target = await blocked(store)
    replacing = linked("email", unique="k", on_conflict="replace", before=[target])

    with pytest.raises(InvalidCall, match="'replace' does not go with before"):
        await add(store, [replacing])


async def test_a_draft_that_adds_no_job_is_not_waited_for(store: Store) -> None:
    await add_one(store, "email", unique="k")

    target, _ = await add_linked(
        store, linked("target"), linked("email", unique="k", before=[-1])
    )

    assert await state_of(store, target) is State.WAITING


async def test_a_job_that_is_not_blocked_is_refused_even_by_a_draft_that_adds_none(
    store: Store,
) -> None:
    target = await add_one(store, "target")
    await add_one(store, "email", unique="k")

    with pytest.raises(InvalidTransition, match=f"{target} is waiting and cannot wait"):
        await add(store, [linked("email", unique="k", before=[target])])


@pytest.mark.parametrize("state", [State.WAITING, State.CANCELLED])
@pytest.mark.parametrize("type", ["target", "email", "sms"])
async def test_a_reference_to_an_older_job_that_is_not_blocked_means_nothing(
    store: Store, type: str, state: State
) -> None:
    older = await job_in(store, state, "target", unique="k", unique_for="1h")

    found, new = await add_linked(
        store, linked("target", unique="k"), linked(type, before=[-1])
    )

    assert found == older
    assert await states_of(store, [older, new]) == [state, State.WAITING]


@pytest.mark.parametrize("type", ["target", "email", "sms"])
@pytest.mark.parametrize("position", [1, 2])
async def test_a_target_that_the_call_replaces_waits_for_none(
    store: Store, type: str, position: int
) -> None:
    target, replaced, new = await add_linked(
        store,
        linked("target", unique="k"),
        linked("target", unique="k", on_conflict="replace"),
        linked(type, before=[-position]),
    )

    assert replaced == target
    assert await states_of(store, [target, new]) == [State.WAITING, State.WAITING]


async def test_the_release_of_a_target_that_nothing_precedes_is_told(
    store: Store,
) -> None:
    await add_one(store, "email", unique="k")
    async with store.watch() as events:
        target, catch, _ = await add_linked(
            store,
            linked("target"),
            linked("target", on_parent_failure="only"),
            linked("email", unique="k", before=[-1, -2]),
        )
        heard = await story_of(store, events, target)

    added = (Kind.ENQUEUE, {"state": State.BLOCKED})
    assert [(one.kind, one.detail) for one in heard if one.job_id == target] == [
        *(added, (Kind.PROMOTION, {}))
    ]
    assert [(one.kind, one.detail) for one in heard if one.job_id == catch] == [
        *(added, (Kind.CANCELLED, {"reason": NONE_FAILED}))
    ]


async def test_a_target_is_released_if_all_before_it_are_refused(store: Store) -> None:
    await store.limit("email", Limits(max_waiting=1), now=T0)
    await add_one(store, "email")

    target, catch, refused = await add_linked(
        store,
        linked("target", delay="1h"),
        linked("catch", on_parent_failure="only"),
        linked("email", before=[-1, -2]),
    )

    assert refused == 0
    assert await state_of(store, target) is State.DELAYED
    job = await get_one(store, catch)
    assert (job.state, job.history[-1].reason) == (State.CANCELLED, NONE_FAILED)


async def test_a_target_that_its_parents_cancel_is_not_waited_with(
    store: Store,
) -> None:
    unwanted = await job_in(store, State.CANCELLED, "parent")

    ids = await add_linked(
        store, linked("target", after=[unwanted]), linked("email", before=[-1])
    )

    assert await states_of(store, ids) == [State.CANCELLED, State.WAITING]


async def test_a_target_for_failures_runs_if_a_parent_has_failed(store: Store) -> None:
    failed = await job_in(store, State.FAILED, "parent")

    ids = await add_linked(
        store,
        linked("catch", after=[failed], on_parent_failure="only"),
        linked("email", before=[-1]),
    )

    assert await states_of(store, ids) == [State.WAITING, State.WAITING]


async def test_jobs_stop_waiting_for_more_than_one_call_looks_at(
    store: Store,
) -> None:
    catch, unwanted, *_ = await add_linked(
        store,
        linked("email", on_parent_failure="only"),
        linked("email"),
        *[linked("email", before=[-1, -2], delay="1d")] * 400,
    )
    for _ in range(2):
        joining = linked("email", before=[catch, unwanted], delay="1d")
        await add_linked(store, *[joining] * 400)
    await add_linked(store, linked("bad", before=[catch]))

    await store.cancel([unwanted], now=T0)
    await run_all(store, "bad", ending=Failed(OOPS))

    assert await run_all(store, "email") == [catch]
    while await store.clear("email", [State.DELAYED], now=T0):
        pass
    await tend(store)
    assert await states_of(store, [catch, unwanted]) == [
        State.COMPLETE,
        State.CANCELLED,
    ]


async def test_a_failed_job_that_is_retried_still_blocks(store: Store) -> None:
    target, new = await add_linked(
        store, linked("target"), linked("email", before=[-1])
    )
    await run_all(store, "email", ending=Failed(OOPS))
    assert await state_of(store, target) is State.BLOCKED

    await store.move(MoveRequest([new], State.WAITING), now=T0)
    await run_all(store, "email")

    assert await state_of(store, target) is State.WAITING


async def test_a_repeated_call_joins_once(store: Store) -> None:
    target = await blocked(store)
    drafts = [linked(type, before=[target]) for type in TYPES]
    for _ in range(2):
        await store.add(drafts, producer="p", seq=1, now=T0)
    await tend(store)
    await free(store, target)

    for type in TYPES:
        assert await state_of(store, target) is State.BLOCKED
        assert len(await run_all(store, type)) == 1

    assert await state_of(store, target) is State.WAITING
