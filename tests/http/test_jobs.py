"""Finding, adding, showing, changing and removing jobs."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest

from kue import Kue, State
from kue.http.v1 import jobs
from kue.model.fingerprint import fingerprint
from kue.model.job import Completed, Error, Failed, Released, Retried
from kue.model.job_json import job_detail
from kue.store.values import LogLine
from tests.http.conftest import Http
from tests.support.jobs import (
    DAY,
    HOUR,
    add_many,
    add_one,
    claim_one,
    end,
    get_one,
    job_in,
    start_one,
)

#: Long enough ago for everything to have happened since.
PAST = 1_700_000_000_000
RESET = Error("OSError", "connection reset")
GONE = 4_711
#: For what is decided before any store is asked.
on_any_store = pytest.mark.parametrize("url", ["memory://"])

#: Routes of one job that is to be there: method, path, body.
OF_ONE_JOB = (
    ("GET", f"/jobs/{GONE}", None),
    ("PATCH", f"/jobs/{GONE}", {"priority": 1}),
    ("DELETE", f"/jobs/{GONE}", None),
    ("GET", f"/jobs/{GONE}/logs", None),
    ("GET", f"/jobs/{GONE}/attempts", None),
)
ROUTES = (
    ("GET", "/jobs", None),
    ("POST", "/jobs", {"type": "email"}),
    ("POST", "/jobs/batch", [{"type": "email"}]),
    *OF_ONE_JOB,
)


async def document_of(q: Kue, job_id: int) -> Any:
    """Return what the library says of a job, as a reader of JSON sees it."""
    return json.loads(msgspec.json.encode(job_detail(await get_one(q.store, job_id))))


async def ids_of(client: httpx.AsyncClient, **query: Any) -> list[int]:
    answer = await client.get("/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["jobs"]]


async def add(client: httpx.AsyncClient, body: Any, **headers: str) -> Any:
    answer = await client.post("/jobs", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


# -- finding -------------------------------------------------------------------


async def test_jobs_come_page_by_page_the_newest_first(
    client: httpx.AsyncClient, q: Kue
) -> None:
    ids = await add_many(q.store, 5)
    found: list[list[int]] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await client.get("/jobs", params=query)).json()
        found.append([job["id"] for job in page["jobs"]])
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]

    assert found[:2] == [ids[4:2:-1], ids[2:0:-1]]
    assert [job_id for part in found for job_id in part] == ids[::-1]


async def test_jobs_come_in_the_order_asked_for(
    client: httpx.AsyncClient, q: Kue
) -> None:
    low = await add_one(q.store, priority="low")
    high = await add_one(q.store, priority="high")

    assert await ids_of(client, state="waiting", order="asc") == [high, low]
    assert await ids_of(client, state="waiting", order="desc") == [low, high]


async def test_jobs_are_found_by_state_and_type(
    client: httpx.AsyncClient, q: Kue
) -> None:
    failed = await job_in(q.store, State.FAILED, "email")
    waiting = await job_in(q.store, State.WAITING, "email")
    other = await job_in(q.store, State.FAILED, "report")

    assert await ids_of(client, state="failed") == [other, failed]
    assert await ids_of(client, type="email") == [waiting, failed]
    assert await ids_of(client, type="email", state="failed") == [failed]
    assert await ids_of(client, type="unheard of") == []


async def test_a_search_tells_how_far_it_looked(
    client: httpx.AsyncClient, q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_SCAN", 20)
    oldest = await add_one(q.store, "email", data={"to": "Ann Smith"})
    await add_many(q.store, 24, "email")
    await job_in(q.store, State.COMPLETE, "report")
    query: dict[str, Any] = {"text": 'smith "ann"', "type": "email"}

    first = (await client.get("/jobs", params=query)).json()
    query["cursor"] = first["cursor"]
    second = (await client.get("/jobs", params=query)).json()
    plain = (await client.get("/jobs", params={"type": "email"})).json()

    assert (first["jobs"], first["looked_at"], first["total"]) == ([], 20, 25)
    assert [job["id"] for job in second["jobs"]] == [oldest]
    assert (second["cursor"], second["looked_at"], second["total"]) == (None, 5, 25)
    assert (plain["looked_at"], plain["total"]) == (None, None)
    of_state = await client.get("/jobs", params={"text": "x", "state": "complete"})
    assert (of_state.json()["looked_at"], of_state.json()["total"]) == (1, 1)


async def test_a_rare_type_is_on_the_first_page(
    client: httpx.AsyncClient, q: Kue
) -> None:
    """An empty list under "all 33.3K", and 48 clicks on "Search on"."""
    rare = await add_one(q.store, "rare", now=PAST)
    await add_many(q.store, 3_000, "usual", now=PAST)

    reply = await client.get("/jobs", params={"type": "rare"})

    assert [job["id"] for job in reply.json()["jobs"]] == [rare]
    assert reply.json()["cursor"] is None


@pytest.mark.parametrize(
    "query",
    [
        {"tag": "gold"},
        {"text": "ANN@"},
        {"error": "connection re"},
        {"since": PAST + HOUR},
        {"text": "ann@", "type": "report", "state": "failed"},
        {"worker": "w7"},
        {"group": "ann"},
        {"priority": "high"},
        {"priority": -10},
        {"fingerprint": fingerprint(RESET)},
        {"data.to": "ann@example.com"},
        {"data.to": '"ann@example.com"'},
        {"data.user.id": 42, "data.user.roles.1": "admin"},
        {"data.user.roles": '["staff","admin"]'},
        {"data.user.is_new": "false", "data.user.name": "null"},
    ],
)
async def test_jobs_are_found_by_what_they_have(
    client: httpx.AsyncClient, q: Kue, query: dict[str, Any]
) -> None:
    await add_one(q.store, data={"to": "bob@example.com"}, tags=["silver"], now=PAST)
    later = PAST + HOUR
    user = {"id": 42, "roles": ["staff", "admin"], "is_new": False, "name": None}
    job = await start_one(
        q.store,
        "report",
        {"to": "ann@example.com", "user": user},
        tags=["gold"],
        group="ann",
        priority="high",
        worker="w7",
        now=later,
    )
    await end(q.store, job, Failed(RESET), now=later)

    assert await ids_of(client, **query) == [job.id]
    assert await ids_of(client, **query, until=PAST) == []


async def test_a_job_in_a_list_has_everything_but_its_story(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await job_in(q.store, State.FAILED, backoff=[1, 2], tags=["a"])

    [shown] = (await client.get("/jobs")).json()["jobs"]

    expected = await document_of(q, job_id)
    del expected["history"]
    assert shown == expected


@on_any_store
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "query.limit"),
        ({"limit": 201}, "query.limit"),
        ({"limit": "many"}, "query.limit"),
        ({"cursor": "here"}, "query.cursor"),
        ({"cursor": f"{'9' * 30}:1"}, "query.cursor"),
        ({"order": "random"}, "query.order"),
        ({"state": "lost"}, "query.state"),
        ({"type": "x" * 201}, "query.type"),
        ({"text": "x" * 1_001}, "query.text"),
        ({"since": "noon"}, "query.since"),
        ({"until": -1}, "query.until"),
        ({"worker": ""}, "query.worker"),
        ({"group": "x" * 201}, "query.group"),
        ({"priority": "urgent"}, "query.priority"),
        ({"priority": 1_024}, "query.priority"),
        ({"fingerprint": "xyz"}, "query.fingerprint"),
        ({"data": "1"}, "query.data"),
        ({"data.": "1"}, "query.data"),
        ({"data.a..b": "1"}, "query.data"),
        ({"data." + "x" * 201: "1"}, "query.data"),
        ({"data." + ".".join("abcdefghijk"): "1"}, "query.data"),
        ({"data.x": "1" * 1_001}, "query.data[...]"),
        ({f"data.{n}": "1" for n in range(11)}, "query.data"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, query: dict[str, Any], field: str
) -> None:
    answer = await client.get("/jobs", params=query)

    assert (answer.status_code, answer.json()["field"]) == (400, field)


# -- adding --------------------------------------------------------------------


async def test_a_job_is_added_with_all_its_options(
    client: httpx.AsyncClient, q: Kue
) -> None:
    parent = await add_one(q.store, "parent", delay="30d")
    body = {
        "type": "email",
        "data": {"to": "ann", "big": 2**70},
        "priority": "high",
        "delay": "10m",
        "attempts": 3,
        "max_exceptions": 2,
        "retry_until": "2100-01-01T00:00:00Z",
        "backoff": {"type": "exponential", "delay": 500, "max": 9_000, "jitter": 0.5},
        "timeout": 30,
        "ttl": "1m",
        "expires": "1d",
        "unique": "ann",
        "unique_for": 60.5,
        "group": "mail",
        "tags": ["a", "b"],
        "after": [parent],
        "on_parent_failure": "run",
        "remove_on_complete": True,
        "retention": "7d",
        "delivery": "at-most-once",
        "meta": {"trace": "1"},
    }

    added = await add(client, body)

    assert added["is_new"]
    job = await document_of(q, added["id"])
    expected = body | {
        "priority": -10,
        "max_attempts": 3,
        "attempts": 0,
        "retry_until": 4_102_444_800_000,
        "state": "blocked",
        "delay": 600_000,
        "timeout": 30_000,
        "ttl": 60_000,
        "expires": DAY,
        "unique_for": 60_500,
        "retention": 7 * DAY,
    }
    assert {name: job[name] for name in expected} == expected


async def test_a_job_is_shown_by_each_api_and_the_document_says_how(
    client: httpx.AsyncClient,
) -> None:
    made = (await add(client, {"type": "email", "data": {"to": "ann"}}))["id"]
    root = str(client.base_url).removesuffix("/api/v1/")

    document = (await client.get("/openapi.json")).json()
    shown = [
        (await client.get(f"{root}{path}/job/{made}")).json()
        for path in ("/kue", "/vertx-kue")
    ]
    shown.append((await client.get(f"/jobs/{made}")).json())

    assert [job["data"] for job in shown] == [{"to": "ann"}] * 3
    assert set(document["paths"]["/jobs"]) == {"get", "post"}
    assert set(document["paths"]["/jobs/{job_id}"]) == {"get", "patch", "delete"}


async def test_a_job_needs_a_type_only(client: httpx.AsyncClient, q: Kue) -> None:
    added = await add(client, {"type": "email"})

    job = await get_one(q.store, added["id"])
    assert (job.type, job.state, job.data) == ("email", State.WAITING, None)


@pytest.mark.parametrize(
    "at", [4_102_444_800_000, "2100-01-01T00:00:00Z", "2100-01-01T01:00:00+01:00"]
)
async def test_a_job_waits_for_its_moment(
    client: httpx.AsyncClient, q: Kue, at: int | str
) -> None:
    added = await add(client, {"type": "email", "at": at})

    job = await get_one(q.store, added["id"])
    assert (job.state, job.promote_at) == (State.DELAYED, 4_102_444_800_000)


@pytest.mark.parametrize("length", [7_200, "2h"])
async def test_a_job_may_be_retried_without_limit_for_a_while(
    client: httpx.AsyncClient, q: Kue, length: int | str
) -> None:
    added = await add(
        client, {"type": "email", "attempts": "unlimited", "retry_until": length}
    )

    job = await document_of(q, added["id"])
    assert job["max_attempts"] == 0
    assert job["retry_until"] == job["created_at"] + 7_200_000


@on_any_store
@pytest.mark.parametrize(
    ("backoff", "stored"),
    [
        (True, {"type": "fixed", "delay": 2_000}),
        (1.5, {"type": "fixed", "delay": 1_500}),
        ("1m", {"type": "fixed", "delay": 60_000}),
        ([1, "2s"], {"type": "list", "delays": [1_000, 2_000]}),
        ({"delay": 7}, {"type": "fixed", "delay": 7}),
        ({"type": "list", "delays": [5, 6]}, {"type": "list", "delays": [5, 6]}),
        ({"type": "named", "name": "mine"}, {"type": "named", "name": "mine"}),
        (None, None),
    ],
)
async def test_a_backoff_is_said_in_many_ways(
    client: httpx.AsyncClient, backoff: Any, stored: Any
) -> None:
    added = await add(client, {"type": "a", "delay": 2, "backoff": backoff})

    job = (await client.get(f"/jobs/{added['id']}")).json()
    assert job["backoff"] == stored


async def test_a_job_is_added_to_the_queue_that_it_names(
    client: httpx.AsyncClient,
) -> None:
    added = await add(client, {"type": "email", "queue": "bulk"})

    found = (await client.get(f"/jobs/{added['id']}")).json()
    assert (found["type"], found["name"]) == ("bulk", "email")
    listed = (await client.get("/jobs", params={"type": "bulk"})).json()
    assert [job["name"] for job in listed["jobs"]] == ["email"]


async def test_a_unique_job_is_added_once(client: httpx.AsyncClient) -> None:
    body = {"type": "email", "unique": "ann"}

    first, second = [await add(client, body) for _ in range(2)]

    assert first["is_new"]
    assert second == {"id": first["id"], "is_new": False, "has_replaced": False}


async def test_an_idempotency_key_answers_with_the_same_job_even_when_it_has_ended(
    client: httpx.AsyncClient, q: Kue
) -> None:
    body = {"type": "email"}
    key = {"Idempotency-Key": "order 7"}
    first = await add(client, body, **key)
    now = await q.now()
    await end(q.store, await claim_one(q.store, now=now), Completed(), now=now)

    again = await add(client, body, **key)
    other = await add(client, body, **{"Idempotency-Key": "order 8"})

    assert again == {"id": first["id"], "is_new": False, "has_replaced": False}
    assert other["is_new"]
    job = await get_one(q.store, first["id"])
    assert (job.unique, job.unique_for) == ("order 7", DAY)


async def test_a_job_with_a_taken_key_is_rejected_if_it_asks_for_that(
    client: httpx.AsyncClient,
) -> None:
    body = {"type": "email", "unique": "ann", "on_conflict": "reject"}
    first = (await client.post("/jobs", json=body)).json()

    answer = await client.post("/jobs", json=body)
    many = await client.post("/jobs/batch", json=[body, {**body, "unique": "bob"}])

    assert answer.status_code == 409
    assert f"job {first['id']} holds the unique key 'ann'" in answer.json()["detail"]
    assert [one["is_new"] for one in many.json()] == [False, True]
    assert many.json()[0]["id"] == first["id"]


async def test_a_job_that_has_not_started_is_replaced(
    client: httpx.AsyncClient,
) -> None:
    body = {"type": "email", "unique": "ann", "debounce": "10m", "debounce_max": "1h"}
    first = (await client.post("/jobs", json={**body, "data": 1})).json()

    second = (await client.post("/jobs", json={**body, "data": 2})).json()

    assert second == {"id": first["id"], "is_new": False, "has_replaced": True}
    job = (await client.get(f"/jobs/{first['id']}")).json()
    assert (job["data"], job["unique_until"], job["state"]) == (2, "start", "delayed")
    assert job["history"][0]["outcome"] == "replaced"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"debounce": "5s"}, "body.debounce"),
        ({"unique": "k", "debounce": "5s", "unique_until": "end"}, "body.debounce"),
        ({"unique": "k", "unique_for": 9, "unique_at_most": 5}, "body.unique_at_most"),
    ],
)
async def test_rules_of_a_key_that_make_no_sense_name_their_field(
    client: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    answer = await client.post("/jobs", json={"type": "email", **body})

    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_a_unique_key_comes_before_an_idempotency_key(
    client: httpx.AsyncClient, q: Kue
) -> None:
    body = {"type": "email", "unique": "mine"}

    added = await add(client, body, **{"Idempotency-Key": "theirs"})

    job = await get_one(q.store, added["id"])
    assert (job.unique, job.unique_for) == ("mine", 0)


@on_any_store
async def test_an_idempotency_key_that_is_too_long_is_refused(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post(
        "/jobs", json={"type": "a"}, headers={"Idempotency-Key": "x" * 201}
    )

    assert answer.status_code == 400
    assert answer.json()["field"] == "header.idempotency-key"


@on_any_store
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"type": ""}, "type"),
        ({"type": "a\nb"}, "type"),
        ({"type": 7}, "type"),
        ({"priority": 5_000}, "priority"),
        ({"priority": "soon"}, "priority"),
        ({"delay": -1}, "delay"),
        ({"delay": "a while"}, "delay"),
        ({"delay": 1, "at": 4_102_444_800_000}, "at"),
        ({"at": "2100-01-01T00:00:00"}, "at"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": "many"}, "attempts"),
        ({"max_exceptions": 21}, "max_exceptions"),
        ({"retry_until": "2100-01-01T00:00:00"}, "retry_until"),
        ({"retry_until": "a while"}, "retry_until"),
        ({"retry_until": 0}, "retry_until"),
        ({"backoff": "slowly"}, "backoff"),
        ({"backoff": {"type": "list"}}, "backoff"),
        ({"backoff": {"type": "wild"}}, "backoff.type"),
        ({"backoff": [1] * 1_001}, "backoff"),
        ({"timeout": 0}, "timeout"),
        ({"ttl": 0}, "ttl"),
        ({"expires": "1x"}, "expires"),
        ({"unique": "x" * 201}, "unique"),
        ({"unique_for": "1h"}, "unique_for"),
        ({"group": ""}, "group"),
        ({"tags": ["a\x00"]}, "tags"),
        ({"tags": ["a"] * 51}, "tags"),
        ({"after": [0]}, "after[0]"),
        ({"retention": -1}, "retention"),
        ({"delivery": "never"}, "delivery"),
        ({"meta": {"a": 1}}, "meta[...]"),
        ({"meta": {"a": "x" * 9_000}}, "meta"),
        ({"data": "x" * 300_000}, "data"),
    ],
)
async def test_what_does_not_fit_is_named(
    client: httpx.AsyncClient, q: Kue, wrong: dict[str, Any], field: str
) -> None:
    fine = {"type": "email"}

    one = await client.post("/jobs", json=fine | wrong)
    many = await client.post("/jobs/batch", json=[fine, fine | wrong])

    assert (one.status_code, one.json()["field"]) == (400, f"body.{field}")
    assert (many.status_code, many.json()["field"]) == (400, f"body[1].{field}")
    assert await q.types() == []


@on_any_store
async def test_an_option_that_there_is_not_is_refused(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/jobs", json={"type": "email", "colour": "red"})

    assert answer.status_code == 400
    assert "colour" in answer.json()["detail"]


async def test_many_jobs_are_added_in_the_order_given(
    client: httpx.AsyncClient, q: Kue
) -> None:
    body = [{"type": "email", "data": number} for number in range(999)]

    answer = await client.post("/jobs/batch", json=[*body, {"type": "report"}])

    assert answer.status_code == 201
    added = answer.json()
    assert all(one["is_new"] for one in added)
    ids = [one["id"] for one in added]
    assert ids == sorted(ids)
    assert (await get_one(q.store, ids[700])).data == 700
    assert (await get_one(q.store, ids[999])).type == "report"


@on_any_store
async def test_more_than_a_thousand_jobs_at_once_are_refused(
    client: httpx.AsyncClient, q: Kue
) -> None:
    answer = await client.post("/jobs/batch", json=[{"type": "email"}] * 1_001)

    assert (answer.status_code, answer.json()["field"]) == (400, "body")
    assert await q.types() == []


@on_any_store
async def test_one_idempotency_key_for_many_jobs_is_refused(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post(
        "/jobs/batch", json=[{"type": "a"}], headers={"Idempotency-Key": "7"}
    )

    assert answer.status_code == 400
    assert answer.json()["field"] == "header.idempotency-key"


# -- one job -------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
async def test_a_job_is_shown_whole_in_any_state(
    client: httpx.AsyncClient, q: Kue, state: State
) -> None:
    job_id = await job_in(q.store, state, backoff=[1, 2], meta={"a": "b"})

    answer = await client.get(f"/jobs/{job_id}")

    assert answer.status_code == 200
    assert answer.json() == await document_of(q, job_id) | {"failed_parents": []}


async def test_a_job_is_shown_with_the_failed_jobs_that_it_waits_for(
    client: httpx.AsyncClient, q: Kue
) -> None:
    first, second = [await job_in(q.store, State.FAILED, type) for type in ("a", "b")]
    after = [first, await add_one(q.store), second]
    stuck = await add_one(q.store, after=after)
    ended = await add_one(q.store, after=[first], on_parent_failure="run")

    found = [(await client.get(f"/jobs/{at}")).json() for at in (stuck, ended)]

    assert [one["failed_parents"] for one in found] == [[first, second], []]


async def test_the_token_of_a_run_is_told_to_nobody(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await start_one(q.store)

    for path in ("/jobs", f"/jobs/{job.id}", f"/jobs/{job.id}/attempts"):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert job.token not in answer.text


async def test_a_job_is_changed_where_something_is_given(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await add_one(q.store, data={"to": "ann"}, tags=["a"], priority=5)

    first = await client.patch(
        f"/jobs/{job_id}", json={"priority": "high", "attempts": 4}
    )
    second = await client.patch(
        f"/jobs/{job_id}", json={"data": None, "tags": [], "attempts": "unlimited"}
    )

    assert first.status_code == 200
    changed = first.json()
    assert (changed["priority"], changed["max_attempts"]) == (-10, 4)
    assert (changed["data"], changed["tags"]) == ({"to": "ann"}, ["a"])
    assert (second.json()["data"], second.json()["tags"]) == (None, [])
    assert second.json()["max_attempts"] == 0
    assert second.json() == await document_of(q, job_id)


@on_any_store
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"priority": "soon"}, "body.priority"),
        ({"attempts": 0}, "body.attempts"),
        ({"tags": [""]}, "body.tags[0]"),
        ({"priority": 1, "tags": ["\x00"]}, "body.tags"),
        ({"data": "x" * 300_000}, "body.data"),
    ],
)
async def test_a_change_that_makes_no_sense_is_refused_whole(
    client: httpx.AsyncClient, q: Kue, body: Any, field: str
) -> None:
    job_id = await add_one(q.store)
    before = await get_one(q.store, job_id)

    answer = await client.patch(f"/jobs/{job_id}", json=body)

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert await get_one(q.store, job_id) == before


async def test_a_removed_job_is_gone(client: httpx.AsyncClient, q: Kue) -> None:
    job_id = await job_in(q.store, State.COMPLETE)

    answer = await client.delete(f"/jobs/{job_id}")

    assert (answer.status_code, answer.content) == (204, b"")
    assert not await q.exists(job_id)


async def test_a_running_job_is_not_removed(client: httpx.AsyncClient, q: Kue) -> None:
    job_id = await job_in(q.store, State.ACTIVE)

    answer = await client.delete(f"/jobs/{job_id}")

    assert answer.status_code == 409
    assert answer.json()["detail"] == f"job {job_id} is active and cannot be removed"
    assert await q.exists(job_id)


async def test_a_log_is_read_page_by_page(client: httpx.AsyncClient, q: Kue) -> None:
    job_id = await add_one(q.store)
    lines = [LogLine(f"line {number}", "debug", 1) for number in range(5)]
    await q.store.log(job_id, lines, now=PAST)

    first = (await client.get(f"/jobs/{job_id}/logs?limit=3")).json()
    rest = (await client.get(f"/jobs/{job_id}/logs?limit=3&start=3")).json()

    assert first["lines"][0] == {
        "text": "line 0",
        "level": "debug",
        "attempt": 1,
        "at": PAST,
    }
    assert first["next"] == 3
    assert [line["text"] for line in rest["lines"]] == ["line 3", "line 4"]
    assert rest["next"] is None


async def test_a_job_that_said_nothing_has_an_empty_log(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await add_one(q.store)

    answer = await client.get(f"/jobs/{job_id}/logs")

    assert answer.status_code == 200
    assert answer.json() == {"lines": [], "next": None}


@on_any_store
@pytest.mark.parametrize("name", ["start=-1", "start=1001", "limit=0", "limit=201"])
async def test_lines_that_there_cannot_be_are_refused(
    client: httpx.AsyncClient, name: str
) -> None:
    answer = await client.get(f"/jobs/1/logs?{name}")

    assert answer.status_code == 400
    assert answer.json()["field"] == f"query.{name.partition('=')[0]}"


async def test_the_attempts_of_a_job_tell_how_each_run_ended(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await start_one(q.store, attempts=2, now=PAST)
    error = Error("OSError", "no route", "Traceback …")
    await end(q.store, job, Retried(error), now=PAST + 7)
    again = await claim_one(q.store, now=PAST + 10)
    await end(q.store, again, Completed("fine"), now=PAST + 15)

    answer = await client.get(f"/jobs/{job.id}/attempts")

    failed, well = answer.json()
    assert (failed["attempt"], failed["duration"]) == (1, 7)
    assert failed["error"]["stack"] == "Traceback …"
    assert (well["attempt"], well["outcome"], well["result"]) == (2, "complete", "fine")


async def test_releases_are_told_apart_from_failures_with_their_number(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await start_one(q.store, attempts=3, now=PAST)
    await end(q.store, job, Released(reason="ProviderDown: 503"), now=PAST + 1)
    job = await claim_one(q.store, now=PAST + 2)
    await end(q.store, job, Released(counts=True, reason="busy"), now=PAST + 3)
    job = await claim_one(q.store, now=PAST + 4)
    await end(q.store, job, Retried(Error("OSError", "no route")), now=PAST + 5)

    shown = (await client.get(f"/jobs/{job.id}")).json()

    assert (shown["attempts"], shown["releases"]) == (2, 1)
    assert [
        (entry["outcome"], entry["counts"], entry["reason"])
        for entry in shown["history"]
    ] == [
        ("released", False, "ProviderDown: 503"),
        ("released", True, "busy"),
        ("retry", False, ""),
    ]


# -- refusals ------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path", "body"), OF_ONE_JOB)
async def test_a_job_that_is_gone_is_404(
    client: httpx.AsyncClient, method: str, path: str, body: Any
) -> None:
    answer = await client.request(method, path, json=body)

    assert answer.status_code == 404
    assert answer.json()["detail"] == f"job {GONE} does not exist"


@on_any_store
async def test_of_two_things_that_are_wrong_one_is_told_whole(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await add_one(q.store)

    answer = await client.patch(
        f"/jobs/{job_id}", json={"priority": "bogus", "attempts": 0}
    )

    problem = answer.json()
    assert (answer.status_code, problem["field"]) == (400, "body.priority")
    assert problem["detail"].startswith("priority 'bogus' is unknown")


@on_any_store
@pytest.mark.parametrize("job_id", ["0", "-1", "x", str(2**53)])
@pytest.mark.parametrize(("method", "path", "body"), OF_ONE_JOB)
async def test_an_id_that_no_job_can_have_is_refused(
    client: httpx.AsyncClient, method: str, path: str, body: Any, job_id: str
) -> None:
    path = path.replace(str(GONE), job_id)

    answer = await client.request(method, path, json=body)

    assert (answer.status_code, answer.json()["field"]) == (400, "path.job_id")


@on_any_store
@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
async def test_who_may_look_changes_nothing(
    http: Http, method: str, path: str, body: Any
) -> None:
    async with http.client("viewer") as client:
        answer = await client.request(method, path, json=body)

    assert (answer.status_code == 403) == (method != "GET")


@on_any_store
async def test_who_operates_removes_nothing(http: Http, q: Kue) -> None:
    job_id = await add_one(q.store)

    async with http.client("operator") as client:
        answer = await client.delete(f"/jobs/{job_id}")

    assert answer.status_code == 403
    assert answer.json()["detail"] == "this needs the role admin"
    assert await q.exists(job_id)


@on_any_store
async def test_the_document_tells_what_a_job_has(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    schemas = document["components"]["schemas"]
    assert schemas["NewJob"]["required"] == ["type"]
    assert "token" not in schemas["JobDetail"]["properties"]
    parameters = document["paths"]["/jobs"]["get"]["parameters"]
    assert {one["name"] for one in parameters} >= {"state", "cursor", "limit"}
