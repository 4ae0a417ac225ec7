"""Named limits: so many jobs run at once, shared by name and key between types."""

from __future__ import annotations

from contextlib import suppress
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
from kue.model.named_limits import LimitRule, StoredLimit
from kue.store.contract import Store
from kue.store.values import (
    Change,
    Limits,
    LimitUse,
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
STRIPE = {"stripe": ""}


async def set_concurrency(store: Store, number: int, name: str = "stripe") -> None:
    rule = LimitRule(concurrency=number)
    await store.set_named_limit(name, StoredLimit(rule), now=T0)


@pytest.fixture
async def limited(store: Store) -> Store:
    """A store where one job may run at once under each key of "stripe"."""
    await set_concurrency(store, 1)
    return store


async def hold_one(store: Store, **options: Any) -> tuple[int, int]:
    """Have one job running and another held."""
    first = await add_one(store, limited_by=STRIPE)
    await claim_one(store)
    second = await add_one(store, limited_by=STRIPE, **options)
    assert await claim_ids(store) == []
    return first, second


async def test_limits_are_read_by_name(store: Store, other_store: Store) -> None:
    declared = LimitRule(rate=10, per=500, burst=3)
    api = StoredLimit(LimitRule(rate=20), declared)
    await store.set_named_limit("api", api, now=T0)
    await set_concurrency(store, 3, "a:b{c}%")

    assert await other_store.named_limits() == {
        "a:b{c}%": StoredLimit(LimitRule(concurrency=3)),
        "api": api,
    }


async def test_a_limit_is_replaced_and_deleted(store: Store) -> None:
    await set_concurrency(store, 1)
    await set_concurrency(store, 2)
    assert (await store.named_limits())["stripe"].rule.concurrency == 2

    await store.set_named_limit("stripe", None, now=T0)
    await store.set_named_limit("stripe", None, now=T0)

    assert await store.named_limits() == {}


@pytest.mark.parametrize("name", ["", "..", "a\tb"])
async def test_a_limit_needs_a_name(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="limit"):
        await set_concurrency(store, 1, name)


async def test_so_many_run_at_once(store: Store) -> None:
    await set_concurrency(store, 2)
    ids = await add_many(store, 5, limited_by=STRIPE)

    assert await claim_ids(store, limit=10) == ids[:2]
    assert await claim_ids(store, limit=10) == []


async def test_a_limit_without_a_rule_limits_nothing(store: Store) -> None:
    ids = await add_many(store, 5, limited_by=STRIPE)

    assert await claim_ids(store, limit=10) == ids


async def test_each_key_has_its_own_slots(limited: Store) -> None:
    a = await add_many(limited, 3, limited_by={"stripe": "a"})
    b = await add_many(limited, 3, limited_by={"stripe": "b"})
    c = await add_many(limited, 3, limited_by=STRIPE)

    assert await claim_ids(limited, limit=10) == [a[0], b[0], c[0]]


async def test_jobs_under_a_full_key_do_not_hold_back_those_behind_them(
    limited: Store,
) -> None:
    await add_many(limited, 20, limited_by={"stripe": "a"})
    last = await add_one(limited, limited_by={"stripe": "b"})
    free = await add_one(limited)

    found = await claim_ids(limited, limit=3)

    assert {last, free} <= set(found)


async def test_types_share_a_limit(store: Store) -> None:
    """The run of one type that ends lets the best job of any type start."""
    other = await neighbour_of_email(store)
    await set_concurrency(store, 1)
    first = await add_one(store, "email", limited_by=STRIPE)
    await add_one(store, "email", limited_by=STRIPE, priority="low")
    best = await add_one(store, other, limited_by=STRIPE)
    running = await claim_one(store, "email")
    assert running.id == first
    assert await claim_ids(store, "email", other) == []

    await end(store, running, Completed())

    assert await claim_ids(store, other, "email", limit=1) == [best]
    assert await claim_ids(store, other, "email") == []


async def neighbour_of_email(store: Store) -> str:
    """Return a type on the shard of "email": others cannot share a limit with it."""
    rule = StoredLimit(LimitRule(concurrency=1))
    for number in range(100):
        types = ["email", f"sms {number}"]
        with suppress(ValueError):
            await store.set_named_limit("probe", rule, types=types, now=T0)
            await store.set_named_limit("probe", None, now=T0)
            return types[1]
    raise AssertionError("no type lives on the shard of email")


async def test_a_job_counts_against_all_its_limits(store: Store) -> None:
    await set_concurrency(store, 2, "stripe")
    await set_concurrency(store, 1, "customer")
    a = await add_many(store, 2, limited_by={"stripe": "", "customer": "a"})
    b = await add_many(store, 2, limited_by={"customer": "b", "stripe": ""})
    c = await add_one(store, limited_by={"stripe": "", "customer": "c"})

    assert await claim_ids(store, limit=10) == [a[0], b[0]]
    assert (await get_one(store, c)).held != ""


async def test_a_slot_that_a_released_job_does_not_take_goes_to_the_next(
    store: Store,
) -> None:
    """It was released for one limit, and another one holds it then."""
    await set_concurrency(store, 2, "stripe")
    await set_concurrency(store, 1, "customer")
    await add_one(store, limited_by={"stripe": "", "customer": "a"})
    other = await add_one(store, limited_by={"stripe": ""})
    _, running = await claim(store)
    assert running.id == other
    held = await add_one(store, limited_by={"stripe": "", "customer": "a"})
    last = await add_one(store, limited_by={"stripe": ""})
    assert await claim_ids(store) == []

    await end(store, running, Completed())
    found: list[int] = []
    for _ in range(3):
        found += await claim_ids(store)

    assert found == [last]
    assert "customer" in (await get_one(store, held)).held


async def test_group_and_limit_both_apply(limited: Store) -> None:
    await limited.limit("email", Limits(per_key=1), now=T0)
    first = await add_one(limited, group="g", limited_by=STRIPE)
    second = await add_one(limited, group="g", limited_by={"stripe": "b"})
    third = await add_one(limited, group="h", limited_by=STRIPE)
    fourth = await add_one(limited, group="h", limited_by={"stripe": "b"})

    assert await claim_ids(limited) == [first, fourth]

    for held in (second, third):
        assert (await get_one(limited, held)).held != ""


async def test_a_held_job_waits_and_says_why(limited: Store) -> None:
    _, held = await hold_one(limited)

    job = await get_one(limited, held)

    assert job.state is State.WAITING
    assert job.held == "waits for limit 'stripe', 1 running"
    assert job.held_until is None
    assert job.limited_by == (("stripe", ""),)
    assert await count_of(limited) == {State.ACTIVE: 1, State.WAITING: 1}


async def test_the_reason_names_the_key(limited: Store) -> None:
    await add_many(limited, 2, limited_by={"stripe": "customer 42"})
    await claim_one(limited)
    assert await claim_ids(limited) == []

    [job] = (await limited.page(PageRequest(State.WAITING))).jobs

    assert job.held == "waits for limit 'stripe' of 'customer 42', 1 running"


async def test_held_jobs_are_on_the_page_of_those_that_wait(limited: Store) -> None:
    _, held = await hold_one(limited)
    behind = await add_one(limited, limited_by=STRIPE)
    ahead = await add_one(limited, limited_by=STRIPE, priority="high")

    page = await limited.page(PageRequest(State.WAITING, "email"))

    assert [job.id for job in page.jobs] == [ahead, held, behind]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
async def test_the_next_runs_once_a_run_has_ended(
    limited: Store, ending: Ending
) -> None:
    await add_one(limited, limited_by=STRIPE, attempts=5)
    running = await claim_one(limited)
    waiting = await add_many(limited, 2, limited_by=STRIPE)
    assert await claim_ids(limited) == []

    await end(limited, running, ending)

    assert await claim_ids(limited) == [waiting[0]]
    assert await claim_ids(limited) == []


async def test_no_attempt_is_spent_by_waiting(limited: Store) -> None:
    first, held = await hold_one(limited)
    for _ in range(3):
        assert await claim_ids(limited) == []
    await limited.remove(RemoveRequest([first], force=True), now=T0)

    job = await claim_one(limited)

    assert (job.id, job.attempts, job.history) == (held, 1, ())


async def test_the_next_runs_once_a_worker_is_lost(limited: Store) -> None:
    await hold_one(limited)

    await lose_worker(limited, T0)

    assert len(await claim(limited, now=T0 + 20 * SECOND)) == 1
    assert await claim(limited, now=T0 + 20 * SECOND) == []


async def test_the_next_runs_once_the_ttl_has_passed(limited: Store) -> None:
    await add_one(limited, limited_by=STRIPE, ttl="2s")
    await claim_one(limited)
    second = await add_one(limited, limited_by=STRIPE)
    assert await claim_ids(limited) == []

    await pass_time(limited, T0, T0 + 2 * SECOND + 1)

    assert await claim_ids(limited, now=T0 + 3 * SECOND) == [second]


async def test_the_next_runs_once_the_job_is_removed(limited: Store) -> None:
    first, second = await hold_one(limited)

    await limited.remove(RemoveRequest([first], force=True), now=T0)

    assert await claim_ids(limited) == [second]


async def test_a_job_that_completes_and_is_removed_frees_its_slot(
    limited: Store,
) -> None:
    await add_one(limited, limited_by=STRIPE, remove_on_complete=True)
    running = await claim_one(limited)
    second = await add_one(limited, limited_by=STRIPE)
    assert await claim_ids(limited) == []

    await end(limited, running, Completed())

    assert await claim_ids(limited) == [second]


@pytest.mark.parametrize("number", [None, 2, 50])
async def test_a_wider_limit_releases_what_it_held(
    limited: Store, number: int | None
) -> None:
    await hold_one(limited)
    held = await add_many(limited, 3, limited_by=STRIPE)
    assert await claim_ids(limited) == []

    rule = None if number is None else StoredLimit(LimitRule(concurrency=number))
    await limited.set_named_limit("stripe", rule, now=T0)

    found = await claim_ids(limited)
    assert len(found) == (1 if number == 2 else 4)
    assert (held[-1] in found) is (number != 2)


async def test_very_many_held_jobs_are_released(limited: Store) -> None:
    await add_many(limited, 700, limited_by=STRIPE)
    await add_many(limited, 30, limited_by={"stripe": "other"})
    for _ in range(4):
        await claim(limited, limit=10)

    await limited.set_named_limit("stripe", None, now=T0)

    found: list[int] = []
    while some := await claim_ids(limited, limit=500):
        found += some
    assert len(set(found)) == 728


async def test_a_narrower_limit_counts_what_runs(store: Store) -> None:
    await set_concurrency(store, 3)
    await add_many(store, 6, limited_by=STRIPE)
    first, *others = await claim(store)
    assert len(others) == 2

    await set_concurrency(store, 2)
    await end(store, first, Completed())
    assert await claim_ids(store) == []
    await end(store, others[0], Completed())

    assert len(await claim_ids(store)) == 1


async def test_runs_that_began_before_the_limit_count(store: Store) -> None:
    await add_many(store, 3, limited_by=STRIPE)
    await claim(store, limit=1)
    await set_concurrency(store, 1)

    assert await claim(store) == []


async def test_released_jobs_go_by_priority(limited: Store) -> None:
    await add_one(limited, limited_by=STRIPE)
    running = await claim_one(limited)
    normal = await add_one(limited, limited_by=STRIPE)
    low = await add_one(limited, limited_by=STRIPE, priority="low")
    high = await add_one(limited, limited_by=STRIPE, priority="high")
    assert await claim_ids(limited) == []
    order = []
    for _ in range(3):
        await end(limited, running, Completed())
        running = await claim_one(limited)
        order.append(running.id)

    assert order == [high, normal, low]


async def test_a_repeated_ending_frees_one_slot(limited: Store) -> None:
    await add_many(limited, 4, limited_by=STRIPE)
    job = await claim_one(limited)
    for _ in range(3):
        await end(limited, job, Completed())

    assert len(await claim(limited)) == 1
    assert await claim(limited) == []


async def test_a_held_job_can_be_cancelled(limited: Store) -> None:
    first, held = await hold_one(limited)

    [reply] = await limited.cancel([held], now=T0)

    assert reply.word is Result.DONE
    assert (await get_one(limited, held)).held == ""
    await limited.remove(RemoveRequest([first], force=True), now=T0)
    assert await claim_ids(limited) == []


async def test_a_held_job_can_be_removed(limited: Store) -> None:
    first, held = await hold_one(limited)

    [reply] = await limited.remove(RemoveRequest([held]), now=T0)

    assert reply.word is Result.DONE
    await limited.remove(RemoveRequest([first], force=True), now=T0)
    assert await claim_ids(limited) == []
    assert await limited.limit_use("stripe", now=T0) == []


async def test_a_held_job_can_be_delayed_and_comes_back(limited: Store) -> None:
    first, held = await hold_one(limited)

    [reply] = await limited.move(
        MoveRequest([held], State.DELAYED, at=T0 + MINUTE), now=T0
    )

    assert reply.word is Result.DONE
    await limited.remove(RemoveRequest([first], force=True), now=T0)
    assert await claim_ids(limited) == []
    assert await claim_ids(limited, now=T0 + MINUTE) == [held]


async def test_a_released_job_that_is_cancelled_lets_the_next_start(
    limited: Store,
) -> None:
    first, second = await hold_one(limited)
    third = await add_one(limited, limited_by=STRIPE)
    assert await claim_ids(limited) == []
    await limited.remove(RemoveRequest([first], force=True), now=T0)

    await limited.cancel([second], now=T0)

    assert await claim_ids(limited) == [third]


async def test_a_held_job_may_expire(limited: Store) -> None:
    _, held = await hold_one(limited, expires="1m")

    assert (await tend(limited, T0 + MINUTE + 1)).expired == 1
    assert await state_of(limited, held) is State.FAILED


async def test_a_held_job_takes_a_new_priority(limited: Store) -> None:
    first, held = await hold_one(limited)
    rival = await add_one(limited, limited_by=STRIPE, priority=-1)
    assert await claim_ids(limited) == []

    await limited.update([Change(held, priority=-2)], now=T0)
    await limited.remove(RemoveRequest([first], force=True), now=T0)

    assert await claim_ids(limited) == [held]
    assert await state_of(limited, rival) is State.WAITING


async def test_clearing_those_that_wait_clears_held_ones(limited: Store) -> None:
    await hold_one(limited)
    await add_one(limited, limited_by={"stripe": "b"})

    assert await limited.clear("email", [State.WAITING], now=T0) == 2
    assert await count_of(limited) == {State.ACTIVE: 1}


async def test_limits_of_the_type_release_held_jobs_to_be_held_again(
    limited: Store,
) -> None:
    _, held = await hold_one(limited)

    await limited.limit("email", Limits(concurrency=5), now=T0)

    assert await claim_ids(limited) == []
    assert "stripe" in (await get_one(limited, held)).held


async def test_use_is_counted_by_key(limited: Store) -> None:
    await add_many(limited, 4, limited_by={"stripe": "a"})
    await add_many(limited, 2, limited_by={"stripe": "b:b"})
    await add_one(limited, limited_by={"stripe": "c"})
    running = await claim(limited)
    for job in running:
        if job.limited_by == (("stripe", "c"),):
            await end(limited, job, Completed())

    use = await limited.limit_use("stripe", now=T0)

    assert use == [LimitUse("a", 1, 3), LimitUse("b:b", 1, 1)]
    assert await limited.limit_use("stripe", limit=1, now=T0) == use[:1]
    assert await limited.limit_use("strip", now=T0) == []


async def test_maintenance_leaves_held_jobs_alone(limited: Store) -> None:
    _, held = await hold_one(limited)

    await pass_time(limited, T0, T0 + 5 * SECOND)

    assert (await get_one(limited, held)).held != ""


async def test_jobs_that_are_removed_together_let_the_next_start(
    limited: Store,
) -> None:
    """The end of the first lets the second start, which is removed as well."""
    first, second = await hold_one(limited)
    third = await add_one(limited, limited_by=STRIPE)
    assert await claim_ids(limited) == []

    await limited.remove(RemoveRequest([first, second], force=True), now=T0)

    assert await claim_ids(limited) == [third]
