"""What keeps someone from using a page: nothing that axe-core calls serious."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from kue import Kue
from kue.http import AccountGuard, create_app
from kue.http.auth.access import Anyone
from tests.browser.busy import PAUSED, Made, keep_busy
from tests.browser.finding import opened, press
from tests.browser.serving import served
from tests.browser.watching import NARROW, Watch, barriers

#: Every page; in braces, jobs that `keep_busy` made.
PAGES = ["/", "/queues", f"/queues/{PAUSED}", "/queues/webhook", "/jobs"]
PAGES += ["/jobs?state=failed&tag=north", "/jobs/{failed}", "/jobs/{running}"]
PAGES += ["/jobs/{delayed}", "/jobs/999999", "/errors", "/workers", "/metrics"]
PAGES += ["/metrics?type=email&type=report", "/audit", "/settings", "/api", "/nothing"]
PAGES += ["/bus", "/schedules", "/schedules/nightly%20report", "/schedules/gone"]
PAGES += ["/limits", "/limits/stripe", "/limits/gone", "/batches", "/flows/{flow}"]
#: Where a dialog is opened, and by which button.
DIALOGS = {
    "/queues": ["Pause email", "Limits of email", "Clear email"],
    "/queues/email": ["Add job"],
    "/jobs": ["Add job"],
    "/schedules": [
        "New schedule",
        "Edit: nightly report",
        "Remove: sync stock",
    ],
    "/limits": ["New limit", "Edit: stripe", "Delete: bank"],
    "/workers": ["Quiet press-1", "Stop press-1"],
    "/settings": ["Add a user", "Create a token"],
    "/": ["Show keyboard shortcuts"],
}


class Shop(NamedTuple):
    """A server that only answers questions here, and so may be shared."""

    address: str
    made: Made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    url = f"sqlite:///{tmp_path_factory.mktemp('shop')}/kue.db"
    async with Kue(url) as q:
        made = await keep_busy(q)
    with served(url, lambda q: create_app(q, guard=Anyone())) as address:
        yield Shop(address, made)


async def look(page: Page, what: str) -> None:
    """See that there is no barrier; in the dark, only colours are others."""
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    assert await barriers(page) == [], what
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert await barriers(page, "color-contrast") == [], f"{what}, dark"


@pytest.mark.parametrize("path", PAGES)
async def test_no_page_keeps_anyone_out(
    page: Page, shop: Shop, path: str, watch: Watch
) -> None:
    watch.allow("404")

    await opened(page, shop.address + path.format(**shop.made._asdict()))

    await look(page, path)


async def test_the_login_keeps_nobody_out_but_strangers(
    page: Page, serve: Callable[..., str]
) -> None:
    address = serve(lambda q: create_app(q, guard=AccountGuard(q), badge="Production"))

    await opened(page, f"{address}/login")

    await look(page, "/login")


@pytest.mark.parametrize("path", DIALOGS)
async def test_no_dialog_keeps_anyone_out(page: Page, shop: Shop, path: str) -> None:
    await opened(page, shop.address + path)

    for button in DIALOGS[path]:
        await press(page, button)
        await expect(page.get_by_role("dialog")).to_be_visible()
        await look(page, button)
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_the_palette_keeps_nobody_out(page: Page, address: str) -> None:
    await opened(page, address)

    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("option").first).to_be_visible()

    await look(page, "the palette")


async def test_an_empty_dashboard_keeps_nobody_out(page: Page, address: str) -> None:
    for path in (
        "/",
        "/queues",
        "/jobs",
        "/errors",
        "/schedules",
        "/limits",
        "/batches",
        "/workers",
        "/metrics",
    ):
        await opened(page, address + path)
        await look(page, path)


async def test_charts_read_as_tables_keep_nobody_out(page: Page, shop: Shop) -> None:
    await opened(page, f"{shop.address}/metrics")

    for one in await page.get_by_text("As a table").all():
        await one.click()

    await look(page, "tables")


async def test_narrow_pages_keep_nobody_out(page: Page, shop: Shop) -> None:
    await page.set_viewport_size(NARROW)

    wide = ("/", "/queues", "/jobs", "/schedules", "/limits", "/batches", "/workers")
    for path in (*wide, f"/flows/{shop.made.flow}"):
        await opened(page, shop.address + path)
        assert await barriers(page) == [], path
