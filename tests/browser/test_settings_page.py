"""The settings page: named connections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
from playwright.async_api import Locator, Page, expect

import kue
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from tests.browser.finding import opened, press
from tests.browser.watching import NARROW, barriers, shoot

pytestmark = pytest.mark.usefixtures("no_connections")
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def panel(page: Page) -> Locator:
    return page.locator("section", has=page.get_by_role("heading", name="Connections"))


def row(page: Page, text: str) -> Locator:
    return panel(page).get_by_role("row").filter(has_text=text)


async def test_connections_show_whether_they_answer_and_which_member_is_used(
    page: Page, address: str
) -> None:
    kue.configure(
        main={"url": "redis://ann:hunter2@127.0.0.1:1/0", "budget": "50ms"},
        spare="memory://",
        orders="failover://main,spare",
    )
    orders = kue.connect("orders")
    await asyncio.to_thread(orders.sync.enqueue, "confirm")

    await opened(page, f"{address}/settings")

    await expect(row(page, "This dashboard’s queue")).to_contain_text("answers")
    main = row(page, "redis://ann:***@127.0.0.1:1/0")
    await expect(main).to_contain_text("does not answer")
    await expect(main).to_contain_text("cannot be reached")
    members = row(page, "orders").get_by_role("listitem")
    await expect(members).to_have_count(2)
    await expect(members.nth(0)).to_contain_text("main")
    await expect(members.nth(0)).to_contain_text("does not answer")
    await expect(members.nth(0)).not_to_contain_text("in use")
    await expect(row(page, "orders")).to_contain_text("answers in part")
    await expect(members.nth(1)).to_contain_text("spare")
    await expect(members.nth(1)).to_contain_text(re.compile(r"in use\s*for"))
    await expect(page.locator("body")).not_to_contain_text("hunter2")
    await shoot(page, "settings-connections")
    assert await barriers(page) == []
    await page.set_viewport_size(NARROW)
    assert await page.evaluate(WIDE) <= 0

    kue.configure(main="memory://", bulk={"url": "memory://", "prefix": "reports"})
    await press(panel(page), "Check again")
    await expect(panel(page)).not_to_contain_text("does not answer")
    await expect(row(page, "bulk")).to_contain_text("prefix reports")
    await asyncio.to_thread(orders.sync.close)


async def test_without_connections_the_panel_says_how_to_define_one(
    page: Page, address: str
) -> None:
    await opened(page, f"{address}/settings")

    empty = panel(page).get_by_role("heading", name="No named connections")
    await expect(empty).to_be_visible()
    await expect(panel(page)).to_contain_text("kue.configure(mail=…)")
    await expect(panel(page)).to_contain_text("Queues and connections")
    await expect(row(page, "This dashboard’s queue")).to_contain_text("answers")
    await shoot(page, "settings-no-connections")


async def test_only_admins_see_connections(
    page: Page, serve: Callable[..., str]
) -> None:
    await opened(page, f"{serve(guard=Anyone(Role.OPERATOR))}/settings")

    await expect(page.get_by_role("heading", name="Alerts")).to_be_visible()
    await expect(panel(page)).to_have_count(0)
