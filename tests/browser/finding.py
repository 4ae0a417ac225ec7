"""Ways to what a page shows."""

from __future__ import annotations

import asyncio

from playwright.async_api import Locator, Page, Route, expect


async def opened(page: Page, url: str) -> None:
    """Go to *url* and wait until it shows what it first asked for."""
    await page.goto(url)
    await page.wait_for_selector("main[data-ready]")


async def hold(page: Page, pattern: str) -> asyncio.Event:
    """Let requests that match wait for the event that is returned."""
    release = asyncio.Event()

    async def answer_late(route: Route) -> None:
        await release.wait()
        await route.continue_()

    await page.route(pattern, answer_late)
    return release


async def is_live(page: Page) -> None:
    """Wait until the page is told what happens."""
    await expect(page.get_by_role("button", name="Live:")).to_be_visible()


def tile(page: Page, name: str) -> Locator:
    """Return a number that is to be seen from afar."""
    return page.get_by_role("region", name=name, exact=True)


def row(page: Page, text: str) -> Locator:
    """Return the row with a link that is called *text*."""
    link = page.get_by_role("link", name=text, exact=True)
    return page.get_by_role("row").filter(has=link)


def dialog(page: Page, name: str) -> Locator:
    return page.get_by_role("dialog", name=name)


def told(page: Page, text: str) -> Locator:
    """Return the message in the corner that says *text*."""
    return page.locator(".toast").filter(has_text=text)


async def press(where: Page | Locator, name: str) -> None:
    """Press the button that is called *name*, and nothing else."""
    await where.get_by_role("button", name=name, exact=True).click()
