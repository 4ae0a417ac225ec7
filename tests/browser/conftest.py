"""
Chromium, and a server that it talks to.

One browser a test process, so these tests share one event loop; each has a context,
a page and a store of its own.  What the page does behind a test's back fails the test.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

from kue import Kue
from kue.http import create_app
from kue.http.access import Anyone
from tests.browser.chromium import launched
from tests.browser.serving import served, working
from tests.browser.watching import SIZE, Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from playwright.async_api import Browser, BrowserContext, Page
    from starlette.applications import Starlette

HERE = Path(__file__).parent
#: Milliseconds: the machine may do much else.
PATIENCE = 45_000
expect.set_options(timeout=PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marker = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(marker, append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser that has been nowhere yet."""
    context = await browser.new_context(viewport=SIZE)
    context.set_default_timeout(PATIENCE)
    yield context
    await context.close()


@pytest.fixture
def watch() -> Watch:
    """What goes wrong in the page; `Watch.allow` says what is meant to."""
    return Watch()


@pytest_asyncio.fixture(loop_scope="session")
async def page(
    context: BrowserContext, watch: Watch, serve: Callable[..., str]
) -> AsyncIterator[Page]:
    """A page that is closed before its server stops."""
    page = await context.new_page()
    await watch.attach(page)
    yield page
    # What the page was about to say, it has said by then.
    await page.close()
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


@pytest.fixture
def serve(url: str) -> Iterator[Callable[..., str]]:
    """Serve the application, or what ``make(q)`` returns; answer the address."""
    with ExitStack() as stack:

        def begin(
            make: Callable[[Kue], Starlette] | None = None, **options: Any
        ) -> str:
            def app(q: Kue) -> Starlette:
                return create_app(q, **{"guard": Anyone(), **options})

            return stack.enter_context(served(url, make or app))

        yield begin


@pytest.fixture
def address(serve: Callable[..., str]) -> str:
    """Where the application is served to someone who may do everything."""
    return serve()


@pytest.fixture
def worker(url: str) -> Callable[[], AbstractAsyncContextManager[None]]:
    """``async with worker():`` has a worker process run the jobs of `tasks`."""
    return lambda: working(url)
