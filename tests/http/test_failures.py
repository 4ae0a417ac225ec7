"""What jobs failed of, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kue.http.v1 import failures
from kue.job import Error, Failed, State
from tests.support.jobs import (
    add_many,
    add_one,
    claim,
    count_of,
    end,
    start_one,
    state_of,
)

if TYPE_CHECKING:
    import httpx

    from kue import Kue
    from tests.http.conftest import Http

#: Jobs fail in the past: a retry leaves alone what fails after it began.
PAST = 1_700_000_000_000
RETRY = {"type": "email", "kind": "OSError", "message": "timeout after 5 s"}
ROUTES = [("GET", "/errors", None), ("POST", "/errors/retry", RETRY)]


async def fail(
    q: Kue, *messages: str, type: str = "email", kind: str = "OSError", now: int = PAST
) -> list[int]:
    """Let jobs fail, one for each message."""
    await add_many(q.store, len(messages), type, now=now)
    jobs = await claim(q.store, type, limit=len(messages), now=now)
    for job, message in zip(jobs, messages, strict=True):
        await end(q.store, job, Failed(Error(kind, message, "a stack")), now=now)
    return [job.id for job in jobs]


# -- looking -------------------------------------------------------------------


async def test_failed_jobs_are_grouped_by_error(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await fail(q, "timeout after 5 s", "refused")
    [newest] = await fail(q, "timeout after 60 s\nmore", now=PAST + 1)

    answer = await client.get("/errors")

    assert answer.status_code == 200
    groups = answer.json().pop("groups")
    assert groups[0] == {
        "type": "email",
        "kind": "OSError",
        "message": "timeout after 60 s",
        "count": 2,
        "first_at": PAST,
        "last_at": PAST + 1,
        "job_id": newest,
    }
    assert (groups[1]["message"], groups[1]["count"]) == ("refused", 1)
    assert (answer.json()["total"], answer.json()["looked_at"]) == (2, 3)
    assert answer.json()["is_all"] is True


async def test_errors_are_those_of_the_type_asked_for(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await fail(q, "refused")
    await fail(q, "refused", "refused", type="a/b")

    [group] = (await client.get("/errors", params={"type": "a/b"})).json()["groups"]

    assert (group["type"], group["count"]) == ("a/b", 2)


async def test_the_most_frequent_errors_come_first_and_the_others_are_counted(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await fail(q, "a", "b", "b", "c")

    found = (await client.get("/errors?limit=1")).json()

    assert [group["message"] for group in found["groups"]] == ["b"]
    assert (found["total"], found["looked_at"]) == (3, 4)


async def test_an_answer_says_when_it_did_not_look_at_all(
    client: httpx.AsyncClient, q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_LOOKED", 500)
    await fail(q, *["old"] * 100)
    await fail(q, *["new"] * 500, now=PAST + 1)

    found = (await client.get("/errors")).json()

    assert (found["looked_at"], found["is_all"]) == (500, False)
    assert [group["message"] for group in found["groups"]] == ["new"]


async def test_no_failures_are_no_groups(client: httpx.AsyncClient, q: Kue) -> None:
    await add_one(q.store)

    assert (await client.get("/errors")).json() == {
        "groups": [],
        "total": 0,
        "looked_at": 0,
        "is_all": True,
    }


# -- retrying ------------------------------------------------------------------


async def test_all_of_a_group_are_retried_and_no_others(
    client: httpx.AsyncClient, q: Kue
) -> None:
    meant = await fail(q, *(f"timeout after {n} s" for n in range(400)))
    meant += await fail(q, *(f"  timeout after {n} s" for n in range(200)))
    others = [
        *await fail(q, "timeout", "OSError: timeout after 5 s"),
        *await fail(q, "timeout after 5 s", kind="ValueError"),
        *await fail(q, "timeout after 5 s", type="other"),
    ]

    answer = await client.post("/errors/retry", json=RETRY)

    assert answer.json() == {"retried": 600, "changed": 0, "held": 0}
    assert await count_of(q.store) == {State.WAITING: 600, State.FAILED: 3}
    states = {one: await state_of(q.store, one) for one in meant + others}
    assert {states[one] for one in meant} == {State.WAITING}
    assert {states[one] for one in others} == {State.FAILED}


async def test_a_group_is_retried_by_what_the_list_says_of_it(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await fail(q, "no user 17 in 0xdeadbeef01", "no user 4 in 0xcafecafe02")
    [group] = (await client.get("/errors")).json()["groups"]

    order = {name: group[name] for name in ("type", "kind", "message")}
    answer = await client.post("/errors/retry", json=order)

    assert answer.json()["retried"] == group["count"] == 2


async def test_without_a_message_all_of_the_kind_are_retried(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await fail(q, "timeout", "refused", "")
    await fail(q, "timeout", kind="OSErrorOfAnotherKind")

    answer = await client.post(
        "/errors/retry", json={"type": "email", "kind": "OSError"}
    )

    assert answer.json()["retried"] == 3


async def test_an_empty_message_means_errors_that_said_nothing(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await fail(q, "timeout", "")

    answer = await client.post("/errors/retry", json=RETRY | {"message": ""})

    assert answer.json()["retried"] == 1


async def test_a_job_whose_key_another_has_taken_stays_failed(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await start_one(q.store, now=PAST, unique="ann")
    await end(q.store, job, Failed(Error("OSError", "timeout after 1 s")), now=PAST)
    await add_one(q.store, unique="ann")

    answer = await client.post("/errors/retry", json=RETRY)

    assert answer.json() == {"retried": 0, "changed": 0, "held": 1}


# -- refusing ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "query.limit"),
        ("limit=201", "query.limit"),
        ("type=", "query.type"),
        ("kind=OSError", "query"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, query: str, field: str
) -> None:
    answer = await client.get(f"/errors?{query}")

    assert (answer.status_code, answer.json().get("field")) == (400, field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": ""}, "body.type"),
        ({"kind": ""}, "body.kind"),
        ({"kind": "x" * 501}, "body.kind"),
        ({"message": 5}, "body.message"),
        ({"message": "x" * 10_001}, "body.message"),
        ({"all": True}, "body"),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, q: Kue, change: dict[str, Any], field: str
) -> None:
    await fail(q, "timeout after 5 s")

    answer = await client.post("/errors/retry", json=RETRY | change)

    assert (answer.status_code, answer.json().get("field")) == (400, field)
    assert await count_of(q.store) == {State.FAILED: 1}


async def test_errors_of_a_type_that_there_is_not_are_404(
    client: httpx.AsyncClient,
) -> None:
    looked = await client.get("/errors?type=email")
    retried = await client.post("/errors/retry", json=RETRY)

    assert (looked.status_code, retried.status_code) == (404, 404)


async def test_who_may_only_look_retries_nothing(http: Http, q: Kue) -> None:
    await fail(q, "timeout after 5 s")
    async with http.client("viewer") as client:
        looked = await client.get("/errors")
        retried = await client.post("/errors/retry", json=RETRY)

    assert (looked.status_code, retried.status_code) == (200, 403)
    assert await count_of(q.store) == {State.FAILED: 1}


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
async def test_a_store_that_is_away_is_503(
    lost: httpx.AsyncClient, method: str, path: str, body: Any
) -> None:
    assert (await lost.request(method, path, json=body)).status_code == 503
