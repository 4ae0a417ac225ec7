"""Unique jobs as users add them: rejected, replaced, throttled, debounced."""

from __future__ import annotations

from typing import Any

import pytest

from kue import DuplicateJob, JobNotFound, Kue, State


async def test_a_rejected_job_is_not_added(q: Kue) -> None:
    holder = await q.create_job("email", 1).unique("k").save()
    job = q.create_job("email", 2).unique("k", on_conflict="reject")

    with pytest.raises(DuplicateJob, match=f"job {holder.id} holds the unique key 'k'"):
        await job.save()

    assert await q.inactive_count() == 1
    assert (await holder.refresh()).data == 1


async def test_an_enqueue_is_rejected_with_the_holder(q: Kue) -> None:
    options: dict[str, Any] = {"unique": "k", "on_conflict": "reject"}
    holder = await q.enqueue("email", **options)

    with pytest.raises(DuplicateJob) as caught:
        await q.enqueue("email", **options)

    assert (caught.value.holder, caught.value.key) == (holder.id, "k")


async def test_a_rejected_call_of_a_task_names_the_holder(q: Kue) -> None:
    @q.task(unique=True, on_conflict="reject")
    async def charge(order: int) -> None: ...

    holder = await charge.enqueue(7)
    await charge.enqueue(8)

    with pytest.raises(DuplicateJob) as caught:
        await charge.enqueue(7)

    assert caught.value.holder == holder.id


async def test_the_rejected_of_many_are_marked_and_the_others_added(q: Kue) -> None:
    holder = await q.enqueue("email", unique="b")
    drafts = [q.draft("email", unique=key, on_conflict="reject") for key in "abca"]

    first, second, third, fourth = await q.enqueue_many(drafts)

    news = [job.is_new for job in (first, second, third, fourth)]
    assert news == [True, False, True, False]
    assert (second.id, fourth.id) == (holder.id, first.id)
    assert await q.inactive_count() == 3


async def test_the_handle_of_a_replaced_job_sees_the_new_data(q: Kue) -> None:
    old = await q.create_job("email", "old").unique("k").save()
    new = await q.create_job("email", "new").unique("k", on_conflict="replace").save()

    assert (new.id, new.is_new, new.has_replaced) == (old.id, False, True)
    assert not old.has_replaced
    assert (await old.refresh()).data == "new"
    await new.remove()
    with pytest.raises(JobNotFound):
        await old.refresh()


async def test_the_last_call_about_a_key_counts(q: Kue) -> None:
    job = q.create_job("email").debounce("a", "5s").throttle("b", "1h").unique("c")

    assert (job.draft.unique, job.draft.unique_at_most) == ("c", 0)
    assert (job.draft.debounce, job.draft.spec.delay) == (0, 0)
    assert job.unique("c", until="start", at_most="1h").draft.unique_until == "start"


async def test_a_throttled_job_answers_for_the_time(q: Kue) -> None:
    first = await q.create_job("digest").throttle("ann", "1h").save()
    await first.cancel()
    again = await q.create_job("digest").throttle("ann", "1h").save()

    assert (again.id, again.is_new) == (first.id, False)


async def test_a_debounced_task_waits_with_its_newest_arguments(q: Kue) -> None:
    @q.task(name="reindex")
    async def reindex(shop: int, change: str) -> None: ...

    calls = reindex.options(unique="7", debounce="10m", debounce_max="1h")
    first = await calls.enqueue(7, "name")
    second = await calls.enqueue(7, "price")

    job = await first.refresh()
    assert second.has_replaced
    assert (job.state, job.data) == (State.DELAYED, {"shop": 7, "change": "price"})


async def test_unique_options_work_in_blocking_code(q: Kue) -> None:
    draft = q.sync.create_job("email", 2).unique("k", on_conflict="replace").draft

    assert (draft.unique, draft.on_conflict) == ("k", "replace")
