"""`Store.failures`: every way to fail is noted once, for types that have a rule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from kue.model.draft import draft
from kue.model.failure_rule import FailureRule, rule_of
from kue.model.job import Completed, Draft, Error, Failed, Retried, State
from kue.model.payload import JSON
from kue.store.contract import Store
from kue.store.validation import InvalidCall
from kue.store.values import Failure, MoveRequest, RenewRequest
from tests.support.jobs import (
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add_one,
    claim,
    claim_one,
    end,
    get_one,
    job_in,
    start_one,
)
from tests.support.upkeep import lose_worker, tend

HOOKS = FailureRule(hooks=True)
Way: TypeAlias = Callable[[Store], Awaitable[int]]


async def raises(store: Store) -> int:
    job = await start_one(store)
    await end(store, job, Failed(OOPS))
    return job.id


async def expires_before_a_claim(store: Store) -> int:
    job_id = await add_one(store, expires="1m")
    assert not await claim(store, "email", now=T0 + MINUTE + 1)
    return job_id


async def expires_in_maintenance(store: Store) -> int:
    job_id = await job_in(store, State.DELAYED, expires="1m")
    await tend(store, T0 + MINUTE + 1)
    return job_id


async def is_silent_for_its_ttl(store: Store) -> int:
    job = await start_one(store, ttl="5s")
    await store.renew(RenewRequest("w1"), now=T0 + 5 * SECOND)
    await tend(store, T0 + 5 * SECOND + 1)
    return job.id


async def loses_its_worker(store: Store) -> int:
    job = await start_one(store, delivery="at-most-once")
    await lose_worker(store, T0)
    return job.id


WAYS: list[Way] = [
    raises,
    expires_before_a_claim,
    expires_in_maintenance,
    is_silent_for_its_ttl,
    loses_its_worker,
]


@pytest.mark.parametrize("fail", WAYS)
async def test_a_job_of_a_type_with_a_rule_is_noted_once(
    store: Store, fail: Way
) -> None:
    await store.set_failure_rule("email", HOOKS)
    job_id = await fail(store)

    [failure] = await store.failures()
    job = await get_one(store, job_id)
    assert job.state is State.FAILED
    assert (failure.job_id, failure.type) == (job_id, "email")
    assert (failure.token, failure.at) == (job.history[-1].token, job.ended_at)
    assert failure.of(job) == job

    await store.forget_failures([failure])
    assert await store.failures() == []


@pytest.mark.parametrize("fail", WAYS)
async def test_a_job_of_a_type_without_a_rule_is_not_noted(
    store: Store, fail: Way
) -> None:
    await store.set_failure_rule("video", HOOKS)
    await fail(store)

    assert await store.failures() == []


@pytest.mark.parametrize("fail", WAYS)
async def test_a_rule_for_all_types_notes_jobs_of_any(store: Store, fail: Way) -> None:
    await store.set_failure_rule(None, HOOKS)
    job_id = await fail(store)

    assert [one.job_id for one in await store.failures()] == [job_id]


@pytest.mark.parametrize("fail", WAYS)
async def test_a_job_of_a_task_with_a_rule_is_noted_in_any_queue(
    store: Store, fail: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.set_failure_rule("send", HOOKS)

    def draft_of_send(queue: str, data: JSON, **options: Any) -> Draft:
        return draft("send", data, queue=queue, **options)

    monkeypatch.setattr("tests.support.jobs.draft", draft_of_send)
    job_id = await fail(store)

    [failure] = await store.failures()
    assert (failure.job_id, failure.type) == (job_id, "email")
    assert (await get_one(store, job_id)).name == "send"


async def test_a_large_job_of_a_task_with_a_rule_is_noted_as_well(store: Store) -> None:
    await store.set_failure_rule("send", HOOKS)
    large = draft("send", "x" * 100_000, queue="email")
    [added] = await store.add([large], producer="p", seq=1, now=T0)
    await end(store, await claim_one(store, now=T0), Failed(OOPS))

    assert [failure.job_id for failure in await store.failures()] == [added.id]


async def test_jobs_of_kues_own_types_are_never_noted(store: Store) -> None:
    await store.set_failure_rule(None, HOOKS)
    job = await start_one(store, "kue.webhook")
    await end(store, job, Failed(OOPS))

    assert await store.failures() == []


async def test_runs_that_do_not_fail_for_good_are_not_noted(store: Store) -> None:
    await store.set_failure_rule("email", HOOKS)
    await end(store, await start_one(store), Completed())
    await end(store, await start_one(store, attempts=2), Retried(OOPS, 0))
    stays = await add_one(store)
    await store.cancel([stays], now=T0)

    assert await store.failures() == []


async def test_each_failure_of_a_job_is_noted(store: Store) -> None:
    await store.set_failure_rule("email", HOOKS)
    job = await start_one(store)
    await end(store, job, Failed(Error("A", "first")), now=T0 + 1)
    await store.move(MoveRequest([job.id], State.WAITING), now=T0 + 2)
    again = await claim_one(store, now=T0 + 3)
    await end(store, again, Failed(Error("B", "second")), now=T0 + 4)

    first, second = await store.failures()
    assert first.key != second.key
    now = await get_one(store, job.id)
    was = first.of(now)
    assert was is not None
    assert (was.error, was.state) == (Error("A", "first"), State.FAILED)
    assert [one.job_id for one in await store.failures(limit=1)] == [job.id]
    assert await store.failures(limit=1, skip=1) == [second]
    assert await store.failures(skip=2) == []


async def test_a_pass_reports_that_there_are_failures(store: Store) -> None:
    await store.set_failure_rule("email", HOOKS)
    assert not (await store.tend(now=T0)).failures
    await raises(store)

    assert (await store.tend(now=T0)).failures
    await store.forget_failures(await store.failures())
    assert not (await store.tend(now=T0)).failures


async def test_rules_are_written_read_and_deleted(store: Store) -> None:
    everywhere = FailureRule(webhook="https://ops.example/hook")
    await store.set_failure_rule("a:b", FailureRule(hooks=True, dead_letter="dead"))
    await store.set_failure_rule(None, everywhere)

    rules = await store.failure_rules()
    assert rules == {
        "a:b": FailureRule(hooks=True, dead_letter="dead"),
        None: everywhere,
    }
    assert rule_of(rules, "a:b").webhook == "https://ops.example/hook"

    await store.set_failure_rule("a:b", None)
    await store.set_failure_rule(None, FailureRule())
    assert await store.failure_rules() == {}


async def test_rules_that_make_no_sense_are_refused(store: Store) -> None:
    with pytest.raises(InvalidCall, match="own dead letters"):
        await store.set_failure_rule("dead", FailureRule(dead_letter="dead"))
    with pytest.raises(InvalidCall, match="one of Kue's own"):
        await store.set_failure_rule("email", FailureRule(dead_letter="kue.dead"))


async def test_an_expired_job_that_ran_before_keeps_its_last_error(
    store: Store,
) -> None:
    """The reason of its failure is the error, not only that time was over."""
    quoted = Error("ValueError", 'no "row" 7 in C:\\')
    job = await start_one(store, expires="1m", attempts=9)
    await end(store, job, Retried(quoted, 2 * MINUTE))
    await tend(store, T0 + MINUTE + 1)

    failed = await get_one(store, job.id)
    assert failed.error == Error(
        "Expired",
        "the job expired before its next attempt; the last error was "
        'ValueError: no "row" 7 in C:\\',
    )
    [group] = (await store.errors()).groups
    assert (group.count, group.fingerprint) == (1, failed.fingerprint)


async def test_the_error_before_a_retry_by_hand_is_not_that_of_the_expiry(
    store: Store,
) -> None:
    job = await start_one(store, expires="1m")
    await end(store, job, Failed(OOPS))
    moved = MoveRequest([job.id], State.DELAYED, at=T0 + 5 * MINUTE)
    await store.move(moved, now=T0 + 1)
    await tend(store, T0 + MINUTE + 1)

    failed = await get_one(store, job.id)
    assert failed.error is not None
    assert "was not started" in failed.error.message


def test_the_rule_of_a_task_comes_before_those_of_its_queue_and_of_all() -> None:
    rules = {
        "send": FailureRule(hooks=True),
        "mail": FailureRule(dead_letter="lost-mail"),
        None: FailureRule(dead_letter="dead", webhook="https://ops.example/hook"),
    }
    assert rule_of(rules, "send", "mail") == FailureRule(
        hooks=True, dead_letter="lost-mail", webhook="https://ops.example/hook"
    )
    assert rule_of(rules, "send", "send").dead_letter == "dead"
    assert rule_of(rules, "other", "mail").hooks is False
    assert rule_of(rules, "other", "lost-mail").dead_letter == "dead"
    assert rule_of(rules, "other", "dead").dead_letter == ""


def test_a_failure_of_a_removed_job_is_that_of_none() -> None:
    assert Failure(1, "email", T0).of(None) is None
