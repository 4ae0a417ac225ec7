"""All limits and one limit: what they allow, who waits, and what is done."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.async_api import Locator, Page, expect

from kue import Kue, LimitRule, StoredLimit, concurrency, rate
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from kue.model.job import Completed
from tests.browser.finding import dialog, is_live, opened, press, row, told
from tests.browser.watching import Watch
from tests.support.jobs import HOUR, claim_ids, claim_one, end

FIVE = LimitRule(concurrency=5)


def field(ask: Locator, name: str) -> Locator:
    return ask.get_by_label(name, exact=True)


def cells(page: Page, name: str) -> Locator:
    return row(page, name).get_by_role("cell")


async def hold_one(q: Kue, key: str = "") -> tuple[int, int]:
    """Have one job running under "stripe", and another one held."""
    await q.set_limit("stripe", concurrency(1))
    first = await q.enqueue("email", limited_by={"stripe": key})
    await claim_one(q.store, "email", now=await q.now(), lease=HOUR)
    second = await q.enqueue("email", limited_by={"stripe": key})
    assert await claim_ids(q.store, "email", now=await q.now(), lease=HOUR) == []
    return first.id, second.id


async def hold_by_rate(q: Kue) -> int:
    """Have a job that waits for an hourly rate."""
    await q.set_limit("mail", rate("1/h"))
    for _ in range(2):
        job = await q.enqueue("email", limited_by={"mail": "ann"})
    await claim_one(q.store, "email", now=await q.now(), lease=HOUR)
    assert await claim_ids(q.store, "email", now=await q.now(), lease=HOUR) == []
    return job.id


# -- the list ------------------------------------------------------------------


async def test_without_limits_the_page_says_how_to_have_one(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, f"{address}/limits")
    heading = page.get_by_role("heading", name="No named limits yet")
    await expect(heading).to_be_visible()
    await expect(page.locator(".sample")).to_contain_text('kue.rate("10/s"')
    await expect(page.get_by_text("No type has limits")).to_be_visible()
    await is_live(page)

    await q.set_limit("stripe", concurrency(5))
    await q.enqueue("email")

    await expect(row(page, "stripe")).to_be_visible()
    await expect(heading).to_be_hidden()


async def test_a_row_says_what_is_allowed_and_what_runs_and_waits(
    page: Page, address: str, q: Kue
) -> None:
    await hold_one(q)
    changed = StoredLimit(LimitRule(rate=10, burst=20), FIVE)
    await q.store.set_named_limit("mail", changed)
    await opened(page, f"{address}/limits")

    await expect(cells(page, "stripe").nth(1)).to_have_text("1 at once")
    await expect(cells(page, "stripe").nth(2)).to_have_text("1")
    await expect(cells(page, "stripe").nth(3)).to_have_text("1")
    await expect(cells(page, "mail").nth(1)).to_have_text("10 per second, bursts of 20")
    mark = row(page, "mail").get_by_text("changed at run time")
    await expect(mark).to_have_attribute("title", "Programs declare 5 at once")
    await row(page, "stripe").get_by_role("link", name="stripe").click()
    await expect(page).to_have_url(f"{address}/limits/stripe")


async def test_the_list_is_live(page: Page, address: str, q: Kue) -> None:
    await hold_one(q)
    await opened(page, f"{address}/limits")
    await expect(cells(page, "stripe").nth(3)).to_have_text("1")
    await is_live(page)

    await q.enqueue("email", limited_by={"stripe": ""})
    assert await claim_ids(q.store, "email", now=await q.now(), lease=HOUR) == []

    await expect(cells(page, "stripe").nth(3)).to_have_text("2")


async def test_limits_of_types_are_on_the_same_page(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await q.enqueue("report")
    await q.limit(
        "email",
        concurrency=4,
        rate=100,
        per="1m",
        per_key=1,
        max_waiting=10_000,
        fair=True,
    )
    await opened(page, f"{address}/limits")

    types = page.get_by_role("table", name="Limits of types")
    await expect(types.get_by_role("row")).to_have_count(2)
    words = "4 at once, 100/min, 1 per group; at most 10,000 waiting, then refuse; fair"
    await expect(cells(page, "email").nth(1)).to_have_text(words)
    await press(page, "Limits: email")
    ask = dialog(page, "Limits of email")
    await field(ask, "Concurrency").fill("7")
    await press(ask, "Save")

    await expect(told(page, "Limits of email are set")).to_be_visible()
    await expect(cells(page, "email").nth(1)).to_contain_text("7 at once")


# -- the form ------------------------------------------------------------------


async def test_a_concurrency_is_set(page: Page, address: str, q: Kue) -> None:
    await opened(page, f"{address}/limits")
    await page.keyboard.press("n")
    ask = dialog(page, "New limit")
    await expect(ask.get_by_label("Rate", exact=True)).to_be_hidden()
    await ask.get_by_label("Name").fill("stripe")
    await press(ask, "Set limit")
    await expect(ask).to_contain_text("give a number")
    await field(ask, "Concurrency").fill("5")
    await press(ask, "Set limit")

    await expect(told(page, "Limit stripe is set")).to_be_visible()
    await expect(row(page, "stripe")).to_contain_text("5 at once")
    assert await q.named_limits() == {"stripe": StoredLimit(FIVE)}


async def test_a_rate_with_a_burst_is_set(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("400")
    await q.set_limit("stripe", concurrency(5))
    await opened(page, f"{address}/limits")
    await page.locator("header").get_by_role("button", name="New limit").click()
    ask = dialog(page, "New limit")
    await ask.get_by_label("Name").fill("stripe")
    await field(ask, "Limits").select_option("rate")
    await expect(field(ask, "Concurrency")).to_be_hidden()
    await field(ask, "Rate").fill("100")
    await field(ask, "Time").fill("soon")
    await field(ask, "Burst").fill("7")
    await press(ask, "Set limit")
    await expect(ask).to_contain_text("stripe already exists")
    await ask.get_by_label("Name").fill("mail")
    await press(ask, "Set limit")
    await expect(field(ask, "Time")).to_have_attribute("aria-invalid", "true")
    await field(ask, "Time").fill("5m")
    await press(ask, "Set limit")

    await expect(row(page, "mail")).to_contain_text("100 per 5 minutes, bursts of 7")
    rule = LimitRule(rate=100, per=300_000, burst=7)
    assert (await q.named_limits())["mail"] == StoredLimit(rule)


async def test_a_limit_is_edited_and_deleted(page: Page, address: str, q: Kue) -> None:
    rule = LimitRule(rate=10, per=60_000, burst=3)
    await q.store.set_named_limit("mail", StoredLimit(rule, FIVE))
    await opened(page, f"{address}/limits")

    await press(page, "Edit: mail")
    ask = dialog(page, "Limit mail")
    await expect(ask).to_contain_text("Programs declare 5 at once")
    await expect(field(ask, "Rate")).to_have_value("10")
    await expect(field(ask, "Time")).to_have_value("1m")
    await expect(field(ask, "Burst")).to_have_value("3")
    await field(ask, "Limits").select_option("concurrency")
    await field(ask, "Concurrency").fill("5")
    await press(ask, "Save")
    await expect(told(page, "Limit mail is changed")).to_be_visible()
    await expect(cells(page, "mail").nth(1)).to_have_text("5 at once")
    assert await q.named_limits() == {"mail": StoredLimit(FIVE, FIVE)}

    await press(page, "Delete: mail")
    ask = dialog(page, "Delete limit mail?")
    await expect(ask).to_contain_text("comes back when a worker starts")
    await press(ask, "Delete")
    await expect(told(page, "Limit mail is deleted")).to_be_visible()
    await expect(row(page, "mail")).to_be_hidden()
    assert await q.named_limits() == {}


async def test_a_viewer_sees_limits_and_changes_none(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await hold_one(q)
    address = serve(guard=Anyone(Role.VIEWER))
    await opened(page, f"{address}/limits")
    await expect(row(page, "stripe")).to_be_visible()
    assert await page.get_by_role("button", name="New limit").count() == 0
    assert await page.get_by_role("button", name="Edit: stripe").count() == 0

    await opened(page, f"{address}/limits/stripe")
    await expect(page.get_by_text("1 at once").first).to_be_visible()
    await expect(page.get_by_role("button", name="Delete")).to_have_count(0)


# -- one limit -----------------------------------------------------------------


async def test_a_limit_shows_its_keys_and_who_waits(
    page: Page, address: str, q: Kue
) -> None:
    running, held = await hold_one(q, "ann")
    await opened(page, f"{address}/limits/stripe")

    keys = page.get_by_role("table", name="Keys").get_by_role("row").nth(1)
    await expect(keys.get_by_role("cell")).to_have_text(["ann", "1", "1", "–"])
    await expect(row(page, f"#{running}")).to_contain_text("active")
    await expect(row(page, f"#{held}")).to_contain_text("held")
    await row(page, f"#{held}").get_by_role("link").click()
    await expect(page).to_have_url(f"{address}/jobs/{held}")


async def test_a_limit_is_live(page: Page, address: str, q: Kue) -> None:
    running, held = await hold_one(q)
    await opened(page, f"{address}/limits/stripe")
    await expect(row(page, f"#{held}")).to_contain_text("held")
    await is_live(page)

    job = await q.get(running)
    stored = (await q.store.get([job.id]))[0]
    assert stored is not None
    await end(q.store, stored, Completed(), now=await q.now())

    await expect(row(page, f"#{running}")).to_be_hidden()


async def test_a_rate_says_when_the_next_may_start(
    page: Page, address: str, q: Kue
) -> None:
    await hold_by_rate(q)
    await opened(page, f"{address}/limits/mail")

    key = page.get_by_role("table", name="Keys").get_by_role("row").nth(1)
    await expect(key).to_contain_text("ann")
    await expect(key.locator("time")).to_have_text(re.compile(r"in (1 h|\d+ min)"))


async def test_a_limit_is_deleted_on_its_page(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("404")
    await q.set_limit("stripe", concurrency(5))
    await opened(page, f"{address}/limits/stripe")

    await press(page, "Delete")
    await press(dialog(page, "Delete limit stripe?"), "Delete")

    await expect(page).to_have_url(f"{address}/limits")
    await opened(page, f"{address}/limits/stripe")
    await expect(page.get_by_role("heading", name="Limit not found")).to_be_visible()


# -- jobs ----------------------------------------------------------------------


async def test_a_held_job_leads_to_its_limit(page: Page, address: str, q: Kue) -> None:
    _, held = await hold_one(q, "ann")
    await opened(page, f"{address}/jobs/{held}")

    note = page.get_by_text("Held: waits for limit 'stripe' of 'ann', 1 running")
    await expect(note).to_be_visible()
    details = page.get_by_role("region", name="Details")
    await expect(details).to_contain_text("stripe of ann")
    await note.get_by_role("link", name="Limit stripe").click()
    await expect(page).to_have_url(f"{address}/limits/stripe")


async def test_a_job_that_waits_for_a_rate_says_until_when(
    page: Page, address: str, q: Kue
) -> None:
    held = await hold_by_rate(q)
    await opened(page, f"{address}/jobs/{held}")

    note = page.get_by_text(
        "Held: waits for limit 'mail' of 'ann', 1 per hour; it may start"
    )
    await expect(note.locator("time")).to_have_text(re.compile(r"in (1 h|\d+ min)"))


async def test_a_job_that_begins_to_wait_says_so_without_an_event(
    page: Page, address: str, q: Kue
) -> None:
    await q.set_limit("stripe", concurrency(1))
    await q.enqueue("email", limited_by={"stripe": ""})
    await claim_one(q.store, "email", now=await q.now(), lease=HOUR)
    job = await q.enqueue("email", limited_by={"stripe": ""})
    await opened(page, f"{address}/jobs/{job.id}")
    await is_live(page)

    assert await claim_ids(q.store, "email", now=await q.now(), lease=HOUR) == []

    note = page.get_by_text("Held: waits for limit 'stripe', 1 running")
    await expect(note).to_be_visible(timeout=30_000)
