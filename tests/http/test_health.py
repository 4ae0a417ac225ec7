"""Whether the server and its store are well, and what every answer has."""

from __future__ import annotations

import httpx

from kue.http.security.headers import HEADERS


async def test_a_server_that_answers_is_healthy(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ok"}


async def test_a_server_whose_store_answers_is_ready(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/ready")

    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert answer.json()["durability"]
    assert answer.json()["now"] > 1_700_000_000_000


async def test_a_server_whose_store_is_away_is_healthy_but_not_ready(
    lost: httpx.AsyncClient,
) -> None:
    assert (await lost.get("/health")).status_code == 200

    answer = await lost.get("/ready")

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "1"
    assert "cannot be reached" in answer.json()["detail"]


async def test_every_answer_tells_browsers_to_trust_it_with_little(
    client: httpx.AsyncClient,
) -> None:
    for path in ("/health", "/nowhere"):
        answer = await client.get(path)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


async def test_a_path_that_there_is_not_is_a_problem(client: httpx.AsyncClient) -> None:
    answer = await client.get("/nowhere")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "title": "Not Found",
        "status": 404,
        "detail": "there is no GET /api/v1/nowhere",
    }


async def test_a_method_that_there_is_not_is_a_problem(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.delete("/health")

    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert answer.json()["title"] == "Method Not Allowed"


async def test_a_parameter_that_there_is_not_is_refused(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/health?verbose=1")

    assert answer.status_code == 400
    assert answer.json()["field"] == "query.verbose"


async def test_an_answer_that_the_caller_has_is_not_sent_again(
    client: httpx.AsyncClient,
) -> None:
    first = await client.get("/health")
    tag = first.headers["etag"]

    again = await client.get("/health", headers={"If-None-Match": tag})

    assert (again.status_code, again.content) == (304, b"")


async def test_the_document_describes_every_path(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    assert document["openapi"] == "3.1.0"
    assert "/health" in document["paths"]
    operation = document["paths"]["/ready"]["get"]
    assert operation["summary"] == "Whether the store answers; 503 if it does not."
    assert set(operation["responses"]) == {
        *("200", "304"),
        *("400", "401", "403", "404", "503"),
    }
