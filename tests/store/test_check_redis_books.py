"""`check` of a Redis store: what is kept beside a job's state, damaged by hand."""

from __future__ import annotations

import pytest

from kue.model.job import Completed, Retried, Stalled, State
from kue.store.contract import Store
from kue.store.values import (
    Change,
    Limits,
    MoveRequest,
    PageRequest,
    Progress,
    RemoveRequest,
)
from tests.support.hands import Hands, found, left_alone, mended
from tests.support.jobs import (
    HOUR,
    OOPS,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]


async def hold_one(store: Store) -> tuple[int, int]:
    """Have one job of a group run and another held back by that; return both."""
    await store.limit("email", Limits(per_key=1), now=T0)
    running, held = await add_many(store, 2, group="a group")
    assert await claim_ids(store) == [running]
    assert (await get_one(store, held)).held
    return running, held


# -- marks and scores ----------------------------------------------------------


async def test_a_job_that_is_not_marked_as_living_is_marked(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    hands.mark_live(job_id, 0)
    assert (await store.page(PageRequest())).jobs == []

    message = f"job {job_id} is not marked as living, so that pages over all states "
    await mended(store, "count-drift", message + "leave it out", "mark it")

    assert [job.id for job in (await store.page(PageRequest())).jobs] == [job_id]


async def test_a_wrong_score_in_line_is_set_right(store: Store, hands: Hands) -> None:
    first = await add_one(store, priority="high")
    await add_one(store)
    hands.do("ZADD", hands.of_type("waiting"), 5e15, first)

    right = hands.line_score(first, -10)
    message = f"job {first} is in waiting with the score 5000000000000000, where "
    await mended(store, "bad-score", f"{message}{right} is right", f"set it to {right}")

    assert (await claim_ids(store))[0] == first


async def test_a_wrong_score_of_a_held_job_is_set_right(
    store: Store, hands: Hands
) -> None:
    _, held = await hold_one(store)
    hands.do("ZADD", hands.of_type("held"), 1.5, held)

    right = hands.line_score(held)
    message = f"job {held} is in held with the score 1.5, where {right} is right"
    await mended(store, "bad-score", message, f"set it to {right}")


async def test_a_wrong_score_of_a_blocked_job_is_set_right(
    store: Store, hands: Hands
) -> None:
    job_id = await job_in(store, State.BLOCKED)
    hands.do("ZADD", hands.of_type("blocked"), 0, job_id)

    message = f"job {job_id} is in blocked with the score 0, where {job_id} is right"
    await mended(store, "bad-score", message, f"set it to {job_id}")


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_a_time_that_is_none_is_taken_from_the_story(
    store: Store, hands: Hands, state: State
) -> None:
    job_id = await job_in(store, state, retention="1h")
    hands.do("ZADD", hands.of_type(state), "-inf", job_id)

    message = f"job {job_id} is in {state} with the score -inf, where {T0} is right"
    await mended(store, "bad-score", message, f"set it to {T0}")


async def test_a_delayed_job_that_would_never_be_due_is_due_when_it_was_to_be(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store, delay="1h")
    hands.do("ZADD", hands.of_type("delayed"), "inf", job_id)

    message = f"job {job_id} is in delayed with the score inf, where {T0 + HOUR} is "
    await mended(store, "bad-score", message + "right", f"set it to {T0 + HOUR}")

    assert (await get_one(store, job_id)).promote_at == T0 + HOUR


# -- attempts ------------------------------------------------------------------


async def test_tries_that_are_no_numbers_are_taken_from_the_story(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store, attempts=9)
    await end(store, job, Retried(OOPS))
    [job] = await claim(store)
    await end(store, job, Stalled(OOPS))
    hands.do("HSET", hands.of_type("tries"), job.id, "one:two")

    message = f"job {job.id} has tries of 'one:two', which are no numbers"
    await mended(
        store, "attempts-range", message, "set them to 1:1, as its story tells"
    )

    [again] = await claim(store)
    assert (again.attempts, again.stalls) == (2, 1)


async def test_a_restart_counts_attempts_and_stalls_from_nothing(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store, attempts=9)
    await end(store, job, Stalled(OOPS))
    await store.cancel([job.id])
    await store.move(MoveRequest([job.id], State.WAITING))
    hands.do("HSET", hands.of_type("tries"), job.id, "x")

    message = f"job {job.id} has tries of 'x', which are no numbers"
    await mended(
        store, "attempts-range", message, "set them to 0:0, as its story tells"
    )


async def test_more_attempts_than_there_may_be_are_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store, attempts=3)
    hands.do("HSET", hands.of_type("tries"), job_id, "3:0")

    message = f"job {job_id} is in waiting with 3 attempts made of 3, and its story "
    await left_alone(store, hands, "attempts-range", message + "tells of 0")


