"""`Store.update`: jobs are edited in place, whatever their state."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.job import SEALED, Retried, State
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, Change, RemoveRequest, Result
from tests.support.jobs import (
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim_ids,
    claim_one,
    end,
    get_one,
    job_in,
    start_one,
)
from tests.support.upkeep import lose_worker


async def change(store: Store, job_id: int, **fields: Any) -> Result:
    [word] = await store.update([Change(job_id, **fields)], now=T0)
    return word


@pytest.mark.parametrize("state", list(State))
async def test_a_job_is_edited_where_it_is(store: Store, state: State) -> None:
    job_id = await job_in(store, state, tags=["old"], attempts=2)
    before = await get_one(store, job_id)

    word = await change(
        store,
        job_id,
        data={"new": [1, {}]},
        priority=-9,
        tags=("new", "newer"),
        max_attempts=7,
    )

    assert word is Result.DONE
    after = await get_one(store, job_id)
    assert after.data == {"new": [1, {}]}
    assert (after.priority, after.tags) == (-9, ("new", "newer"))
    assert after.max_attempts == 7
    assert (after.state, after.history, after.token) == (
        state,
        before.history,
        before.token,
    )
    assert (after.created_at, after.promote_at) == (T0, before.promote_at)


@pytest.mark.parametrize(
    ("field", "value"),
    [("data", [1]), ("priority", 3), ("tags", ("x",)), ("max_attempts", 9)],
)
async def test_what_is_not_named_stays(store: Store, field: str, value: object) -> None:
    options: dict[str, Any] = {
        "priority": 1,
        "tags": ["a"],
        "attempts": 2,
        "meta": {"k": "v"},
    }
    job_id = await add_one(store, data={"d": 1}, **options)
    before = await get_one(store, job_id)

    await change(store, job_id, **{field: value})

    after = await get_one(store, job_id)
    assert getattr(after, field) == value
    for other in {"data", "priority", "tags", "max_attempts"} - {field}:
        assert getattr(after, other) == getattr(before, other)
    assert after.spec.meta == {"k": "v"}


@pytest.mark.parametrize("data", [None, [], {}, 0, "", False])
async def test_data_may_become_nothing(store: Store, data: object) -> None:
    job_id = await add_one(store, data={"d": 1})
    await change(store, job_id, data=data)

    shown = (await get_one(store, job_id)).data
    assert shown == data
    assert type(shown) is type(data)


async def test_whether_data_is_sealed_changes_with_the_data_alone(
    store: Store,
) -> None:
    job_id = await add_one(store, "email", data=1)
    changes: list[tuple[dict[str, Any], int]] = [
        ({"data": "x", "sealed": SEALED}, SEALED),
        ({"tags": ("a",)}, SEALED),
        ({"data": "y"}, 0),
    ]
    for fields, sealed in changes:
        assert await change(store, job_id, **fields) is Result.DONE
        assert (await get_one(store, job_id)).spec.sealed == sealed


async def test_a_new_priority_gives_a_waiting_job_a_new_place(store: Store) -> None:
    ids = await add_many(store, 4)
    await change(store, ids[2], priority=-10)
    await change(store, ids[0], priority=10)

    assert await claim_ids(store) == [ids[2], ids[1], ids[3], ids[0]]


async def test_a_job_whose_priority_comes_back_has_its_old_place(store: Store) -> None:
    ids = await add_many(store, 3)
    await change(store, ids[1], priority=-10)
    await change(store, ids[1], priority=0)

    assert await claim_ids(store) == ids


async def test_a_new_priority_of_a_delayed_job_counts_once_it_is_due(
    store: Store,
) -> None:
    waiting = await add_one(store)
    delayed = await add_one(store, delay=1)
    await change(store, delayed, priority=-1)

    assert await claim_ids(store, now=T0 + SECOND) == [delayed, waiting]


async def test_a_new_priority_of_a_running_job_counts_when_it_is_put_back(
    store: Store,
) -> None:
    job = await start_one(store, attempts=3)
    ahead = await add_one(store)
    await change(store, job.id, priority=5)
    await end(store, job, Retried(OOPS))

    assert await claim_ids(store) == [ahead, job.id]


async def test_a_run_in_progress_ends_as_it_started(store: Store) -> None:
    """The token is untouched by an edit; only the next run sees the new data."""
    job = await start_one(store, data="old", attempts=3)
    await change(store, job.id, data="new")

    assert await end(store, job, Retried(OOPS)) is Result.DONE
    assert (await claim_one(store)).data == "new"


async def test_a_job_taken_back_starts_again_with_the_new_data(store: Store) -> None:
    job = await start_one(store, data="old")
    await change(store, job.id, data="new", max_attempts=5)
    await lose_worker(store, T0)

    again = await claim_one(store, now=T0 + 11 * SECOND)
    assert (again.id, again.data, again.max_attempts) == (job.id, "new", 5)


async def test_a_job_that_is_gone_cannot_be_edited(store: Store) -> None:
    """U-6: an edit that races a removal writes nothing."""
    job_id = await add_one(store)
    await store.remove(RemoveRequest([job_id]), now=T0)

    assert await change(store, job_id, priority=1) is Result.GONE
    assert await store.get([job_id]) == [None]


async def test_many_are_edited_in_one_call(store: Store) -> None:
    ids = await add_many(store, MAX_BATCH - 1, "email")
    ids.append(await add_one(store, "sms"))
    changes = [Change(job_id, data=number) for number, job_id in enumerate(ids)]

    assert await store.update(changes, now=T0) == [Result.DONE] * MAX_BATCH
    jobs = await store.get(ids)
    assert [job.data for job in jobs if job] == list(range(MAX_BATCH))


async def test_each_change_gets_its_own_word_in_the_order_asked(store: Store) -> None:
    email = await add_one(store, "email")
    sms = await add_one(store, "sms")

    words = await store.update(
        [Change(sms, data=1), Change(987_654, data=2), Change(email, data=3)], now=T0
    )

    assert words == [Result.DONE, Result.GONE, Result.DONE]


async def test_more_than_a_batch_is_refused(store: Store) -> None:
    job_id = await add_one(store, data="old")

    with pytest.raises(ValueError, match="at most 500"):
        await store.update([Change(job_id, data="new")] * (MAX_BATCH + 1), now=T0)

    assert (await get_one(store, job_id)).data == "old"


async def test_an_edit_keeps_everything_else_a_job_was_made_with(store: Store) -> None:
    parent = await add_one(store, "parent")
    job_id = await add_one(
        store,
        unique="k",
        group="g",
        ttl="5s",
        expires="1h",
        timeout="3s",
        backoff="2s",
        retention="1d",
        parent=parent,
        delivery="at-most-once",
    )
    before = await get_one(store, job_id)

    await change(store, job_id, data="new")

    after = await get_one(store, job_id)
    for field in ("unique", "group", "ttl", "expires", "once", "address_id"):
        assert getattr(after, field) == getattr(before, field)
    for field in ("timeout", "backoff", "retention", "parent"):
        assert getattr(after.spec, field) == getattr(before.spec, field)
