"""Failure rules and dead letters over HTTP."""

from __future__ import annotations

import httpx

from kue import Kue, State
from kue.model.job import Error, Failed
from kue.worker.failure_reporter import report
from tests.http.accounts import site_of
from tests.support.jobs import end, start_one, state_of

SECRET_URL = "https://chat.example.com/hooks/private"
SHOWN_URL = "https://chat.example.com/…"


async def test_rules_are_set_shown_and_removed(
    client: httpx.AsyncClient, q: Kue
) -> None:
    body = {"dead_letter": "dead", "webhook": SECRET_URL}
    answer = await client.put("/queues/a%2Fb/failures", json=body)
    await client.put("/failures/default", json={"dead_letter": "morgue"})

    rule = {"hooks": False, "declared": ""}
    own = rule | {"type": "a/b", "dead_letter": "dead", "webhook": SHOWN_URL}
    assert answer.json() == own
    assert (await client.get("/failures/rules")).json() == [
        rule | {"type": None, "dead_letter": "morgue", "webhook": None},
        own,
    ]

    # What is omitted stays, and what is shown is not taken for another.
    kept = await client.put("/queues/a%2Fb/failures", json={"webhook": SHOWN_URL})
    assert kept.json() == own
    assert (await q.failure_rules())["a/b"].webhook == SECRET_URL
    gone = await client.put(
        "/queues/a%2Fb/failures", json={"dead_letter": None, "webhook": None}
    )
    assert (gone.json()["dead_letter"], gone.json()["webhook"]) == ("", None)
    assert [*await q.failure_rules()] == [None]


async def test_rules_that_make_no_sense_are_refused(client: httpx.AsyncClient) -> None:
    own = await client.put("/queues/dead/failures", json={"dead_letter": "dead"})
    odd = await client.put("/failures/default", json={"webhook": "ftp://x"})
    ours = await client.put("/queues/kue.webhook/failures", json={})

    assert (own.status_code, odd.status_code, ours.status_code) == (400, 400, 400)
    assert "own dead letters" in own.json()["detail"]
    assert own.json()["field"] == "body.dead_letter"
    assert odd.json()["field"] == "body.webhook"
    assert ours.json()["field"] == "path.type"


async def test_dead_letters_are_put_back(client: httpx.AsyncClient, q: Kue) -> None:
    await q.set_dead_letter("email", "dead")
    job = await start_one(q.store)
    await end(q.store, job, Failed(Error("OSError", "disk full")))
    await report(q.store)

    answer = await client.post("/failures/replay", json={"dead_letter": "dead"})

    assert answer.json() == {"replayed": 1}
    assert await state_of(q.store, job.id) is State.WAITING


async def test_only_admins_choose_where_failures_are_reported_to(q: Kue) -> None:
    path = "/queues/email/failures"
    async with site_of(q) as site:
        headers = await site.headers("operator")
        async with site.client(headers=headers) as operator:
            dead = await operator.put(path, json={"dead_letter": "dead"})
            url = await operator.put(path, json={"webhook": SECRET_URL})

    assert (dead.status_code, url.status_code) == (200, 403)