async def test_attempts_that_the_story_accounts_for_are_fine(store: Store) -> None:
    """Someone lowered the limit, or whoever ended a run wanted one more."""
    job = await start_one(store, attempts=5)
    await end(store, job, Retried(OOPS))
    await store.update([Change(job.id, max_attempts=1)])
    other = await start_one(store, "sms", attempts=1)
    await end(store, other, Retried(OOPS))

    assert await found(store) == []


# -- entries -------------------------------------------------------------------

STRAYS = [
    ("tries", State.BLOCKED),
    ("progress", State.WAITING),
    ("progress", State.COMPLETE),
    ("ttl", State.DELAYED),
    ("ttl", State.ACTIVE),
    ("expires", State.WAITING),
    ("expires", State.ACTIVE),
    ("expires", State.FAILED),
    ("retain_failed", State.WAITING),
    ("retain_cancelled", State.CANCELLED),
]


def put(hands: Hands, structure: str, job_id: int) -> None:
    key = hands.of_type(structure)
    if structure in ("tries", "progress"):
        hands.do("HSET", key, job_id, "1:0" if structure == "tries" else "5\tnull")
    else:
        hands.do("ZADD", key, T0, job_id)


@pytest.mark.parametrize(("structure", "state"), STRAYS)
async def test_an_entry_that_a_job_cannot_have_is_taken_out(
    store: Store, hands: Hands, structure: str, state: State
) -> None:
    job_id = await job_in(store, state)
    put(hands, structure, job_id)

    message = f"job {job_id} is in {state}, but has an entry in {structure}"
    await mended(store, "stray-entry", message, "take it out")

    assert await state_of(store, job_id) is state


@pytest.mark.parametrize(
    "structure", ["tries", "progress", "ttl", "expires", "retain_complete"]
)
async def test_an_entry_of_a_job_that_is_gone_is_taken_out(
    store: Store, hands: Hands, structure: str
) -> None:
    job_id = await add_one(store)
    await store.remove(RemoveRequest([job_id]))
    put(hands, structure, job_id)

    message = f"job {job_id} is gone, but has an entry in {structure}"
    await mended(store, "stray-entry", message, "take it out")


