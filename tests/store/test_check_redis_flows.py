"""`check` of a Redis store: flows, removed jobs, and jobs that wait for very many."""

from __future__ import annotations

import pytest

from kue.model.job import Completed, OnParentFailure, State
from kue.store.contract import Store
from kue.store.redis.keys import LIVE_CHUNK
from kue.store.values import FlowCounts, MoveRequest, RemoveRequest
from tests.support.flows import add_linked, linked, run_all
from tests.support.hands import Hands, found, repaired
from tests.support.jobs import (
    T0,
    add_one,
    claim_one,
    end,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import tend

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]
#: Types of members: with several shards, "parent" lives on another one.
by_type = pytest.mark.parametrize("kind", ["email", "parent"])


async def flow_of_three(store: Store, kind: str) -> tuple[int, list[int]]:
    """Add a job with members: one is complete, one was removed, and one waits."""
    root = await add_one(store, "email", delay="30d")
    ids = await add_linked(store, *(linked(kind, flow=root) for _ in range(3)))
    for _ in range(2):
        await end(store, await claim_one(store, kind), Completed())
    await store.remove(RemoveRequest(ids[:1]), now=T0)
    assert await counts(store, root) == FlowCounts(3, complete=2)
    return root, ids


async def counts(store: Store, flow: int) -> FlowCounts:
    [counted] = await store.flow_counts([flow])
    return counted


# -- counters and indexes ------------------------------------------------------


@by_type
@pytest.mark.parametrize("number", [0, 7])
async def test_members_are_counted_again(
    store: Store, hands: Hands, kind: str, number: int
) -> None:
    root, ids = await flow_of_three(store, kind)
    hands.do("HSET", hands.of_shard(f"flow:{root}", ids[1]), "complete", number)

    message = f"the members of the flow of job {root} are not counted as they ended"
    await repaired(store, "flow-drift", message, "count again")

    assert await counts(store, root) == FlowCounts(3, complete=2)


@by_type
async def test_a_counter_that_is_no_number_is_counted_again(
    store: Store, hands: Hands, kind: str
) -> None:
    root, ids = await flow_of_three(store, kind)
    hands.do("HSET", hands.of_shard(f"flow:{root}", ids[1]), "complete", "many")

    await store.check(repair=True)
    await store.check(repair=True)

    assert await counts(store, root) == FlowCounts(3, complete=2)
    assert await found(store) == []


@by_type
async def test_lost_counters_are_counted_again_as_far_as_members_are_there(
    store: Store, hands: Hands, kind: str
) -> None:
    root, ids = await flow_of_three(store, kind)
    hands.do("DEL", hands.of_shard(f"flow:{root}", ids[1]))

    await store.check(repair=True)
    await tend(store)
    await store.check(repair=True)

    assert await counts(store, root) == FlowCounts(2, complete=1)
    assert await found(store) == []


@by_type
async def test_a_member_that_is_not_in_the_index_is_added(
    store: Store, hands: Hands, kind: str
) -> None:
    root, ids = await flow_of_three(store, kind)
    hands.do("ZREM", hands.of_shard(f"members:{root}", ids[2]), ids[2])

    message = f"job {ids[2]} is of the flow of job {root}, but not among its members"
    await repaired(store, "missing-entry", message, "add it")

    assert [job.id for job in (await store.members(root)).jobs] == ids[1:]


@by_type
async def test_a_lost_index_is_made_again(
    store: Store, hands: Hands, kind: str
) -> None:
    root, ids = await flow_of_three(store, kind)
    hands.do("DEL", hands.of_shard(f"members:{root}", ids[1]))

    codes = await found(store, repair=True)

    assert codes == [("missing-entry", job_id) for job_id in ids[1:]]
    assert await found(store) == []
    assert [job.id for job in (await store.members(root)).jobs] == ids[1:]


