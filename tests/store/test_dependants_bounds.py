"""No call of a Redis store keeps the others waiting: what it looks at is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, Failed, State
from kue.store.contract import Store
from kue.store.redis.keys import LIVE_CHUNK
from kue.store.values import (
    MAX_BATCH,
    REMEMBERED_IDS,
    FlowCounts,
    MoveRequest,
    Outcome,
    RemoveRequest,
    Result,
)
from tests.support.flows import linked
from tests.support.hands import Hands
from tests.support.jobs import (
    HOUR,
    OOPS,
    T0,
    add,
    add_many,
    add_one,
    claim,
    count_of,
    end,
    start_one,
    state_of,
)
from tests.support.upkeep import tend

pytestmark = pytest.mark.parametrize("engine", ["redis"], indirect=True)

#: Dependants that one call looks at, and commands that one of them costs at most.
AT_ONCE, EACH = 200, 15


async def add_children(store: Store, count: int, *parents: int) -> None:
    for _ in range(count // MAX_BATCH):
        await add(store, [draft("child", after=parents)] * MAX_BATCH)


async def test_a_settle_looks_at_so_many_dependants_whatever_they_wait_for(
    store: Store, hands: Hands
) -> None:
    """R-7: those that wait for a second parent are looked at, and not released."""
    parent, other = await start_one(store, "a"), await start_one(store, "b")
    await add_children(store, 2_000, parent.id, other.id)

    before = hands.commands()
    await end(store, parent, Completed())

    assert hands.commands() - before < AT_ONCE * EACH
    left = hands.do("ZCARD", hands.record(parent.id, "then"))
    assert left == 2_000 - AT_ONCE


async def test_maintenance_looks_at_each_dependant_once(
    store: Store, hands: Hands
) -> None:
    """R-7: it goes on where the call before stopped."""
    parent, other = await start_one(store, "a"), await start_one(store, "b")
    await add_children(store, 2_000, parent.id, other.id)
    await end(store, parent, Completed())

    left = 2_000 - AT_ONCE
    while left:
        before = hands.commands()
        tended = await store.tend(now=T0)
        assert hands.commands() - before < AT_ONCE * EACH + 200
        assert (tended.released, tended.more) == (0, True)
        left -= AT_ONCE
        assert hands.do("ZCARD", hands.record(parent.id, "then")) == left
    await tend(store)
    assert await count_of(store, "child") == {State.BLOCKED: 2_000}

    await end(store, other, Completed())
    done = await tend(store)

    assert done.released == 2_000 - AT_ONCE
    assert await count_of(store, "child") == {State.WAITING: 2_000}


async def test_a_batch_of_parents_looks_at_as_many_dependants_as_one(
    store: Store, hands: Hands
) -> None:
    """R-7: the bound is that of the call, not of each job that ends in it."""
    await add_many(store, 100, "parent")
    parents = await claim(store, "parent", limit=100)
    for parent in parents:
        await add(store, [draft("child", after=[parent.id])] * 20)

    before = hands.commands()
    outcomes = [Outcome(parent, Completed()) for parent in parents]
    await store.settle(outcomes, now=T0)

    assert hands.commands() - before < AT_ONCE * EACH + 100 * 20
    assert await count_of(store, "child") == {
        State.WAITING: AT_ONCE,
        State.BLOCKED: 2_000 - AT_ONCE,
    }
    await tend(store)
    assert await count_of(store, "child") == {State.WAITING: 2_000}


async def test_an_add_looks_at_a_parent_once_however_many_wait_for_it(
    store: Store, hands: Hands
) -> None:
    """R-7: adds with many dependants."""
    parent = await add_one(store, "parent", delay="1h")

    before = hands.commands()
    await add(store, [draft("child", after=[parent])] * MAX_BATCH)

    writes = 4 * MAX_BATCH
    assert hands.commands() - before < writes + 100


@pytest.mark.parametrize("parents", [1, 100])
async def test_jobs_that_wait_do_not_slow_down_those_nobody_waits_for(
    store: Store, hands: Hands, parents: int
) -> None:
    """R-10: the batch asks once who has dependants."""
    await add_many(store, 400, "email")
    first = await claim(store, "email", limit=200)
    second = await claim(store, "email", limit=200)
    before = hands.commands()
    await store.settle([Outcome(job, Completed()) for job in first], now=T0)
    usual = hands.commands() - before
    waited_for = await add_many(store, parents, "parent", delay="1h")
    child = await add_one(store, "child", after=waited_for)

    before = hands.commands()
    words = await store.settle([Outcome(job, Completed()) for job in second], now=T0)

    assert words == [Result.DONE] * 200
    assert hands.commands() - before <= usual + 3
    assert await state_of(store, child) is State.BLOCKED


@pytest.mark.parametrize("verb", ["cancel", "remove", "move", "clear"])
async def test_blocked_jobs_with_many_parents_are_changed_a_few_at_a_time(
    store: Store, hands: Hands, verb: str
) -> None:
    """R-7: each parent has to forget them, and each of those is looked at."""
    parents = await add_many(store, 400, "parent", delay="1h")
    added = await add(store, [draft("child", after=parents)] * 10)
    ids = [one.id for one in added]
    scripts = hands.scripts()

    if verb == "cancel":
        words = {reply.word for reply in await store.cancel(ids, now=T0)}
    elif verb == "remove":
        words = {reply.word for reply in await store.remove(RemoveRequest(ids), now=T0)}
    elif verb == "move":
        words = {
            reply.word
            for reply in await store.move(MoveRequest(ids, State.WAITING), now=T0)
        }
    else:
        words = {Result.DONE}
        while await store.clear("child", [State.BLOCKED], now=T0):
            pass

    assert words == {Result.DONE}
    assert hands.scripts() - scripts >= 4
    assert (await count_of(store, "child")).get(State.BLOCKED, 0) == 0


# -- very many parents ---------------------------------------------------------

MANY = 2_500


async def add_before(store: Store, count: int, *targets: int) -> list[int]:
    """Add jobs that come before others, and are members of the flow of the first."""
    ids: list[int] = []
    for _ in range(count // MAX_BATCH):
        drafts = [linked("member", before=targets, flow=targets[0])] * MAX_BATCH
        ids += [one.id for one in await add(store, drafts)]
    return ids


async def target(store: Store, **options: Any) -> int:
    """Add a job that is blocked by another, which is far from its end."""
    parent = await add_one(store, "parent", delay="30d")
    return await add_one(store, "target", after=[parent], **options)


async def test_an_add_of_members_costs_the_same_however_many_there_are(
    store: Store, hands: Hands
) -> None:
    job_id = await target(store)

    before = hands.commands()
    await add_before(store, MAX_BATCH, job_id)
    first = hands.commands() - before
    await add_before(store, MANY, job_id)
    before = hands.commands()
    await add_before(store, MAX_BATCH, job_id)

    # The target is looked up once, and each member linked to it.
    assert first < 3 * MAX_BATCH + 100
    assert abs(hands.commands() - before - first) < 10


async def test_a_settle_of_members_looks_at_so_many_dependants(
    store: Store, hands: Hands
) -> None:
    job_id = await target(store, on_parent_failure="run")
    await add_before(store, MANY, job_id)
    members = await claim(store, "member", limit=MAX_BATCH)

    before = hands.commands()
    await store.settle([Outcome(job, Completed()) for job in members], now=T0)

    # And counts every one of them.
    assert hands.commands() - before < AT_ONCE * EACH + 12 * MAX_BATCH
    [counts] = await store.flow_counts([job_id])
    assert counts == FlowCounts(MANY, complete=MAX_BATCH)
    await tend(store)
    left = hands.do("SCARD", hands.record(job_id, "after"))
    assert left == MANY - MAX_BATCH + 1


@pytest.mark.parametrize("verb", ["cancel", "remove", "move", "clear", "expire"])
async def test_a_job_with_very_many_parents_leaves_them_to_maintenance(
    store: Store, hands: Hands, verb: str
) -> None:
    job_id = await target(store, expires="1h")
    members = await add_before(store, MANY, job_id)

    before = hands.commands()
    if verb == "cancel":
        await store.cancel([job_id], now=T0)
    elif verb == "remove":
        await store.remove(RemoveRequest([job_id]), now=T0)
    elif verb == "move":
        await store.move(MoveRequest([job_id], State.WAITING), now=T0)
    elif verb == "clear":
        await store.clear("target", [State.BLOCKED], now=T0)
    else:
        # In this pass the first parents forget it, too.
        await store.tend(now=T0 + HOUR, limit=1)
    assert hands.commands() - before < (AT_ONCE * EACH if verb == "expire" else 100)

    await forgotten(store, hands, T0 + HOUR if verb == "expire" else T0)
    lists = [hands.record(member, "then") for member in members]
    assert hands.do("EXISTS", *lists, hands.record(job_id, "left")) == 0


async def test_a_job_for_failures_leaves_its_other_parents_to_maintenance(
    store: Store, hands: Hands
) -> None:
    job_id = await target(store, on_parent_failure="only")
    members = await add_before(store, MANY, job_id)
    failed = await claim(store, "member", limit=1)

    before = hands.commands()
    await store.settle([Outcome(job, Failed(OOPS)) for job in failed], now=T0)

    assert hands.commands() - before < 100
    assert await state_of(store, job_id) is State.WAITING
    await forgotten(store, hands, T0)
    lists = [hands.record(member, "finally") for member in members]
    assert hands.do("EXISTS", *lists, hands.record(job_id, "left")) == 0


async def forgotten(store: Store, hands: Hands, now: int) -> None:
    """Tend until no parent lists the job any more; each pass is bounded."""
    is_over = False
    while not is_over:
        before = hands.commands()
        is_over = not (await store.tend(now=now)).more
        assert hands.commands() - before < AT_ONCE * EACH + 200


async def test_a_flow_with_very_many_members_is_removed_at_once(
    store: Store, hands: Hands
) -> None:
    root = await add_one(store, "root")
    for _ in range(MANY // MAX_BATCH):
        await add(store, [linked("member", flow=root)] * MAX_BATCH)

    before = hands.commands()
    await store.remove(RemoveRequest([root]), now=T0)

    assert hands.commands() - before < 60
    assert await count_of(store, "member") == {State.WAITING: MANY}


async def test_what_is_remembered_of_removed_jobs_is_bounded(
    store: Store, hands: Hands
) -> None:
    """The oldest bitmap goes when the newest job needs another."""
    old = await add_one(store)
    await store.remove(RemoveRequest([old]), now=T0)
    chunks = REMEMBERED_IDS // LIVE_CHUNK + 2
    hands.do("SET", hands.of_shard("ids"), chunks * LIVE_CHUNK - 1)
    assert hands.do("EXISTS", hands.of_shard("lost:0")) == 1

    child = await add_one(store, after=[old])

    assert await state_of(store, child) is State.CANCELLED
    assert hands.do("EXISTS", hands.of_shard("lost:0")) == 0
