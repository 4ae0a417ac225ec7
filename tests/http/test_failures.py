"""What jobs failed of, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kue import Kue
from kue.model.fingerprint import fingerprint
from kue.model.job import Error, Failed, State
from tests.http.conftest import Http
from tests.http.test_bulk import do
from tests.support.jobs import (
    add_many,
    add_one,
    claim,
    count_of,
    end,
    start_one,
    state_of,
)

#: Jobs fail in the past: a retry leaves alone what fails after it began.
PAST = 1_700_000_000_000


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
        "fingerprint": fingerprint(Error("OSError", "timeout after 7 s")),
        "type": "email",
        "kind": "OSError",
        "message": "timeout after 60 s",
        "count": 2,
        "first_at": PAST,
        "last_at": PAST + 1,
        "job_id": newest,
    }
    assert (groups[1]["message"], groups[1]["count"]) == ("refused", 1)
    assert answer.json()["total"] == 2


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
    assert found["total"] == 3


async def test_no_failures_are_no_groups(client: httpx.AsyncClient, q: Kue) -> None:
    await add_one(q.store)

    assert (await client.get("/errors")).json() == {"groups": [], "total": 0}


# -- retrying ------------------------------------------------------------------


async def retry(client: httpx.AsyncClient, group: dict[str, Any]) -> dict[str, Any]:
    """Retry all of a group and return what became of them."""
    wanted = {name: group[name] for name in ("type", "fingerprint")}
    return await do(client, "retry", filter={"state": "failed", **wanted})


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
    [group, *_] = (await client.get("/errors")).json()["groups"]

    status = await retry(client, group)

    assert group["count"] == status["done"] == status["looked_at"] == 600
    assert await count_of(q.store) == {State.WAITING: 600, State.FAILED: 3}
    states = {one: await state_of(q.store, one) for one in meant + others}
    assert {states[one] for one in meant} == {State.WAITING}
    assert {states[one] for one in others} == {State.FAILED}


async def test_a_group_is_gone_once_all_of_it_are_retried(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await fail(q, "no user 17 in 0xdeadbeef01", "no user 4 in 0xcafecafe02")
    [group] = (await client.get("/errors")).json()["groups"]

    await retry(client, group)

    assert (await client.get("/errors")).json() == {"groups": [], "total": 0}


async def test_a_job_whose_key_another_has_taken_stays_failed(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await start_one(q.store, now=PAST, unique="ann")
    await end(q.store, job, Failed(Error("OSError", "timeout after 1 s")), now=PAST)
    await add_one(q.store, unique="ann")
    [group] = (await client.get("/errors")).json()["groups"]

    status = await retry(client, group)

    assert (status["done"], status["held"]) == (0, 1)
    assert (await client.get("/errors")).json()["groups"] == [group]


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


async def test_errors_of_a_type_that_there_is_not_are_404(
    client: httpx.AsyncClient,
) -> None:
    assert (await client.get("/errors?type=email")).status_code == 404


async def test_who_may_look_sees_errors(http: Http, q: Kue) -> None:
    await fail(q, "timeout after 5 s")
    async with http.client("viewer") as client:
        answer = await client.get("/errors")

    assert (answer.status_code, answer.json()["total"]) == (200, 1)