@by_type
async def test_a_job_of_no_flow_is_taken_out_of_an_index(
    store: Store, hands: Hands, kind: str
) -> None:
    root, _ = await flow_of_three(store, kind)
    other = await add_one(store, kind)
    hands.do("ZADD", hands.of_shard(f"members:{root}", other), other, other)

    message = f"job {other} is not of that flow, but is among the members of the flow "
    await repaired(store, "stray-entry", f"{message}of job {root}", "take it out")


@by_type
async def test_a_job_that_is_gone_is_taken_out_of_an_index(
    store: Store, hands: Hands, kind: str
) -> None:
    root, ids = await flow_of_three(store, kind)
    hands.do("ZADD", hands.of_shard(f"members:{root}", ids[0]), ids[0], ids[0])

    message = f"job {ids[0]} is gone, but is among the members of the flow of job "
    await repaired(store, "stray-entry", f"{message}{root}", "take it out")


async def test_a_member_with_a_wrong_score_is_put_in_order(
    store: Store, hands: Hands
) -> None:
    root, ids = await flow_of_three(store, "email")
    hands.do("ZADD", hands.of_shard(f"members:{root}", ids[2]), "inf", ids[2])

    message = f"job {ids[2]} is in members:{root} with the score inf, where {ids[2]} "
    await repaired(store, "bad-score", f"{message}is right", f"set it to {ids[2]}")


@by_type
async def test_the_index_of_a_job_that_is_gone_is_forgotten(
    store: Store, hands: Hands, kind: str
) -> None:
    root, ids = await flow_of_three(store, kind)
    index = hands.of_shard(f"members:{root}", ids[1])
    kept = hands.do("DUMP", index)
    await store.remove(RemoveRequest([root]), now=T0)
    await tend(store)
    hands.do("RESTORE", index, 0, kept)

    message = f"the flow of job {root} has members, but that job is gone"
    await repaired(store, "flow-drift", message, "forget them")

    assert await state_of(store, ids[2]) is State.WAITING


@by_type
async def test_a_job_that_does_not_know_of_its_members_knows_them_again(
    store: Store, hands: Hands, kind: str
) -> None:
    root, ids = await flow_of_three(store, kind)
    hands.do(
        "HDEL", hands.of_shard(f"flow:{root}", root), f"at:{ids[1] % hands.shards}"
    )

    await store.check(repair=True)
    await tend(store)
    assert await found(store) == []
    await store.remove(RemoveRequest([root]), now=T0)
    await tend(store)

    assert hands.do("EXISTS", hands.of_shard(f"members:{root}", ids[1])) == 0


# -- removed jobs --------------------------------------------------------------


async def test_a_job_that_exists_is_not_marked_as_removed(
    store: Store, hands: Hands
) -> None:
    job_id = await job_in(store, State.COMPLETE)
    hands.mark_lost(job_id)

    message = f"job {job_id} exists, but is marked as removed"
    await repaired(store, "count-drift", message, "unmark it")

    await store.remove(RemoveRequest([job_id]), now=T0)
    child = await add_one(store, after=[job_id])
    assert await state_of(store, child) is State.WAITING


