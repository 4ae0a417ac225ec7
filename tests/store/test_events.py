"""Events: each move is told once, with what it changed.  D-11: to all and to one."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from kue.model import retry_policy
from kue.model.draft import draft
from kue.model.events import Event, Kind
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
from kue.model.settings import Keep
from kue.store.contract import Events, Store
from kue.store.values import Change, MoveRequest, Progress, RemoveRequest
from tests.support.jobs import (
    MINUTE,
    OOPS,
    SECOND,
    T0,
    add_one,
    claim_ids,
    claim_one,
    end,
    job_in,
    start_one,
)
from tests.support.listening import kinds, read_until, story_of
from tests.support.upkeep import lose_worker, tend

#: A listener to everything, and one to the one job that things happen to.
BOTH = pytest.mark.parametrize("of_all", [True, False], ids=["of all", "of one"])


@pytest.fixture
async def now(store: Store) -> int:
    """
    The engine's own time.

    Listeners stay listed by the engine's clock, and upkeep forgets old ones: a pass in
    a future of the test's own making would forget them too.
    """
    return await store.now()


def watch(
    store: Store, job_id: int, of_all: bool
) -> AbstractAsyncContextManager[Events]:
    return store.watch() if of_all else store.watch([job_id])


@pytest.mark.parametrize(
    ("options", "state"),
    [({}, "waiting"), ({"delay": 60}, "delayed")],
    ids=["waiting", "delayed"],
)
async def test_an_added_job_is_told_with_its_state(
    store: Store, options: dict[str, Any], state: str
) -> None:
    async with store.watch() as events:
        job_id = await add_one(store, **options)
        [event] = await story_of(store, events, job_id)

    assert event == Event(
        kind=Kind.ENQUEUE,
        job_id=job_id,
        type="email",
        at=T0,
        attempt=0,
        detail={"state": state},
    )


async def test_a_draft_that_added_nothing_tells_nothing(store: Store) -> None:
    async with store.watch() as events:
        for _ in range(2):
            [added] = await store.add(
                [draft("email", unique="k")], producer="p", seq=1, now=T0
            )
        await store.add([draft("email", unique="k")], producer="q", seq=1, now=T0)
        heard = await story_of(store, events, added.id)

    assert kinds(heard) == [Kind.ENQUEUE]


async def test_a_job_that_its_own_call_replaces_is_told_as_it_was_added(
    store: Store,
) -> None:
    drafts = [
        draft("email", unique="k"),
        draft("email", unique="k", on_conflict="replace", delay=60),
    ]
    async with store.watch() as events:
        added, _ = await store.add(drafts, producer="p", seq=1, now=T0)
        heard = await story_of(store, events, added.id)

    assert [(event.kind, event.detail) for event in heard] == [
        (Kind.ENQUEUE, {"state": "waiting"}),
        (Kind.UPDATE, {"state": "delayed", "replaced": True}),
    ]


@BOTH
async def test_a_run_is_told_from_start_to_end(store: Store, of_all: bool) -> None:
    job_id = await add_one(store)
    async with watch(store, job_id, of_all) as events:
        job = await claim_one(store, now=T0 + 1)
        await store.progress([Progress(job_id, 40, {"step": 4})], now=T0 + 2)
        await end(store, job, Completed("fine"), now=T0 + 3)
        heard = await story_of(store, events, job_id)

    assert [(event.kind, event.at, event.attempt) for event in heard] == [
        (Kind.START, T0 + 1, 1),
        (Kind.PROGRESS, T0 + 2, 1),
        (Kind.COMPLETE, T0 + 3, 1),
    ]
    assert heard[1].detail == {"progress": 40, "data": {"step": 4}}
    assert {(event.job_id, event.type) for event in heard} == {(job_id, "email")}


@BOTH
@pytest.mark.parametrize(
    ("ending", "kind", "detail"),
    [
        (Failed(OOPS), Kind.FAILED, {"kind": "ValueError", "message": "oops"}),
        (Cancelled("enough"), Kind.CANCELLED, {"reason": "enough"}),
        (
            Retried(OOPS, 700),
            Kind.FAILED_ATTEMPT,
            {"kind": "ValueError", "message": "oops", "delay": 700},
        ),
        (
            Retried(OOPS, 700, asked=True),
            Kind.FAILED_ATTEMPT,
            {"kind": "ValueError", "message": "oops", "delay": 700},
        ),
        (Released(800, reason="busy"), Kind.RELEASE, {"reason": "busy", "delay": 800}),
    ],
    ids=["failed", "cancelled", "retry", "retry asked for", "release"],
)
async def test_every_ending_is_told_with_its_reason(
    store: Store, ending: Ending, kind: Kind, detail: dict[str, object], of_all: bool
) -> None:
    """D-18: only a job that is in failed is told to have failed."""
    job = await start_one(store, attempts=3)
    async with watch(store, job.id, of_all) as events:
        await end(store, job, ending, now=T0 + 5)
        [event] = await story_of(store, events, job.id)

    assert (event.kind, event.at, event.attempt) == (kind, T0 + 5, 1)
    assert event.detail == detail


async def test_a_stalled_run_is_told_as_put_back(store: Store) -> None:
    job = await start_one(store)
    async with store.watch() as events:
        await end(store, job, Stalled(OOPS, 900))
        [event] = await story_of(store, events, job.id)

    assert (event.kind, event.detail["delay"]) == (Kind.RELEASE, 900)
    assert "reason" in event.detail


async def test_a_repeated_ending_tells_nothing_more(store: Store) -> None:
    job = await start_one(store)
    async with store.watch() as events:
        for ending in (Completed(), Failed(OOPS), Completed()):
            await end(store, job, ending)
        heard = await story_of(store, events, job.id)

    assert kinds(heard) == [Kind.COMPLETE]


@BOTH
async def test_a_promotion_is_told_once(store: Store, now: int, of_all: bool) -> None:
    """D-10, D-37: by whoever promoted it, claim or upkeep."""
    by_tend = await add_one(store, delay=1, now=now)
    async with watch(store, by_tend, of_all) as events:
        await tend(store, now + SECOND)
        await tend(store, now + SECOND)
        [event] = await story_of(store, events, by_tend)
    assert (event.kind, event.at, event.attempt) == (Kind.PROMOTION, now + SECOND, 0)

    by_claim = await add_one(store, delay=1, now=now)
    async with watch(store, by_claim, of_all) as events:
        assert await claim_ids(store, now=now + SECOND) == [by_claim]
        heard = await story_of(store, events, by_claim)
    assert kinds(heard) == [Kind.PROMOTION, Kind.START]


async def test_a_released_dependant_is_told_as_promoted(store: Store, now: int) -> None:
    parent = await start_one(store, "email", now=now)
    child = await add_one(store, "email", after=[parent.id], now=now)
    async with store.watch([child]) as events:
        await end(store, parent, Completed(), now=now)
        await tend(store, now)
        [event] = await story_of(store, events, child)

    assert event.kind is Kind.PROMOTION


async def test_a_dependant_cancelled_with_its_parent_is_told(
    store: Store, now: int
) -> None:
    parent = await add_one(store, "email", now=now)
    child = await add_one(store, "sms", after=[parent], now=now)
    await tend(store, now)
    async with store.watch([child]) as events:
        await store.cancel([parent], now=now)
        await tend(store, now)
        [event] = await story_of(store, events, child)

    assert event.kind is Kind.CANCELLED


@BOTH
async def test_a_cancelled_job_is_told_with_the_reason(
    store: Store, of_all: bool
) -> None:
    job_id = await add_one(store)
    async with watch(store, job_id, of_all) as events:
        await store.cancel([job_id], reason="not wanted", now=T0)
        await store.cancel([job_id], reason="again", now=T0)
        [event] = await story_of(store, events, job_id)

    assert (event.kind, event.detail) == (Kind.CANCELLED, {"reason": "not wanted"})


@BOTH
async def test_a_removed_job_is_told(store: Store, of_all: bool) -> None:
    """D-9: who listens for removals hears of removals."""
    job_id = await add_one(store)
    async with watch(store, job_id, of_all) as events:
        await store.remove(RemoveRequest([job_id]), now=T0 + 9)
        [event] = await read_until(events, lambda event: event.kind is Kind.REMOVE)

    assert (event.job_id, event.type, event.at) == (job_id, "email", T0 + 9)


async def test_a_job_removed_as_it_completes_is_told_twice_in_order(
    store: Store,
) -> None:
    """D-14: complete, with the result that is kept nowhere, then gone."""
    job = await start_one(store, remove_on_complete=True)
    async with store.watch([job.id]) as events:
        await end(store, job, Completed({"sent": "a\tb"}))
        heard = await read_until(events, lambda event: event.kind is Kind.REMOVE)

    assert kinds(heard) == [Kind.COMPLETE, Kind.REMOVE]
    assert heard[0].detail == {"result": {"sent": "a\tb"}}


async def test_a_pruned_job_is_told_as_removed(store: Store, now: int) -> None:
    job_id = await job_in(store, State.COMPLETE, now=now)
    async with store.watch([job_id]) as events:
        await tend(store, now + 1, keep=Keep(complete_count=0))
        heard = await read_until(events, lambda event: event.kind is Kind.REMOVE)

    assert kinds(heard) == [Kind.REMOVE]


async def test_a_cleared_job_is_told_as_removed(store: Store) -> None:
    job_id = await add_one(store)
    async with store.watch([job_id]) as events:
        await store.clear("email", [State.WAITING], now=T0)
        heard = await read_until(events, lambda event: event.kind is Kind.REMOVE)

    assert kinds(heard) == [Kind.REMOVE]


@BOTH
async def test_an_edit_is_told(store: Store, of_all: bool) -> None:
    job_id = await add_one(store)
    async with watch(store, job_id, of_all) as events:
        await store.update([Change(job_id, priority=3)], now=T0)
        await store.move(MoveRequest([job_id], State.DELAYED, at=T0 + MINUTE), now=T0)
        heard = await story_of(store, events, job_id)

    assert kinds(heard) == [Kind.UPDATE, Kind.UPDATE]


async def test_a_restarted_job_is_told_as_added(store: Store) -> None:
    job_id = await job_in(store, State.FAILED)
    async with store.watch([job_id]) as events:
        await store.move(MoveRequest([job_id], State.WAITING), now=T0)
        [event] = await story_of(store, events, job_id)

    assert (event.kind, event.detail) == (Kind.ENQUEUE, {"state": "waiting"})


async def test_a_delayed_job_moved_by_hand_is_told_as_promoted(store: Store) -> None:
    job_id = await add_one(store, delay=60)
    async with store.watch([job_id]) as events:
        await store.move(MoveRequest([job_id], State.WAITING), now=T0)
        [event] = await story_of(store, events, job_id)

    assert event.kind is Kind.PROMOTION


async def test_an_expired_job_is_told_to_have_failed(store: Store, now: int) -> None:
    job_id = await add_one(store, expires="1s", now=now)
    async with store.watch([job_id]) as events:
        await tend(store, now + 2 * SECOND)
        [event] = await story_of(store, events, job_id)

    assert event.kind is Kind.FAILED
    assert event.detail == {
        "kind": retry_policy.EXPIRED.kind,
        "message": retry_policy.EXPIRED.message,
    }


async def test_a_run_taken_back_is_told_as_put_back(store: Store, now: int) -> None:
    job = await start_one(store, now=now)
    async with store.watch([job.id]) as events:
        await lose_worker(store, now)
        [event] = await story_of(store, events, job.id)

    assert (event.kind, event.attempt) == (Kind.RELEASE, 1)


async def test_a_silent_run_is_told_as_a_failed_attempt(store: Store, now: int) -> None:
    """D-5: a ttl that passed is no secret."""
    job = await start_one(store, ttl="1s", attempts=2, now=now)
    async with store.watch([job.id]) as events:
        await tend(store, now + 2 * SECOND)
        [event] = await story_of(store, events, job.id)

    assert event.kind is Kind.FAILED_ATTEMPT
    assert event.detail["message"] == retry_policy.TTL_EXCEEDED.message


async def test_what_was_refused_tells_nothing(store: Store) -> None:
    job = await start_one(store)
    async with store.watch([job.id]) as events:
        await store.move(MoveRequest([job.id], State.WAITING), now=T0)
        await store.remove(RemoveRequest([job.id]), now=T0)
        await store.progress([Progress(job.id, 1, token="1:1:1:w:c.1")], now=T0)
        heard = await story_of(store, events, job.id)

    assert heard == []


# -- events that are off -----------------------------------------------------


@BOTH
async def test_no_event_of_a_quiet_job_is_published(store: Store, of_all: bool) -> None:
    """From its first to its last; those of others are."""
    other = await add_one(store, delay=60)
    quiet = await add_one(store, attempts=3, events=False, delay=1)
    async with store.watch(None if of_all else [quiet, other]) as events:
        await store.move(MoveRequest([quiet], State.WAITING), now=T0)
        job = await claim_one(store)
        await store.progress([Progress(quiet, 50, None, job.token)], now=T0)
        await end(store, job, Retried(OOPS))
        await store.update([Change(quiet, priority=3)], now=T0)
        await end(store, await claim_one(store), Failed(OOPS))
        await store.move(MoveRequest([quiet], State.DELAYED, at=T0 + 9), now=T0)
        await tend(store, now=T0 + 9)
        await end(store, await claim_one(store, now=T0 + 9), Completed(), now=T0 + 9)
        await store.remove(RemoveRequest([quiet]), now=T0 + 9)
        heard = await story_of(store, events, other, now=T0 + 9)

    assert heard == []


async def test_a_quiet_job_that_is_removed_as_it_completes_is_not_published(
    store: Store,
) -> None:
    async with store.watch() as events:
        await end(
            store,
            await start_one(store, events=False, remove_on_complete=True),
            Completed(1),
        )
        cancelled = await add_one(store, events=False)
        await store.cancel([cancelled], now=T0)
        await store.clear(None, [State.CANCELLED], now=T0)
        loud = await add_one(store)
        heard = await story_of(store, events, loud)

    assert kinds(heard) == [Kind.ENQUEUE]


async def test_a_replaced_job_is_quiet_if_the_new_one_is(store: Store) -> None:
    await add_one(store, unique="k", delay=60)
    async with store.watch() as events:
        again = draft("email", unique="k", on_conflict="replace", events=False)
        [added] = await store.add([again], producer="p", seq=1, now=T0)
        assert added.replaced
        heard = await story_of(store, events, await add_one(store))

    assert kinds(heard) == [Kind.ENQUEUE]
