"""Chromium, with nothing but what is asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright

ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    # Root may not have one.
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """Start the browser that is in PATH; after the body it is ended."""
    path = shutil.which("chromium")
    assert path is not None, "there is no chromium in PATH; make setup gets it"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        await browser.close()


async def fill_screen(page: Page) -> None:
    """
    Show nothing but *page*, whose size stays what it is.

    Chromium draws tabs and a toolbar even when it has no screen, again for each address
    that is opened.
    """
    tools = await page.context.new_cdp_session(page)
    window = await tools.send("Browser.getWindowForTarget")
    full = {"windowId": window["windowId"], "bounds": {"windowState": "fullscreen"}}
    await tools.send("Browser.setWindowBounds", full)
    await tools.detach()
