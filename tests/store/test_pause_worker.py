"""`Store.pause` of one worker: kept by name, told by `renew`, looked at by no claim."""

from __future__ import annotations

import pytest

from kue.store.contract import Store
from kue.store.values import Pause, PauseRequest, RenewRequest
from tests.support.jobs import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    add_one,
    claim_ids,
    start_one,
)
from tests.support.upkeep import lose_worker, tend

#: More than one shard is home to them, and names may look like anything.
WORKERS = ["w1", "w2", "a:{b}%41", 'späte "Schicht"', "email"]


async def heard(store: Store, worker: str, now: int = T0) -> Pause | None:
    """Return the pause that a worker hears of when it beats."""
    return (await store.renew(RenewRequest(worker), now=now)).paused


@pytest.mark.parametrize("worker", WORKERS)
async def test_a_paused_worker_hears_of_it_with_its_beat(
    store: Store, worker: str
) -> None:
    await store.pause(
        PauseRequest(worker=worker, reason="new disk", by="ann"), now=T0 + 1
    )

    told = Pause(None, T0 + 1, reason="new disk", by="ann", worker=worker)
    assert await heard(store, worker) == told
    assert await heard(store, worker, T0 + MINUTE) == told
    assert await heard(store, "another") is None


async def test_a_worker_that_is_not_paused_hears_nothing(store: Store) -> None:
    """Neither of pauses of types, which claims look at, nor of other workers."""
    await store.pause(PauseRequest(), now=T0)
    await store.pause(PauseRequest("w1"), now=T0)
    await store.pause(PauseRequest(worker="w2"), now=T0)

    assert await heard(store, "w1") is None


async def test_a_resumed_worker_hears_nothing_more(store: Store) -> None:
    await store.pause(PauseRequest(worker="w1"), now=T0)
    await heard(store, "w1")

    assert await store.resume(worker="w1", now=T0) is True

    assert await heard(store, "w1") is None
    assert await store.paused() == []
    assert await store.resume(worker="w1", now=T0) is False


async def test_pauses_of_workers_and_of_types_are_apart(store: Store) -> None:
    await store.pause(PauseRequest("w1"), now=T0)
    await store.pause(PauseRequest(worker="w1"), now=T0)
    await store.pause(PauseRequest(), now=T0)

    assert await store.resume("w1", now=T0) is True
    assert await store.resume(now=T0) is True

    assert await store.paused() == [Pause(None, T0, worker="w1")]
    assert await heard(store, "w1") is not None


async def test_a_pause_is_that_of_a_type_or_of_a_worker(store: Store) -> None:
    with pytest.raises(ValueError, match="not both"):
        await store.pause(PauseRequest("email", worker="w1"), now=T0)
    with pytest.raises(ValueError, match="not both"):
        await store.resume("email", worker="w1", now=T0)

    assert await store.paused() == []


async def test_pauses_are_told_in_order_those_of_workers_last(store: Store) -> None:
    await store.pause(PauseRequest(worker="w2"), now=T0)
    await store.pause(PauseRequest("sms"), now=T0)
    await store.pause(PauseRequest(worker="a worker", until=T0 + HOUR), now=T0)
    await store.pause(PauseRequest("email"), now=T0)
    await store.pause(PauseRequest(), now=T0)

    assert await store.paused() == [
        Pause(None, T0),
        Pause("email", T0),
        Pause("sms", T0),
        Pause(None, T0, until=T0 + HOUR, worker="a worker"),
        Pause(None, T0, worker="w2"),
    ]


async def test_the_last_pause_of_a_worker_stands(store: Store) -> None:
    await store.pause(
        PauseRequest(worker="w1", reason="first", until=T0 + MINUTE), now=T0
    )
    await store.pause(PauseRequest(worker="w1", reason="second"), now=T0 + 1)

    second = Pause(None, T0 + 1, reason="second", worker="w1")
    assert await store.paused() == [second]
    assert await heard(store, "w1", T0 + HOUR) == second


async def test_a_pause_with_an_end_ends_by_itself(store: Store) -> None:
    await store.pause(PauseRequest(worker="w1", until=T0 + MINUTE), now=T0)

    assert await heard(store, "w1", T0 + MINUTE - 1) is not None
    assert await heard(store, "w1", T0 + MINUTE) is None
    assert await store.resume(worker="w1", now=T0 + MINUTE) is False


async def test_pauses_that_are_over_are_forgotten(store: Store) -> None:
    """Also by a clock that goes back afterwards."""
    await store.pause(PauseRequest(worker="over", until=T0 + MINUTE), now=T0)
    await store.pause(PauseRequest(worker="lasts"), now=T0)

    await tend(store, T0 + MINUTE)

    assert await store.paused() == [Pause(None, T0, worker="lasts")]


async def test_claims_do_not_look_at_it(store: Store) -> None:
    """The worker stops by itself; what it asked for before it heard is its own."""
    job_id = await add_one(store)
    await store.pause(PauseRequest(worker="w1"), now=T0)

    assert await claim_ids(store, worker="w1") == [job_id]


async def test_a_worker_is_shown_as_paused(store: Store) -> None:
    for worker in ("w1", "w2", "w3"):
        await store.renew(RenewRequest(worker, lease=HOUR), now=T0)
    await store.pause(PauseRequest(worker="w1"), now=T0)
    await store.pause(PauseRequest(worker="w2", until=T0 + MINUTE), now=T0)
    await store.pause(PauseRequest("w3"), now=T0)

    early = await store.workers(now=T0)
    late = await store.workers(now=T0 + MINUTE)

    assert [worker.paused for worker in early] == [True, True, False]
    assert [worker.paused for worker in late] == [True, False, False]


async def test_a_worker_that_nobody_knows_can_be_paused(store: Store) -> None:
    await store.pause(PauseRequest(worker="to come"), now=T0)

    assert await store.workers(now=T0) == []
    assert await heard(store, "to come", T0 + HOUR) is not None
    assert [worker.paused for worker in await store.workers(now=T0 + HOUR)] == [True]


async def test_a_worker_that_was_lost_comes_back_paused(store: Store) -> None:
    await start_one(store, worker="w1")
    await store.pause(PauseRequest(worker="w1"), now=T0)
    await store.pause(PauseRequest(worker="w2", until=T0 + HOUR), now=T0)
    await lose_worker(store, T0)
    await tend(store, T0 + MINUTE)
    assert await store.workers(now=T0 + MINUTE) == []

    assert await heard(store, "w1", T0 + MINUTE) is not None
    assert await heard(store, "w2", T0 + MINUTE) is not None


async def test_a_worker_that_left_comes_back_paused(store: Store) -> None:
    await store.renew(RenewRequest("w1"), now=T0)
    await store.pause(PauseRequest(worker="w1"), now=T0)
    await store.leave("w1", now=T0)
    await tend(store, T0 + SECOND)

    assert await heard(store, "w1", T0 + MINUTE) is not None


async def test_a_pause_is_everybodys(store: Store, other_store: Store) -> None:
    await store.pause(PauseRequest(worker="w1", reason="deploy"), now=T0)

    assert await other_store.paused() == await store.paused()
    assert await heard(other_store, "w1") == await heard(store, "w1")


async def test_a_pause_of_a_worker_does_not_make_a_type(store: Store) -> None:
    await store.pause(PauseRequest(worker="w1"), now=T0)

    assert await store.types() == []
    assert await claim_ids(store, "w1") == []
