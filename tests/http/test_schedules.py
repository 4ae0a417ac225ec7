"""Schedules over HTTP: look, add, change, pause, run, remove."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from kue import Kue
from kue.http.security.redaction import MASK
from kue.model.job import Completed
from kue.model.schedule import Schedule
from tests.http.accounts import site_of
from tests.http.conftest import Http
from tests.http.test_audit import acts, client_for
from tests.http.test_queues import ODD
from tests.support.jobs import HOUR, MINUTE, claim_one, end
from tests.support.schedules import every, moment

NIGHTLY = {"type": "report", "cron": "0 3 * * *", "tz": "Europe/Berlin"}
SECRETS = {"api_key": "canary", "url": "https://ann:canary@example.com", "to": "bob"}
#: What changes something: method, what follows the name, body.
CHANGES = [
    ("PUT", "", NIGHTLY),
    ("DELETE", "", None),
    ("POST", "/pause", None),
    ("POST", "/resume", None),
    ("POST", "/run", None),
]

on_any_store = pytest.mark.parametrize("url", ["memory://"])


def path(name: str, *rest: str) -> str:
    return "/".join(["/schedules", quote(name, safe=""), *rest])


async def declare(q: Kue, name: str = "sweep", **options: Any) -> Schedule:
    """Have a schedule that a module declares."""
    draft = q.draft("sweep")
    schedule = every(
        name,
        "10m",
        draft,
        first_at=await q.now() + HOUR,
        declared_by="shop.jobs",
        **options,
    )
    assert await q.store.schedule(schedule)
    return schedule


# -- looking -------------------------------------------------------------------


async def test_schedules_are_listed_by_name_with_their_times(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    first = moment(now + HOUR)
    await q.schedule("b", q.draft("email"), every="10m", start=first)
    await q.schedule("a", q.draft("report"), cron="0 9 * * 1-5", tz="Europe/Berlin")

    answer = await client.get("/schedules")

    assert answer.status_code == 200
    a, b = answer.json()["schedules"]
    assert (a["name"], a["words"]) == ("a", "every weekday at 9:00, Berlin")
    assert (a["cron"], a["tz"]) == ("0 9 * * 1-5", "Europe/Berlin")
    assert b == {
        "name": "b",
        "words": "every 10 minutes",
        "type": "email",
        "queue": None,
        "every": 10 * MINUTE,
        "cron": "",
        "tz": "UTC",
        "starts_at": now + HOUR,
        "ends_at": None,
        "jitter": 0,
        "missed": "once",
        "overlap": "allow",
        "declared_by": "",
        "paused": False,
        "next_at": now + HOUR,
        "upcoming": [now + HOUR + n * 10 * MINUTE for n in range(5)],
        "ticks": [],
    }
    assert (answer.json()["next"], answer.json()["total"]) == (None, 2)


@on_any_store
async def test_the_list_goes_on_after_a_name(client: httpx.AsyncClient, q: Kue) -> None:
    for name in ("a", "b", "c"):
        await q.schedule(name, q.draft("email"), every="1h")

    first = (await client.get("/schedules?limit=2")).json()
    rest = (await client.get("/schedules", params={"after": first["next"]})).json()

    assert [one["name"] for one in first["schedules"]] == ["a", "b"]
    assert [one["name"] for one in rest["schedules"]] == ["c"]
    assert (first["total"], rest["total"], rest["next"]) == (3, 3, None)


@on_any_store
async def test_the_list_is_that_of_a_type(client: httpx.AsyncClient, q: Kue) -> None:
    for type in ("email", "report"):
        await q.schedule(f"the {type}", q.draft(type), every="1h")

    found = (await client.get("/schedules?type=report")).json()
    none = (await client.get("/schedules?type=nobody")).json()

    assert [one["name"] for one in found["schedules"]] == ["the report"]
    assert (found["total"], none["total"], none["schedules"]) == (1, 0, [])


async def test_a_schedule_has_the_outcomes_of_its_last_jobs(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.schedule("nightly", q.draft("email"), every="1h")
    first = await q.run_schedule("nightly")
    job = await claim_one(q.store, now=await q.now())
    await end(q.store, job, Completed(), now=await q.now())
    second = await q.run_schedule("nightly")

    ticks = (await client.get("/schedules/nightly")).json()["ticks"]

    assert [(one["job"], one["status"]) for one in ticks] == [
        (first.id, "complete"),
        (second.id, "unfinished"),
    ]
    assert ticks[0]["is_manual"]


async def test_one_schedule_has_the_job_that_it_adds(
    client: httpx.AsyncClient, q: Kue
) -> None:
    draft = q.draft(
        "email",
        {"to": "ann"},
        priority="high",
        attempts=3,
        backoff="5s",
        tags=["vip"],
        retry_until="1h",
    )
    await q.schedule("nightly", draft, cron="0 3 * * *", overlap="skip")

    found = (await client.get("/schedules/nightly")).json()

    assert (found["data"], found["tags"]) == ({"to": "ann"}, ["vip"])
    assert (found["priority"], found["max_attempts"]) == (-10, 3)
    assert (found["max_exceptions"], found["retry_for"]) == (0, HOUR)
    assert found["backoff"] == {"type": "fixed", "delay": 5000}
    assert (found["overlap"], found["delivery"]) == ("skip", "at-least-once")


@pytest.mark.parametrize("name", ODD)
async def test_a_schedule_may_have_any_name(
    client: httpx.AsyncClient, q: Kue, name: str
) -> None:
    await q.schedule("a", q.draft("email"), every="1h")

    added = await client.put(path(name), json={"type": "email", "every": "10m"})
    shown = await client.get(path(name))
    paused = await client.post(path(name, "pause"))
    resumed = await client.post(path(name, "resume"))
    run = await client.post(path(name, "run"))
    found = await client.get("/jobs", params={"tag": f"schedule:{name}"})
    removed = await client.delete(path(name))

    answers = (added, shown, paused, resumed)
    assert [one.json()["name"] for one in answers] == [name] * 4
    assert [one["id"] for one in found.json()["jobs"]] == [run.json()["id"]]
    assert removed.status_code == 204
    assert [one.name for one in await q.schedules()] == ["a"]


# -- adding and changing -------------------------------------------------------


async def test_a_schedule_is_added_with_201_and_changed_with_200(
    client: httpx.AsyncClient, q: Kue
) -> None:
    added = await client.put("/schedules/nightly", json=NIGHTLY)
    await q.pause_schedule("nightly")
    changed = await client.put(
        "/schedules/nightly", json=NIGHTLY | {"data": {"region": "eu"}}
    )

    assert (added.status_code, changed.status_code) == (201, 200)
    assert added.json()["words"] == "every day at 3:00, Berlin"
    assert (changed.json()["data"], changed.json()["paused"]) == (
        {"region": "eu"},
        True,
    )
    [known] = await q.schedules()
    assert known.draft.spec.data == {"region": "eu"}


async def test_every_option_of_a_schedule_and_of_its_job_is_taken(
    client: httpx.AsyncClient, q: Kue
) -> None:
    start = await q.now() + HOUR
    timing = {
        "every": "1h",
        "start": start,
        "end": "2100-01-01T00:00:00Z",
        "jitter": 30,
        "missed": "skip",
        "overlap": "queue-one",
    }
    job = {
        "type": "email",
        "data": [1, 2],
        "priority": "low",
        "attempts": 5,
        "backoff": {"type": "exponential", "delay": 1000},
        "timeout": "1m",
        "unique": "only",
        "group": "ann",
        "limited_by": {"stripe": "", "customer": "42"},
        "tags": ["vip"],
        "retention": "1d",
        "delivery": "at-most-once",
        "meta": {"team": "shop"},
    }

    found = (await client.put("/schedules/all", json=timing | job)).json()

    assert (found["every"], found["starts_at"], found["jitter"]) == (
        HOUR,
        start,
        30_000,
    )
    assert (found["ends_at"], found["next_at"] - start in range(30_001)) == (
        4_102_444_800_000,
        True,
    )
    assert (found["missed"], found["overlap"]) == ("skip", "queue-one")
    shown = job | {"priority": 10, "timeout": MINUTE, "retention": 24 * HOUR}
    del shown["attempts"]
    assert {name: found[name] for name in shown} == shown
    assert found["max_attempts"] == 5


@on_any_store
async def test_what_is_shown_can_be_sent_again(
    client: httpx.AsyncClient, q: Kue
) -> None:
    """As the form of the dashboard does: nothing that it does not show is lost."""
    draft = q.draft(
        "email", SECRETS, backoff="5s", ttl="90s", expires="1h", unique_for="1500ms",
        unique="only", meta={"token": "canary"}, remove_on_complete=True, delay="3s",
        limited_by={"stripe": "", "host": "https://ann:canary@example.com"},
    )  # fmt: skip
    before = await q.schedule("all", draft, cron="0 3 * * *")

    shown = (await client.get("/schedules/all")).json()
    kept = ("type", "data", "priority", "backoff", "unique", "limited_by", "meta")
    body = {name: shown[name] for name in (*kept, "cron")}
    body |= {"remove_on_complete": True}
    for name in ("delay", "ttl", "expires", "unique_for"):
        body[name] = f"{shown[name]}ms"
    answer = await client.put("/schedules/all", json=body)

    assert answer.status_code == 200
    assert await q.get_schedule("all") == before


async def test_a_schedule_for_one_time_adds_its_job_then(
    client: httpx.AsyncClient, q: Kue
) -> None:
    at = await q.now() + HOUR

    answer = await client.put("/schedules/launch", json={"type": "email", "at": at})
    await q.store.tend(now=at)

    assert (answer.status_code, answer.json()["next_at"]) == (201, at)
    [job] = (await client.get("/jobs?tag=schedule:launch")).json()["jobs"]
    assert job["type"] == "email"
    assert await q.schedules() == []


async def test_a_schedule_that_is_declared_in_code_is_not_changed(
    client: httpx.AsyncClient, q: Kue
) -> None:
    declared = await declare(q)

    answer = await client.put("/schedules/sweep", json=NIGHTLY)

    assert answer.status_code == 409
    assert "declared in code, by shop.jobs" in answer.json()["detail"]
    assert await q.schedules() == [declared]


async def test_a_schedule_that_is_declared_in_code_is_paused_resumed_and_run(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await declare(q)

    paused = await client.post("/schedules/sweep/pause")
    run = await client.post("/schedules/sweep/run")
    resumed = await client.post("/schedules/sweep/resume")

    assert (paused.json()["paused"], resumed.json()["paused"]) == (True, False)
    assert (paused.json()["next_at"], run.status_code) == (None, 201)


async def test_a_schedule_that_is_run_has_its_job_at_once(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.schedule("nightly", q.draft("email", unique="only"), every="1h")

    first = await client.post("/schedules/nightly/run")
    again = await client.post("/schedules/nightly/run")

    assert (first.status_code, first.json()["is_new"]) == (201, True)
    assert again.json() == first.json() | {"is_new": False}


async def test_a_schedule_of_a_full_queue_cannot_be_run(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.schedule("nightly", q.draft("email"), every="1h")
    await q.limit("email", max_waiting=1)
    await q.enqueue("email")

    answer = await client.post("/schedules/nightly/run")

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


# -- secrets -------------------------------------------------------------------


@on_any_store
async def test_secrets_are_hidden_and_kept(client: httpx.AsyncClient, q: Kue) -> None:
    body = NIGHTLY | {"data": SECRETS, "meta": {"token": "canary"}}
    answers = [await client.put("/schedules/nightly", json=body)]
    shown = answers[0].json()["data"]

    edited = shown | {"to": "cleo"}
    answers += [
        await client.put("/schedules/nightly", json=NIGHTLY | {"data": edited}),
        await client.get("/schedules/nightly"),
        await client.get("/schedules"),
        await client.post("/schedules/nightly/pause"),
    ]

    assert (shown["api_key"], shown["to"]) == (MASK, "bob")
    assert not [one for one in answers if "canary" in one.text]
    [known] = await q.schedules()
    assert known.draft.spec.data == SECRETS | {"to": "cleo"}


@on_any_store
async def test_a_mask_that_hides_nothing_is_refused(client: httpx.AsyncClient) -> None:
    body = NIGHTLY | {"data": {"api_key": MASK}}

    answer = await client.put("/schedules/nightly", json=body)

    assert (answer.status_code, answer.json()["field"]) == (400, "body.data")


# -- preview -------------------------------------------------------------------


@on_any_store
@pytest.mark.parametrize(
    ("params", "words", "count"),
    [
        ({"every": "90m"}, "every 90 minutes", 5),
        ({"every": "10m"}, "every 10 minutes", 5),
        ({"cron": "@daily"}, "every day at 0:00, UTC", 5),
        (
            {"cron": "0 9 * * 1-5", "tz": "America/New_York"},
            "every weekday at 9:00, New York",
            5,
        ),
        ({"at": "4102444800000"}, "once, on 2100-01-01 at 00:00:00 UTC", 1),
        ({"every": "1h", "end": "1577836800000"}, "every hour", 0),
    ],
)
async def test_a_preview_has_words_and_the_next_times(
    client: httpx.AsyncClient, q: Kue, params: dict[str, str], words: str, count: int
) -> None:
    now = await q.now()
    answer = await client.get("/schedule-preview", params=params)

    found = answer.json()
    assert (answer.status_code, found["problem"], found["field"]) == (200, "", "")
    assert (found["words"], len(found["upcoming"])) == (words, count)
    assert all(one > now for one in found["upcoming"])
    assert await q.schedules() == []


@on_any_store
@pytest.mark.parametrize(
    ("params", "field", "problem"),
    [
        ({}, "body", "one of every, cron and at"),
        ({"every": "1h", "cron": "@daily"}, "body", "one of every, cron and at"),
        ({"every": "soon"}, "every", "every 'soon' cannot be read"),
        ({"every": "600"}, "every", "a number with a unit"),
        ({"every": "1ms"}, "every", "at least 100 ms"),
        ({"cron": ""}, "cron", "cannot be read"),
        ({"cron": "0 25 * * *"}, "cron", "bad hour"),
        ({"cron": "@daily", "tz": "Mars"}, "tz", "'Mars' is not known here"),
        ({"every": "1m", "jitter": "2m"}, "jitter", "shorter than the interval"),
        ({"every": "1m", "start": "9", "end": "8"}, "end", "before start"),
        ({"at": "9", "start": "8"}, "start", "not with at"),
    ],
)
async def test_a_preview_says_what_makes_no_sense(
    client: httpx.AsyncClient, params: dict[str, str], field: str, problem: str
) -> None:
    answer = await client.get("/schedule-preview", params=params)

    found = answer.json()
    assert (answer.status_code, found["field"]) == (200, field)
    assert problem in found["problem"]
    assert (found["words"], found["upcoming"]) == ("", [])


@on_any_store
async def test_the_preview_of_a_change_stays_in_step(
    client: httpx.AsyncClient, q: Kue
) -> None:
    first = await q.now() + MINUTE
    await q.schedule("a/b", q.draft("email"), every="1h", start=moment(first))

    params = {"every": "1h", "name": "a/b"}
    found = (await client.get("/schedule-preview", params=params)).json()

    assert found["upcoming"][0] == first


# -- refusing ------------------------------------------------------------------


@on_any_store
@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("GET", "/schedules?limit=0", None, "query.limit"),
        ("GET", "/schedules?limit=201", None, "query.limit"),
        ("GET", "/schedules?page=2", None, "query"),
        ("GET", "/schedules/", None, "path.name"),
        ("GET", f"/schedules/{'x' * 201}", None, "path.name"),
        ("GET", "/schedule-preview?cron=x&cron=y", None, "query.cron"),
        ("GET", "/schedule-preview?start=soon", None, "query.start"),
        ("GET", "/schedule-preview?start=0.5", None, "query.start"),
        ("PUT", "/schedules/%2E%2E", NIGHTLY, "path.name"),
        ("PUT", "/schedules/a%07b", NIGHTLY, "path.name"),
        ("PUT", f"/schedules/{'x' * 200}", NIGHTLY, "path.name"),
        ("PUT", "/schedules/n", {}, "body"),
        ("PUT", "/schedules/n", {"type": "email"}, "body"),
        ("PUT", "/schedules/n", {"type": "..", "every": "1h"}, "body.type"),
        ("PUT", "/schedules/n", NIGHTLY | {"every": "1h"}, "body"),
        ("PUT", "/schedules/n", NIGHTLY | {"cron": "daily"}, "body.cron"),
        ("PUT", "/schedules/n", NIGHTLY | {"cron": 5}, "body.cron"),
        ("PUT", "/schedules/n", NIGHTLY | {"cron": "x" * 201}, "body.cron"),
        ("PUT", "/schedules/n", NIGHTLY | {"tz": "Mars"}, "body.tz"),
        ("PUT", "/schedules/n", NIGHTLY | {"start": "soon"}, "body.start"),
        ("PUT", "/schedules/n", NIGHTLY | {"start": 9, "end": 8}, "body.end"),
        ("PUT", "/schedules/n", NIGHTLY | {"jitter": "x"}, "body.jitter"),
        ("PUT", "/schedules/n", NIGHTLY | {"missed": "x"}, "body.missed"),
        ("PUT", "/schedules/n", NIGHTLY | {"overlap": "x"}, "body.overlap"),
        ("PUT", "/schedules/n", NIGHTLY | {"priority": "x"}, "body.priority"),
        ("PUT", "/schedules/n", NIGHTLY | {"backoff": "x"}, "body.backoff"),
        ("PUT", "/schedules/n", NIGHTLY | {"after": [1]}, "body"),
        ("PUT", "/schedules/n", NIGHTLY | {"data": "x" * 20_000}, "body.data"),
        ("PUT", "/schedules/n", {"type": "a", "every": "1ms"}, "body.every"),
        ("PUT", "/schedules/n", {"type": "a", "at": 10**18}, "body.at"),
        ("PUT", "/schedules/n", NIGHTLY | {"why": "x"}, "body"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_the_name_of_the_field(
    client: httpx.AsyncClient, q: Kue, method: str, path: str, body: Any, field: str
) -> None:
    answer = await client.request(method, path, json=body)

    assert (answer.status_code, answer.json().get("field")) == (400, field)
    assert await q.schedules() == []


@pytest.mark.parametrize(("method", "rest", "body"), [("GET", "", None), *CHANGES[1:]])
async def test_a_schedule_that_there_is_not_is_404(
    client: httpx.AsyncClient, q: Kue, method: str, rest: str, body: Any
) -> None:
    answer = await client.request(method, f"/schedules/nigthly{rest}", json=body)

    assert answer.status_code == 404
    assert "'nigthly'" in answer.json()["detail"]
    assert (await q.page()).jobs == []


@on_any_store
async def test_who_may_only_look_changes_nothing(http: Http, q: Kue) -> None:
    before = await q.schedule("n", q.draft("email"), every="1h")
    async with http.client("viewer") as client:
        for method, rest, body in CHANGES:
            answer = await client.request(method, f"/schedules/n{rest}", json=body)
            assert (answer.status_code, rest) == (403, rest)
        looks = ("/schedules", "/schedules/n", "/schedule-preview?every=1h")
        assert [(await client.get(one)).status_code for one in looks] == [200] * 3

    assert await q.schedules() == [before]
    assert (await q.page()).jobs == []


@on_any_store
async def test_every_change_is_in_the_audit_log(q: Kue) -> None:
    async with site_of(q) as site, await client_for(site, "operator") as client:
        body = NIGHTLY | {"data": SECRETS}
        await client.put("/schedules/a%2Fb", json=body)
        for rest in ("pause", "resume", "run"):
            await client.post(f"/schedules/a%2Fb/{rest}")
        await client.delete("/schedules/a%2Fb")
        await client.delete("/schedules/a%2Fb")

    found = await acts(q)
    assert [(one.what, one.target, one.status) for one in found] == [
        ("schedules.set_schedule", "a/b", 201),
        ("schedules.pause_schedule", "a/b", 200),
        ("schedules.resume_schedule", "a/b", 200),
        ("schedules.run_schedule", "a/b", 201),
        ("schedules.remove_schedule", "a/b", 204),
    ]
    assert '"cron":"0 3 * * *"' in found[0].detail
    assert "canary" not in found[0].detail


@on_any_store
async def test_the_document_has_both_statuses_of_a_put(
    client: httpx.AsyncClient,
) -> None:
    document = (await client.get("/openapi.json")).json()

    responses = document["paths"]["/schedules/{name}"]["put"]["responses"]
    assert responses["200"]["content"] == responses["201"]["content"]


async def test_the_jobs_of_a_schedule_wait_in_the_queue_that_it_names(
    client: httpx.AsyncClient, q: Kue
) -> None:
    body = {"type": "email", "queue": "bulk", "every": "1d"}

    await client.put("/schedules/nightly", json=body)

    for wanted in ("email", "bulk"):
        found = (await client.get("/schedules", params={"type": wanted})).json()
        assert [(one["type"], one["queue"]) for one in found["schedules"]] == [
            ("email", "bulk")
        ]
    job = await (await q.run_schedule("nightly")).refresh()
    assert (job.name, job.queue) == ("email", "bulk")
