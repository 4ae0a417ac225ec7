"""What every page has around it: ways to go, keys, the theme, and the stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, Request, Route, expect
from starlette.applications import Starlette
from starlette.routing import Mount

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from tests.browser.finding import hold, is_live, opened, row
from tests.browser.watching import Watch
from tests.support.jobs import add_many
from tests.support.patience import until
from tests.support.servers import RedisServer

PAGES = {
    "Overview": "/",
    "Queues": "/queues",
    "Jobs": "/jobs",
    "Errors": "/errors",
    "Schedules": "/schedules",
    "Limits": "/limits",
    "Workers": "/workers",
    "Bus": "/bus",
    "Metrics": "/metrics",
    "Audit": "/audit",
    "Settings": "/settings",
    "API": "/api",
}
KEYS = {"o": "/", "q": "/queues", "j": "/jobs", "e": "/errors", "w": "/workers"}
KEYS |= {"c": "/schedules", "l": "/limits"}
KEYS |= {"b": "/bus", "m": "/metrics", "a": "/audit", "s": "/settings", "i": "/api"}
#: Makes the tab say that it is hidden, as it does behind another one.
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", {get: () => hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def background(page: Page) -> str:
    style = "getComputedStyle(document.body).backgroundColor"
    return str(await page.evaluate(style))


async def test_a_first_visit_makes_at_most_15_requests(
    context: BrowserContext, address: str
) -> None:
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    page = await context.new_page()

    await opened(page, address)
    await is_live(page)

    assert len(requests) <= 15
    # It is preloaded, and not asked for a second time.
    assert requests.count(f"{address}/api/v1/me") == 1


# -- ways to go ----------------------------------------------------------------


async def test_links_lead_to_every_page_without_loading_it_anew(
    page: Page, address: str
) -> None:
    await opened(page, address)
    await page.evaluate("window.isTheSame = true")
    menu = page.get_by_role("navigation", name="Dashboard")

    for name, path in reversed(PAGES.items()):
        await menu.get_by_role("link", name=name, exact=True).click()
        await expect(page).to_have_url(f"{address}{path}")
        await page.wait_for_selector("main[data-ready]")
        here = menu.locator("[aria-current=page]")
        await expect(here).to_have_text(name)
        await expect(page.locator("main h1")).not_to_be_empty()

    assert await page.evaluate("window.isTheSame")


async def test_going_back_shows_the_page_before(page: Page, address: str) -> None:
    await opened(page, f"{address}/queues")
    await page.get_by_role("link", name="Workers").click()
    await expect(page.locator("h1")).to_have_text("Workers")

    await page.go_back()

    await expect(page.locator("h1")).to_have_text("Queues")
    assert await page.title() == "Queues · Kue"


async def test_a_new_page_has_the_focus_and_no_mark_until_it_is_ready(
    page: Page, address: str
) -> None:
    await opened(page, address)
    let_go = await held_back(page, "**/api/v1/workers*")

    await page.get_by_role("link", name="Workers", exact=True).first.click()
    await expect(page.locator("h1")).to_have_text("Workers")
    await expect(page.locator("main")).to_be_focused()
    await expect(page.locator("main[data-ready]")).to_have_count(0)
    let_go()

    await expect(page.locator("main[data-ready]")).to_have_count(1)


async def held_back(page: Page, pattern: str) -> Callable[[], None]:
    """Answer what matches only once the returned function was called."""
    may_go = asyncio.Event()

    async def wait(route: Route) -> None:
        await may_go.wait()
        await route.continue_()

    await page.route(pattern, wait)
    return may_go.set


async def test_the_skip_link_leads_past_the_navigation(
    page: Page, address: str
) -> None:
    await opened(page, address)

    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")

    await expect(page.locator("main")).to_be_focused()
    await expect(page.locator("h1")).to_have_text("Overview")


async def test_a_page_that_is_none_says_so(
    page: Page, address: str, watch: Watch
) -> None:
    watch.allow("404")
    await opened(page, f"{address}/nothing/<b>here</b>")

    await expect(page.locator("h1")).to_have_text("Page not found")
    await expect(page.locator("main code")).to_contain_text("/nothing/")
    await page.locator("main").get_by_role("link", name="Overview").click()

    await expect(page).to_have_url(f"{address}/")


async def test_it_works_below_a_prefix(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    def mounted(q: Kue) -> Starlette:
        app = create_app(q, guard=Anyone())
        outer = Starlette(routes=[Mount("/ops/kue", app)])
        outer.state.live = app.state.live
        return outer

    address = f"{serve(mounted)}/ops/kue"
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")
    await is_live(page)

    await page.get_by_role("link", name="Jobs", exact=True).click()
    await expect(page).to_have_url(f"{address}/jobs")
    rows = page.get_by_role("row").filter(has_text="email")
    await expect(rows).to_have_count(1)
    await q.enqueue("email")

    await expect(rows).to_have_count(2)


# -- keys ----------------------------------------------------------------------


async def test_g_and_a_letter_go_to_every_page(page: Page, address: str) -> None:
    await opened(page, f"{address}/jobs")

    for key, path in KEYS.items():
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page).to_have_url(f"{address}{path}")


async def test_letters_that_are_typed_are_no_keys(page: Page, address: str) -> None:
    await opened(page, f"{address}/api")

    await page.keyboard.press("/")
    await page.keyboard.type("gj?")

    await expect(page.get_by_label("Find an operation")).to_have_value("gj?")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page).to_have_url(f"{address}/api")


async def test_the_keys_are_shown_by_a_key(page: Page, address: str) -> None:
    await opened(page, f"{address}/queues")

    await page.keyboard.press("?")

    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(dialog).to_contain_text("Go to Workers")
    await expect(dialog).to_contain_text("Pause or resume the queue")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_j_k_and_enter_walk_through_rows(
    page: Page, address: str, q: Kue
) -> None:
    for type in ("a", "b", "c"):
        await q.enqueue(type)
    await opened(page, f"{address}/queues")

    for key in ("j", "j", "j", "k"):
        await page.keyboard.press(key)
    await expect(page.locator("tr.current")).to_contain_text("b")
    await page.keyboard.press("Enter")

    await expect(page).to_have_url(f"{address}/queues/b")


# -- the palette ---------------------------------------------------------------


async def test_the_palette_finds_pages_queues_and_jobs(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("email/welcome")
    await opened(page, address)
    wanted = [
        ("work", "Workers", f"{address}/workers"),
        # What was found in the store comes later than the offer to look into jobs.
        ("welcome", "email/welcome", f"{address}/queues/email%2Fwelcome"),
        (f"#{job.id}", f"Job {job.id}", f"{address}/jobs/{job.id}"),
    ]

    for text, found, url in wanted:
        await page.keyboard.press("Control+k")
        palette = page.get_by_role("dialog", name="Command palette")
        await page.get_by_role("combobox").fill(text)
        chosen = palette.get_by_role("option", selected=True)
        await expect(chosen).to_contain_text(found)
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(url)
        await expect(palette).to_have_count(0)


async def test_the_palette_opens_again_right_after_it_was_closed(
    page: Page, address: str
) -> None:
    """Its element outlives it by a moment."""
    await opened(page, address)
    await page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    await expect(palette).to_be_visible()

    await page.evaluate("""() => {
        document.querySelector("dialog.palette").close();
        const options = { key: "k", ctrlKey: true, bubbles: true };
        document.body.dispatchEvent(new KeyboardEvent("keydown", options));
    }""")

    await expect(palette).to_be_visible()


async def test_the_palette_is_walked_through_with_arrows(
    page: Page, address: str
) -> None:
    await opened(page, address)
    await page.get_by_role("button", name="Search").click()
    options = page.get_by_role("option")
    await expect(options.nth(0)).to_have_attribute("aria-selected", "true")

    await page.keyboard.press("ArrowDown")
    await expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowUp")

    await expect(options.last).to_have_attribute("aria-selected", "true")
    await page.get_by_role("combobox").fill("nothing is called this")
    await expect(options).to_have_count(1)
    await expect(options).to_contain_text("in their data")


async def test_queues_that_come_late_leave_the_chosen_command_chosen(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, address)
    release = await hold(page, "**/api/v1/queues")
    await page.keyboard.press("Control+k")
    await page.keyboard.press("ArrowUp")
    selected = page.get_by_role("option", selected=True)
    label = await selected.text_content() or ""
    release.set()

    await expect(page.get_by_role("option", name="email")).to_be_visible()
    await expect(selected).to_have_text(label)


async def test_the_palette_does_what_the_page_can(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")

    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("limits")
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("dialog", name="Limits of email")).to_be_visible()


async def test_a_text_in_the_palette_searches_jobs(page: Page, address: str) -> None:
    await opened(page, address)

    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("ann & bob")
    await page.get_by_role("option", name="Jobs with “ann & bob”").click()

    await expect(page).to_have_url(f"{address}/jobs?text=ann%20%26%20bob")


# -- the theme -----------------------------------------------------------------


async def test_the_theme_is_the_systems_until_another_is_chosen_and_kept(
    page: Page, address: str
) -> None:
    await page.emulate_media(color_scheme="dark")
    await opened(page, address)
    dark = await background(page)
    button = page.get_by_role("button", name="Theme:")
    await expect(button).to_have_accessible_name("Theme: system")

    await button.click()
    await expect(button).to_have_accessible_name("Theme: light")
    light = await background(page)
    assert light != dark
    await page.reload()
    await expect(button).to_have_accessible_name("Theme: light")
    assert await background(page) == light

    await button.click()
    assert await background(page) == dark
    await button.click()
    await expect(button).to_have_accessible_name("Theme: system")


async def test_settings_choose_the_theme_too(page: Page, address: str) -> None:
    await opened(page, f"{address}/settings")

    themes = page.get_by_role("group", name="Theme")
    await themes.get_by_role("button", name="Dark").click()

    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    pressed = themes.get_by_role("button", pressed=True)
    await expect(pressed).to_have_text("Dark")
    # The sign beside the navigation says the same.
    sign = page.get_by_role("banner").get_by_role("button", name="Theme:")
    await expect(sign).to_have_accessible_name("Theme: dark")


# -- live ----------------------------------------------------------------------


class Streams:
    """Counts the streams of events that a page opens."""

    def __init__(self, page: Page) -> None:
        self.opened = 0
        self.closed = 0
        page.on("request", self._begin)
        page.on("requestfailed", self._end)
        page.on("requestfinished", self._end)

    def _begin(self, request: Request) -> None:
        self.opened += request.url.endswith("/events")

    def _end(self, request: Request) -> None:
        self.closed += request.url.endswith("/events")


async def test_a_tab_has_one_stream_however_many_pages_it_shows(
    page: Page, address: str
) -> None:
    streams = Streams(page)
    await opened(page, address)
    await is_live(page)

    for key in KEYS:
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await page.wait_for_selector("main[data-ready]")

    assert (streams.opened, streams.closed) == (1, 0)


async def test_a_hidden_tab_has_no_stream_and_catches_up_when_it_is_back(
    page: Page, address: str, q: Kue
) -> None:
    streams = Streams(page)
    await opened(page, f"{address}/queues")
    await is_live(page)

    await page.evaluate(HIDE, True)
    await until(lambda: streams.closed == 1)
    await q.enqueue("email")
    assert await row(page, "email").count() == 0
    await page.evaluate(HIDE, False)

    await expect(row(page, "email")).to_have_count(1)
    assert streams.opened == 2


async def test_what_is_shown_can_be_held_and_goes_on(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, f"{address}/queues")
    await is_live(page)

    await page.keyboard.press("p")
    held = page.get_by_role("button", name="Paused:")
    await expect(held).to_be_visible()
    await q.enqueue("email")
    assert await row(page, "email").count() == 0
    await held.click()

    await is_live(page)
    await expect(row(page, "email")).to_have_count(1)


async def test_without_a_stream_pages_are_read_every_few_seconds(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("events")
    await page.route("**/api/v1/events", lambda route: route.fulfill(status=403))
    await opened(page, f"{address}/queues")
    await expect(page.get_by_role("button", name="Polling:")).to_be_visible()

    await q.enqueue("email")

    await expect(row(page, "email")).to_have_count(1)


class TestRedis:
    """What a store on its own can do, and a file cannot: go away."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[RedisServer]:
        server = RedisServer(tmp_path)
        yield server
        server.stop()

    @pytest.fixture
    def url(self, server: RedisServer) -> str:
        return server.url

    async def test_a_store_that_is_away_is_told_and_so_is_that_it_is_back(
        self, page: Page, address: str, server: RedisServer, watch: Watch
    ) -> None:
        watch.allow("50[023]")
        await opened(page, f"{address}/queues")
        await is_live(page)

        server.kill()
        away = page.get_by_role("button", name="No connection:")
        await expect(away).to_be_visible()
        server.restart()
        await is_live(page)
        async with Kue(server.url) as q:
            await q.enqueue("email")

        await expect(row(page, "email")).to_have_count(1)

    async def test_one_subscription_serves_many_tabs(
        self, context: BrowserContext, page: Page, address: str, server: RedisServer
    ) -> None:
        pages = [page, await context.new_page(), await context.new_page()]
        for one in pages:
            await opened(one, f"{address}/queues")
            await is_live(one)

        with server.client() as client:
            channels = client.execute_command("PUBSUB", "SHARDCHANNELS")
            counts = client.execute_command("PUBSUB", "SHARDNUMSUB", *channels)
        assert counts[1::2] == [1]
        async with Kue(server.url) as q:
            await add_many(q.store, 3, "email", now=await q.now())

        for one in pages:
            waiting = one.get_by_role("row").filter(has_text=re.compile("email.*3"))
            await expect(waiting).to_have_count(1)


async def test_a_server_that_does_not_answer_is_told_at_the_start(
    page: Page, address: str, watch: Watch
) -> None:
    watch.allow("/me")
    await page.route("**/api/v1/me", lambda route: route.abort())
    await page.goto(address)
    await expect(page.locator("h1")).to_have_text("No response")
    await page.unroute("**/api/v1/me")

    await page.get_by_role("button", name="Try again").click()

    await expect(page.locator("h1")).to_have_text("Overview")
