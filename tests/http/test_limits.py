"""Named limits over HTTP: look, set, delete; and jobs that wait for them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from kue import Kue, LimitRule, StoredLimit, concurrency, rate
from tests.http.accounts import site_of
from tests.http.test_audit import acts, client_for
from tests.http.test_queues import ODD
from tests.support.jobs import HOUR, MINUTE, claim_ids, claim_one

FIVE = LimitRule(concurrency=5)
#: The rule of "5 at once", as it is shown.
FIVE_SHOWN = {
    "words": "5 at once",
    "concurrency": 5,
    "rate": None,
    "per": 1_000,
    "burst": None,
}
SECRET = "https://ann:canary@example.com"

on_any_store = pytest.mark.parametrize("url", ["memory://"])


def path(name: str) -> str:
    return f"/limits/{quote(name, safe='')}"


async def hold_one(q: Kue, key: str = "") -> tuple[int, int]:
    """Have one job running under "stripe", and another one held."""
    await q.set_limit("stripe", concurrency(1))
    first = await q.enqueue("email", limited_by={"stripe": key})
    await claim_one(q.store, "email", now=await q.now())
    second = await q.enqueue("email", limited_by={"stripe": key})
    assert await claim_ids(q.store, "email", now=await q.now()) == []
    return first.id, second.id


# -- looking -------------------------------------------------------------------


async def test_limits_are_listed_by_name_with_their_use(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await hold_one(q)
    await q.store.set_named_limit("mail", StoredLimit(LimitRule(rate=9), FIVE))

    answer = await client.get("/limits")

    assert answer.status_code == 200
    mail, stripe = answer.json()["limits"]
    assert mail == {
        "name": "mail",
        "rule": {
            "words": "9 per second",
            "concurrency": None,
            "rate": 9,
            "per": 1_000,
            "burst": None,
        },
        "declared": FIVE_SHOWN,
        "is_changed": True,
        "running": 0,
        "waiting": 0,
    }
    assert (stripe["name"], stripe["declared"]) == ("stripe", None)
    assert (stripe["running"], stripe["waiting"]) == (1, 1)
    assert (answer.json()["next"], answer.json()["total"]) == (None, 2)


@on_any_store
async def test_the_list_goes_on_after_a_name(client: httpx.AsyncClient, q: Kue) -> None:
    for name in ("a", "b", "c"):
        await q.set_limit(name, concurrency(1))

    first = (await client.get("/limits?limit=2")).json()
    rest = (await client.get("/limits", params={"after": first["next"]})).json()

    assert [one["name"] for one in first["limits"]] == ["a", "b"]
    assert [one["name"] for one in rest["limits"]] == ["c"]
    assert (first["total"], rest["total"], rest["next"]) == (3, 3, None)


async def test_a_limit_has_its_keys_and_the_jobs_that_run_and_wait(
    client: httpx.AsyncClient, q: Kue
) -> None:
    running, held = await hold_one(q, "ann")
    await q.enqueue("email")

    found = (await client.get("/limits/stripe")).json()

    assert found["keys"] == [
        {"key": "ann", "running": 1, "waiting": 1, "opens_at": None}
    ]
    assert found["jobs"] == [
        {
            "id": running,
            "type": "email",
            "state": "active",
            "key": "ann",
            "held": "",
            "held_until": None,
        },
        {
            "id": held,
            "type": "email",
            "state": "waiting",
            "key": "ann",
            "held": "waits for limit 'stripe' of 'ann', 1 running",
            "held_until": None,
        },
    ]
    without = (await client.get("/limits/stripe", params={"jobs": 0})).json()
    assert without == found | {"jobs": []}


async def test_a_rate_and_a_job_that_waits_for_it_say_until_when(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.set_limit("mail", rate("1/h"))
    for _ in range(2):
        job = await q.enqueue("email", limited_by={"mail": "ann"})
    await claim_one(q.store, "email", now=await q.now())
    assert await claim_ids(q.store, "email", now=await q.now()) == []

    [key] = (await client.get("/limits/mail")).json()["keys"]
    shown = (await client.get(f"/jobs/{job.id}")).json()
    [listed] = (await client.get("/jobs?state=waiting")).json()["jobs"]

    assert await q.now() < key["opens_at"] <= await q.now() + HOUR + MINUTE
    assert shown["held_until"] == key["opens_at"]
    assert shown["held"] == "waits for limit 'mail' of 'ann', 1 per hour"
    assert shown["limited_by"] == {"mail": "ann"}
    assert (listed["held"], listed["held_until"]) == (
        shown["held"],
        shown["held_until"],
    )


@pytest.mark.parametrize("name", ODD)
async def test_a_limit_may_have_any_name(
    client: httpx.AsyncClient, q: Kue, name: str
) -> None:
    await q.set_limit("a", concurrency(1))

    added = await client.put(path(name), json={"concurrency": 5})
    shown = await client.get(path(name))
    job = await client.post("/jobs", json={"type": "e", "limited_by": {name: name}})
    found = await client.get(f"/jobs/{job.json()['id']}")
    removed = await client.delete(path(name))

    assert (added.json()["name"], shown.json()["name"]) == (name, name)
    assert found.json()["limited_by"] == {name: name}
    assert removed.status_code == 204
    assert [*await q.named_limits()] == ["a"]


@on_any_store
async def test_a_limit_that_is_not_there_is_a_404(client: httpx.AsyncClient) -> None:
    answers = [await client.get("/limits/none"), await client.delete("/limits/none")]

    assert [one.status_code for one in answers] == [404, 404]
    assert answers[0].json()["detail"] == "there is no limit 'none'"


# -- setting -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"concurrency": 5}, FIVE),
        ({"concurrency": 5, "per": "1m"}, FIVE),
        ({"rate": 10}, LimitRule(rate=10)),
        ({"rate": 10, "per": "5m"}, LimitRule(rate=10, per=300_000)),
        ({"rate": 10, "burst": 20}, LimitRule(rate=10, burst=20)),
    ],
)
async def test_a_limit_is_added_with_201_and_changed_with_200(
    client: httpx.AsyncClient, q: Kue, body: dict[str, Any], rule: LimitRule
) -> None:
    added = await client.put("/limits/stripe", json={"concurrency": 1})
    changed = await client.put("/limits/stripe", json=body)

    assert (added.status_code, changed.status_code) == (201, 200)
    assert changed.json()["rule"]["words"] == rule.words
    assert await q.named_limits() == {"stripe": StoredLimit(rule)}


async def test_what_programs_declare_is_kept_beside_what_is_set(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.store.set_named_limit("stripe", StoredLimit(FIVE, FIVE))

    changed = (await client.put("/limits/stripe", json={"concurrency": 9})).json()
    back = (await client.put("/limits/stripe", json={"concurrency": 5})).json()

    assert (changed["declared"], changed["is_changed"]) == (FIVE_SHOWN, True)
    assert (back["declared"], back["is_changed"]) == (FIVE_SHOWN, False)


async def test_a_wider_limit_lets_held_jobs_start(
    client: httpx.AsyncClient, q: Kue
) -> None:
    _, held = await hold_one(q)

    await client.put("/limits/stripe", json={"concurrency": 2})

    assert await claim_ids(q.store, "email", now=await q.now()) == [held]


async def test_without_a_limit_held_jobs_start(
    client: httpx.AsyncClient, q: Kue
) -> None:
    _, held = await hold_one(q)

    answer = await client.delete("/limits/stripe")

    assert answer.status_code == 204
    assert await claim_ids(q.store, "email", now=await q.now()) == [held]


@on_any_store
@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        ({}, "body", "give concurrency or rate"),
        ({"concurrency": 1, "rate": 1}, "body", "give concurrency or rate"),
        ({"concurrency": 1, "burst": 2}, "body.burst", "burst is part of a rate"),
        ({"rate": 1, "per": "0s"}, "body.per", "must be more than 0"),
        ({"rate": 1, "per": "soon"}, "body.per", "per"),
        ({"rate": 0}, "body.rate", ">= 1"),
        ({"concurrency": 1_000_001}, "body.concurrency", "<= 1000000"),
        ({"concurrency": 1, "by": "x"}, "body", "by"),
    ],
)
async def test_a_rule_that_makes_no_sense_is_a_400(
    client: httpx.AsyncClient, q: Kue, body: dict[str, Any], field: str, detail: str
) -> None:
    answer = await client.put("/limits/stripe", json=body)

    assert answer.status_code == 400
    assert (answer.json()["field"], detail in answer.json()["detail"]) == (field, True)
    assert await q.named_limits() == {}


@on_any_store
@pytest.mark.parametrize("name", [".", "..", "a\nb"])
async def test_a_name_that_cannot_be_one_is_a_400(
    client: httpx.AsyncClient, q: Kue, name: str
) -> None:
    answer = await client.put(
        "/limits/" + name.replace(".", "%2E").replace("\n", "%0A"),
        json={"concurrency": 1},
    )

    assert answer.status_code in (400, 404)
    assert await q.named_limits() == {}


# -- jobs ----------------------------------------------------------------------


async def test_jobs_are_added_with_their_limits(
    client: httpx.AsyncClient, q: Kue
) -> None:
    body = {"type": "email", "limited_by": {"stripe": "", "customer": "42"}}

    one = await client.post("/jobs", json=body)
    many = await client.post("/jobs/batch", json=[body, {"type": "email"}])

    ids = [one.json()["id"], *(added["id"] for added in many.json())]
    shown = [(await client.get(f"/jobs/{id}")).json()["limited_by"] for id in ids]
    assert shown == [body["limited_by"], body["limited_by"], {}]


@on_any_store
@pytest.mark.parametrize(
    "limits",
    [
        {"..": ""},
        {"": "x"},
        {"a": 7},
        {"a": "x" * 300},
        {f"limit {number}": "" for number in range(6)},
        ["stripe"],
    ],
)
async def test_limits_that_make_no_sense_are_refused(
    client: httpx.AsyncClient, q: Kue, limits: object
) -> None:
    answer = await client.post("/jobs", json={"type": "email", "limited_by": limits})

    assert answer.status_code == 400
    assert answer.json()["field"].startswith("body.limited_by")
    assert await q.counts_by_type() == {}


async def test_passwords_in_keys_are_hidden(client: httpx.AsyncClient, q: Kue) -> None:
    await hold_one(q, SECRET)

    answers = [
        await client.get("/limits/stripe"),
        await client.get("/limits"),
        await client.get("/jobs"),
        await client.get("/jobs/2"),
    ]

    assert not any("canary" in answer.text for answer in answers)
    assert answers[0].json()["keys"][0]["key"] == "https://ann:•••@example.com"


# -- audit ---------------------------------------------------------------------


@on_any_store
async def test_changes_are_noted_with_what_was_set(q: Kue) -> None:
    async with site_of(q) as site, await client_for(site) as client:
        await client.put("/limits/a%2Fb", json={"concurrency": 5})
        await client.delete("/limits/a%2Fb")

    done = await acts(q)
    assert [(act.what, act.target, act.status) for act in done] == [
        ("limits.set_limit", "a/b", 201),
        ("limits.clear_limit", "a/b", 204),
    ]
    assert done[0].detail == '{"concurrency":5}'
