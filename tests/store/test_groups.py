"""`Limits.per_key`: so many of one group run at once; the others are set aside."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.job import (
    Cancelled,
    Completed,
    Ending,
    Failed,
    Released,
    Retried,
    Stalled,
    State,
)
from kue.store.contract import Store
from kue.store.values import (
    Change,
    Limits,
    MoveRequest,
    PageRequest,
    RemoveRequest,
    Result,
)
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    state_of,
)
from tests.support.upkeep import lose_worker, pass_time, tend

ENDINGS: list[Ending] = [
    Completed(),
    Failed(OOPS),
    Cancelled(),
    Retried(OOPS, HOUR),
    Released(HOUR),
    Stalled(OOPS, HOUR),
]


@pytest.fixture
async def limited(store: Store) -> Store:
    """A store where one job of each group may run at once."""
    await store.limit("email", Limits(per_key=1), now=T0)
    return store


async def set_one_aside(store: Store, **options: Any) -> tuple[int, int]:
    """Have one job of a group running and another set aside."""
    first = await add_one(store, group="a")
    await claim_one(store)
    second = await add_one(store, group="a", **options)
    assert await claim_ids(store) == []
    return first, second


async def test_one_of_each_group_runs(limited: Store) -> None:
    a = await add_many(limited, 3, group="a")
    b = await add_many(limited, 3, group="b")

    assert await claim_ids(limited, limit=10) == [a[0], b[0]]


async def test_a_number_above_one_is_that_many(store: Store) -> None:
    await store.limit("email", Limits(per_key=2), now=T0)
    a = await add_many(store, 5, group="a")
    b = await add_many(store, 1, group="b")

    assert await claim_ids(store, limit=10) == [*a[:2], *b]


async def test_a_full_group_does_not_hold_up_those_behind_it(limited: Store) -> None:
    """Jobs over the limit step aside; the claim is filled from further back."""
    await add_many(limited, 20, group="a")
    last = await add_one(limited, group="b")

    assert last in await claim_ids(limited, limit=2)


async def test_jobs_without_a_group_are_not_held_back(limited: Store) -> None:
    ids = await add_many(limited, 5)

    assert await claim_ids(limited) == ids


async def test_a_job_set_aside_waits_and_says_why(limited: Store) -> None:
    _, aside = await set_one_aside(limited)

    job = await get_one(limited, aside)
    assert job.state is State.WAITING
    assert job.held != ""
    assert await count_of(limited) == {State.ACTIVE: 1, State.WAITING: 1}


async def test_a_job_set_aside_is_on_the_page_of_those_that_wait(
    limited: Store,
) -> None:
    _, aside = await set_one_aside(limited)
    behind = await add_one(limited, group="a")
    ahead = await add_one(limited, group="a", priority="high")

    page = await limited.page(PageRequest(State.WAITING, "email"))

    assert [job.id for job in page.jobs] == [ahead, aside, behind]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
async def test_the_next_of_the_group_runs_once_the_run_has_ended(
    limited: Store, ending: Ending
) -> None:
    await add_one(limited, group="a", attempts=5)
    running = await claim_one(limited)
    waiting = await add_many(limited, 2, group="a")
    assert await claim_ids(limited) == []

    await end(limited, running, ending)

    assert await claim_ids(limited) == [waiting[0]]
    assert await claim_ids(limited) == []


async def test_the_next_of_the_group_runs_once_its_worker_is_lost(
    limited: Store,
) -> None:
    await set_one_aside(limited)

    await lose_worker(limited, T0)

    assert len(await claim(limited, now=T0 + 20 * SECOND)) == 1
    assert await claim(limited, now=T0 + 20 * SECOND) == []


async def test_the_next_of_the_group_runs_once_the_ttl_has_passed(
    limited: Store,
) -> None:
    first = await add_one(limited, group="a", ttl="2s")
    await claim_one(limited)
    second = await add_one(limited, group="a")
    assert await claim_ids(limited) == []

    await pass_time(limited, T0, T0 + 2 * SECOND + 1)

    assert await claim_ids(limited, now=T0 + 3 * SECOND) == [second]
    assert await state_of(limited, first) is State.FAILED


async def test_the_next_of_the_group_runs_once_the_job_is_removed(
    limited: Store,
) -> None:
    first, second = await set_one_aside(limited)

    await limited.remove(RemoveRequest([first], force=True), now=T0)

    assert await claim_ids(limited) == [second]


@pytest.mark.parametrize(
    "limits", [None, Limits(), Limits(per_key=2)], ids=["none", "other", "wider"]
)
async def test_a_limit_that_changes_frees_what_it_held(
    limited: Store, limits: Limits | None
) -> None:
    _, aside = await set_one_aside(limited)

    await limited.limit("email", limits, now=T0)

    assert (await get_one(limited, aside)).held == ""
    assert await claim_ids(limited) == [aside]


async def test_the_freed_jobs_of_a_group_go_by_priority(limited: Store) -> None:
    await add_one(limited, group="a")
    running = await claim_one(limited)
    normal = await add_one(limited, group="a")
    low = await add_one(limited, group="a", priority="low")
    high = await add_one(limited, group="a", priority="high")
    assert await claim_ids(limited) == []
    order = []
    for _ in range(3):
        await end(limited, running, Completed())
        running = await claim_one(limited)
        order.append(running.id)

    assert order == [high, normal, low]


async def test_a_repeated_ending_frees_the_group_once(limited: Store) -> None:
    await add_many(limited, 4, group="a")
    job = await claim_one(limited)
    for _ in range(3):
        await end(limited, job, Completed())

    assert len(await claim(limited)) == 1
    assert await claim(limited) == []


async def test_groups_of_two_types_are_two_groups(limited: Store) -> None:
    await limited.limit("sms", Limits(per_key=1), now=T0)
    email = await add_one(limited, "email", group="a")
    sms = await add_one(limited, "sms", group="a")

    assert sorted(await claim_ids(limited, "email", "sms")) == sorted([email, sms])


async def test_runs_that_began_before_the_limit_count(store: Store) -> None:
    await add_many(store, 3, group="a")
    await claim(store, limit=1)
    await store.limit("email", Limits(per_key=1), now=T0)

    assert await claim(store) == []


async def test_a_job_set_aside_can_be_cancelled(limited: Store) -> None:
    first, aside = await set_one_aside(limited)

    [reply] = await limited.cancel([aside], now=T0)

    assert reply.word is Result.DONE
    assert (await get_one(limited, aside)).held == ""
    await limited.remove(RemoveRequest([first], force=True), now=T0)
    assert await claim_ids(limited) == []


async def test_a_job_set_aside_can_be_removed(limited: Store) -> None:
    first, aside = await set_one_aside(limited)

    [reply] = await limited.remove(RemoveRequest([aside]), now=T0)

    assert reply.word is Result.DONE
    await limited.remove(RemoveRequest([first], force=True), now=T0)
    assert await claim_ids(limited) == []


async def test_a_job_set_aside_can_be_delayed_and_comes_back(limited: Store) -> None:
    first, aside = await set_one_aside(limited)

    [reply] = await limited.move(
        MoveRequest([aside], State.DELAYED, at=T0 + MINUTE), now=T0
    )

    assert reply.word is Result.DONE
    assert await state_of(limited, aside) is State.DELAYED
    await limited.remove(RemoveRequest([first], force=True), now=T0)
    assert await claim_ids(limited) == []
    assert await claim_ids(limited, now=T0 + MINUTE) == [aside]


async def test_a_job_set_aside_waits_already(limited: Store) -> None:
    _, aside = await set_one_aside(limited)

    [reply] = await limited.move(MoveRequest([aside], State.WAITING), now=T0)

    assert reply.word is Result.ALREADY


async def test_a_job_set_aside_may_expire(limited: Store) -> None:
    _, aside = await set_one_aside(limited, expires="1m")

    assert (await tend(limited, T0 + MINUTE + 1)).expired == 1
    assert await state_of(limited, aside) is State.FAILED


async def test_a_job_set_aside_takes_a_new_priority(limited: Store) -> None:
    first, aside = await set_one_aside(limited)
    rival = await add_one(limited, group="a", priority=-1)
    assert await claim_ids(limited) == []

    await limited.update([Change(aside, priority=-2)], now=T0)
    await limited.remove(RemoveRequest([first], force=True), now=T0)

    assert await claim_ids(limited) == [aside]
    assert await state_of(limited, rival) is State.WAITING


async def test_clearing_those_that_wait_clears_those_set_aside(limited: Store) -> None:
    await set_one_aside(limited)
    await add_one(limited, group="b")

    assert await limited.clear("email", [State.WAITING], now=T0) == 2
    assert await count_of(limited) == {State.ACTIVE: 1}


async def test_a_job_that_expires_lets_none_back_while_its_group_is_full(
    store: Store,
) -> None:
    await store.limit("email", Limits(per_key=1), now=T0)
    first = await add_one(store, group="g")
    await add_one(store, group="g", expires="1s")
    third = await add_one(store, group="g")

    assert await claim_ids(store, now=T0 + SECOND) == [first]

    [job] = await store.get([third])
    assert job is not None
    assert job.held
