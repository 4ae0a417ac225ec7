"""Unique keys: held until the start, at most for a time, replaced, debounced."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.events import Kind
from kue.model.job import Cancelled, Completed, Failed, Job, Released, Retried, State
from kue.store.contract import Store
from kue.store.values import (
    Added,
    Limits,
    LogLine,
    MoveRequest,
    RemoveRequest,
    Result,
)
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add,
    add_one,
    claim,
    claim_one,
    count_of,
    end,
    get_many,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import lose_worker, tend

START: dict[str, Any] = {"unique": "k", "unique_until": "start"}
AT_MOST: dict[str, Any] = {"unique": "k", "unique_at_most": "1h"}
THROTTLE: dict[str, Any] = {"unique": "k", "throttle": "1h"}
REPLACE: dict[str, Any] = {"unique": "k", "on_conflict": "replace"}
DEBOUNCE: dict[str, Any] = {"unique": "k", "debounce": "5s", "debounce_max": "12s"}


async def add_again(
    store: Store, data: Any = "other", *, now: int = T0, **options: Any
) -> Added:
    made = draft("email", data, **({"unique": "k"} | options))
    [added] = await add(store, [made], now=now)
    return added


async def read(store: Store, job_id: int) -> Job:
    [job] = await get_many(store, [job_id])
    return job


async def assert_sound(store: Store) -> None:
    assert (await store.check()).findings == ()


# -- until start ---------------------------------------------------------------


async def test_a_key_until_start_is_held_by_a_job_that_waits(store: Store) -> None:
    job_id = await add_one(store, **START)

    assert await add_again(store, **START) == Added(job_id, False, T0)


async def test_a_key_until_start_is_free_while_the_job_runs(store: Store) -> None:
    running = await start_one(store, **START)

    queued = await add_again(store, **START)

    assert queued.new
    assert await add_again(store, **START) == queued._replace(new=False)
    assert await count_of(store) == {State.ACTIVE: 1, State.WAITING: 1}
    await end(store, running, Completed())
    assert await add_again(store, **START) == queued._replace(new=False)
    await assert_sound(store)


@pytest.mark.parametrize(
    "ending",
    [Retried(OOPS), Retried(OOPS, 5000), Released(), Released(5000)],
    ids=["retry", "retry later", "release", "release later"],
)
async def test_a_job_that_started_once_runs_again_without_its_key(
    store: Store, ending: Any
) -> None:
    """It would take the key from the one that was queued in the meantime."""
    job = await start_one(store, attempts=3, **START)
    await end(store, job, ending)

    other = await add_again(store, **START)

    assert other.new
    await assert_sound(store)
    assert (await claim_one(store, now=T0 + MINUTE)).id in (job.id, other.id)
    assert (await claim_one(store, now=T0 + MINUTE)).id in (job.id, other.id)


async def test_a_job_of_a_lost_worker_runs_again_without_its_key(store: Store) -> None:
    job = await start_one(store, **START)
    await lose_worker(store, T0)

    assert (await add_again(store, now=T0 + MINUTE, **START)).new
    assert (await read(store, job.id)).state in (State.WAITING, State.DELAYED)
    await assert_sound(store)


async def test_a_key_until_start_is_held_for_its_least_time_at_least(
    store: Store,
) -> None:
    job = await start_one(store, unique_for="1h", **START)

    assert (await add_again(store, now=T0 + HOUR - 1)).id == job.id
    await assert_sound(store)
    assert (await add_again(store, now=T0 + HOUR)).new
    assert await state_of(store, job.id) is State.ACTIVE


async def test_maintenance_frees_a_key_until_start_after_its_least_time(
    store: Store,
) -> None:
    await start_one(store, unique_for="10s", **START)
    await tend(store, T0 + 11 * SECOND)

    await assert_sound(store)
    assert (await add_again(store, now=T0 + 11 * SECOND)).new


async def test_a_job_requeued_by_hand_holds_its_key_until_it_starts_again(
    store: Store,
) -> None:
    job = await start_one(store, **START)
    await end(store, job, Failed(OOPS))
    [reply] = await store.move(MoveRequest([job.id], State.WAITING), now=T0)

    assert reply.word is Result.DONE
    assert await add_again(store) == Added(job.id, False, T0)
    await claim_one(store)
    assert (await add_again(store)).new


# -- at most for a time --------------------------------------------------------


@pytest.mark.parametrize("state", [State.WAITING, State.ACTIVE, State.DELAYED])
async def test_an_unfinished_job_holds_its_key_at_most_for_its_time(
    store: Store, state: State
) -> None:
    holder = await job_in(store, state, **AT_MOST)

    assert (await add_again(store, now=T0 + HOUR - 1)).id == holder
    other = await add_again(store, now=T0 + HOUR)
    assert other.new
    assert await state_of(store, holder) is state
    assert (await add_again(store, now=T0 + 2 * HOUR)).id == other.id
    await assert_sound(store)


async def test_a_job_that_ends_frees_its_key_before_its_most_time(store: Store) -> None:
    job = await start_one(store, **AT_MOST)
    await end(store, job, Completed())

    assert (await add_again(store, now=T0 + 1)).new
    await assert_sound(store)


async def test_maintenance_frees_a_key_after_its_most_time(store: Store) -> None:
    job_id = await add_one(store, **AT_MOST)
    await tend(store, T0 + HOUR)

    await assert_sound(store)
    assert await state_of(store, job_id) is State.WAITING
    assert (await add_again(store, now=T0 + HOUR)).new


async def test_the_end_of_a_job_without_its_key_does_not_free_it_for_others(
    store: Store,
) -> None:
    old = await start_one(store, **AT_MOST)
    new = await add_again(store, now=T0 + HOUR)
    await end(store, old, Completed(), now=T0 + HOUR)

    assert (await add_again(store, now=T0 + HOUR)).id == new.id


async def test_a_job_requeued_after_its_most_time_runs_without_its_key(
    store: Store,
) -> None:
    job_id = await job_in(store, State.FAILED, **AT_MOST)
    [reply] = await store.move(MoveRequest([job_id], State.WAITING), now=T0 + HOUR)

    assert reply.word is Result.DONE
    assert (await add_again(store, now=T0 + HOUR)).new
    await assert_sound(store)


async def test_a_job_requeued_within_its_most_time_holds_its_key_again(
    store: Store,
) -> None:
    job_id = await job_in(store, State.FAILED, **AT_MOST)
    await store.move(MoveRequest([job_id], State.WAITING), now=T0 + MINUTE)

    assert (await add_again(store, now=T0 + HOUR - 1)).id == job_id
    assert (await add_again(store, now=T0 + HOUR)).new


# -- throttle ------------------------------------------------------------------


@pytest.mark.parametrize(
    "state", [State.WAITING, State.ACTIVE, State.COMPLETE, State.FAILED]
)
async def test_a_throttled_key_is_held_for_exactly_its_time(
    store: Store, state: State
) -> None:
    """However the job fares: there is one job per hour."""
    holder = await job_in(store, state, **THROTTLE)

    assert (await add_again(store, now=T0 + HOUR - 1, **THROTTLE)).id == holder
    assert (await add_again(store, now=T0 + HOUR, **THROTTLE)).new
    await assert_sound(store)


async def test_a_throttled_job_that_is_removed_by_hand_frees_its_key(
    store: Store,
) -> None:
    holder = await job_in(store, State.COMPLETE, **THROTTLE)
    await store.remove(RemoveRequest([holder]), now=T0)

    assert (await add_again(store, now=T0 + 1, **THROTTLE)).new
    await assert_sound(store)


# -- replace -------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.WAITING, State.DELAYED, State.BLOCKED])
async def test_a_job_that_has_not_started_is_replaced(
    store: Store, state: State
) -> None:
    holder = await job_in(store, state, unique="k", priority=5, tags=["old"])

    added = await add_again(
        store, "new", now=T0 + 1, priority=-5, tags=["new"], attempts=4, **REPLACE
    )

    assert added == Added(holder, False, T0, replaced=True)
    job = await read(store, holder)
    assert (job.data, job.priority, job.tags) == ("new", -5, ("new",))
    assert (job.max_attempts, job.state, job.created_at) == (4, State.WAITING, T0)
    assert [line.outcome for line in job.history] == ["replaced"]
    await assert_sound(store)
    assert (await claim_one(store, now=T0 + 1)).data == "new"


@pytest.mark.parametrize(
    "state", [State.ACTIVE, State.COMPLETE, State.FAILED, State.CANCELLED]
)
async def test_a_job_that_runs_or_ended_is_not_replaced(
    store: Store, state: State
) -> None:
    holder = await job_in(store, state, unique="k", unique_for="1h")
    before = await read(store, holder)

    added = await add_again(store, "new", **REPLACE)

    assert added == Added(holder, False, T0)
    assert await read(store, holder) == before


async def test_a_job_that_waits_for_its_retry_is_replaced_and_begins_again(
    store: Store,
) -> None:
    job = await start_one(store, unique="k", attempts=2)
    await end(store, job, Retried(OOPS, HOUR))

    added = await add_again(store, "new", now=T0 + 1, attempts=2, **REPLACE)

    assert added.replaced
    again = await claim_one(store, now=T0 + 1)
    assert (again.id, again.data, again.attempts) == (job.id, "new", 1)
    assert [line.outcome for line in again.history] == ["retry", "replaced"]
    await assert_sound(store)


async def test_a_job_held_by_the_limit_of_its_group_is_replaced(store: Store) -> None:
    await store.limit("email", Limits(per_key=1), now=T0)
    await start_one(store, group="red")
    holder = await add_one(store, "email", "old", unique="k", group="red")
    assert await claim(store) == []
    assert (await read(store, holder)).held

    added = await add_again(store, "new", group="blue", **REPLACE)

    assert added.replaced
    assert (await claim_one(store)).data == "new"
    await assert_sound(store)


async def test_a_replaced_job_may_be_delayed(store: Store) -> None:
    holder = await add_one(store, unique="k")

    await add_again(store, "new", delay="1m", **REPLACE)

    job = await read(store, holder)
    assert (job.state, job.promote_at) == (State.DELAYED, T0 + MINUTE)
    assert await count_of(store) == {State.DELAYED: 1}
    await assert_sound(store)


async def test_a_delayed_job_may_be_replaced_to_run_at_once(store: Store) -> None:
    holder = await add_one(store, unique="k", delay="1h", expires="2h")

    await add_again(store, "new", **REPLACE)

    assert (await claim_one(store)).id == holder
    await tend(store, T0 + 3 * HOUR)


async def test_the_times_of_a_replaced_job_count_from_its_replacement(
    store: Store,
) -> None:
    holder = await add_one(store, unique="k", expires="1m")
    options: dict[str, Any] = {"expires": "1m", "unique_for": "1h", **REPLACE}

    await add_again(store, "new", now=T0 + MINUTE - 1, **options)

    await tend(store, T0 + MINUTE + 1)
    job = await claim_one(store, now=T0 + 2 * MINUTE - 2)
    assert (job.id, job.expires_at) == (holder, T0 + 2 * MINUTE - 1)
    await end(store, job, Completed(), now=T0 + 2 * MINUTE)
    assert not (await add_again(store, now=T0 + HOUR + MINUTE - 2)).new
    assert (await add_again(store, now=T0 + HOUR + MINUTE)).new


async def test_a_replaced_job_that_no_longer_expires_does_not_expire(
    store: Store,
) -> None:
    holder = await add_one(store, unique="k", expires="1m")
    await add_again(store, "new", **REPLACE)

    await tend(store, T0 + HOUR)

    assert await state_of(store, holder) is State.WAITING
    await assert_sound(store)


async def test_the_dependants_of_a_replaced_job_wait_for_its_replacement(
    store: Store,
) -> None:
    parent = await add_one(store, unique="k")
    [child] = await add(store, [draft("sms", after=[parent])])
    await add_again(store, "new", **REPLACE)

    assert await state_of(store, child.id) is State.BLOCKED
    await end(store, await claim_one(store), Completed())
    await tend(store, T0)
    assert await state_of(store, child.id) is State.WAITING


async def test_a_replaced_job_no_longer_waits_for_others(store: Store) -> None:
    parent = await add_one(store)
    holder = await add_one(store, unique="k", after=[parent])
    await add_again(store, "new", now=T0 + 1, **REPLACE)

    assert await state_of(store, holder) is State.WAITING
    await store.cancel([parent], now=T0 + 2)
    await tend(store, T0 + 3)
    assert await state_of(store, holder) is State.WAITING
    await assert_sound(store)


async def test_a_replaced_job_keeps_its_log(store: Store) -> None:
    job = await start_one(store, unique="k", attempts=2)
    await store.log(job.id, [LogLine("hello", "info", 1, T0)], now=T0)
    await end(store, job, Retried(OOPS))
    await add_again(store, "new", **REPLACE)

    assert [line.text for line in await store.logs(job.id)] == ["hello"]


async def test_within_one_call_the_last_draft_replaces_the_others(store: Store) -> None:
    drafts = [draft("email", number, **REPLACE) for number in range(4)]

    first, *others = await add(store, drafts)

    assert first == Added(first.id, True, T0)
    assert others == [Added(first.id, False, T0, replaced=True)] * 3
    assert (await read(store, first.id)).data == 3
    assert await count_of(store) == {State.WAITING: 1}
    await assert_sound(store)


async def test_within_one_call_drafts_are_handled_in_their_order(store: Store) -> None:
    holder = await add_one(store, "email", "first", unique="k", delay="1h")
    drafts = [
        draft("email", 1, unique="k"),
        draft("email", 2, delay="1m", expires="1h", **REPLACE),
        draft("email", 3, unique="k", on_conflict="reject"),
        draft("email", 4, unique="other"),
        draft("email", 5, **REPLACE),
        draft("email", 6, unique="k"),
    ]

    added = await add(store, drafts)

    kept, replaced = Added(holder, False, T0), Added(holder, False, T0, replaced=True)
    other = added.pop(3)
    assert added == [kept, replaced, kept, replaced, kept]
    assert other.new
    job = await read(store, holder)
    assert (job.data, job.state, job.expires) == (5, State.WAITING, 0)
    assert len(job.history) == 1
    assert await count_of(store) == {State.WAITING: 2}
    await assert_sound(store)


async def test_a_repeated_call_replaces_once(store: Store) -> None:
    await add_one(store, "email", "first", unique="k")
    drafts = [draft("email", "second", **REPLACE)]
    first = await store.add(drafts, producer="p", seq=1, now=T0 + 1)
    third = await add_again(store, "third", now=T0 + 2, **REPLACE)

    assert await store.add(drafts, producer="p", seq=1, now=T0 + 3) == first
    job = await read(store, third.id)
    assert (job.data, job.updated_at) == ("third", T0 + 2)


async def test_many_replacements_leave_one_line_of_history(store: Store) -> None:
    holder = await add_one(store, unique="k")
    for number in range(30):
        await add_again(store, number, now=T0 + number, **REPLACE)

    [line] = (await read(store, holder)).history
    assert (line.outcome, line.at, line.token) == ("replaced", T0 + 29, "")


async def test_a_replacement_is_published_as_an_update(store: Store) -> None:
    await store.open()
    async with store.watch() as events:
        holder = await add_one(store, unique="k")
        await add_again(store, "new", now=T0 + 1, delay="1m", **REPLACE)
        found = [await anext(events) for _ in range(2)]

    assert [event.kind for event in found] == [Kind.ENQUEUE, Kind.UPDATE]
    assert (found[1].job_id, found[1].at) == (holder, T0 + 1)
    assert found[1].detail == {"state": "delayed", "replaced": True}


async def test_a_replaced_job_can_be_cancelled(store: Store) -> None:
    holder = await add_one(store, unique="k", delay="1h")
    await add_again(store, "new", **REPLACE)

    [reply] = await store.cancel([holder], reason="enough", now=T0)

    assert reply.word is Result.DONE
    assert (await read(store, holder)).history[-1].outcome == "cancelled"
    assert (await add_again(store)).new


# -- debounce ------------------------------------------------------------------


async def test_a_debounced_job_waits_for_the_last_add(store: Store) -> None:
    first = await add_again(store, 1, now=T0, **DEBOUNCE)
    assert (await read(store, first.id)).promote_at == T0 + 5 * SECOND

    second = await add_again(store, 2, now=T0 + 4 * SECOND, **DEBOUNCE)

    assert second == Added(first.id, False, T0, replaced=True)
    job = await read(store, first.id)
    assert (job.data, job.promote_at) == (2, T0 + 9 * SECOND)


async def test_a_debounced_job_waits_no_longer_than_its_longest_wait(
    store: Store,
) -> None:
    for number in range(4):
        added = await add_again(store, number, now=T0 + 3 * SECOND * number, **DEBOUNCE)

    job = await read(store, added.id)
    assert (job.data, job.promote_at) == (3, T0 + 12 * SECOND)
    late = await add_again(store, 4, now=T0 + 12 * SECOND, **DEBOUNCE)
    assert late.id == added.id
    assert (await claim_one(store, now=T0 + 12 * SECOND)).data == 4
    await assert_sound(store)


async def test_an_add_while_a_debounced_job_runs_becomes_the_next(store: Store) -> None:
    """Its data must not be lost: the running job may have read the old state."""
    await add_again(store, 1, **DEBOUNCE)
    running = await claim_one(store, now=T0 + 5 * SECOND)

    added = await add_again(store, 2, now=T0 + 6 * SECOND, **DEBOUNCE)

    assert added.new
    assert (await read(store, added.id)).promote_at == T0 + 11 * SECOND
    await end(store, running, Completed(), now=T0 + 6 * SECOND)
    assert (await claim_one(store, now=T0 + 11 * SECOND)).data == 2


async def test_a_debounced_job_without_a_longest_wait_waits_on(store: Store) -> None:
    options: dict[str, Any] = {"unique": "k", "debounce": "5s"}
    for number in range(50):
        added = await add_again(store, number, now=T0 + 4000 * number, **options)

    job = await read(store, added.id)
    assert (job.data, job.promote_at) == (49, T0 + 4000 * 49 + 5000)


async def test_a_debounced_job_that_is_cancelled_frees_its_key(store: Store) -> None:
    first = await add_again(store, 1, **DEBOUNCE)
    await store.cancel([first.id], now=T0)

    assert (await add_again(store, 2, now=T0 + 1, **DEBOUNCE)).new
    job = await read(store, first.id)
    assert job.history[-1].outcome == Cancelled.__struct_config__.tag
