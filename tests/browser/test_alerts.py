"""Alerts on the dashboard: thresholds, what is in force, silenced and monitored."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from kue import Kue
from kue.worker import alert_monitor
from tests.browser.finding import dialog, opened, press, told
from tests.browser.watching import Watch

WEBHOOK = "https://chat.example.com/hooks/private"


@pytest.fixture(autouse=True)
def _always_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_monitor, "TURN_MS", 0)


def alerts(page: Page) -> Locator:
    return page.get_by_role("region", name="Alerts", exact=True)


async def test_thresholds_are_set_changed_and_removed(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")
    await expect(alerts(page)).to_contain_text("No thresholds.")

    await press(alerts(page), "Edit")
    ask = dialog(page, "Alerts of email")
    await ask.get_by_label("Oldest waiting").fill("5m")
    await ask.get_by_label("Backlog").fill("1")
    await ask.get_by_label("Failures, %").fill("20")
    await ask.get_by_label("Webhook").fill(WEBHOOK)
    await press(ask, "Save")
    await expect(told(page, "Thresholds are set")).to_be_visible()
    await expect(alerts(page)).to_contain_text("https://chat.example.com/…")
    rule = (await q.alert_rules())["email"]
    assert (rule.oldest, rule.backlog, rule.failures) == (300_000, 1, 0.2)
    assert rule.webhook == WEBHOOK

    await press(alerts(page), "Edit")
    await expect(ask.get_by_label("Oldest waiting")).to_have_value("5m")
    await expect(ask.get_by_label("Failures, %")).to_have_value("20")
    await ask.get_by_label("Backlog").fill("2")
    await press(ask, "Save")
    await expect(ask).to_have_count(0)
    rule = (await q.alert_rules())["email"]
    assert (rule.backlog, rule.webhook) == (2, WEBHOOK)

    await press(alerts(page), "Edit")
    for field in ("Oldest waiting", "Backlog", "Failures, %"):
        await ask.get_by_label(field).fill("")
    await press(ask, "Save")
    await expect(told(page, "Thresholds are removed")).to_be_visible()
    assert await q.alert_rules() == {}


async def test_a_threshold_that_makes_no_sense_is_told_at_its_field(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("400")
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")

    await press(alerts(page), "Edit")
    oldest = dialog(page, "Alerts of email").get_by_label("Oldest waiting")
    await oldest.fill("soon")
    await page.keyboard.press("Enter")

    await expect(oldest).to_have_attribute("aria-invalid", "true")
    assert await q.alert_rules() == {}


async def test_an_alert_is_on_the_overview_and_on_its_queue(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email", tags=["vip"])
    await q.set_alert("email", backlog=1)
    await q.monitor_tag("vip")
    await q.check_alerts()

    await opened(page, address)
    warning = page.locator(".warning[data-code=alert]")
    await expect(warning).to_contain_text("1 job waits in queue 'email' (threshold 1)")
    tags = page.get_by_role("region", name="Monitored tags")
    await expect(tags.get_by_role("link", name="vip")).to_be_visible()
    await expect(tags).to_contain_text("1 job")

    await warning.get_by_role("link", name="Show queue").click()
    await expect(alerts(page)).to_contain_text("1 job waits in queue 'email'")
    await press(alerts(page), "Silence")
    await expect(alerts(page)).to_contain_text("Silenced")
    await press(alerts(page), "Unsilence")
    await expect(told(page, "email is no longer silenced")).to_be_visible()
    assert (await q.silenced()).types == ()


async def test_the_lists_of_the_overview_leave_out_silenced_jobs(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await q.enqueue("ping")
    await q.silence("ping")

    await opened(page, address)

    queues = page.get_by_role("region", name="Queues")
    await expect(queues.get_by_role("link", name="email", exact=True)).to_be_visible()
    await expect(queues.get_by_role("link", name="ping", exact=True)).to_have_count(0)
    await expect(page.locator(".warning")).to_have_count(1)


async def test_names_are_silenced_and_monitored_in_the_settings(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, f"{address}/settings")

    await press(alerts(page), "Silence")
    ask = dialog(page, "Silence")
    await ask.get_by_label("What").select_option("tag")
    await ask.get_by_label("Name").fill("noisy")
    await press(ask, "Silence")
    await expect(alerts(page)).to_contain_text("noisy")
    await press(alerts(page), "Monitor a tag")
    await dialog(page, "Monitor a tag").get_by_label("Tag").fill("vip")
    await page.keyboard.press("Enter")
    await expect(alerts(page)).to_contain_text("vip")
    await press(alerts(page), "Default thresholds")
    await dialog(page, "Default thresholds").get_by_label("Oldest waiting").fill("1h")
    await page.keyboard.press("Enter")
    await expect(alerts(page)).to_contain_text("oldest 1 h")
    assert (await q.silenced()).tags == ("noisy",)
    assert await q.monitored_tags() == ["vip"]

    await press(alerts(page), "Remove tag noisy")
    await expect(told(page, "noisy is no longer silenced")).to_be_visible()
    await press(alerts(page), "Remove monitored tag vip")
    await expect(told(page, "vip is no longer monitored")).to_be_visible()
    assert await q.monitored_tags() == []
