"""`Store.errors`: what failed jobs failed of, counted as they come and go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kue.model.fingerprint import MAX_LINE, fingerprint
from kue.model.job import Cancelled, Completed, Error, Failed, Retried, State
from kue.model.retry_policy import EXPIRED, TTL_EXCEEDED
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.values import (
    MAX_ERRORS,
    MoveRequest,
    Outcome,
    RemoveRequest,
    RenewRequest,
    Result,
)
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    T0,
    add_many,
    add_one,
    claim,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import KEEP_ALL, lose_worker, tend

#: Types on several shards, where there are several.
TYPES = ("email", "sms", "video", "a:{b}%41 é")
TIMEOUT = Error("TimeoutError", "no answer in 5 s", "Traceback …")
KEEP_NO_FAILED = Keep(
    complete_count=None, failed_age=MINUTE, cancelled_count=None, cancelled_age=None
)


async def counts(store: Store, type: str | None = None) -> dict[tuple[str, str], int]:
    """Return how often each type failed of each message; there are no others."""
    errors = await store.errors(type, limit=MAX_ERRORS)
    assert errors.total == len(errors.groups)
    return {(group.type, group.message): group.count for group in errors.groups}


async def fail(
    store: Store,
    error: Error = OOPS,
    type: str = "email",
    *,
    now: int = T0,
    **more: Any,
) -> int:
    job = await start_one(store, type, now=now, **more)
    assert await end(store, job, Failed(error), now=now) is Result.DONE
    return job.id


# -- coming --------------------------------------------------------------------


async def test_without_failed_jobs_there_are_no_errors(store: Store) -> None:
    for state in set(State) - {State.FAILED}:
        await job_in(store, state, state.value)

    errors = await store.errors()

    assert (errors.groups, errors.total) == ([], 0)


async def test_a_job_that_failed_is_a_group_of_one(store: Store) -> None:
    job_id = await fail(store, TIMEOUT)

    [group] = (await store.errors()).groups

    assert group.fingerprint == fingerprint(TIMEOUT)
    assert group.fingerprint == (await get_one(store, job_id)).fingerprint
    assert (group.type, group.kind) == ("email", "TimeoutError")
    assert (group.message, group.count) == ("no answer in 5 s", 1)
    assert (group.first_at, group.last_at, group.job_id) == (T0, T0, job_id)


async def test_errors_that_differ_in_numbers_only_are_one_group(store: Store) -> None:
    await fail(store, Error("E", "no answer from 10.0.0.1 in 5 s"))
    last = await fail(
        store, Error("E", "no answer from 10.0.0.27 in 60 s\nat all"), now=T0 + 7
    )

    [group] = (await store.errors()).groups

    assert (group.count, group.message) == (2, "no answer from 10.0.0.27 in 60 s")
    assert (group.first_at, group.last_at, group.job_id) == (T0, T0 + 7, last)


async def test_errors_that_differ_in_kind_words_or_type_are_several(
    store: Store,
) -> None:
    await fail(store, Error("A", "broken"))
    await fail(store, Error("B", "broken"))
    await fail(store, Error("A", "broke"))
    await fail(store, Error("A", "broken"), "sms")

    groups = (await store.errors()).groups

    assert sorted((one.type, one.kind, one.message) for one in groups) == [
        ("email", "A", "broke"),
        ("email", "A", "broken"),
        ("email", "B", "broken"),
        ("sms", "A", "broken"),
    ]


@pytest.mark.parametrize(
    "message",
    ["", "\n", "\t", '"', '","stack":"', '"fingerprint":"0123456789ab"}', "é🚀\\"],
)
@pytest.mark.parametrize("stack", ["", 'File "x"\n","stack":"'])
async def test_any_message_is_told_as_it_was(
    store: Store, message: str, stack: str
) -> None:
    await fail(store, Error('K"}', message, stack))

    [group] = (await store.errors()).groups

    assert (group.kind, group.message) == ('K"}', message.strip())


async def test_a_long_message_is_cut(store: Store) -> None:
    await fail(store, Error("E", "é" * 4_000))

    [group] = (await store.errors()).groups

    assert group.message == "é" * MAX_LINE


async def test_many_that_fail_in_one_call_are_counted_each(store: Store) -> None:
    await add_many(store, 20)
    jobs = await claim(store, limit=20)
    errors = [OOPS if number % 4 else TIMEOUT for number in range(20)]
    outcomes = [
        Outcome(job, Failed(error)) for job, error in zip(jobs, errors, strict=True)
    ]

    await store.settle(outcomes, now=T0)

    assert await counts(store) == {
        ("email", "oops"): 15,
        ("email", "no answer in 5 s"): 5,
    }


async def test_only_what_failed_for_good_counts(store: Store) -> None:
    job = await start_one(store, attempts=2)
    await end(store, job, Retried(TIMEOUT))
    assert await counts(store) == {}

    [job] = await claim(store)
    await end(store, job, Failed(OOPS))

    assert await counts(store) == {("email", "oops"): 1}


async def test_an_ending_that_is_repeated_counts_once(store: Store) -> None:
    job = await start_one(store)
    words = [await end(store, job, Failed(OOPS)) for _ in range(3)]
    words += await store.settle([Outcome(job, Failed(OOPS))] * 2, now=T0)

    assert words == [Result.DONE] + [Result.ALREADY] * 4
    assert await counts(store) == {("email", "oops"): 1}


async def test_a_job_that_fails_again_counts_once(store: Store) -> None:
    job_id = await fail(store)
    await store.move(MoveRequest([job_id], State.WAITING), now=T0)
    [job] = await claim(store)
    await end(store, job, Failed(TIMEOUT))

    assert await counts(store) == {("email", "no answer in 5 s"): 1}


async def test_a_job_with_a_long_story_is_counted(store: Store) -> None:
    job_id = await fail(store)
    for _ in range(25):
        await store.move(MoveRequest([job_id], State.WAITING), now=T0)
        [job] = await claim(store)
        await end(store, job, Failed(OOPS))

    assert await counts(store) == {("email", "oops"): 1}
    await store.remove(RemoveRequest([job_id]), now=T0)
    assert await counts(store) == {}


# -- coming by the store's own doing -------------------------------------------


async def test_a_job_that_expires_is_counted(store: Store) -> None:
    await add_one(store, expires="1m")

    await tend(store, T0 + 2 * MINUTE)

    [group] = (await store.errors()).groups
    assert (group.kind, group.message) == (EXPIRED.kind, EXPIRED.message)


async def test_a_job_that_a_claim_finds_expired_is_counted(store: Store) -> None:
    job_id = await add_one(store, expires="1m")

    assert await claim(store, now=T0 + 2 * MINUTE) == []

    assert await state_of(store, job_id) is State.FAILED
    assert await counts(store) == {("email", EXPIRED.message): 1}


async def test_a_job_whose_ttl_passed_is_counted(store: Store) -> None:
    await start_one(store, ttl="1m")

    await store.renew(RenewRequest("w1"), now=T0 + MINUTE)
    await tend(store, T0 + MINUTE + 1)

    assert await counts(store) == {("email", TTL_EXCEEDED.message): 1}


async def test_a_job_that_lost_its_worker_for_good_is_counted(store: Store) -> None:
    await start_one(store, delivery="at-most-once")

    await lose_worker(store, T0)

    [group] = (await store.errors()).groups
    assert (group.kind, group.count) == ("WorkerLost", 1)


# -- going ---------------------------------------------------------------------


async def retry(store: Store, job_id: int) -> None:
    await store.move(MoveRequest([job_id], State.WAITING), now=T0)


async def delay(store: Store, job_id: int) -> None:
    await store.move(MoveRequest([job_id], State.DELAYED, at=T0 + HOUR), now=T0)


async def remove(store: Store, job_id: int) -> None:
    await store.remove(RemoveRequest([job_id]), now=T0)


async def clear(store: Store, job_id: int) -> None:
    assert await store.clear("email", [State.FAILED], limit=1, now=T0) == 1


async def prune_by_age(store: Store, job_id: int) -> None:
    tended = await tend(store, T0 + 2 * MINUTE, keep=KEEP_NO_FAILED)
    assert tended.pruned == 1


async def prune_by_retention(store: Store, job_id: int) -> None:
    tended = await tend(store, T0 + 2 * HOUR, keep=KEEP_ALL)
    assert tended.pruned == 1


#: How a failed job can leave, and what it is then made with.
WAYS: list[tuple[Callable[[Store, int], Awaitable[None]], dict[str, Any]]] = [
    (retry, {}),
    (retry, {"unique": "k", "group": "g"}),
    (delay, {}),
    (remove, {}),
    (remove, {"unique": "k", "group": "g"}),
    (clear, {}),
    (clear, {"ttl": "1h"}),
    (prune_by_age, {}),
    (prune_by_age, {"unique": "k"}),
    (prune_by_retention, {"retention": "1h"}),
]


@pytest.mark.parametrize(("leave", "options"), WAYS)
async def test_a_job_that_leaves_counts_no_longer(
    store: Store,
    leave: Callable[[Store, int], Awaitable[None]],
    options: dict[str, Any],
) -> None:
    going = await fail(store, **options)
    await fail(store, now=T0 + 90_000)
    await fail(store, type="sms", now=T0 + 90_000)

    await leave(store, going)

    assert await state_of(store, going) is not State.FAILED
    assert await counts(store) == {("email", "oops"): 1, ("sms", "oops"): 1}


@pytest.mark.parametrize(("leave", "options"), WAYS)
async def test_a_group_goes_with_its_last_job(
    store: Store,
    leave: Callable[[Store, int], Awaitable[None]],
    options: dict[str, Any],
) -> None:
    job_id = await fail(store, **options)

    await leave(store, job_id)

    assert await counts(store) == {}


async def test_a_group_that_comes_anew_has_a_new_beginning(store: Store) -> None:
    await remove(store, await fail(store))
    await fail(store, now=T0 + 5)

    [group] = (await store.errors()).groups

    assert (group.first_at, group.last_at) == (T0 + 5, T0 + 5)


async def test_what_is_refused_changes_no_count(store: Store) -> None:
    job_id = await fail(store)

    await store.cancel([job_id], now=T0)
    await store.remove(RemoveRequest([job_id], states=[State.COMPLETE]), now=T0)
    await store.clear("email", [State.COMPLETE], now=T0)

    assert await counts(store) == {("email", "oops"): 1}


async def test_jobs_that_end_otherwise_leave_failed_ones_alone(store: Store) -> None:
    await fail(store)
    await end(store, await start_one(store), Completed("fine"))
    await end(store, await start_one(store), Cancelled("no"))

    assert await counts(store) == {("email", "oops"): 1}


# -- asking --------------------------------------------------------------------


async def test_the_most_frequent_come_first_from_all_types(store: Store) -> None:
    for number, type in enumerate(TYPES, start=1):
        for _ in range(number):
            await fail(store, type=type)

    errors = await store.errors()

    assert [(group.type, group.count) for group in errors.groups] == [
        (type, number) for number, type in reversed([*enumerate(TYPES, start=1)])
    ]


async def test_the_same_error_has_one_fingerprint_in_all_types(store: Store) -> None:
    for type in TYPES:
        await fail(store, type=type)

    groups = (await store.errors()).groups

    assert {group.fingerprint for group in groups} == {fingerprint(OOPS)}
    assert sorted(group.type for group in groups) == sorted(TYPES)


@pytest.mark.parametrize("type", TYPES)
async def test_errors_of_one_type_are_asked_for(store: Store, type: str) -> None:
    for one in TYPES:
        await fail(store, type=one)

    assert await counts(store, type) == {(type, "oops"): 1}


async def test_a_type_that_there_is_not_has_no_errors(store: Store) -> None:
    await fail(store)

    assert await counts(store, "nothing") == {}


@pytest.mark.parametrize("type", [None, "email"])
async def test_no_more_are_told_than_asked_for_but_all_are_counted(
    store: Store, type: str | None
) -> None:
    for word in ("a", "b", "c"):
        await fail(store, Error("E", word))
    await fail(store, Error("E", "b"))

    errors = await store.errors(type, limit=1)

    assert [group.message for group in errors.groups] == ["b"]
    assert errors.total == 3


@pytest.mark.parametrize("limit", [0, -1, MAX_ERRORS + 1])
async def test_a_limit_must_make_sense(store: Store, limit: int) -> None:
    with pytest.raises(ValueError, match="limit must be from 1 to"):
        await store.errors(limit=limit)
