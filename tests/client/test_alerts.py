"""Alerts of a queue: raised once and resolved once, whichever process checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from kue import ActiveJob, Event, Job, Kue, State
from kue.client import alert_events
from kue.client.alert_registration import reconcile_alerts
from kue.model.alerts import AlertNotice
from kue.store.values import KeepRequest
from kue.worker import alert_monitor, webhook
from kue.worker.alert_records import ALERTS, STATE
from kue.worker.webhook import WebhookRefused, signature
from tests.support.engines import Engine
from tests.support.patience import eventually, until
from tests.support.receiver import Receiver, receiving

SECRET = "a secret of the webhook"


@pytest.fixture(autouse=True)
def _quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check as often as a test asks, and each few milliseconds in workers."""
    monkeypatch.setattr(alert_monitor, "TURN_MS", 0)
    monkeypatch.setattr(alert_monitor, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(alert_monitor, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(alert_events, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(webhook, "FIRST_RETRY", "10ms")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


async def written(q: Kue) -> None:
    """Write what the queue declares, as a worker does when it starts."""
    await reconcile_alerts(q.store, q._handlers.alerts, q._handlers.modules)


def kinds(notices: list[AlertNotice]) -> list[tuple[str, str]]:
    return [(one.status, one.kind) for one in notices]


# -- raised and resolved -------------------------------------------------------


async def test_a_backlog_is_reported_once_and_resolved_once(q: Kue) -> None:
    notices: list[AlertNotice] = []
    q.on_alert(notices.append)
    await q.set_alert("email", backlog=2)
    first, _ = [await q.enqueue("email") for _ in range(2)]

    for _ in range(3):
        [alert] = await q.check_alerts()
    await first.remove()
    for _ in range(3):
        assert await q.check_alerts() == []
    await until(lambda: len(notices) == 2)

    assert (alert.kind, alert.value, alert.threshold) == ("backlog", 2, 2)
    assert alert.message == "2 jobs wait in queue 'email' (threshold 2)"
    assert kinds(notices) == [("raised", "backlog"), ("resolved", "backlog")]


async def test_the_oldest_job_and_the_default_thresholds(q: Kue) -> None:
    await q.set_alert(oldest="1ms")
    await q.set_alert("quiet", backlog=1_000)
    await q.enqueue("quiet")
    await q.enqueue("email", priority="low")
    await q.enqueue("email", priority="high")

    found = await eventually(q.check_alerts)

    assert [(one.type, one.kind) for one in found] == [("email", "oldest")]


async def test_a_failure_rate_counts_the_jobs_that_ended(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    @q.process("email")
    async def send(job: ActiveJob) -> None:
        if job.data == "bad":
            raise ValueError("oops")

    monkeypatch.setattr(alert_monitor, "FIRST_SECONDS", 3_600)
    await q.set_alert("email", failures="50%", least=4)
    await q.enqueue_many("email", ["bad", "bad", "good"])
    await q.run(burst=True, signals=False)
    before = await q.check_alerts()
    await q.enqueue("email", "good")
    await q.run(burst=True, signals=False)

    [alert] = await q.check_alerts()

    assert before == []
    assert (alert.kind, alert.value) == ("failures", 0.5)


async def test_a_queue_without_a_worker_is_noticed_by_workers_of_others(
    q: Kue,
) -> None:
    @q.process("report")
    async def report(job: Job) -> None: ...

    notices: list[AlertNotice] = []
    q.on_alert(notices.append)
    await q.set_alert("email", no_worker="50ms")
    await q.enqueue("email")
    await q.enqueue("report")

    async with q.work():
        await until(lambda: len(notices) == 1)

    assert (notices[0].type, notices[0].kind) == ("email", "no_worker")
    assert "no live worker has taken them for" in notices[0].message


async def test_several_workers_report_an_alert_once(q: Kue) -> None:
    notices: list[AlertNotice] = []
    gate = asyncio.Event()

    @q.process("email")
    async def send(job: Job) -> None:
        await gate.wait()

    q.on_alert(notices.append)
    await q.set_alert("email", backlog=1)
    async with q.work(), q.work(), q.work():
        await q.pause("email")
        await q.enqueue("email")
        await until(lambda: len(notices) == 1)
        checked = (await alert_state(q))["checked_at"]
        gate.set()
        # Others have checked since.
        await eventually(lambda: later(q, checked))
        await q.resume("email")
        await until(lambda: len(notices) == 2)

    assert kinds(notices) == [("raised", "backlog"), ("resolved", "backlog")]


async def alert_state(q: Kue) -> dict[str, int]:
    text = await q.store.kept(ALERTS, STATE)
    assert text is not None
    state: dict[str, int] = msgspec.json.decode(text)
    return state


async def later(q: Kue, moment: int) -> bool:
    return (await alert_state(q))["checked_at"] > moment + 100


async def test_those_that_check_at_the_same_time_report_once(q: Kue) -> None:
    notices: list[AlertNotice] = []
    q.on_alert(notices.append)
    await q.set_alert("email", backlog=1)
    await q.enqueue("email")

    await asyncio.gather(*(q.check_alerts() for _ in range(10)))
    [alert] = await q.check_alerts()
    await until(lambda: bool(notices))

    assert kinds(notices) == [("raised", "backlog")]
    assert alert.type == "email"


async def test_no_other_check_is_made_for_ten_seconds(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_monitor, "TURN_MS", 3_600_000)
    await q.set_alert("email", backlog=1)
    assert await q.check_alerts() == []
    await q.enqueue("email")

    assert await q.check_alerts() == []


async def test_a_damaged_state_is_replaced(q: Kue) -> None:
    await q.set_alert("email", backlog=1)
    await q.enqueue("email")
    await q.store.keep(KeepRequest(ALERTS, STATE, "[no state"))

    assert len(await q.check_alerts()) == 1


async def test_without_thresholds_nothing_is_written(q: Kue) -> None:
    await q.enqueue("email")

    assert await q.check_alerts() == []
    assert await q.store.all_kept(ALERTS) == {}


# -- events and hooks ----------------------------------------------------------


async def test_events_are_received_by_callbacks_and_iterators(q: Kue) -> None:
    events: list[Event] = []
    q.on("alert", events.append)
    await q.set_alert("email", backlog=1)
    job = await q.enqueue("email")
    await q.check_alerts()
    await job.remove()
    await q.check_alerts()
    await until(lambda: len(events) == 2)

    assert [one.detail["status"] for one in events] == ["raised", "resolved"]
    assert (events[0].kind, events[0].type, events[0].job_id) == ("alert", "email", 0)
    assert events[0].detail["message"].startswith("1 job waits in queue 'email'")
    q.off("alert")
    await q.enqueue("email")
    await q.check_alerts()
    assert len(events) == 2


async def test_a_callback_that_takes_itself_off_is_not_interrupted(q: Kue) -> None:
    events: list[Event] = []

    async def once(event: Event) -> None:
        q.off("alert", once)
        await asyncio.sleep(0)
        events.append(event)

    q.on("alert", once)
    await q.set_alert("email", backlog=1)
    await q.enqueue("email")
    await q.check_alerts()

    await until(lambda: len(events) == 1)


async def test_an_iterator_yields_alerts(q: Kue) -> None:
    await q.set_alert("email", backlog=1)
    await q.enqueue("email")

    async def first() -> Event:
        async for event in q.events("alert"):
            return event
        raise AssertionError

    reading = asyncio.create_task(first())
    while not reading.done():
        # Whenever it began to read, one of these is new to it.
        await q.set_alert("email", backlog=1, remind="1ms")
        await q.check_alerts()
        await asyncio.sleep(0.01)

    assert (await reading).type == "email"


async def test_a_hook_that_raises_is_logged_and_disturbs_no_other(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    notices: list[AlertNotice] = []

    @q.on_alert
    async def broken(notice: AlertNotice) -> None:
        raise RuntimeError("oops")

    q.on_alert(notices.append)
    await q.set_alert("email", backlog=1)
    await q.enqueue("email")
    await q.check_alerts()
    await until(lambda: bool(notices))

    assert "alert hook" in caplog.text


# -- declared in code ----------------------------------------------------------


async def test_a_change_at_run_time_stays_until_the_declaration_changes(
    q: Kue, place: Engine
) -> None:
    q.alert("email", backlog=10)
    q.alert(oldest="1h")
    await written(q)
    declared = await q.alert_rules()
    await q.set_alert("email", backlog=99)
    await written(q)
    changed = await q.alert_rules()
    q._handlers.alerts.pop("email")
    q.alert("email", backlog=11)
    await written(q)

    assert (declared["email"].backlog, declared[None].oldest) == (10, 3_600_000)
    assert changed["email"].backlog == 99
    assert (await q.alert_rules())["email"].backlog == 11


async def test_what_is_no_longer_declared_is_removed_and_what_others_set_stays(
    q: Kue,
) -> None:
    q.alert("email", backlog=10)
    await q.set_alert("report", backlog=5)
    await written(q)
    q._handlers.alerts.clear()
    await written(q)

    assert list(await q.alert_rules()) == ["report"]


async def test_a_declared_alert_that_is_cleared_stays_off(q: Kue) -> None:
    q.alert("email", backlog=1)
    await written(q)
    assert await q.clear_alert("email")
    await written(q)
    await q.enqueue("email")

    assert await q.check_alerts() == []
    assert not await q.clear_alert("email")
    assert not await q.clear_alert("report")


async def test_a_worker_writes_what_is_declared(q: Kue) -> None:
    q.process("email", lambda job: None)
    q.alert("email", backlog=10)

    await q.run(burst=True, signals=False)

    assert (await q.alert_rules())["email"].backlog == 10


def test_alerts_of_a_type_are_declared_once(plain_q: Kue) -> None:
    plain_q.alert("email", backlog=1)
    with pytest.raises(ValueError, match="alerts of 'email' are declared twice"):
        plain_q.alert("email", backlog=2)


# -- webhooks ------------------------------------------------------------------


async def test_a_webhook_is_sent_signed_and_retried(
    q: Kue, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    secretive = Kue(store=q.store, webhook_secret=SECRET, lease="5s")
    secretive.process("report", lambda job: None)
    receiver.statuses += [500, 302]
    await q.set_alert("email", backlog=1, webhook=receiver.url)
    await q.enqueue("email", {"name": "not sent"})

    async with secretive.work():
        await until(lambda: len(receiver.received) >= 3)
        [job] = await eventually(lambda: jobs_of_webhooks(q, State.COMPLETE))

    assert len(receiver.received) == 3
    last = receiver.received[-1]
    headers, body = last.headers, last.json
    assert last.path == "/hooks/private?key=1"
    assert (body["queue"], body["alert"], body["status"]) == (
        *("email", "backlog", "raised"),
    )
    assert body["text"] == (
        "Kue alert raised: 1 job waits in queue 'email' (threshold 1)"
    )
    assert headers["X-Kue-Signature"] == signature(
        SECRET, headers["X-Kue-Timestamp"], last.body
    )
    assert {one.headers["Idempotency-Key"] for one in receiver.received} == {
        str(job.id)
    }
    assert job.attempts == 3
    assert SECRET not in str(job)
    assert "private" not in str(job)


def test_a_redirect_is_not_followed_and_the_path_not_shown(receiver: Receiver) -> None:
    receiver.statuses += [307]

    with pytest.raises(WebhookRefused) as caught:
        webhook.post(receiver.url, b"{}", "1")

    host = receiver.url.partition("/hooks")[0]
    assert str(caught.value) == f"{host}/… responded with status 307"
    assert len(receiver.received) == 1
    assert "X-Kue-Signature" not in receiver.received[0].headers


def test_a_server_that_is_away_is_a_failure(unused_tcp_port: int) -> None:
    with pytest.raises(WebhookRefused, match="could not be reached: ConnectionRefused"):
        webhook.post(f"http://127.0.0.1:{unused_tcp_port}/x", b"{}", "1")


async def jobs_of_webhooks(q: Kue, state: State) -> list[Job]:
    return (await q.find(type=webhook.TYPE, state=state)).jobs


async def test_webhooks_of_a_process_that_stopped_are_sent_once_by_the_next(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await q.set_alert("email", backlog=1, webhook="http://127.0.0.1:9/x")
    await q.enqueue("email")

    async def killed(*args: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(webhook, "add_alert", killed)
        with pytest.raises(asyncio.CancelledError):
            await q.check_alerts()
    assert await jobs_of_webhooks(q, State.WAITING) == []

    await q.check_alerts()
    await q.check_alerts()

    [job] = await jobs_of_webhooks(q, State.WAITING)
    assert job.data["status"] == "raised"


async def test_a_webhook_that_a_cap_refuses_is_logged(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    await q.limit(webhook.TYPE, max_waiting=1)
    for name in ("email", "video"):
        await q.set_alert(name, backlog=1, webhook="http://127.0.0.1:9/x")
        await q.enqueue(name)

    await q.check_alerts()

    assert len(await jobs_of_webhooks(q, State.WAITING)) == 1
    assert "the webhook of an alert of video was not added" in caplog.text


async def test_a_job_cannot_send_anything_that_no_alert_reported(
    q: Kue, receiver: Receiver
) -> None:
    q.process("report", lambda job: None)
    await q.set_alert("email", backlog=5, webhook=receiver.url)
    forged = await q.enqueue(webhook.TYPE, {"notice": "1-1", "url": receiver.url})

    async with q.work():
        await eventually(lambda: jobs_of_webhooks(q, State.FAILED))

    error = (await forged.refresh()).error
    assert error is not None
    assert error.message == ("the report is no longer kept, or never was")
    assert receiver.received == []


# -- silenced and monitored ----------------------------------------------------


async def test_silenced_types_and_tags_raise_no_alerts(q: Kue) -> None:
    await q.set_alert(oldest="1ms", backlog=1)
    await q.enqueue("ping")
    await q.enqueue("email", tags=["noisy"])
    await q.silence("ping")
    await q.silence(tag="noisy")
    # Once this one has waited for long enough, those before it have as well.
    await q.enqueue("report")

    async def found() -> set[tuple[str, str]]:
        return {(one.type, one.kind) for one in await q.check_alerts()}

    async def report_is_old() -> bool:
        return ("report", "oldest") in await found()

    await eventually(report_is_old)
    assert await found() == {
        ("email", "backlog"),
        ("report", "backlog"),
        ("report", "oldest"),
    }
    assert (await q.find(type="ping")).jobs
    assert await q.unsilence("ping")
    assert not await q.unsilence("ping")
    assert {type for type, _ in await found()} == {"email", "ping", "report"}
    assert (await q.silenced()).tags == ("noisy",)
    with pytest.raises(ValueError, match="a type or a tag"):
        await q.silence()


async def test_tags_are_monitored(q: Kue) -> None:
    await q.monitor_tag("b")
    assert await q.monitor_tag("a") == ["a", "b"]
    assert await q.unmonitor_tag("b")
    assert not await q.unmonitor_tag("b")
    assert await q.monitored_tags() == ["a"]
    with pytest.raises(ValueError, match="tag must have 1 to 200 bytes"):
        await q.monitor_tag("")
