"""What can be done to one job."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from kue import Kue, State
from kue.model.job import Failed, Released
from tests.http.conftest import Http
from tests.support.jobs import (
    DAY,
    HOUR,
    OOPS,
    T0,
    add_one,
    claim_one,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)

PAST = 1_700_000_000_000
#: 2100-01-01
FUTURE = 4_102_444_800_000
GONE = 4_711
#: For what is decided before any store is asked.
on_any_store = pytest.mark.parametrize("url", ["memory://"])
#: Each action with a body that fits.
each_action = pytest.mark.parametrize(
    ("action", "body"),
    [
        ("retry", {}),
        ("retry", {"data": 1}),
        ("copy", {}),
        ("promote", None),
        ("priority", {"priority": 1}),
        ("reschedule", {"delay": "1h"}),
        ("cancel", {}),
        ("signals", {"name": "approved"}),
    ],
)


async def act(
    client: httpx.AsyncClient, job_id: int | str, action: str, body: Any = None
) -> httpx.Response:
    return await client.post(f"/jobs/{job_id}/{action}", json=body)


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_an_ended_job_is_retried(
    client: httpx.AsyncClient, q: Kue, state: State
) -> None:
    job_id = await job_in(q.store, state)

    answer = await act(client, job_id, "retry", {})

    assert (answer.status_code, answer.content) == (204, b"")
    job = await get_one(q.store, job_id)
    assert (job.state, job.attempts) == (State.WAITING, 0)


async def test_a_job_is_retried_with_other_data(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await job_in(q.store, State.FAILED)

    answer = await act(client, job_id, "retry", {"data": {"to": "bob"}})

    assert answer.status_code == 204
    job = await get_one(q.store, job_id)
    assert (job.state, job.data) == (State.WAITING, {"to": "bob"})


async def test_of_two_who_retry_what_both_see_one_does(
    client: httpx.AsyncClient, q: Kue
) -> None:
    """R-1: the second finds that it was done, even when the job has failed again."""
    job_id = await job_in(q.store, State.FAILED, now=T0)
    seen = {"ended_at": (await get_one(q.store, job_id)).ended_at}

    first = await act(client, job_id, "retry", seen)
    again = await claim_one(q.store, now=T0 + 1)
    await end(q.store, again, Failed(OOPS), now=T0 + 1)
    second = await act(client, job_id, "retry", seen)
    third = await act(client, job_id, "retry", seen | {"data": "new"})

    assert (first.status_code, second.status_code) == (204, 204)
    assert third.status_code == 409
    assert "is failed and cannot be retried" in third.json()["detail"]
    job = await get_one(q.store, job_id)
    assert [line.outcome for line in job.history] == ["failed", "restarted", "failed"]
    assert (await act(client, job_id, "retry", {})).status_code == 204


@pytest.mark.parametrize(
    ("action", "state", "body"),
    [
        ("retry", State.ACTIVE, {}),
        ("retry", State.DELAYED, {}),
        ("retry", State.ACTIVE, {"data": 1}),
        ("retry", State.WAITING, {"data": 1}),
        ("promote", State.ACTIVE, None),
        ("promote", State.FAILED, None),
        ("reschedule", State.ACTIVE, {"delay": 1}),
        ("cancel", State.COMPLETE, {}),
    ],
)
async def test_an_action_that_a_state_does_not_allow_changes_nothing(
    client: httpx.AsyncClient, q: Kue, action: str, state: State, body: Any
) -> None:
    job_id = await job_in(q.store, state)
    before = await get_one(q.store, job_id)

    answer = await act(client, job_id, action, body)

    assert answer.status_code == 409
    assert f"job {job_id} is {state} and cannot be" in answer.json()["detail"]
    assert await get_one(q.store, job_id) == before


async def test_a_job_whose_unique_key_is_taken_is_not_retried(
    client: httpx.AsyncClient, q: Kue
) -> None:
    ended = await job_in(q.store, State.FAILED, unique="ann")
    holder = await add_one(q.store, unique="ann")

    answer = await act(client, ended, "retry", {})

    assert answer.status_code == 409
    assert f"job {holder} holds its unique key" in answer.json()["detail"]


async def test_a_copy_has_the_same_options(client: httpx.AsyncClient, q: Kue) -> None:
    options: dict[str, Any] = {
        "priority": 5,
        "attempts": 3,
        "backoff": [1, 2],
        "timeout": 4,
        "ttl": 5,
        "group": "mail",
        "limited_by": {"stripe": "", "customer": "42"},
        "tags": ["a"],
        "unique": "ann",
        "delivery": "at-most-once",
        "meta": {"trace": "1"},
    }
    job_id = await job_in(q.store, State.FAILED, **options, expires="1d")

    answer = await act(client, job_id, "copy", {})

    assert answer.status_code == 201
    assert answer.json()["is_new"]
    job = await get_one(q.store, job_id)
    copy = await get_one(q.store, answer.json()["id"])
    assert (copy.state, copy.priority, copy.spec) == (State.WAITING, 5, job.spec)
    assert (copy.ttl, copy.expires, copy.once) == (5_000, DAY, True)
    assert (copy.group, copy.unique, copy.history) == ("mail", "ann", ())
    assert copy.limited_by == (("stripe", ""), ("customer", "42"))
    assert await state_of(q.store, job_id) is State.FAILED


async def test_a_copy_may_have_other_data(client: httpx.AsyncClient, q: Kue) -> None:
    job_id = await add_one(q.store, data={"to": "ann"})

    same = (await act(client, job_id, "copy", {})).json()["id"]
    other = (await act(client, job_id, "copy", {"data": None})).json()["id"]

    assert (await get_one(q.store, same)).data == {"to": "ann"}
    assert (await get_one(q.store, other)).data is None


async def test_the_copy_of_a_delayed_job_is_due_when_that_is(
    client: httpx.AsyncClient, q: Kue
) -> None:
    added = await client.post("/jobs", json={"type": "email", "at": FUTURE})

    answer = await act(client, added.json()["id"], "copy", {})

    copy = await get_one(q.store, answer.json()["id"])
    assert (copy.state, copy.promote_at) == (State.DELAYED, FUTURE)


async def test_the_copy_of_a_blocked_job_waits_for_the_same(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await job_in(q.store, State.BLOCKED)

    answer = await act(client, job_id, "copy", {})

    copy = await get_one(q.store, answer.json()["id"])
    assert copy.state is State.BLOCKED
    assert copy.spec.after == (await get_one(q.store, job_id)).spec.after


async def test_a_copy_does_not_wait_for_jobs_that_its_original_waited_for(
    client: httpx.AsyncClient, q: Kue
) -> None:
    parent = await job_in(q.store, State.COMPLETE, "parent")
    job_id = await add_one(q.store, after=[parent])
    [removed] = await q.remove_many([parent])
    assert removed.error is None

    answer = await act(client, job_id, "copy", {})

    copy = await get_one(q.store, answer.json()["id"])
    assert (copy.state, copy.spec.after) == (State.WAITING, ())


async def test_a_copy_of_a_job_that_holds_its_unique_key_is_that_job(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await add_one(q.store, unique="ann")

    answer = await act(client, job_id, "copy", {})

    assert answer.json() == {"id": job_id, "is_new": False, "has_replaced": False}


@pytest.mark.parametrize("state", [State.DELAYED, State.BLOCKED])
async def test_a_job_that_waits_is_promoted(
    client: httpx.AsyncClient, q: Kue, state: State
) -> None:
    job_id = await job_in(q.store, state)

    answer = await act(client, job_id, "promote")

    assert answer.status_code == 204
    assert await state_of(q.store, job_id) is State.WAITING


async def test_a_job_gets_another_priority(client: httpx.AsyncClient, q: Kue) -> None:
    job_id = await add_one(q.store)

    answer = await act(client, job_id, "priority", {"priority": "critical"})

    assert answer.status_code == 204
    assert (await get_one(q.store, job_id)).priority == -15


@pytest.mark.parametrize("at", [FUTURE, "2100-01-01T00:00:00Z"])
async def test_a_job_is_rescheduled_to_a_moment(
    client: httpx.AsyncClient, q: Kue, at: int | str
) -> None:
    job_id = await add_one(q.store)

    answer = await act(client, job_id, "reschedule", {"at": at})

    assert answer.status_code == 204
    job = await get_one(q.store, job_id)
    assert (job.state, job.promote_at) == (State.DELAYED, FUTURE)


async def test_a_job_is_rescheduled_by_a_delay(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await add_one(q.store)
    before = await q.now()

    answer = await act(client, job_id, "reschedule", {"delay": "1h"})

    assert answer.status_code == 204
    due = (await get_one(q.store, job_id)).promote_at
    assert due is not None
    assert before + HOUR <= due <= await q.now() + HOUR


async def test_a_waiting_job_is_cancelled_at_once(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await add_one(q.store)

    answer = await act(client, job_id, "cancel", {"reason": "withdrawn"})

    assert (answer.status_code, answer.json()) == (200, {"ended": True})
    job = await get_one(q.store, job_id)
    assert (job.state, job.history[-1].reason) == (State.CANCELLED, "withdrawn")


async def test_a_running_job_is_asked_to_end(client: httpx.AsyncClient, q: Kue) -> None:
    job = await start_one(q.store)

    answer = await act(client, job.id, "cancel", {})

    assert (answer.status_code, answer.json()) == (200, {"ended": False})
    assert (await get_one(q.store, job.id)).cancelling


@on_any_store
@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("retry", {"data": "x" * 300_000}, "body.data"),
        ("retry", [], "body"),
        ("copy", {"data": "x" * 300_000}, "body.data"),
        ("priority", {"priority": "soon"}, "body.priority"),
        ("priority", {"priority": 1_024}, "body.priority"),
        ("priority", {}, "body"),
        ("reschedule", {}, "body"),
        ("reschedule", {"delay": 1, "at": FUTURE}, "body"),
        ("reschedule", {"delay": "a while"}, "body.delay"),
        ("reschedule", {"at": -1}, "body.at"),
        ("reschedule", {"at": "2100-01-01T00:00:00"}, "body.at"),
        ("cancel", {"reason": "x" * 501}, "body.reason"),
    ],
)
async def test_what_does_not_fit_is_named_and_changes_nothing(
    client: httpx.AsyncClient, q: Kue, action: str, body: Any, field: str
) -> None:
    job_id = await job_in(q.store, State.FAILED)
    before = await get_one(q.store, job_id)

    answer = await act(client, job_id, action, body)

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert await get_one(q.store, job_id) == before


@each_action
async def test_a_job_that_is_gone_is_404(
    client: httpx.AsyncClient, action: str, body: Any
) -> None:
    answer = await act(client, GONE, action, body)

    assert answer.status_code == 404
    assert answer.json()["detail"] == f"job {GONE} does not exist"


@on_any_store
@each_action
async def test_an_id_that_no_job_can_have_is_refused(
    client: httpx.AsyncClient, action: str, body: Any
) -> None:
    answer = await act(client, "x", action, body)

    assert (answer.status_code, answer.json()["field"]) == (400, "path.job_id")


@on_any_store
@each_action
async def test_who_may_look_does_nothing(
    http: Http, q: Kue, action: str, body: Any
) -> None:
    job_id = await job_in(q.store, State.FAILED)

    async with http.client("viewer") as client:
        answer = await act(client, job_id, action, body)

    assert answer.status_code == 403
    assert await state_of(q.store, job_id) is State.FAILED


async def test_a_signal_is_sent_and_shown_with_the_steps(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await start_one(q.store)
    raw = msgspec.Raw(b'{"id": 7, "api_key": "s3cret"}')
    await q.store.record_step(job, "charge", raw, duration=5, now=T0)
    await end(q.store, job, Released(DAY, suspended="wait:1:approved"))

    before = (await client.get(f"/jobs/{job.id}/steps")).json()
    signal = {"name": "approved", "data": {"by": "ann", "token": "abc"}}
    answer = await act(client, job.id, "signals", signal)
    after = (await client.get(f"/jobs/{job.id}/steps")).json()

    assert answer.status_code == 204
    charge, wait = before["steps"]
    assert (charge["name"], charge["duration"]) == ("charge", 5)
    assert charge["result"] == {"id": 7, "api_key": "•••"}
    assert before["pending"] == wait
    assert (wait["kind"], wait["until"]) == ("wait", T0 + DAY)
    [sent] = after["signals"]
    assert sent["data"] == {"by": "ann", "token": "•••"}
    assert not sent["received"]
    assert await state_of(q.store, job.id) is State.WAITING


@on_any_store
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body.name"),
        ({"name": ""}, "body.name"),
        ({"name": "a\nb"}, "body.name"),
        ({"name": "a", "data": "x" * 70_000}, "data"),
    ],
)
async def test_a_signal_that_cannot_be_one_is_refused(
    client: httpx.AsyncClient, q: Kue, body: Any, field: str
) -> None:
    job_id = await add_one(q.store)

    answer = await act(client, job_id, "signals", body)

    assert answer.status_code == 400
    assert answer.json()["field"] in (field, "body")


@on_any_store
async def test_a_job_that_has_ended_takes_no_signal(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await job_in(q.store, State.COMPLETE)

    answer = await act(client, job_id, "signals", {"name": "approved"})

    assert answer.status_code == 409
    assert "cannot be sent a signal" in answer.json()["detail"]


@on_any_store
async def test_a_missing_job_has_no_steps(client: httpx.AsyncClient, q: Kue) -> None:
    job_id = await add_one(q.store)

    assert (await client.get(f"/jobs/{GONE}/steps")).status_code == 404
    none: Any = {"steps": [], "signals": [], "pending": None}
    assert (await client.get(f"/jobs/{job_id}/steps")).json() == none
