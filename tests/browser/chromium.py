"""
Chromium, with nothing but what is asked for.

Debian packages it without a user interface as well, with the same engine; without tabs
and toolbars, which it draws even if nobody sees them, it takes half of the time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

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
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert path is not None, "there is no chromium in PATH; make setup gets it"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        await browser.close()
