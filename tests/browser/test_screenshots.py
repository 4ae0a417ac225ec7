"""Pictures of every page, in every look, with something on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.async_api import Page
from starlette.applications import Starlette

from kue import Kue
from kue.http import AccountGuard, create_app
from kue.http.auth import Role
from tests.browser.busy import keep_busy
from tests.browser.watching import NARROW, SIZE, Watch, shoot
from tests.http.accounts import CHEAP, PASSWORD

WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def guarded(q: Kue) -> Starlette:
    return create_app(q, guard=AccountGuard(q, hasher=CHEAP), badge="Production")


@pytest.mark.long
async def test_every_page_has_its_picture_and_none_scrolls_sideways(
    page: Page, serve: Callable[..., str], q: Kue, watch: Watch
) -> None:
    watch.allow("401")
    made = await keep_busy(q)
    await AccountGuard(q, hasher=CHEAP).users.add("ann", PASSWORD, Role.ADMIN)
    address = serve(guarded)
    await page.goto(f"{address}/login")
    await page.wait_for_selector("main[data-ready]")
    await shoot(page, "login")
    await page.get_by_label("Name").fill("ann")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_selector("nav")
    pages = {
        "overview": "/",
        "queues": "/queues",
        "queue": "/queues/webhook",
        "jobs": "/jobs",
        "jobs-failed": "/jobs?state=failed",
        "job-failed": f"/jobs/{made.failed}",
        "job-running": f"/jobs/{made.running}",
        "job-delayed": f"/jobs/{made.delayed}",
        "errors": "/errors",
        "schedules": "/schedules",
        "schedule": "/schedules/nightly%20report",
        "limits": "/limits",
        "limit": "/limits/calls%20of%20a%20customer",
        "job-held": f"/jobs/{made.held}",
        "batches": "/batches",
        "flow": f"/flows/{made.flow}",
        "workers": "/workers",
        "bus": "/bus",
        "metrics": "/metrics",
        "metrics-by-queue": "/metrics?type=email&type=invoice&type=webhook",
        "audit": "/audit",
        "settings": "/settings",
        "api": "/api",
        "missing": "/nothing",
    }
    for name, path in pages.items():
        if name == "missing":
            watch.allow("404")
        await page.goto(address + path)
        await page.wait_for_selector("main[data-ready]")
        await shoot(page, name)
        await page.set_viewport_size(NARROW)
        assert await page.evaluate(WIDE) <= 0, f"{path} scrolls sideways"
        await page.set_viewport_size(SIZE)
