"""`Store.order`, and the stacks that a worker writes down when it is ordered to."""

from __future__ import annotations

import pytest

from kue.store.contract import Store
from kue.store.values import MAX_STACKS, ORDER_MS, STACKS_MS, RenewRequest, Stacks
from tests.support.jobs import SECOND, T0, start_one
from tests.support.upkeep import tend

ODD = "rack 1/ü:2"


async def told(store: Store, worker: str = "w1", now: int = T0) -> tuple[str, ...]:
    beat = await store.renew(RenewRequest(worker, orders=True), now=now)
    return beat.orders


# -- orders --------------------------------------------------------------------


@pytest.mark.parametrize("worker", ["w1", ODD])
async def test_an_order_is_told_with_the_next_beat_and_once(
    store: Store, worker: str
) -> None:
    await store.renew(RenewRequest(worker), now=T0)
    assert await store.order(worker, "stop", now=T0)

    assert await told(store, worker) == ("stop",)
    assert await told(store, worker) == ()


async def test_orders_are_for_one_worker(store: Store) -> None:
    for worker in ("w1", "w2"):
        await store.renew(RenewRequest(worker), now=T0)
    await store.order("w1", "stop", now=T0)

    assert await told(store, "w2") == ()
    assert await told(store, "w1") == ("stop",)


async def test_only_who_can_obey_is_told(store: Store) -> None:
    """Others beat for a worker, too."""
    await store.renew(RenewRequest("w1"), now=T0)
    await store.order("w1", "stop", now=T0)

    assert (await store.renew(RenewRequest("w1"), now=T0)).orders == ()
    assert await told(store) == ("stop",)


async def test_an_order_given_twice_is_told_once(store: Store) -> None:
    await store.renew(RenewRequest("w1"), now=T0)
    for order in ("stacks", "stop", "stacks"):
        assert await store.order("w1", order, now=T0)

    assert sorted(await told(store)) == ["stacks", "stop"]
    assert await told(store) == ()


async def test_an_order_that_was_not_heard_for_a_minute_is_told_no_more(
    store: Store,
) -> None:
    await store.renew(RenewRequest("w1", lease=10 * ORDER_MS), now=T0)
    await store.order("w1", "stop", now=T0)
    await store.order("w1", "stacks", now=T0 + 1)

    assert await told(store, now=T0 + ORDER_MS) == ("stacks",)


async def test_nobody_is_ordered_who_does_not_live(store: Store) -> None:
    await store.renew(RenewRequest("late", lease=SECOND), now=T0 - 2 * SECOND)
    await store.renew(RenewRequest("left"), now=T0)
    await store.leave("left", now=T0)

    for worker in ("never", "late", "left"):
        assert not await store.order(worker, "stop", now=T0 + 1)
        assert await told(store, worker, now=T0 + 2) == ()


async def test_orders_are_forgotten_with_the_worker(store: Store) -> None:
    await store.renew(RenewRequest("w1", lease=SECOND), now=T0)
    await store.order("w1", "stop", now=T0)
    await tend(store, T0)
    await tend(store, T0 + 2 * SECOND)

    # Another one of that name.
    assert await told(store, now=T0 + 3 * SECOND) == ()


async def test_an_order_that_there_is_not_is_refused(store: Store) -> None:
    await store.renew(RenewRequest("w1"), now=T0)

    with pytest.raises(ValueError, match="stop or stacks, not 'dance'"):
        await store.order("w1", "dance", now=T0)


# -- stacks --------------------------------------------------------------------


@pytest.mark.parametrize("worker", ["w1", ODD])
async def test_the_last_stacks_of_a_worker_are_kept(store: Store, worker: str) -> None:
    await store.renew(RenewRequest(worker), now=T0)
    await store.write_stacks(worker, "old", now=T0)
    await store.write_stacks(worker, 'File "ü.py", line 1', now=T0 + 5)

    assert await store.stacks(worker, now=T0 + 9) == Stacks(
        T0 + 5, 'File "ü.py", line 1'
    )
    assert await store.stacks("w2", now=T0 + 9) is None


async def test_stacks_are_cut_to_what_is_kept(store: Store) -> None:
    await store.renew(RenewRequest("w1"), now=T0)
    await store.write_stacks("w1", "ü" * MAX_STACKS, now=T0)

    found = await store.stacks("w1", now=T0)

    assert found is not None
    assert len(found.text.encode()) == MAX_STACKS
    assert set(found.text) == {"ü"}


async def test_stacks_are_gone_after_a_while(store: Store) -> None:
    await store.renew(RenewRequest("w1", lease=10 * STACKS_MS), now=T0)
    await store.write_stacks("w1", "here", now=T0)

    assert await store.stacks("w1", now=T0 + STACKS_MS) is None
    await tend(store, T0 + STACKS_MS)
    assert await store.stacks("w1", now=T0) is None


async def test_stacks_are_forgotten_with_the_worker(store: Store) -> None:
    await store.renew(RenewRequest("w1", lease=SECOND), now=T0)
    await store.write_stacks("w1", "here", now=T0)
    await tend(store, T0)
    await tend(store, T0 + 2 * SECOND)

    assert await store.stacks("w1", now=T0) is None


async def test_nobody_keeps_stacks_of_a_worker_that_is_not_known(store: Store) -> None:
    await store.write_stacks("w1", "here", now=T0)
    await start_one(store, worker="w1")

    assert await store.stacks("w1", now=T0) is None


# -- the store itself ----------------------------------------------------------


async def test_a_store_says_what_it_is(store: Store) -> None:
    facts = await store.facts()

    assert facts.engine == ("redis" if "redis" in store.name else "sqlite")
    assert facts.version[0].isdigit()
    assert facts.memory_bytes is not None
    assert facts.memory_bytes > 0
    assert facts.rtt_ms > 0
