"""What keeps someone from using a page: nothing that axe-core calls serious."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from playwright.async_api import expect

from kue.accounts import Role
from kue.http import Accounts, create_app
from tests.browser.busy import PAUSED, keep_busy
from tests.browser.finding import opened, press
from tests.browser.watching import NARROW, SIZE, barriers
from tests.http.accounts import CHEAP, PASSWORD

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.async_api import Page
    from starlette.applications import Starlette

    from kue import Kue
    from tests.browser.watching import Watch

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

#: Where a dialog is opened, and by which button.
DIALOGS = {
    "/queues": ["Pause email", "Limits of email", "Clear email"],
    "/queues/email": ["Add job"],
    "/jobs": ["Add job"],
    "/workers": ["Quiet press-1", "Stop press-1"],
    "/settings": ["Add a person", "Make a token"],
    "/": ["Show the keys"],
}


def guarded(q: Kue) -> Starlette:
    return create_app(q, guard=Accounts(q, hasher=CHEAP), badge="Production")


async def look(page: Page, what: str) -> None:
    """See that there is no barrier in either scheme."""
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert await barriers(page) == [], f"{what}, {scheme}"


async def test_no_page_keeps_anyone_out(
    page: Page, serve: Callable[..., str], q: Kue, watch: Watch
) -> None:
    watch.allow("401|404")
    made = await keep_busy(q)
    await Accounts(q, hasher=CHEAP).users.add("ann", PASSWORD, Role.ADMIN)
    address = serve(guarded)
    await opened(page, f"{address}/login")
    await look(page, "/login")
    await page.get_by_label("Name").fill("ann")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_selector("nav")

    paths = ["/", "/queues", f"/queues/{PAUSED}", "/queues/webhook", "/jobs"]
    paths += ["/jobs?state=failed&tag=north", f"/jobs/{made.failed}"]
    paths += [f"/jobs/{made.running}", f"/jobs/{made.delayed}", "/jobs/999999"]
    paths += ["/errors", "/workers", "/metrics", "/metrics?type=email&type=report"]
    for path in [*paths, "/audit", "/settings", "/api", "/nothing"]:
        await opened(page, address + path)
        await look(page, path)


async def test_no_dialog_keeps_anyone_out(page: Page, address: str, q: Kue) -> None:
    await keep_busy(q)

    for path, buttons in DIALOGS.items():
        await opened(page, address + path)
        for button in buttons:
            await press(page, button)
            await expect(page.get_by_role("dialog")).to_be_visible()
            await look(page, f"{path}, {button}")
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("option").first).to_be_visible()
    await look(page, "the palette")


async def test_an_empty_dashboard_keeps_nobody_out(page: Page, address: str) -> None:
    for path in ("/", "/queues", "/jobs", "/errors", "/workers", "/metrics"):
        await opened(page, address + path)
        await look(page, path)


async def test_charts_read_as_tables_keep_nobody_out(
    page: Page, address: str, q: Kue
) -> None:
    await keep_busy(q)
    await opened(page, f"{address}/metrics")

    for one in await page.get_by_text("As a table").all():
        await one.click()

    await look(page, "tables")


@pytest.mark.parametrize("path", ["/", "/queues", "/jobs", "/workers", "/metrics"])
async def test_a_narrow_page_keeps_nobody_out(
    page: Page, address: str, q: Kue, path: str
) -> None:
    await keep_busy(q)
    await page.set_viewport_size(NARROW)

    await opened(page, address + path)

    await look(page, path)
    await page.set_viewport_size(SIZE)
