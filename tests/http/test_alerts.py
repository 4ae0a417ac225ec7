"""Alerts over HTTP: thresholds, alerts in force, silenced names, monitored tags."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.http.server.address import ListenAddress
from kue.http.server.serve import ServeOptions, listen, serving
from kue.model.alerts import AlertNotice
from kue.worker import alert_monitor
from tests.http.accounts import Site, site_of
from tests.support.jobs import add_one
from tests.support.patience import until

#: What comes before the store is the same on all.
on_any_store = pytest.mark.parametrize("url", ["memory://"])

SECRET_URL = "https://chat.example.com/hooks/private"
SHOWN_URL = "https://chat.example.com/…"


@pytest.fixture(autouse=True)
def _always_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_monitor, "TURN_MS", 0)


async def test_thresholds_are_set_shown_and_removed(
    client: httpx.AsyncClient, q: Kue
) -> None:
    body = {"oldest": "5m", "backlog": 1, "failures": 0.2, "webhook": SECRET_URL}
    answer = await client.put("/queues/email/alert", json=body)
    await client.put("/alerts/default", json={"no_worker": "1m", "remind": "0s"})
    await q.enqueue("email")
    await q.check_alerts()

    shown = (await client.get("/alerts")).json()

    assert answer.status_code == 200
    assert answer.json() == {
        "oldest": 300_000,
        "backlog": 1,
        "failures": 0.2,
        "within": 300_000,
        "least": 20,
        "no_worker": None,
        "remind": 3_600_000,
        "webhook": SHOWN_URL,
    }
    assert shown["types"] == [answer.json() | {"type": "email"}]
    assert (shown["default"]["no_worker"], shown["default"]["remind"]) == (60_000, 0)
    [alert] = shown["alerts"]
    assert (alert["type"], alert["kind"], alert["value"]) == ("email", "backlog", 1)
    assert alert["message"] == "1 job waits in queue 'email' (threshold 1)"
    assert (await client.delete("/queues/email/alert")).status_code == 204
    assert (await client.delete("/queues/email/alert")).status_code == 404
    assert (await client.delete("/alerts/default")).status_code == 204
    assert (await client.delete("/alerts/default")).status_code == 404
    assert await q.alert_rules() == {}


async def test_a_webhook_stays_unless_another_one_is_given(
    client: httpx.AsyncClient, q: Kue
) -> None:
    path = "/queues/email/alert"
    stored = []
    for webhook in (
        {"webhook": SECRET_URL},
        {},
        {"webhook": SHOWN_URL},
        {"webhook": None},
    ):
        await client.put(path, json={"backlog": 1, **webhook})
        stored.append((await q.alert_rules())["email"].webhook)

    assert stored == [SECRET_URL, SECRET_URL, SECRET_URL, None]
    page = await q.store.acts()
    assert "private" not in str(page.acts)


@on_any_store
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"oldest": "soon"}, "body.oldest"),
        ({"oldest": "0s"}, "body.oldest"),
        ({"backlog": 0}, "body.backlog"),
        ({"failures": 2}, "body.failures"),
        ({"within": "1s"}, "body.within"),
        ({"webhook": "ftp://x"}, "body.webhook"),
        ({"other": 1}, "body"),
    ],
)
async def test_a_threshold_that_makes_no_sense_is_a_400(
    client: httpx.AsyncClient, body: dict[str, object], field: str
) -> None:
    answer = await client.put("/queues/email/alert", json=body)

    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_only_administrators_change_where_reports_go(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.set_alert("email", backlog=1, webhook=SECRET_URL)
    async with site_of(q) as site:
        answers = await changed_by(site, "operator")
        admins = await changed_by(site, "admin")

    assert answers == [200, 200, 403, 403]
    assert admins == [200, 200, 200, 200]


async def changed_by(site: Site, who: str) -> list[int]:
    bodies: list[dict[str, object]] = [
        {"backlog": 2},
        {"backlog": 2, "webhook": SHOWN_URL},
        {"backlog": 2, "webhook": "https://elsewhere.example.com/x"},
        {"backlog": 2, "webhook": None},
    ]
    async with site.client(headers=await site.headers(who)) as client:
        answers = [
            await client.put("/queues/email/alert", json=body) for body in bodies
        ]
    return [answer.status_code for answer in answers]


async def test_a_server_notices_that_there_is_no_worker(
    client: httpx.AsyncClient, q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_monitor, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(alert_monitor, "CHECK_SECONDS", 0.01)
    notices: list[AlertNotice] = []
    q.on_alert(notices.append)
    await q.set_alert("email", no_worker="20ms")
    await q.enqueue("email")
    listener = listen(ListenAddress.of("127.0.0.1", 0))

    async with serving(create_app(q, guard=Anyone()), listener, ServeOptions()):
        await until(lambda: bool(notices))

    assert (notices[0].type, notices[0].kind) == ("email", "no_worker")


@pytest.mark.parametrize("name", ["a/b", "ü", "a b", "100%", "a/alert"])
async def test_types_and_tags_of_any_name_are_silenced_and_monitored(
    client: httpx.AsyncClient, q: Kue, name: str
) -> None:
    quoted = quote(name, safe="")
    for path in (f"/silenced/types/{quoted}", f"/silenced/tags/{quoted}"):
        assert (await client.put(path)).status_code == 200
    assert (await client.put(f"/tags/{quoted}")).status_code == 204
    await q.enqueue("email", tags=[name])

    silenced = (await client.get("/alerts")).json()["silenced"]
    tags = (await client.get("/tags")).json()

    assert silenced == {"types": [name], "tags": [name]}
    assert tags == [{"tag": name, "jobs": 1, "failed": 0}]
    for path in ("silenced/types", "silenced/tags", "tags"):
        assert (await client.delete(f"/{path}/{quoted}")).status_code == 204
        assert (await client.delete(f"/{path}/{quoted}")).status_code == 404


async def test_the_overview_warns_once_for_one_cause(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.enqueue("email")
    await q.enqueue("report")
    await q.set_alert("email", no_worker="1ms")
    while not await q.check_alerts():
        pass

    warnings = (await client.get("/stats")).json()["warnings"]
    await q.silence("report")
    fewer = (await client.get("/stats")).json()

    assert [(one["code"], one["queue"]) for one in warnings] == [
        ("alert", "email"),
        ("no-worker", "report"),
    ]
    assert [one["queue"] for one in fewer["warnings"]] == ["email"]


async def test_jobs_waits_and_alerts_are_measured(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store, "email", now=await q.now() - 90_000)
    await q.set_alert("email", oldest="1m")
    await q.check_alerts()

    metrics = (await client.get("/metrics")).text
    stats = (await client.get("/stats")).json()

    assert 'kue_jobs{type="email",state="waiting"} 1\n' in metrics
    assert stats["oldest_waits_ms"] >= 90_000
    assert ("alert", "email") in [
        (one["code"], one["queue"]) for one in stats["warnings"]
    ]
