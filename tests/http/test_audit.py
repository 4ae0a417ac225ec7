"""Who changed what, when and from where."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from kue import Kue
from kue.http.security.redaction import MASK
from kue.model.errors import StoreUnavailable
from kue.store.values import RINGS, AuditEntry
from tests.http.accounts import PASSWORD, Site, site_of
from tests.http.conftest import HOST
from tests.support.flaky import Wire

on_any_store = pytest.mark.parametrize("url", ["memory://"])


async def acts(q: Kue) -> list[AuditEntry]:
    """Return what was done, the oldest first; logins aside."""
    found = (await q.store.acts(500)).acts[::-1]
    return [act for act in found if act.what != "login"]


async def client_for(site: Site, who: str = "admin") -> httpx.AsyncClient:
    return site.client(headers=await site.headers(who))


async def test_a_change_is_noted_with_who_what_target_status_and_address(
    q: Kue,
) -> None:
    job = await q.enqueue("email", {"to": "ann"})
    before = await q.now()
    async with site_of(q) as site, await client_for(site) as client:
        await client.patch(f"/jobs/{job.id}", json={"priority": 5})

    [act] = await acts(q)
    assert (act.who, act.what) == ("a-admin", "jobs.edit")
    assert (act.target, act.status, act.address) == (str(job.id), 200, HOST)
    assert act.detail == '{"priority":5}'
    assert act.at >= before


@on_any_store
@pytest.mark.parametrize(
    ("method", "path", "body", "what", "target", "status"),
    [
        ("POST", "/api/v1/jobs", {"type": "a"}, "jobs.add", "", 201),
        ("POST", "/api/v1/jobs/batch", [{"type": "a"}], "jobs.add_many", "", 201),
        ("POST", "/api/v1/jobs/{id}/cancel", {}, "actions.cancel", "{id}", 200),
        ("DELETE", "/api/v1/jobs/{id}", None, "jobs.remove", "{id}", 204),
        ("POST", "/api/v1/queues/email/pause", {}, "queues.pause_queue", "email", 200),
        (
            *("PUT", "/api/v1/schedules/a", {"type": "a", "every": "1h"}),
            *("schedules.set_schedule", "a", 201),
        ),
        (
            *("POST", "/api/v1/circuits/stripe/open", {"for": "1h"}),
            *("circuits.open_circuit", "stripe", 200),
        ),
        (
            *("PUT", "/api/v1/limits/stripe", {"concurrency": 5}),
            *("limits.set_limit", "stripe", 201),
        ),
        ("POST", "/kue/job", {"type": "a"}, "kue.add", "", 200),
        ("GET", "/kue/inactive/{id}", None, "kue.restart", "{id}", 200),
        ("DELETE", "/kue/job/{id}", None, "kue.remove", "{id}", 200),
        ("PUT", "/vertx-kue/job", {"type": "a"}, "vertx.add", "", 201),
        ("DELETE", "/vertx-kue/job/{id}", None, "vertx.remove", "{id}", 200),
    ],
)
async def test_each_kind_of_change_is_noted(
    q: Kue, method: str, path: str, body: Any, what: str, target: str, status: int
) -> None:
    job = str((await q.enqueue("email")).id)
    async with site_of(q) as site, await client_for(site) as client:
        address = site.address + path.replace("{id}", job)
        answer = await client.request(method, address, json=body)

    [act] = await acts(q)
    assert answer.status_code == status
    assert (act.target, act.status) == (target.replace("{id}", job), status)
    assert act.what.partition(".")[0] == what.partition(".")[0]
    if "queues" not in what:
        assert act.what == what


@on_any_store
@pytest.mark.parametrize("path", ["/api/v1/jobs/1", "/kue/job/1", "/vertx-kue/job/1"])
async def test_a_change_that_was_not_allowed_is_noted(q: Kue, path: str) -> None:
    async with site_of(q) as site, await client_for(site, "viewer") as client:
        await client.delete(site.address + path)

    [act] = await acts(q)
    assert (act.who, act.target, act.status) == ("a-viewer", "1", 403)


@on_any_store
async def test_a_change_refused_because_of_read_only_is_noted(q: Kue) -> None:
    async with (
        site_of(q, read_only=True) as site,
        await client_for(site) as client,
    ):
        await client.post("/jobs", json={"type": "a"})

    [act] = await acts(q)
    assert (act.what, act.status) == ("jobs.add", 403)


@on_any_store
async def test_looking_nonsense_and_strangers_are_not_noted(q: Kue) -> None:
    async with site_of(q) as site:
        async with await client_for(site) as client:
            await client.get("/jobs")
            await client.post("/jobs", json={"typo": "a"})
            await client.post("/jobs/4711/retry", json={})
        async with site.client() as client:
            await client.post("/jobs", json={"type": "a"})

    assert await acts(q) == []


async def test_logins_failed_logins_and_logouts_are_noted(q: Kue) -> None:
    async with site_of(q) as site, site.client() as client:
        await site.add("ann")
        await site.login(client, "ann", "wrong-canary")
        await site.login(client, "wrong canary", "ann")
        await site.login(client, "ann")
        await client.post("/logout")

    found = (await q.store.acts()).acts[::-1]
    assert [(act.who, act.what, act.status) for act in found] == [
        ("ann", "login", 401),
        ("", "login", 401),
        ("ann", "login", 200),
        ("ann", "logout", 204),
    ]
    assert {act.address for act in found} == {HOST}
    assert "canary" not in str(found)


@on_any_store
async def test_the_detail_is_short_and_tells_no_secret(q: Kue) -> None:
    body = {"type": "a", "data": {"password": PASSWORD, "text": "x" * 1000}}
    async with site_of(q) as site, await client_for(site) as client:
        await client.post("/jobs", json=body)
        await client.post("/users", json={"name": "bob", "password": PASSWORD})
        made = await client.post("/tokens", json={"name": "t", "scopes": ["read"]})

    found = await acts(q)
    assert [act.what for act in found] == [
        "jobs.add",
        "users.add_user",
        "tokens.add_token",
    ]
    assert len(found[0].detail) == 500
    assert f'"password":"{MASK}"' in found[0].detail
    assert PASSWORD not in str(found)
    assert made.json()["secret"] not in str(found)


@on_any_store
async def test_the_log_is_read_in_pages_by_admins(q: Kue) -> None:
    async with site_of(q) as site, await client_for(site) as client:
        for number in range(3):
            await client.post("/jobs", json={"type": f"t{number}"})
        first = (await client.get("/audit", params={"limit": 2})).json()
        rest = (
            await client.get("/audit", params={"limit": 200, "cursor": first["cursor"]})
        ).json()
        wrong = await client.get("/audit", params={"cursor": "x"})

    assert [act["detail"] for act in first["acts"]] == [
        '{"type":"t2"}',
        '{"type":"t1"}',
    ]
    assert rest["acts"][0]["detail"] == '{"type":"t0"}'
    assert rest["cursor"] is None
    assert set(first["acts"][0]) == {
        *("id", "at", "who", "what", "target", "status", "address", "detail")
    }
    assert wrong.status_code == 400


@on_any_store
async def test_a_store_that_takes_no_notes_does_not_hide_the_answer(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(q.store)
    caplog.set_level(logging.WARNING, "kue.http.security.audit_log")
    async with (
        Kue(store=wire.store) as queue,
        site_of(queue) as site,
        await client_for(site) as client,
    ):
        wire.break_off("note")
        answer = await client.post("/jobs", json={"type": "a"})
        wire.mend()

    assert answer.status_code == 201
    assert await acts(q) == []
    assert "jobs.add" in caplog.text
    assert StoreUnavailable.__name__ not in answer.text


# -- S-5: what nobody can wash out -----------------------------------------------


@pytest.mark.parametrize(
    ("scope", "statuses"), [("read", {403}), ("enqueue", {200, 201})]
)
async def test_s_5_who_may_change_nothing_cannot_push_out_what_was_done(
    q: Kue, monkeypatch: pytest.MonkeyPatch, scope: str, statuses: set[int]
) -> None:
    for ring in RINGS:
        monkeypatch.setitem(RINGS, ring, 5)
    await q.enqueue("email")
    async with site_of(q) as site:
        async with await client_for(site) as client:
            await client.post("/queues/email/pause", json={})
        async with await client_for(site, scope) as client:
            for _ in range(4):
                await client.post("/jobs", json={"type": "email"})
                await client.post("/jobs/batch", json=[{"type": "email"}])
                await client.post(f"{site.address}/kue/job", json={"type": "email"})

    found = await acts(q)
    assert found[0].target == "email"
    assert {act.status for act in found[-4:]} == statuses
    assert len(found) < 12


@on_any_store
async def test_s_8_control_characters_do_not_reach_the_line_in_the_log(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    async with site_of(q) as site, await client_for(site) as client:
        with caplog.at_level(logging.INFO, logger="kue.http.security.audit_log"):
            await client.delete(f"{site.address}/kue/job/%1B%5B2J")
            await client.put("/queues/a%1Bb/limits", json={"rate": 1})
            await client.post("/workers/%1B%5B2J/stop")

    assert not [text for text in caplog.messages if not text.isprintable()]
