"""S-1: the address that the server prints opens the dashboard, and no other does."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from kue.http.auth.startup_token import LocalhostGuard, StartupToken
from tests.browser.finding import is_live, press
from tests.browser.watching import Watch

SECRET = "correct-horse-battery-staple"


@pytest.fixture
def site(serve: Callable[..., str], watch: Watch) -> str:
    """The address of a dashboard in open mode."""
    watch.allow("401.*/me")
    return serve(guard=LocalhostGuard(StartupToken(SECRET)))


async def test_the_printed_address_opens_the_dashboard_and_loses_its_token(
    page: Page, site: str
) -> None:
    await page.goto(f"{site}/queues?token={SECRET}")

    await expect(page).to_have_url(f"{site}/queues")
    await expect(page.locator("h1")).to_have_text("Queues")
    await is_live(page)
    [cookie] = await page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    await page.reload()
    await expect(page.locator("h1")).to_have_text("Queues")


async def test_without_the_token_a_page_says_where_it_is_and_takes_it(
    page: Page, site: str
) -> None:
    await page.goto(f"{site}/jobs?state=failed")

    said = page.get_by_text("Open the address that the server printed in its terminal")
    await expect(said).to_be_visible()
    await page.get_by_label("Token").fill(SECRET)
    await press(page, "Open")

    await expect(page).to_have_url(f"{site}/jobs?state=failed")
    await is_live(page)


async def test_a_token_of_another_day_is_said_to_be_one(page: Page, site: str) -> None:
    await page.goto(f"{site}/?token=of-another-day")

    await expect(page).to_have_url(f"{site}/login?token=refused")
    await expect(page.get_by_text("Invalid token")).to_be_visible()


@pytest.mark.parametrize(
    "following",
    ["/\t/kue.invalid/", "/\n/kue.invalid/", "/\\kue.invalid/", "//kue.invalid/"],
)
async def test_a_pasted_token_is_sent_to_this_server_alone(
    page: Page, site: str, following: str
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{site}/login?next={quote(following, safe='')}")
    await page.get_by_label("Token").fill(SECRET)
    await press(page, "Open")

    await expect(page).to_have_url(f"{site}/")
    await is_live(page)
    assert [url for url in asked if not url.startswith(site)] == []


async def test_a_pasted_token_does_not_become_part_of_a_fragment(
    page: Page, site: str
) -> None:
    await page.goto(f"{site}/login?next={quote('/jobs#x', safe='')}")
    await page.get_by_label("Token").fill(SECRET)
    await press(page, "Open")

    await expect(page).to_have_url(f"{site}/")
    await is_live(page)


async def test_people_and_tokens_are_made_on_the_command_line(
    page: Page, site: str
) -> None:
    await page.goto(f"{site}/settings?token={SECRET}")

    await expect(page.get_by_text("kue user add ann --role admin")).to_be_visible()
    await expect(page.get_by_text("kue token add NAME --scope read")).to_be_visible()
    for name in ("Add a user", "Create a token"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)
