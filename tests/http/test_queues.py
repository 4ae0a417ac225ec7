"""Types as a whole over HTTP: look, pause, limit, clear."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from kue import Kue
from kue.model.histogram import Timing
from kue.model.job import State
from kue.store.values import Limits, RenewRequest
from tests.http.conftest import Http
from tests.support.jobs import HOUR, MINUTE, add_many, add_one, count_of, job_in

#: What comes before the store is the same on all.
on_any_store = pytest.mark.parametrize("url", ["memory://"])

#: Names that a path or a key could be taken apart by.
ODD = ["a/b", "a b", "ü", "a:b{}", "a/pause", "a/", "//", "100%", "?x#y", '"q"\\', "…"]
NONE = dict.fromkeys(State, 0)
#: What changes something: method, path, body, and who may not.
CHANGES = [
    ("POST", "/pause", {}, "viewer"),
    ("POST", "/resume", None, "viewer"),
    ("POST", "/queues/email/pause", {}, "viewer"),
    ("POST", "/queues/email/resume", None, "viewer"),
    ("PUT", "/queues/email/limits", {"rate": 1}, "viewer"),
    ("DELETE", "/queues/email/limits", None, "viewer"),
    ("POST", "/queues/email/clear", {"states": ["failed"]}, "operator"),
]
LOOKS = [("GET", "/queues", None), ("GET", "/queues/email", None)]


def path(type: str, *rest: str) -> str:
    return "/".join(["/queues", quote(type, safe=""), *rest])


# -- looking -------------------------------------------------------------------


async def test_types_are_listed_by_name_with_their_numbers(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    # The queue is not new: rates are those of whole minutes.
    await q.store.measure([Timing("audio", {1: 1})], now=now - 600_000)
    # In the next minute: this one may be over when the list is read.
    await add_many(q.store, 3, "email", now=now + MINUTE)
    # Long ago, so that the lease of the worker that ran it is over.
    await job_in(q.store, State.FAILED, "audio", now=now - HOUR)

    answer = await client.get("/queues")

    assert answer.status_code == 200
    audio, email = answer.json()["queues"]
    assert (audio["type"], audio["counts"]) == ("audio", NONE | {"failed": 1})
    assert email == {
        "type": "email",
        "counts": NONE | {"waiting": 3},
        "pauses": [],
        "limits": None,
        "rates": {"added": 0, "complete": 0, "failed": 0},
        "latency": None,
        "run_time": None,
        "drain_ms": None,
        "workers": 0,
    }
    assert (answer.json()["next"], answer.json()["total"]) == (None, 2)


async def test_the_list_goes_on_after_a_name(client: httpx.AsyncClient, q: Kue) -> None:
    for type in ("a", "b", "c"):
        await add_one(q.store, type)

    first = (await client.get("/queues?limit=2")).json()
    rest = (await client.get("/queues", params={"after": first["next"]})).json()

    assert [one["type"] for one in first["queues"]] == ["a", "b"]
    assert [one["type"] for one in rest["queues"]] == ["c"]
    assert (first["total"], rest["total"], rest["next"]) == (3, 3, None)


async def test_no_types_are_an_empty_list(client: httpx.AsyncClient) -> None:
    answer = await client.get("/queues")

    assert answer.json() == {"queues": [], "next": None, "total": 0}


async def test_one_type_says_how_long_its_next_job_waits(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store, "email", now=await q.now() - HOUR)

    queue = (await client.get("/queues/email")).json()

    assert queue["counts"]["waiting"] == 1
    assert HOUR <= queue["next_waits_ms"] < 2 * HOUR


async def test_rates_are_those_of_the_last_full_minutes(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    await q.store.measure([Timing("email", {1: 1})], now=now - 600_000)
    await add_many(q.store, 30, "email", now=now - 120_000)

    queue = (await client.get("/queues/email")).json()

    assert queue["rates"] == {"added": 0.1, "complete": 0, "failed": 0}


async def test_a_type_has_waits_and_runs_of_its_own(
    client: httpx.AsyncClient, q: Kue
) -> None:
    for type in ("email", "video"):
        await add_one(q.store, type, delay="1h")
    await q.store.measure([Timing("email", {1: 1}), Timing("video", {}, {94: 1})])

    email, video = (await client.get("/queues")).json()["queues"]

    assert (email["latency"]["p50"], email["run_time"]) == (1, None)
    assert (video["latency"], video["run_time"]["p99"]) == (None, 94)
    # Nothing waits.
    assert (email["drain_ms"], video["drain_ms"]) == (0, 0)


async def test_live_workers_that_take_a_type_are_counted(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store, "email")
    await q.store.renew(RenewRequest("w1", info={"slots": {"email": 1}}))
    await q.store.renew(RenewRequest("w2", info={"slots": {"video": 1}}))
    await q.store.renew(
        RenewRequest("w3", info={"slots": {"email": 1}}, lease=1), now=1_000
    )

    assert (await client.get("/queues/email")).json()["workers"] == 1


@pytest.mark.parametrize("type", ODD)
async def test_a_type_may_have_any_name(
    client: httpx.AsyncClient, q: Kue, type: str
) -> None:
    await add_one(q.store, "a")
    await add_one(q.store, type)

    shown = await client.get(path(type))
    paused = await client.post(path(type, "pause"), json={})
    limited = await client.put(path(type, "limits"), json={"rate": 7})
    pauses, limits = await q.paused(), await q.limits()
    resumed = await client.post(path(type, "resume"))
    lifted = await client.delete(path(type, "limits"))
    cleared = await client.post(path(type, "clear"), json={"states": ["waiting"]})

    assert [one.json()["type"] for one in (shown, paused, limited, resumed)] == (
        [type] * 4
    )
    assert [pause.type for pause in pauses] == [type]
    assert list(limits) == [type]
    assert (await q.paused(), await q.limits()) == ([], {})
    assert (lifted.status_code, cleared.json()) == (204, {"removed": 1})
    assert await count_of(q.store, "a") == {State.WAITING: 1}


# -- pausing -------------------------------------------------------------------


async def test_a_pause_says_who_why_and_until_when(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store)
    order = {"reason": "server moves", "for": "2h"}

    answer = await client.post("/queues/email/pause", json=order)

    [pause] = answer.json()["pauses"]
    [known] = await q.paused()
    assert (pause["type"], pause["worker"], pause["by"]) == ("email", None, "local")
    assert pause["reason"] == "server moves"
    assert pause["until"] == known.until
    assert pause["until"] - pause["at"] in range(2 * HOUR - 1000, 2 * HOUR + 1000)


async def test_a_pause_ends_at_the_moment_given(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store)
    until = await q.now() + HOUR + 1

    answer = await client.post("/queues/email/pause", json={"until": until})

    assert answer.json()["pauses"][0]["until"] == until


async def test_a_resumed_type_may_still_be_held_by_the_pause_of_everything(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store)
    await client.post("/queues/email/pause", json={"reason": "one"})
    everything = await client.post("/pause", json={"reason": "all"})

    both = (await client.get("/queues/email")).json()
    resumed = (await client.post("/queues/email/resume")).json()
    none = await client.post("/resume")

    assert [one["type"] for one in everything.json()] == [None, "email"]
    assert [one["reason"] for one in both["pauses"]] == ["all", "one"]
    assert [one["reason"] for one in resumed["pauses"]] == ["all"]
    assert none.json() == []


async def test_a_type_known_by_its_pause_alone_is_shown_and_resumed(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.pause("email")

    shown = await client.get("/queues/email")
    resumed = await client.post("/queues/email/resume")

    assert len(shown.json()["pauses"]) == 1
    assert (resumed.status_code, resumed.json()["pauses"]) == (200, [])


# -- limits --------------------------------------------------------------------


async def test_limits_take_the_place_of_those_before(
    client: httpx.AsyncClient,
) -> None:
    order = {"concurrency": 5, "rate": 100, "per": "1m", "per_key": 2}
    more = {
        "max_waiting": 10_000,
        "when_full": "wait",
        "full_timeout": "10s",
        "fair": True,
        "weights": {"vip": 3},
    }
    first = await client.put("/queues/email/limits", json=order | more)

    second = await client.put("/queues/email/limits", json={"rate": 3})

    kept = {"per": 60_000, "full_timeout": 10_000, "ageing": None}
    assert first.json()["limits"] == order | more | kept
    assert second.json()["limits"] == {
        "concurrency": None,
        "rate": 3,
        "per": 1000,
        "per_key": None,
        "max_waiting": None,
        "when_full": "refuse",
        "full_timeout": 30_000,
        "fair": False,
        "weights": {},
        "ageing": None,
    }


@pytest.mark.parametrize(
    ("order", "limits"),
    [
        ({"max_waiting": 5}, Limits(max_waiting=5)),
        ({"fair": True}, Limits(fair=True)),
        ({"ageing": "10m"}, Limits(ageing=600_000)),
    ],
)
async def test_a_cap_or_an_order_needs_no_limit(
    client: httpx.AsyncClient, q: Kue, order: dict[str, Any], limits: Limits
) -> None:
    answer = await client.put("/queues/email/limits", json=order)

    assert answer.status_code == 200
    assert await q.limits() == {"email": limits}


async def test_limits_may_come_before_the_first_job_and_go_again(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await client.put("/queues/email/limits", json={"concurrency": 1})
    shown = await client.get("/queues/email")

    lifted = await client.delete("/queues/email/limits")

    assert shown.json()["limits"]["concurrency"] == 1
    assert (lifted.status_code, lifted.content) == (204, b"")
    assert await q.limits() == {}
    assert (await client.get("/queues/email")).status_code == 404


async def test_limits_that_there_are_not_are_lifted_without_complaint(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store)

    assert (await client.delete("/queues/email/limits")).status_code == 204


# -- clearing ------------------------------------------------------------------


async def test_jobs_of_a_type_are_cleared_by_state(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await job_in(q.store, State.FAILED)
    await job_in(q.store, State.COMPLETE)
    await add_many(q.store, 600)
    await add_one(q.store, "other")

    answer = await client.post(
        "/queues/email/clear", json={"states": ["waiting", "failed"]}
    )

    assert answer.json() == {"removed": 601}
    assert await count_of(q.store) == {State.COMPLETE: 1}
    assert await count_of(q.store, "other") == {State.WAITING: 1}


# -- refusing ------------------------------------------------------------------


@on_any_store
@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("GET", "/queues?limit=0", None, "query.limit"),
        ("GET", "/queues?limit=201", None, "query.limit"),
        ("GET", "/queues?limit=all", None, "query.limit"),
        ("GET", "/queues?page=2", None, "query"),
        ("GET", "/queues/", None, "path.type"),
        ("GET", f"/queues/{'x' * 201}", None, "path.type"),
        ("POST", "/pause", {"for": "soon"}, "body.for"),
        ("POST", "/pause", {"for": 60}, "body.for"),
        ("POST", "/pause", {"for": "0s"}, "body.for"),
        ("POST", "/pause", {"for": "1h", "until": 1}, "body.for"),
        ("POST", "/pause", {"until": 1_000}, "body.until"),
        ("POST", "/pause", {"until": 10**18}, "body.until"),
        ("POST", "/pause", {"reason": "x" * 501}, "body.reason"),
        ("POST", "/pause", {"why": "x"}, "body"),
        ("POST", "/pause", [], "body"),
        ("POST", "/queues/email/pause", {"for": "soon"}, "body.for"),
        ("PUT", "/queues/email/limits", {}, "body"),
        ("PUT", "/queues/email/limits", {"rate": 0}, "body.rate"),
        ("PUT", "/queues/email/limits", {"rate": 2.5}, "body.rate"),
        ("PUT", "/queues/email/limits", {"concurrency": 10**10}, "body.concurrency"),
        ("PUT", "/queues/email/limits", {"per_key": "1"}, "body.per_key"),
        ("PUT", "/queues/email/limits", {"rate": 1, "per": "0ms"}, "body.per"),
        ("PUT", "/queues/email/limits", {"rate": 1, "per": 1000}, "body.per"),
        ("PUT", "/queues/email/limits", {"max_waiting": 0}, "body.max_waiting"),
        ("PUT", "/queues/email/limits", {"when_full": "wait"}, "body"),
        ("PUT", "/queues/email/limits", {"rate": 1, "when_full": "wait"}, "body"),
        ("PUT", "/queues/email/limits", {"when_full": "explode"}, "body.when_full"),
        (
            "PUT",
            "/queues/email/limits",
            {"max_waiting": 5, "full_timeout": "soon"},
            "body.full_timeout",
        ),
        ("PUT", "/queues/email/limits", {"weights": {"vip": 3}}, "body"),
        (
            "PUT",
            "/queues/email/limits",
            {"fair": True, "weights": {"vip": 61}},
            "body.weights[...]",
        ),
        (
            "PUT",
            "/queues/email/limits",
            {"fair": True, "weights": {str(n): 2 for n in range(101)}},
            "body.weights",
        ),
        ("PUT", "/queues/email/limits", {"fair": True, "ageing": "1m"}, "body"),
        ("PUT", "/queues/email/limits", {"ageing": "0s"}, "body.ageing"),
        ("PUT", "/queues/email/limits", {"ageing": 600}, "body.ageing"),
        ("PUT", "/queues/email/limits", {"ageing": "8d"}, "body"),
        ("PUT", "/queues/a%07b/limits", {"rate": 1}, "path.type"),
        ("POST", "/queues/email/clear", {}, "body"),
        ("POST", "/queues/email/clear", {"states": []}, "body.states"),
        ("POST", "/queues/email/clear", {"states": ["active"]}, "body.states"),
        ("POST", "/queues/email/clear", {"states": ["gone"]}, "body.states[0]"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_the_name_of_the_field(
    client: httpx.AsyncClient, q: Kue, method: str, path: str, body: Any, field: str
) -> None:
    await add_one(q.store)

    answer = await client.request(method, path, json=body)

    assert (answer.status_code, answer.json().get("field")) == (400, field)
    assert (await q.paused(), await q.limits()) == ([], {})
    assert await count_of(q.store) == {State.WAITING: 1}


@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [
        ("GET", "", None),
        ("POST", "/pause", {}),
        ("POST", "/resume", None),
        ("DELETE", "/limits", None),
        ("POST", "/clear", {"states": ["failed"]}),
    ],
)
async def test_a_type_that_there_is_not_is_404(
    client: httpx.AsyncClient, q: Kue, method: str, rest: str, body: Any
) -> None:
    answer = await client.request(method, f"/queues/emial{rest}", json=body)

    assert answer.status_code == 404
    assert "'emial'" in answer.json()["detail"]
    assert await q.paused() == []


async def test_who_may_only_look_changes_nothing(http: Http, q: Kue) -> None:
    await job_in(q.store, State.FAILED)
    for method, path, body, role in CHANGES:
        async with http.client(role) as client:
            answer = await client.request(method, path, json=body)
            assert (answer.status_code, path) == (403, path)
    assert (await q.paused(), await q.limits()) == ([], {})
    assert await count_of(q.store) == {State.FAILED: 1}


async def test_who_may_look_sees_all(http: Http, q: Kue) -> None:
    await add_one(q.store)
    async with http.client("viewer") as client:
        for _, path, _ in LOOKS:
            assert (await client.get(path)).status_code == 200