async def test_a_job_that_was_never_added_is_not_marked_as_removed(
    store: Store, hands: Hands
) -> None:
    lost = await add_one(store)
    await store.remove(RemoveRequest([lost]), now=T0)
    hands.mark_lost(lost + 5 * hands.shards)

    key = hands.of_shard("lost:0", lost)
    message = f"key {key} marks jobs as removed that were never added"
    await repaired(store, "count-drift", message, "unmark them")

    assert hands.do("GETBIT", key, lost // hands.shards % LIVE_CHUNK) == 1
    child = await add_one(store, after=[lost])
    assert await state_of(store, child) is State.CANCELLED


async def test_a_job_whose_record_is_lost_counts_as_one_that_did_not_succeed(
    store: Store, hands: Hands
) -> None:
    lost = await add_one(store)
    hands.do("DEL", hands.record(lost))
    await store.check(repair=True)

    child = await add_one(store, after=[lost])

    assert await state_of(store, child) is State.CANCELLED


@pytest.mark.parametrize("kind", ["email", "parent"])
async def test_a_job_that_waits_for_one_that_succeeded_and_is_gone_is_released(
    store: Store, hands: Hands, kind: str
) -> None:
    parent = await start_one(store, kind)
    child = await add_one(store, after=[parent.id])
    await tend(store)
    hands.do("DEL", hands.record(parent.id, "then"))
    hands.do("SREM", hands.of_shard("parents", parent.id), parent.id)
    await end(store, parent, Completed())
    await store.remove(RemoveRequest([parent.id]), now=T0)

    message = f"job {child} waits for job {parent.id}, which is gone"
    await repaired(store, "stuck-blocked", message, "have maintenance release it")

    await tend(store)
    assert await state_of(store, child) is State.WAITING


# -- dependants ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "right", "wrong"),
    [
        ("block", "then", "finally"),
        ("cancel", "finally", "then"),
        ("run", "finally", "then"),
        ("only", "finally", "then"),
    ],
)
async def test_a_dependant_on_the_wrong_list_is_taken_off(
    store: Store, hands: Hands, policy: OnParentFailure, right: str, wrong: str
) -> None:
    parent = await add_one(store, delay="30d")
    child = await add_one(store, after=[parent], on_parent_failure=policy)
    assert hands.do("ZSCORE", hands.record(parent, right), child) == child
    hands.do("ZADD", hands.record(parent, wrong), child, child)

    message = f"job {child} is on the wrong list of job {parent}"
    await repaired(store, "stray-link", message, "take it off the list")


async def test_a_job_that_waits_for_itself_waits_no_longer(
    store: Store, hands: Hands
) -> None:
    parent = await add_one(store, delay="30d")
    child = await add_one(store, after=[parent])
    hands.do("SADD", hands.record(child, "after"), child)

    message = f"job {child} waits for itself"
    await repaired(store, "stuck-blocked", message, "wait no longer")


async def test_an_unknown_policy_makes_a_record_unreadable(
    store: Store, hands: Hands
) -> None:
    parent = await add_one(store, delay="30d")
    child = await add_one(store, after=[parent], on_parent_failure="run")
    hands.rewrite(child, b"failure=run", b"failure=ran")

    [finding] = (await store.check()).findings

    assert (finding.code, finding.job_id) == ("bad-record", child)
    assert "its option failure is 'ran'" in finding.message


# -- very many parents ---------------------------------------------------------


async def very_many(store: Store) -> tuple[int, list[int]]:
    """Add a job that waits for more others than a job may name."""
    target, *members = await add_linked(
        store, linked("email"), *(linked("email", before=[-1]) for _ in range(499))
    )
    for _ in range(2):
        members += await add_linked(
            store, *(linked("email", before=[target]) for _ in range(400))
        )
    return target, members


async def test_a_link_among_very_many_is_checked(store: Store, hands: Hands) -> None:
    target, members = await very_many(store)
    hands.do("DEL", hands.record(members[700], "then"))
    hands.do("SREM", hands.of_shard("parents", target), members[700])

    message = f"job {target} waits for job {members[700]}, which does not know of it"
    await repaired(store, "stuck-blocked", message, "have that one know of it")

    assert hands.do("ZSCORE", hands.record(members[700], "then"), target) == target


async def test_parents_that_still_have_to_forget_a_job_are_no_damage(
    store: Store, hands: Hands
) -> None:
    target, members = await very_many(store)
    await store.move(MoveRequest([target], State.WAITING), now=T0)
    assert hands.do("SCARD", hands.record(target, "left")) == len(members)
    assert await found(store) == []

    hands.do("HDEL", hands.of_shard("outbox", target), f"left:{target}")
    message = f"job {target} no longer waits for jobs that still list it, which "
    repair = "have maintenance notify them"
    await repaired(store, "stray-link", f"{message}are not notified", repair)

    await tend(store)
    assert hands.do("EXISTS", hands.record(members[0], "then")) == 0
    assert hands.do("SCARD", hands.of_shard("parents", target)) == 0
    assert await run_all(store, "email") != []
