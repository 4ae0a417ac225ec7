"""What a page shows while its server, or the store behind it, does not answer."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable

import pytest
from playwright.async_api import Locator, Page, expect
from starlette.applications import Starlette

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.model.job import State
from kue.store.values import RenewRequest
from tests.browser.finding import is_live, opened, told
from tests.browser.serving import listening, served
from tests.browser.watching import Watch
from tests.support.jobs import HOUR, job_in

GREY = "node => getComputedStyle(node).filter"


def banner(page: Page) -> Locator:
    return page.get_by_role("alert").filter(has_text="Connection lost")


def open_app(q: Kue) -> Starlette:
    """Return the application for everyone."""
    return create_app(q, guard=Anyone())


async def make_healthy(q: Kue) -> None:
    """Have a worker and a complete job, so that the overview has nothing to warn of."""
    await q.store.renew(RenewRequest("w1", lease=HOUR, info={"slots": {"email": 1}}))
    await job_in(q.store, State.COMPLETE, now=await q.now())


async def test_designer_1_a_stopped_server_is_reported_and_so_is_its_return(
    page: Page, url: str, q: Kue, watch: Watch
) -> None:
    watch.allow("ERR_|50[0-9]")
    await make_healthy(q)
    verdict = page.locator(".verdict")
    with served(url, open_app) as address:
        await opened(page, address)
        await is_live(page)
        await expect(verdict).to_have_text("Healthy")

    await expect(banner(page)).to_contain_text(re.compile(r"from \d\d:\d\d:\d\d"))
    await expect(verdict).to_have_text(re.compile(r"No connection since \d\d:\d\d"))
    await expect(verdict).to_have_attribute("data-tone", "lost")
    assert "grayscale" in await page.locator("main .tiles").evaluate(GREY)
    # One notice is enough: nothing piles up in the corner.
    await expect(told(page, "does not respond")).to_have_count(0)

    port = int(address.rpartition(":")[2])
    with listening(port) as again, served(url, open_app, again):
        await is_live(page)
        await expect(banner(page)).to_have_count(0)
        await expect(verdict).to_have_text("Healthy")
        assert "grayscale" not in await page.locator("main .tiles").evaluate(GREY)


@pytest.mark.long
async def test_designer_1_a_frozen_server_is_reported_on_every_page(
    page: Page, serve: Callable[..., str], watch: Watch
) -> None:
    watch.allow("ERR_")
    loops: list[asyncio.AbstractEventLoop] = []
    thaw = threading.Event()

    def make(q: Kue) -> Starlette:
        loops.append(asyncio.get_running_loop())
        return open_app(q)

    await opened(page, f"{serve(make)}/settings")
    await is_live(page)

    try:
        # The connection stays open, and nothing answers.
        loops[0].call_soon_threadsafe(thaw.wait)
        # Noticed by silence, which takes longer than a refused connection.
        await expect(banner(page)).to_be_visible()
    finally:
        thaw.set()

    await is_live(page)
    await expect(banner(page)).to_have_count(0)
