"""The dashboard in the window of a phone."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from kue import Kue
from tests.browser.busy import keep_busy
from tests.browser.finding import opened
from tests.browser.watching import NARROW, barriers

#: How many rows are wholly between the top of the window and the bottom bar.
ROWS_IN_SIGHT = """() => {
  const end = document.querySelector(".nav").getBoundingClientRect().top;
  const rows = [...document.querySelectorAll("tbody tr")];
  return rows.filter((row) => row.getBoundingClientRect().bottom <= end).length;
}"""
IS_IN_SIGHT = """(node) => {
  const {left, right} = node.getBoundingClientRect();
  return left >= 0 && right <= document.documentElement.clientWidth;
}"""


def bar(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Dashboard")


@pytest.mark.parametrize("state", ["", "?state=complete", "?state=failed"])
async def test_designer_5_at_least_six_jobs_fit_on_a_screen(
    page: Page, address: str, q: Kue, state: str
) -> None:
    await keep_busy(q)
    await page.set_viewport_size(NARROW)
    await opened(page, f"{address}/jobs{state}")

    assert await page.evaluate(ROWS_IN_SIGHT) >= 6
    row = page.locator("tbody tr").first
    await expect(row.get_by_role("checkbox")).to_be_visible()
    await row.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Job")


async def test_designer_5_the_tab_of_the_state_is_scrolled_into_sight(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await page.set_viewport_size(NARROW)
    await opened(page, f"{address}/jobs?state=cancelled")

    tabs = page.get_by_role("navigation", name="States")
    assert await tabs.locator("[aria-current]").evaluate(IS_IN_SIGHT)


async def test_designer_5_the_bar_has_five_entries_and_the_rest_behind_more(
    page: Page, address: str
) -> None:
    await page.set_viewport_size(NARROW)
    await opened(page, address)
    shown = bar(page).locator("a:visible, button:visible")
    await expect(shown).to_have_text(["Overview", "Queues", "Jobs", "Errors", "More"])
    for one in await shown.all():
        assert await one.evaluate(IS_IN_SIGHT)
    more = bar(page).get_by_role("button", name="More")

    await more.click()
    await expect(shown).to_have_count(14)
    assert await barriers(page) == []
    await page.keyboard.press("Escape")
    await expect(shown).to_have_count(5)
    await expect(more).to_be_focused()
    await more.click()
    await bar(page).get_by_role("link", name="Metrics").click()

    await expect(page).to_have_url(f"{address}/metrics")
    await expect(shown).to_have_count(5)
    await expect(more).to_have_class("is-here")
