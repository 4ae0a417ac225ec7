"""How it went, over an hour or a season, together or by queue."""

from __future__ import annotations

import re

from playwright.async_api import Locator, Page, expect

from kue import Kue
from kue.model.histogram import Timing, bucket
from kue.model.job import State
from tests.browser.finding import opened, press, tile
from tests.support.jobs import DAY, HOUR, MINUTE, add_many, job_in

RANGES = {"1 hour": 10, "24 hours": 15, "7 days": 18, "90 days": 20}


async def fill(q: Kue) -> None:
    """Have some jobs each of a few minutes, hours and days ago."""
    now = await q.now()
    for count, ago in ((2, 40 * DAY), (3, 3 * DAY), (5, 5 * HOUR), (10, 4 * MINUTE)):
        await add_many(q.store, count, now=now - ago)
        # Whoever tends adds minutes to hours.
        await q.store.tend(now=now - ago + HOUR)


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("figure", name=name, exact=True)


async def as_table(page: Page, name: str) -> Locator:
    await chart(page, name).get_by_text("As a table").click()
    return page.get_by_role("table", name=name, exact=True)


async def test_each_range_reaches_further_back(
    page: Page, address: str, q: Kue
) -> None:
    await fill(q)
    await opened(page, f"{address}/metrics")

    for name, count in RANGES.items():
        await press(page, name)
        await expect(tile(page, "Added")).to_contain_text(str(count))
        pressed = page.get_by_role("group", name="Time range").get_by_role(
            "button", pressed=True
        )
        await expect(pressed).to_have_text(name)

    await expect(page).to_have_url(f"{address}/metrics?range=90d")
    await page.reload()
    await expect(tile(page, "Added")).to_contain_text("20")


async def test_failures_are_told_as_a_share(page: Page, address: str, q: Kue) -> None:
    now = await q.now() - 2 * MINUTE
    await job_in(q.store, State.FAILED, now=now)
    for _ in range(3):
        await job_in(q.store, State.COMPLETE, now=now)
    await opened(page, f"{address}/metrics")

    await expect(tile(page, "Complete")).to_contain_text("3")
    await expect(tile(page, "Failed")).to_contain_text("25% of finished jobs")
    table = await as_table(page, "Failures")
    await expect(table.get_by_role("row").nth(3)).to_contain_text("1")


async def test_percentiles_of_waits_and_runs_are_drawn_and_in_a_table(
    page: Page, address: str, q: Kue
) -> None:
    await add_many(q.store, 1, now=await q.now())
    timing = Timing("email", waits={bucket(60): 9}, runs={bucket(500): 9})
    await q.store.measure([timing], now=await q.now() - MINUTE)
    await opened(page, f"{address}/metrics")

    # Which row it is depends on whether a minute has passed by now.
    waits = (await as_table(page, "Wait time")).get_by_role("row")
    runs = (await as_table(page, "Run time")).get_by_role("row")
    three = re.compile(r"(\d+ ms){3}")
    await expect(waits.filter(has_text=three)).to_have_count(1)
    await expect(runs.filter(has_text="564 ms")).to_have_count(1)


async def test_charts_show_the_same_step_together(
    page: Page, address: str, q: Kue
) -> None:
    await fill(q)
    await opened(page, f"{address}/metrics")
    flow = page.get_by_role("slider", name="Throughput, step by step")

    await flow.focus()
    await page.keyboard.press("End")
    await page.keyboard.press("PageDown")

    await expect(page.locator(".chart-tip:visible")).to_have_count(4)
    await page.keyboard.press("Escape")
    await expect(page.locator(".chart-tip:visible")).to_have_count(0)


async def test_queues_are_compared_and_the_address_says_which(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now() - MINUTE
    for type in ("email", "report", "webhook"):
        await job_in(q.store, State.COMPLETE, type, now=now)
    await opened(page, f"{address}/metrics")
    field = page.get_by_label("Add a queue")

    await field.fill("email")
    await expect(chart(page, "Throughput").locator(".chart-key")).to_have_text(
        ["complete", "failed", "added"]
    )
    await field.fill("report")
    await expect(chart(page, "Throughput").locator(".chart-key")).to_have_text(
        ["email", "report"]
    )
    await expect(page).to_have_url(f"{address}/metrics?type=email&type=report")
    await expect(page.get_by_role("heading", name="Complete, by queue")).to_be_visible()
    await expect(tile(page, "Complete")).to_contain_text("2")
    await page.reload()
    await press(page, "Remove email")

    await expect(tile(page, "Complete")).to_contain_text("1")
    await expect(page).to_have_url(f"{address}/metrics?type=report")


async def test_a_queue_that_is_none_is_not_added(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/metrics")

    await page.get_by_label("Add a queue").fill("nothing")
    await page.keyboard.press("Enter")

    await expect(page.get_by_text("All queues")).to_be_visible()
    await expect(page).to_have_url(f"{address}/metrics")


async def test_without_jobs_charts_say_that_nothing_was(
    page: Page, address: str
) -> None:
    await opened(page, f"{address}/metrics")

    await expect(chart(page, "Throughput")).to_contain_text("No data in this period")
    await expect(tile(page, "Added")).to_contain_text("0")
