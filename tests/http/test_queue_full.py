"""Adding jobs over HTTP to a type whose cap is reached."""

from __future__ import annotations

import httpx
import pytest

from kue import Kue
from kue.http.framework.problem import refused
from kue.model.errors import QueueFull
from kue.model.job import State
from tests.http.old_apis import EMAIL, KUE, VERTX, OldApi
from tests.support.jobs import count_of


def test_a_full_queue_is_a_429_that_says_when_to_try_again() -> None:
    problem = refused(QueueFull("email", 5))

    assert problem is not None
    assert problem.status == 429
    assert problem.headers == {"Retry-After": "1"}
    assert problem.detail.startswith("no job of type 'email' was added: 5 wait")


def test_what_a_bulk_add_has_added_is_part_of_the_problem() -> None:
    error = QueueFull("email", 5)
    error.added = 3

    problem = refused(error)

    assert problem is not None
    assert problem.detail.endswith("; 3 of the jobs had been added")


async def test_the_document_says_when_to_try_again(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]

    for path in ("/jobs", "/jobs/batch", "/jobs/{job_id}/copy"):
        responses = paths[path]["post"]["responses"]
        for status in ("429", "503", "507"):
            assert "Retry-After" in responses[status]["headers"]
        assert "429" in paths[path]["post"]["description"]
        assert "headers" not in responses["409"]


async def test_a_job_for_a_full_queue_gets_a_429(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.limit("email", max_waiting=1)
    added = await client.post("/jobs", json=EMAIL)

    answers = [
        await client.post("/jobs", json=EMAIL),
        await client.post(f"/jobs/{added.json()['id']}/copy"),
    ]

    for answer in answers:
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert "1 wait already" in answer.json()["detail"]
        assert "had been added" not in answer.json()["detail"]
    delayed = await client.post("/jobs", json=EMAIL | {"delay": "1h"})
    assert delayed.status_code == 201
    assert await count_of(q.store) == {State.WAITING: 1, State.DELAYED: 1}


async def test_a_batch_adds_the_jobs_that_fit(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.limit("email", max_waiting=3)

    answer = await client.post("/jobs/batch", json=[EMAIL] * 5)

    assert answer.status_code == 429
    assert "3 of the jobs had been added" in answer.json()["detail"]
    assert await count_of(q.store) == {State.WAITING: 3}


async def test_a_job_waits_for_room_and_then_gets_a_429(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.limit("email", max_waiting=1, when_full="wait", full_timeout="50ms")
    await client.post("/jobs", json=EMAIL)

    answer = await client.post("/jobs", json=EMAIL)

    assert answer.status_code == 429
    assert "after 0.05 s" in answer.json()["detail"]


@pytest.mark.parametrize("api", [KUE, VERTX], ids=lambda api: api.name)
async def test_an_old_client_gets_a_429_as_well(q: Kue, api: OldApi) -> None:
    await q.limit("email", max_waiting=1)
    async with api.client(q) as client:
        await client.request(api.add, "/job", json=EMAIL)

        answer = await client.request(api.add, "/job", json=EMAIL)

    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert "1 wait already" in answer.json()["error"]


async def test_of_many_jobs_of_an_old_client_those_that_fit_are_added(q: Kue) -> None:
    await q.limit("email", max_waiting=2)
    async with KUE.client(q) as client:
        answer = await client.post("/job", json=[EMAIL] * 3)

    assert answer.status_code == 429
    assert [list(one) for one in answer.json()] == [
        ["message", "id"],
        ["message", "id"],
        ["error"],
    ]
