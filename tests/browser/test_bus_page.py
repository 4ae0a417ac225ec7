"""The event bus: who has joined it, what passes, and a message of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.async_api import Locator, Page, expect

from kue.http.auth import Role
from kue.http.auth.access import Anyone
from tests.browser.finding import opened, press, tile
from tests.browser.test_screenshots import WIDE
from tests.browser.watching import NARROW, barriers, shoot
from tests.support.node import Other
from tests.support.servers import RedisServer

EVIL = "<img src=x onerror=window.__xss=1>"


@pytest.fixture
def url(redis_server: RedisServer) -> str:
    redis_server.empty()
    return redis_server.url


@pytest.fixture
def other(url: str) -> Iterator[Other]:
    """A node beside the server."""
    other = Other(url, "kue")
    yield other
    other.close()


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def row(page: Page, table: str, text: str) -> Locator:
    return part(page, table).get_by_role("row").filter(has_text=text)


@pytest.mark.parametrize("url", ["memory://"])
async def test_without_redis_the_page_says_why_there_is_nothing(
    page: Page, address: str
) -> None:
    await opened(page, f"{address}/bus")

    await expect(page.get_by_role("heading", name="No event bus")).to_be_visible()
    await expect(page.get_by_text("meets in Redis")).to_be_visible()
    await expect(part(page, "Nodes").first).to_be_hidden()
    assert await barriers(page) == []


async def test_a_bus_that_nobody_joined_says_how_to(page: Page, address: str) -> None:
    await opened(page, f"{address}/bus")

    heading = page.get_by_role("heading", name="No process has joined the bus")
    await expect(heading).to_be_visible()
    await expect(tile(page, "Nodes").first).to_contain_text("0")


async def test_nodes_and_addresses_are_shown_as_things_happen(
    page: Page, address: str, other: Other
) -> None:
    await opened(page, f"{address}/bus")
    node = row(page, "Nodes of the bus", other.bus.node)
    await expect(node).to_contain_text("pid ")

    for _ in range(3):
        other.run(lambda: other.bus.request("greeter"))

    greeter = row(page, "Addresses of the bus", "greeter")
    await expect(greeter.locator("[data-label='Total']")).to_have_text("3 / 3")
    await expect(greeter.locator("[data-label='Replies']")).to_contain_text("ms")
    await expect(greeter.locator("[data-label='Consumers']")).to_have_text("1")
    await expect(tile(page, "Replies, p95")).to_contain_text("ms")
    await expect(tile(page, "Sent")).to_contain_text("3 in total")


async def test_addresses_are_found_by_typing(
    page: Page, address: str, other: Other
) -> None:
    await opened(page, f"{address}/bus")
    await expect(row(page, "Addresses of the bus", "deaf")).to_be_visible()

    await page.keyboard.press("/")
    await page.keyboard.type("GREET")

    await expect(row(page, "Addresses of the bus", "deaf")).to_have_count(0)
    await expect(row(page, "Addresses of the bus", "greeter")).to_be_visible()
    await expect(page).to_have_url(f"{address}/bus?text=GREET")
    await page.get_by_role("searchbox", name="Find an address").fill("nothing like it")
    await expect(page.get_by_text("No address contains this text.")).to_be_visible()


async def test_messages_are_shown_while_one_looks(
    page: Page, address: str, other: Other
) -> None:
    await opened(page, f"{address}/bus")
    messages = part(page, "Messages of the bus")
    await expect(messages).to_be_hidden()

    await press(page, "Watch")
    async with page.expect_response("**/bus/samples*"):
        pass
    said = messages.get_by_role("row").filter(has_text="news").first
    while not await said.is_visible():
        other.run(lambda: other.bus.publish("news", {"token": "s3cret", "n": EVIL}))
        await page.wait_for_timeout(50)

    await expect(said).to_contain_text("publish")
    await expect(said).to_contain_text('"token":"•••"')
    await expect(said).to_contain_text(EVIL)
    assert await page.evaluate("window.__xss") is None
    await press(page, "Stop")
    await expect(page.get_by_role("button", name="Watch", exact=True)).to_be_visible()
    await expect(said).to_be_visible()


async def test_a_request_shows_its_reply(
    page: Page, address: str, other: Other
) -> None:
    await opened(page, f"{address}/bus")
    form = part(page, "Send a message")

    await form.get_by_label("Address").fill("greeter")
    await form.get_by_label("Body").fill('{"name": "ann"}')
    await form.get_by_label("Headers").fill("lang: en")
    await press(form, "Send")

    await expect(form.get_by_role("status")).to_contain_text("Reply after")
    await expect(form.get_by_role("group", name="Reply")).to_contain_text("ann")
    await expect(form.get_by_role("status")).to_contain_text("from: other")


async def test_a_failure_is_shown_as_it_is(
    page: Page, address: str, other: Other
) -> None:
    await opened(page, f"{address}/bus")
    form = part(page, "Send a message")

    await press(page, "Send to broken")
    await expect(form.get_by_label("Address")).to_have_value("broken")
    await expect(form.get_by_label("Body")).to_be_focused()
    await press(form, "Send")
    outcome = form.get_by_role("status")
    await expect(outcome).to_contain_text("RECIPIENT_FAILURE, code 7: no room")

    await form.get_by_label("Address").fill("nobody")
    await press(form, "Send")
    await expect(outcome).to_contain_text("NO_HANDLERS: No handlers for address nobody")

    await form.get_by_label("Kind").select_option("send")
    await press(form, "Send")
    await expect(outcome).to_have_text("No consumers at this address.")


async def test_a_message_that_makes_no_sense_is_told_at_its_field(
    page: Page, address: str, other: Other
) -> None:
    await opened(page, f"{address}/bus")
    form = part(page, "Send a message")

    await press(form, "Send")
    await expect(form.get_by_text("Address is required")).to_be_visible()
    await form.get_by_label("Address").fill("news")
    await form.get_by_label("Body").fill("{")
    await press(form, "Send")
    await expect(form.get_by_text("invalid JSON")).to_be_visible()
    await form.get_by_label("Body").fill("")
    await form.get_by_label("Headers").fill("nothing")
    await press(form, "Send")
    await expect(form.get_by_text("write name: value")).to_be_visible()
    await form.get_by_label("Headers").fill("")
    await form.get_by_label("Kind").select_option("publish")
    await press(form, "Send")

    await expect(form.get_by_role("status")).to_have_text("Sent; 1 node has consumers.")
    assert other.hears(1) == [None]


async def test_who_may_only_look_is_offered_no_message(
    page: Page, serve: Callable[..., str], other: Other
) -> None:
    await opened(page, f"{serve(guard=Anyone(Role.OPERATOR))}/bus")

    await expect(row(page, "Addresses of the bus", "greeter")).to_be_visible()
    await expect(page.get_by_role("button", name="Send to greeter")).to_have_count(0)
    await expect(part(page, "Send a message")).to_have_count(0)


async def test_hostile_names_stay_text(page: Page, address: str, other: Other) -> None:
    other.run(lambda: other.bus.publish(EVIL + "w" * 190))
    other.run(lambda: other.bus.publish("\u202egnp.exe"))
    await opened(page, f"{address}/bus")

    await expect(row(page, "Addresses of the bus", EVIL)).to_be_visible()
    await page.set_viewport_size(NARROW)
    await expect(page.locator("main img")).to_have_count(0)
    assert await page.evaluate("window.__xss") is None
    width = await page.evaluate("document.documentElement.clientWidth")
    await expect(page.locator("html")).to_have_js_property("scrollWidth", width)


async def at_work(page: Page, address: str, other: Other) -> None:
    """Open the page and have something on every part of it."""
    for _ in range(3):
        other.run(lambda: other.bus.request("greeter", {"name": "ann"}))
    await opened(page, f"{address}/bus")
    await press(page, "Watch")
    said = part(page, "Messages of the bus").get_by_role("row").filter(has_text="news")
    while not await said.first.is_visible():
        other.run(lambda: other.bus.publish("news", {"title": "rain", "to": ["ann"]}))
        await page.wait_for_timeout(50)
    await press(page, "Send to greeter")
    await press(part(page, "Send a message"), "Send")
    await expect(page.get_by_role("group", name="Reply")).to_be_visible()


async def test_a_bus_at_work_keeps_nobody_out(
    page: Page, address: str, other: Other
) -> None:
    await at_work(page, address, other)

    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    assert await barriers(page) == []
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert await barriers(page, "color-contrast") == []


async def test_a_bus_at_work_has_its_picture(
    page: Page, address: str, other: Other
) -> None:
    await at_work(page, address, other)

    await page.evaluate("window.scrollTo(0, 0)")
    await shoot(page, "bus-at-work")
    await page.set_viewport_size(NARROW)
    assert await page.evaluate(WIDE) <= 0
