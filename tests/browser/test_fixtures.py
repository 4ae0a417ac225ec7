"""What the browser tests stand on: a real page, a real server, and nothing unseen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from operator import attrgetter
from pathlib import Path

import pytest
from playwright.async_api import Page
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from kue import Kue
from kue.http.security.headers import SecurityHeaders
from tests.browser.watching import NARROW, Watch, barriers, shoot
from tests.browser.window import Window
from tests.support.patience import PATIENCE_SECONDS, until

#: Without the link, browsers ask for a picture that is not there.
PLAIN = (
    "<!doctype html><html lang=en><title>Kue</title><link rel=icon href='data:,'>"
    "<main><h1>Jobs</h1></main>"
)


def page_of(html: str, **headers: str) -> Callable[[Kue], Starlette]:
    """Return what makes an application of one page, under our policy."""

    async def show(request: Request) -> Response:
        return HTMLResponse(html, headers=headers)

    return lambda q: Starlette(
        routes=[Route("/", show)], middleware=[Middleware(SecurityHeaders)]
    )


def kinds(watch: Watch) -> set[str]:
    return {one.partition(":")[0] for one in watch.wrong}


async def test_a_page_hears_of_a_job_that_another_process_added(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("favicon.ico")
    await page.goto(f"{address}/api/v1/openapi.json")
    await page.evaluate(
        """() => new Promise((resolve) => {
          const source = new EventSource("/api/v1/events");
          window.heard = new Promise((heard) => {
            source.onmessage = (event) => heard(JSON.parse(event.data));
          });
          source.addEventListener("store", resolve);
        })"""
    )

    job = await q.enqueue("email")

    told = await page.evaluate("window.heard")
    assert (told["kind"], told["job_id"]) == ("enqueue", job.id)


KEEP = """() => {
  document.cookie = "kept=1";
  for (const kept of [localStorage, sessionStorage]) kept.setItem("kept", "1");
}"""
KEPT = """() => [
  document.cookie, localStorage.length, sessionStorage.length, history.length,
  innerWidth, matchMedia("(prefers-color-scheme: dark)").matches,
]"""


async def test_a_page_that_is_emptied_remembers_nothing(
    page: Page, serve: Callable[..., str], window: Window
) -> None:
    address = serve(page_of(PLAIN))
    await page.goto(address)
    fresh = await page.evaluate(KEPT)
    await page.goto(f"{address}/?again")
    await page.route("**", lambda route: route.abort())
    await page.evaluate(KEEP)
    await page.emulate_media(color_scheme="dark")
    await page.set_viewport_size(NARROW)
    assert await page.evaluate(KEPT) != fresh

    await window.empty()

    assert page.url == "about:blank"
    await page.goto(address)
    assert await page.evaluate(KEPT) == fresh


async def test_what_would_stay_needs_a_page_of_its_own(page: Page) -> None:
    for name in ("clock.install", "add_init_script", "expose_function"):
        stays = attrgetter(name)(page)
        with pytest.raises(AssertionError, match="fixture `context`"):
            await stays()


async def test_a_worker_process_runs_jobs(
    q: Kue, worker: Callable[[], AbstractAsyncContextManager[None]]
) -> None:
    job = await q.enqueue("email", {"to": "ann"})

    async with worker():
        assert await job.result(timeout=PATIENCE_SECONDS) == "sent to ann"


async def test_what_the_policy_forbids_is_noticed(
    page: Page, serve: Callable[..., str], watch: Watch
) -> None:
    await page.goto(serve(page_of(f"{PLAIN}<script>window.done = true</script>")))

    await until(lambda: kinds(watch) == {"console", "policy"})
    watch.allow("script-src|inline script")

    assert await page.evaluate("window.done") is None


async def test_errors_and_requests_that_fail_are_noticed(
    page: Page, serve: Callable[..., str], watch: Watch
) -> None:
    script = "<script>fetch('http://127.0.0.1:1/'); throw Error('oops')</script>"
    open_policy = {"Content-Security-Policy": "default-src * data: 'unsafe-inline'"}
    await page.goto(serve(page_of(PLAIN + script, **open_policy)))

    await until(lambda: kinds(watch) == {"console", "page", "request"})
    watch.allow("oops|127.0.0.1:1|Failed to fetch")


async def test_barriers_are_found_under_our_policy(
    page: Page, serve: Callable[..., str]
) -> None:
    await page.goto(serve(page_of(PLAIN)))
    assert await barriers(page) == []

    await page.evaluate(
        "document.querySelector('main').append(document.createElement('button'))"
    )

    [barrier] = await barriers(page)
    assert barrier.startswith("button-name: ")


async def test_pictures_are_light_dark_and_narrow(
    page: Page,
    serve: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUE_SCREENSHOTS", str(tmp_path / "pictures"))
    await page.goto(serve(page_of(PLAIN)))

    taken = await shoot(page, "plain")

    names = ["plain-light.png", "plain-dark.png", "plain-narrow.png"]
    assert [path.name for path in taken] == names
    assert all(path.stat().st_size for path in taken)
    assert page.viewport_size == {"width": 1280, "height": 800}


async def test_pictures_are_taken_only_for_somebody(
    page: Page, serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUE_SCREENSHOTS", raising=False)
    await page.goto(serve(page_of(PLAIN)))

    assert await shoot(page, "plain") == []
