"""`Store.pause`, `resume` and `paused`: U-11, kept in the store, by type or for all."""

from __future__ import annotations

from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import PageRequest, Pause, PauseRequest, Result
from tests.support.jobs import (
    MINUTE,
    SECOND,
    T0,
    add_one,
    claim_ids,
    count_of,
    end,
    get_one,
    start_one,
    state_of,
    take,
)
from tests.support.upkeep import tend


async def test_a_paused_type_hands_out_nothing(store: Store) -> None:
    paused = await add_one(store, "email")
    other = await add_one(store, "sms")
    await store.pause(PauseRequest("email"), now=T0)

    assert await claim_ids(store, "email", "sms") == [other]
    assert await state_of(store, paused) is State.WAITING


async def test_a_resumed_type_hands_out_jobs_again(store: Store) -> None:
    job_id = await add_one(store)
    await store.pause(PauseRequest("email"), now=T0)

    assert await store.resume("email", now=T0) is True

    assert await claim_ids(store) == [job_id]
    assert await store.paused() == []


async def test_everything_can_be_paused_at_once(store: Store) -> None:
    for type in ("email", "sms", "video"):
        await add_one(store, type)
    await store.pause(PauseRequest(), now=T0)
    assert await claim_ids(store, "email", "sms", "video") == []

    assert await store.resume(now=T0) is True

    assert len(await claim_ids(store, "email", "sms", "video")) == 3


async def test_a_type_stays_paused_when_all_are_resumed(store: Store) -> None:
    """They are two pauses, and each ends by itself."""
    await add_one(store, "email")
    sms = await add_one(store, "sms")
    await store.pause(PauseRequest("email"), now=T0)
    await store.pause(PauseRequest(), now=T0)
    await store.resume(now=T0)

    assert await claim_ids(store, "email", "sms") == [sms]


async def test_all_stay_paused_when_a_type_is_resumed(store: Store) -> None:
    await add_one(store, "email")
    await store.pause(PauseRequest("email"), now=T0)
    await store.pause(PauseRequest(), now=T0)
    await store.resume("email", now=T0)

    assert await claim_ids(store, "email") == []


async def test_resuming_what_is_not_paused_says_so(store: Store) -> None:
    assert await store.resume("email", now=T0) is False
    assert await store.resume(now=T0) is False


async def test_pauses_are_told_with_who_and_why(store: Store) -> None:
    await store.pause(PauseRequest("sms", reason="provider down", by="ann"), now=T0)
    await store.pause(PauseRequest("email", until=T0 + MINUTE), now=T0 + 1)
    await store.pause(PauseRequest(reason="deploy"), now=T0 + 2)

    assert await store.paused() == [
        Pause(None, T0 + 2, reason="deploy"),
        Pause("email", T0 + 1, until=T0 + MINUTE),
        Pause("sms", T0, reason="provider down", by="ann"),
    ]


async def test_the_last_pause_of_a_type_stands(store: Store) -> None:
    await store.pause(PauseRequest("email", reason="first"), now=T0)
    await store.pause(PauseRequest("email", reason="second"), now=T0 + 1)

    assert await store.paused() == [Pause("email", T0 + 1, reason="second")]


async def test_a_pause_with_an_end_ends_by_itself(store: Store) -> None:
    job_id = await add_one(store)
    await store.pause(PauseRequest("email", until=T0 + MINUTE), now=T0)

    assert await claim_ids(store, now=T0 + MINUTE - 1) == []
    assert await claim_ids(store, now=T0 + MINUTE + 1) == [job_id]


async def test_a_claim_tells_when_a_pause_ends(store: Store) -> None:
    await add_one(store)
    await store.pause(PauseRequest("email"), now=T0)
    assert (await take(store)).next_at is None

    await store.pause(PauseRequest("email", until=T0 + MINUTE), now=T0)

    assert (await take(store)).next_at == T0 + MINUTE


async def test_a_pause_of_all_with_an_end_ends_by_itself(store: Store) -> None:
    job_id = await add_one(store)
    await store.pause(PauseRequest(until=T0 + MINUTE), now=T0)

    assert await claim_ids(store, now=T0 + MINUTE - 1) == []
    await tend(store, T0 + MINUTE + 1)
    assert await claim_ids(store, now=T0 + MINUTE + 1) == [job_id]


async def test_running_jobs_finish_in_a_pause(store: Store) -> None:
    job = await start_one(store)
    await store.pause(PauseRequest("email"), now=T0)

    assert await end(store, job, Completed()) is Result.DONE


async def test_a_paused_type_takes_new_jobs_and_promotes_old_ones(store: Store) -> None:
    delayed = await add_one(store, delay=1)
    await store.pause(PauseRequest("email"), now=T0)
    added = await add_one(store)

    await tend(store, T0 + SECOND)

    assert await count_of(store) == {State.WAITING: 2}
    await store.resume("email", now=T0 + SECOND)
    assert await claim_ids(store, now=T0 + SECOND) == [delayed, added]


async def test_a_type_can_be_paused_before_it_has_jobs(store: Store) -> None:
    await store.pause(PauseRequest("email"), now=T0)
    await add_one(store, "email")

    assert await claim_ids(store) == []


async def test_a_pause_says_why_a_job_waits(store: Store) -> None:
    job_id = await add_one(store)
    assert (await get_one(store, job_id)).held == ""
    await store.pause(PauseRequest("email"), now=T0)
    assert (await get_one(store, job_id)).held == "paused"
    await store.pause(PauseRequest("email", reason="provider down"), now=T0)
    assert (await get_one(store, job_id)).held == "paused: provider down"

    await store.resume("email", now=T0)
    assert (await get_one(store, job_id)).held == ""


async def test_a_pause_of_all_says_why_a_job_waits(store: Store) -> None:
    job_id = await add_one(store)
    delayed = await add_one(store, delay=60)
    await store.pause(PauseRequest(reason="deploy"), now=T0)

    assert (await get_one(store, job_id)).held == "paused: deploy"
    [job] = (await store.page(PageRequest(State.WAITING, "email"))).jobs
    assert job.held == "paused: deploy"
    assert (await get_one(store, delayed)).held == ""


async def test_a_pause_is_everybodys(store: Store, other_store: Store) -> None:
    await add_one(store)
    await store.pause(PauseRequest("email", reason="deploy"), now=T0)

    assert await claim_ids(other_store) == []
    assert [pause.reason for pause in await other_store.paused()] == ["deploy"]


async def test_a_pause_does_not_make_a_type(store: Store) -> None:
    await store.pause(PauseRequest("email"), now=T0)

    assert await store.types() == []