async def test_several_stray_entries_are_one_finding(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    put(hands, "progress", job_id)
    put(hands, "ttl", job_id)
    put(hands, "retain_failed", job_id)

    message = f"job {job_id} is in waiting, but has an entry in "
    message += "progress, ttl and retain_failed"
    await mended(store, "stray-entry", message, "take it out")


async def test_an_entry_in_another_type_is_taken_out(
    store: Store, hands: Hands
) -> None:
    other = hands.neighbour()
    job = await start_one(store, ttl="1h")
    await add_one(store, other)
    hands.do("ZADD", hands.of_type("ttl", other), T0, job.id)

    message = f"job {job.id} is in active, but has an entry in ttl"
    await mended(store, "stray-entry", message, "take it out")

    assert hands.do("ZSCORE", hands.of_type("ttl"), job.id) is not None


async def test_a_request_to_end_of_a_job_that_does_not_run_is_forgotten(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    hands.do("HSET", hands.home("cancelling"), job_id, "email")

    message = f"job {job_id} is in waiting, but has an entry in cancelling"
    await mended(store, "stray-entry", message, "take it out")


async def test_a_request_to_end_of_a_job_that_is_gone_is_forgotten(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    await store.remove(RemoveRequest([job_id]))
    hands.do("HSET", hands.home("cancelling"), job_id, "email")

    message = f"job {job_id} is gone, but has an entry in cancelling"
    await mended(store, "stray-entry", message, "take it out")


async def test_a_ttl_that_nobody_watches_is_watched_again(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store, ttl="1h")
    hands.do("DEL", hands.of_type("ttl"))

    message = (
        f"job {job.id} is in active and has a time of its own, but no entry in ttl"
    )
    await mended(store, "missing-entry", message, "add it to ttl")

    deadline = hands.do("ZSCORE", hands.of_type("ttl"), job.id)
    assert abs(deadline - await store.now() - HOUR) < 60_000


@pytest.mark.parametrize("state", [State.WAITING, State.DELAYED, State.BLOCKED])
async def test_a_life_that_would_not_end_ends_again(
    store: Store, hands: Hands, state: State
) -> None:
    job_id = await job_in(store, state, expires="2h")
    hands.do("DEL", hands.of_type("expires"))

    message = f"job {job_id} is in {state} and has a time of its own, but no entry in "
    await mended(store, "missing-entry", message + "expires", "add it to expires")

    assert hands.do("ZSCORE", hands.of_type("expires"), job_id) == T0 + 2 * HOUR


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_a_retention_that_nobody_watches_is_watched_again(
    store: Store, hands: Hands, state: State
) -> None:
    job_id = await job_in(store, state, retention="2h")
    name = f"retain_{state}"
    hands.do("DEL", hands.of_type(name))

    message = f"job {job_id} is in {state} and has a time of its own, but no entry in "
    await mended(store, "missing-entry", message + name, f"add it to {name}")

    assert hands.do("ZSCORE", hands.of_type(name), job_id) == T0 + 2 * HOUR


# -- unique keys ---------------------------------------------------------------


async def test_an_open_job_holds_its_unique_key_again(
    store: Store, hands: Hands
) -> None:
    now = await store.now()
    job_id = await add_one(store, unique="a:key", unique_for="1h", now=now)
    before = hands.do("HGETALL", hands.of_type("unique"))
    hands.do("DEL", hands.of_type("unique"))

    message = f"job {job_id} has the unique key 'a:key', but does not hold it"
    await mended(store, "unique-drift", message, "have it hold the key")

    assert hands.do("HGETALL", hands.of_type("unique")) == before


async def test_a_unique_key_held_by_a_job_that_ended_goes_to_the_open_one(
    store: Store, hands: Hands
) -> None:
    ended = await job_in(store, State.COMPLETE, unique="k")
    job_id = await add_one(store, unique="k")
    hands.do("HSET", hands.of_type("unique"), "k", f"{ended}:0")

    assert ("unique-drift", job_id) in await found(store, repair=True)

    assert await found(store) == []
    assert hands.do("HGET", hands.of_type("unique"), "k") == f"{job_id}:0".encode()


async def test_two_open_jobs_with_one_unique_key_are_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    first = await add_one(store, unique="k")
    hands.do("DEL", hands.of_type("unique"))
    second = await add_one(store, unique="k")

    message = f"job {first} and job {second} both have the unique key 'k'"
    await left_alone(store, hands, "two-unique", message)

    await store.cancel([second])
    assert await found(store, repair=True) == [("unique-drift", first)]
    assert await found(store) == []


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_a_unique_key_that_outlived_its_job_is_freed(
    store: Store, hands: Hands, state: State
) -> None:
    job_id = await job_in(store, state, unique="k")
    hands.do("HSET", hands.of_type("unique"), "k", f"{job_id}:1")

    message = f"unique key 'k' of 'email' is held by job {job_id}, which is {state}, "
    await mended(store, "unique-drift", message + "and its time is over", "free it")


async def test_a_unique_key_of_a_job_that_is_gone_is_freed(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    hands.do("HSET", hands.of_type("unique"), "k", f"{job_id + 400}:0")

    message = (
        f"unique key 'k' of 'email' is held by job {job_id + 400}, which is gone, "
    )
    await mended(store, "unique-drift", message + "and its time is over", "free it")


async def test_a_unique_key_that_is_to_outlast_its_job_is_no_damage(
    store: Store, hands: Hands
) -> None:
    now = await store.now()
    await job_in(store, State.COMPLETE, unique="k", unique_for="1h", now=now)
    gone = await job_in(store, State.COMPLETE, unique="l", unique_for="1h", now=now)
    await store.tend(now=now)
    hands.do("ZADD", hands.of_type("lapse"), 0, "over, and about to be freed")
    hands.do(
        "HSET", hands.of_type("unique"), "over, and about to be freed", f"{gone}:1"
    )

    assert await found(store) == []


async def test_a_unique_key_waits_until_its_holders_state_is_known(
    store: Store, hands: Hands
) -> None:
    """Nobody can tell yet whether that one has ended."""
    holder = await add_one(store, unique="k")
    hands.do("DEL", hands.of_type("unique"))
    other = await add_one(store, unique="k")
    hands.do("HSET", hands.of_type("unique"), "k", f"{holder}:0")
    hands.do("ZREM", hands.of_type("waiting"), holder)

    assert await found(store, repair=True) == [("in-no-state", holder)]
    assert await found(store) == [("two-unique", other)]


async def test_a_unique_key_that_names_no_job_is_freed(
    store: Store, hands: Hands
) -> None:
    await add_one(store)
    hands.do("HSET", hands.of_type("unique"), "k", "nobody")

    message = "unique key 'k' of 'email' is held by 'nobody', which is no job"
    await mended(store, "unique-drift", message, "free it")

    await add_one(store, unique="k")


async def test_a_unique_key_of_a_job_that_has_another_is_freed(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store, unique="mine")
    hands.do("HSET", hands.of_type("unique"), "yours", f"{job_id}:0")

    message = (
        f"unique key 'yours' of 'email' is held by job {job_id}, which has another"
    )
    await mended(store, "unique-drift", message, "free it")


# -- groups --------------------------------------------------------------------


@pytest.mark.parametrize("written", ["7", "0", "-1", "many"])
async def test_a_groups_running_jobs_are_counted_anew(
    store: Store, hands: Hands, written: str
) -> None:
    await start_one(store, group="a group")
    hands.do("HSET", hands.of_type("running"), "a group", written)

    message = f"group 'a group' of 'email' counts {written} running jobs, but 1 run"
    await mended(store, "group-drift", message, "set it to 1")


async def test_a_group_that_was_forgotten_is_counted_again(
    store: Store, hands: Hands
) -> None:
    await start_one(store, group="g")
    hands.do("DEL", hands.of_type("running"))

    message = "group 'g' of 'email' counts no running jobs, but 1 run"
    await mended(store, "group-drift", message, "set it to 1")


async def test_a_slot_that_nobody_has_goes_to_the_job_that_was_held(
    store: Store, hands: Hands
) -> None:
    running, held = await hold_one(store)
    [job] = await store.get([running])
    assert job is not None
    hands.do("HINCRBY", hands.of_type("running"), "a group", 1)
    await end(store, job, Completed())
    hands.do("ZREM", hands.of_type("waiting"), held)
    hands.do("ZADD", hands.of_type("held"), hands.line_score(held), held)
    hands.do("ZADD", hands.of_type("held:a group"), hands.line_score(held), held)
    assert await claim_ids(store) == []

    message = "group 'a group' of 'email' counts 1 running jobs, but 0 run"
    await mended(store, "group-drift", message, "set it to 0")

    assert await claim_ids(store) == [held]


async def test_a_held_job_that_its_group_does_not_know_goes_back_in_line(
    store: Store, hands: Hands
) -> None:
    _, held = await hold_one(store)
    hands.do("DEL", hands.of_type("held:a group"))

    message = f"job {held} is in held, but not among the held jobs of its group"
    await mended(store, "held-drift", message, "put it back in line")

    assert (await store.count())["email"][State.WAITING] == 1


async def test_a_job_that_only_its_group_knows_as_held_goes_back_in_line(
    store: Store, hands: Hands
) -> None:
    _, held = await hold_one(store)
    hands.do("DEL", hands.of_type("held"))

    message = f"job {held} is among the held jobs of its group, but not in held"
    await mended(store, "held-drift", message, "put it back in line")


async def test_a_held_job_without_a_group_goes_back_in_line(
    store: Store, hands: Hands
) -> None:
    await hold_one(store)
    job_id = await add_one(store, delay="1h")
    hands.do("ZREM", hands.of_type("delayed"), job_id)
    hands.do("ZADD", hands.of_type("held"), hands.line_score(job_id), job_id)

    message = f"job {job_id} is in held, but not among the held jobs of its group"
    await mended(store, "held-drift", message, "put it back in line")


async def test_a_job_that_another_group_holds_is_taken_out_there(
    store: Store, hands: Hands
) -> None:
    running, _ = await hold_one(store)
    hands.do("ZADD", hands.of_type("held:another"), 1, running)

    message = f"job {running} is in active, but among the held jobs of another"
    await mended(store, "held-drift", message, "take it out there")


async def test_a_held_job_without_a_limit_goes_back_in_line(
    store: Store, hands: Hands
) -> None:
    _, held = await hold_one(store)
    hands.do("DEL", hands.home("limits"))

    message = f"job {held} is held, but its type has no limit for a group"
    await mended(store, "held-drift", message, "put it back in line")

    assert await claim_ids(store) == [held]


# -- what must not be found ----------------------------------------------------


async def test_a_job_with_everything_is_sound_in_every_state(store: Store) -> None:
    """As it stands: nothing here is damaged."""
    for number, state in enumerate(State):
        await job_in(
            store,
            state,
            priority=-number,
            unique=f"key {number}",
            unique_for="1h",
            group="g",
            ttl="1h",
            expires="1h",
            retention="1h",
            attempts=3,
            delivery="at-most-once",
        )
    [running] = (await store.page(PageRequest(State.ACTIVE))).jobs
    await store.progress([Progress(running.id, 50)])
    await store.cancel([running.id])

    assert await found(store) == []
