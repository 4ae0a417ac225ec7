"""
One page for many tests.

A page in a context of its own costs five times what a test does with it: a process is
started, and all modules are loaded and compiled again.
"""

from __future__ import annotations

from typing import NoReturn

from playwright.async_api import Browser, CDPSession, Page

from tests.browser.watching import SIZE, Watch
from tests.support.patience import PATIENCE_SECONDS

BLANK = "about:blank"
LEAVE = "(place) => void setTimeout(() => location.replace(place))"


class Window:
    """A page that remembers nothing of the test before."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.watch = Watch()
        self._page: Page | None = None
        self._tools: CDPSession | None = None

    async def open(self) -> Page:
        """Return a page that shows nothing."""
        if self._page is None:
            context = await self._browser.new_context(viewport=SIZE)
            context.set_default_timeout(PATIENCE_SECONDS * 1000)
            self._page = await context.new_page()
            self._tools = await context.new_cdp_session(self._page)
            await self.watch.attach(self._page)
            _keep_clean(self._page)
        return self._page

    async def empty(self) -> None:
        """Leave what is shown, and forget everything but the files of the dashboard."""
        page, tools = self._page, self._tools
        assert page is not None
        assert tools is not None
        await page.unroute_all()
        if page.url != BLANK:
            # Not by `goto`: for an address that is typed, there is another process.
            await page.evaluate(LEAVE, BLANK)
            await page.wait_for_url(BLANK)
        await page.context.clear_cookies()
        everything = {"origin": "*", "storageTypes": "all"}
        await tools.send("Storage.clearDataForOrigin", everything)
        await tools.send("Page.resetNavigationHistory")
        await page.emulate_media(color_scheme="null", reduced_motion="null")
        await page.set_viewport_size(SIZE)
        await page.mouse.move(0, 0)

    async def close(self) -> None:
        """Let the next test have another page."""
        if self._page is not None:
            await self._page.context.close()
        self._page = None


def _keep_clean(page: Page) -> None:
    """Refuse what stays in a page for as long as it lives."""

    def refuse(*given: object) -> NoReturn:
        raise AssertionError("this needs a page of its own: use the fixture `context`")

    for name in ("add_init_script", "expose_binding", "expose_function"):
        setattr(page, name, refuse)
    setattr(page.clock, "install", refuse)  # noqa: B010 - mypy forbids the assignment
