"""
Chromium, and a server that it talks to.

One browser a test process, so these tests share one event loop; each has a store of
its own, and a page that was emptied, or one in a `context` of its own if it asks for
that.  What the page does behind a test's back fails the test.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect
from starlette.applications import Starlette

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from tests.browser.chromium import launched
from tests.browser.serving import listening, served, working
from tests.browser.watching import SIZE, Watch
from tests.browser.window import Window
from tests.support.patience import PATIENCE_SECONDS

HERE = Path(__file__).parent
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marker = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if item.path.parent == HERE and pytest_asyncio.is_async_test(item):
            item.add_marker(marker, append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser that has been nowhere yet."""
    context = await browser.new_context(viewport=SIZE)
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    yield context
    await context.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def window(browser: Browser) -> AsyncIterator[Window]:
    window = Window(browser)
    yield window
    await window.close()


@pytest.fixture
def watch(window: Window) -> Watch:
    """What goes wrong in the page; `Watch.allow` says what is meant to."""
    window.watch.begin()
    return window.watch


@pytest.fixture
def own_context(request: pytest.FixtureRequest) -> BrowserContext | None:
    """The `context`, if the test asks for it."""
    if "context" not in request.fixturenames:
        return None
    context: BrowserContext = request.getfixturevalue("context")
    return context


@pytest_asyncio.fixture(loop_scope="session")
async def page(
    request: pytest.FixtureRequest,
    own_context: BrowserContext | None,
    window: Window,
    watch: Watch,
    serve: Callable[..., str],
) -> AsyncIterator[Page]:
    """A page that is left before its server stops."""
    if own_context is not None:
        page = await own_context.new_page()
        await watch.attach(page)
        yield page
        # What the page was about to say, it has said by then.
        await page.close()
    else:
        failed = request.session.testsfailed
        yield await window.open()
        # Who knows what a test that failed left behind.
        if request.session.testsfailed > failed:
            await window.close()
        else:
            await window.empty()
    assert watch.wrong == []


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the jobs of a test are kept."""
    return f"sqlite:///{tmp_path}/kue.db"


@pytest_asyncio.fixture(loop_scope="session")
async def q(url: str) -> AsyncIterator[Kue]:
    """The queue as a program beside the server has it."""
    async with Kue(url) as q:
        yield q


@pytest.fixture(scope="session")
def listener() -> Iterator[socket.socket]:
    """Where the servers of all tests listen, one after the other: files are cached."""
    with listening() as listener:
        yield listener


@pytest.fixture
def serve(url: str, listener: socket.socket) -> Iterator[Callable[..., str]]:
    """Serve the application, or what ``make(q)`` returns; answer the address."""
    with ExitStack() as stack:

        def begin(
            make: Callable[[Kue], Starlette] | None = None, **options: Any
        ) -> str:
            def app(q: Kue) -> Starlette:
                return create_app(q, **{"guard": Anyone(), **options})

            return stack.enter_context(served(url, make or app, listener))

        yield begin


@pytest.fixture
def address(serve: Callable[..., str]) -> str:
    """Where the application is served to someone who may do everything."""
    return serve()


@pytest.fixture
def worker(url: str) -> Callable[[], AbstractAsyncContextManager[None]]:
    """``async with worker():`` has a worker process run the jobs of `tasks`."""
    return lambda: working(url)
