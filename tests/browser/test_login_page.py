"""Who comes in, who may do what, and what is written down of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect
from starlette.applications import Starlette

from kue import Kue
from kue.http import AccountGuard, create_app
from kue.http.auth import Role
from kue.http.auth.login_throttle import LoginThrottle
from kue.store.values import AuditEntry
from tests.browser.finding import dialog, is_live, opened, press, row, told
from tests.browser.watching import Watch
from tests.http.accounts import CHEAP, PASSWORD


def guarded(**options: Any) -> Callable[[Kue], Starlette]:
    """Return what makes an application that asks who comes in."""
    return lambda q: create_app(
        q,
        guard=AccountGuard(q, hasher=CHEAP, by_name=LoginThrottle(3)),
        **options,
    )


@pytest.fixture
async def site(serve: Callable[..., str], q: Kue, watch: Watch) -> str:
    """The address of a dashboard that ann may do everything in, and bob look at."""
    # Whoever is not logged in yet is told so, and browsers write that down.
    watch.allow(r"401.*/(me|login)")
    users = AccountGuard(q, hasher=CHEAP).users
    await users.add("ann", PASSWORD, Role.ADMIN)
    await users.add("bob", PASSWORD, Role.VIEWER)
    await users.add("olga", PASSWORD, Role.OPERATOR)
    return serve(guarded(badge="Production"))


async def log_in(page: Page, name: str, password: str = PASSWORD) -> None:
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.keyboard.press("Enter")


async def enter(page: Page, url: str, name: str = "ann") -> None:
    """Be *name* on the page at *url*."""
    await page.goto(url)
    await log_in(page, name)
    await expect(page).to_have_url(url)
    await page.wait_for_selector("main[data-ready]")


def person(page: Page, name: str) -> Locator:
    table = page.get_by_role("table", name="Users")
    return table.get_by_role("row").filter(has_text=name)


# -- in and out ----------------------------------------------------------------


async def test_whoever_comes_is_asked_and_led_to_where_they_wanted(
    page: Page, site: str
) -> None:
    await page.goto(f"{site}/jobs?state=failed")
    await expect(page).to_have_url(f"{site}/login?next=%2Fjobs%3Fstate%3Dfailed")
    await expect(page.get_by_label("Name")).to_be_focused()

    await log_in(page, "ann")

    await expect(page).to_have_url(f"{site}/jobs?state=failed")
    await expect(page.locator(".who")).to_have_text("ann")
    await is_live(page)


async def test_only_pages_of_ours_are_led_to(page: Page, site: str) -> None:
    for next in ("//example.com", "https://example.com/", "/\\example.com"):
        await page.goto(f"{site}/login?next={next}")
        await log_in(page, "ann")
        await expect(page).to_have_url(f"{site}/")
        # It has asked for all it wants, and may be forgotten.
        await is_live(page)
        await page.context.clear_cookies()


async def test_a_wrong_password_is_told_and_nobody_is_let_in(
    page: Page, site: str
) -> None:
    await page.goto(f"{site}/login")

    await log_in(page, "ann", "wrong")

    await expect(page.get_by_role("alert")).to_have_text("name or password is wrong")
    await page.goto(f"{site}/queues")
    await expect(page).to_have_url(f"{site}/login?next=%2Fqueues")


async def test_where_the_host_application_knows_people_they_are_sent_there(
    page: Page, serve: Callable[..., str], watch: Watch
) -> None:
    watch.allow(r"401.*/me")
    await page.goto(serve(guard=lambda connection: None))

    said = "Log in to the application that this dashboard is part of."
    await expect(page.get_by_text(said)).to_be_visible()
    await expect(page.get_by_label("Password")).to_have_count(0)


async def test_too_many_tries_are_told_how_long_to_wait(
    page: Page, site: str, watch: Watch
) -> None:
    watch.allow("429")
    await page.goto(f"{site}/login")

    # None is the right one, and each waits for the answer to the one before, and for
    # the form to take another.
    for _ in range(3):
        async with page.expect_response("**/login"):
            await log_in(page, "ann", "wrong")
        await expect(page.get_by_role("button", name="Log in")).to_be_enabled()
    await log_in(page, "ann")

    wait = re.compile(r"too many attempts; wait \d+ s")
    await expect(page.get_by_role("alert")).to_have_text(wait)
    await expect(page).to_have_url(f"{site}/login")


async def test_who_logs_out_is_out(page: Page, site: str) -> None:
    await enter(page, f"{site}/queues")

    await press(page, "Log out")

    await expect(page).to_have_url(f"{site}/login")
    assert await page.context.cookies() == []
    await page.goto(f"{site}/queues")
    await expect(page).to_have_url(f"{site}/login?next=%2Fqueues")


async def test_a_session_that_ended_elsewhere_leads_to_the_login(
    page: Page, site: str, q: Kue, watch: Watch
) -> None:
    watch.allow("401")
    await enter(page, f"{site}/queues")

    await AccountGuard(q, hasher=CHEAP).users.set_password("ann", "another one")
    await page.get_by_role("link", name="Workers").click()

    await expect(page).to_have_url(f"{site}/login?next=%2Fworkers")
    await log_in(page, "ann", "another one")
    await expect(page).to_have_url(f"{site}/workers")


async def test_where_nobody_has_to_log_in_nobody_can_log_out(
    page: Page, address: str
) -> None:
    await opened(page, address)

    await expect(page.get_by_role("button", name="Log out")).to_have_count(0)
    await expect(page.locator(".who")).to_have_count(0)


# -- signs ---------------------------------------------------------------------


async def test_the_badge_says_which_environment_it_is(page: Page, site: str) -> None:
    await enter(page, f"{site}/")

    badge = page.locator(".badge")
    await expect(badge).to_have_text("Production")
    await expect(badge).to_have_attribute("data-tone", "red")


async def test_a_read_only_dashboard_says_so_and_offers_no_change(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await q.enqueue("email")
    address = serve(read_only=True)
    await opened(page, f"{address}/queues")

    note = page.get_by_role("note")
    await expect(note).to_contain_text("Read-only")
    await expect(row(page, "email")).to_be_visible()
    await expect(page.locator("main").get_by_role("button")).to_have_count(0)
    await opened(page, f"{address}/queues/email")
    await expect(page.locator(".page-head").get_by_role("button")).to_have_count(0)


@pytest.mark.parametrize(
    ("name", "shown", "is_there"),
    [("bob", "Audit", False), ("olga", "Audit", False), ("ann", "Audit", True)],
)
async def test_the_navigation_has_what_the_role_may_see(
    page: Page, site: str, name: str, shown: str, is_there: bool
) -> None:
    await enter(page, f"{site}/settings", name)

    link = page.get_by_role("navigation").get_by_role("link", name=shown)
    await expect(link).to_have_count(int(is_there))
    people = page.get_by_role("heading", name="Users")
    await expect(people).to_have_count(int(is_there))
    await expect(page.locator("dl").first).to_contain_text(f"Name{name}")


# -- settings ------------------------------------------------------------------


async def test_a_person_is_added_changed_and_removed(
    page: Page, site: str, q: Kue, watch: Watch
) -> None:
    watch.allow("400.*/users")
    users = AccountGuard(q, hasher=CHEAP).users
    await enter(page, f"{site}/settings")

    await press(page, "Add a user")
    ask = dialog(page, "Add a user")
    await ask.get_by_label("Name").fill("carl")
    password = ask.get_by_label("Password")
    await password.fill("short")
    await press(ask, "Add")
    await expect(password).to_have_attribute("aria-invalid", "true")
    await password.fill("long enough")
    await press(ask, "Add")
    await expect(told(page, "carl can log in")).to_be_visible()
    await expect(person(page, "carl")).to_contain_text("viewer")

    await press(person(page, "carl"), "Role")
    await dialog(page, "Role of carl").get_by_label("Role").select_option("operator")
    await press(dialog(page, "Role of carl"), "Save")
    await expect(person(page, "carl")).to_contain_text("operator")

    await press(person(page, "carl"), "Password")
    ask = dialog(page, "Password of carl")
    await ask.get_by_label("New password").fill("another one")
    await press(ask, "Save")
    await expect(told(page, "carl has a new password")).to_be_visible()
    assert await users.verify("carl", "another one") is not None

    await press(person(page, "carl"), "Remove")
    await press(dialog(page, "Remove carl?"), "Remove")
    await expect(person(page, "carl")).to_have_count(0)
    assert await users.find("carl") is None


async def test_s_8_people_change_their_own_password(
    page: Page, site: str, q: Kue, watch: Watch
) -> None:
    watch.allow("403.*/password")
    users = AccountGuard(q, hasher=CHEAP).users
    await enter(page, f"{site}/settings", "bob")

    await press(page, "Change password")
    ask = dialog(page, "Change your password")
    await ask.get_by_label("Current password").fill("wrong")
    await ask.get_by_label("New password").fill("another one")
    await press(ask, "Change")
    await expect(ask.get_by_text("the current password is wrong")).to_be_visible()
    await ask.get_by_label("Current password").fill(PASSWORD)
    await press(ask, "Change")

    await expect(told(page, "Your password is changed")).to_be_visible()
    assert await users.verify("bob", "another one") is not None
    await page.reload()
    await expect(page.locator(".who")).to_have_text("bob")


async def test_the_last_admin_cannot_be_removed(
    page: Page, site: str, watch: Watch
) -> None:
    watch.allow("409")
    await enter(page, f"{site}/settings")
    await expect(person(page, "ann")).to_contain_text("(you)")

    await press(person(page, "ann"), "Remove")
    await press(dialog(page, "Remove ann?"), "Remove")

    await expect(page.get_by_role("alert").filter(has_text="admin")).to_be_visible()
    await expect(person(page, "ann")).to_be_visible()


async def test_a_token_is_shown_once_works_and_is_revoked(
    page: Page, site: str, watch: Watch
) -> None:
    await enter(page, f"{site}/settings")
    await expect(page.get_by_role("heading", name="No tokens")).to_be_visible()

    await press(page, "Create a token")
    ask = dialog(page, "Create a token")
    await ask.get_by_label("Name").fill("deploy")
    await ask.get_by_label("Enqueue: add jobs").check()
    await press(ask, "Create")
    shown = dialog(page, "Your token")
    secret = await shown.locator("pre").inner_text()
    await press(shown, "Close")

    table = page.get_by_role("table", name="Tokens")
    await expect(table).to_contain_text("read, enqueue")
    await expect(page.locator("body")).not_to_contain_text(secret)
    await page.context.clear_cookies()
    headers = {"Authorization": f"Bearer {secret}"}
    asked = f"{site}/api/v1/me"
    assert (await page.request.get(asked, headers=headers)).status == 200

    await enter(page, f"{site}/settings")
    await press(page, "Revoke")
    await press(dialog(page, "Revoke deploy?"), "Revoke")
    await expect(page.get_by_role("heading", name="No tokens")).to_be_visible()
    assert (await page.request.get(asked, headers=headers)).status == 401


async def test_a_token_takes_a_scope_at_least(page: Page, site: str) -> None:
    await enter(page, f"{site}/settings")

    await press(page, "Create a token")
    ask = dialog(page, "Create a token")
    await ask.get_by_label("Name").fill("deploy")
    await ask.get_by_label("Read: see everything").uncheck()
    await press(ask, "Create")

    await expect(ask.get_by_role("alert")).to_have_text("choose at least one scope")


# -- the audit log -------------------------------------------------------------


async def test_the_audit_log_tells_who_did_what(page: Page, site: str, q: Kue) -> None:
    await q.enqueue("email")
    await enter(page, f"{site}/queues")
    await press(page, "Pause email")
    ask = dialog(page, "Pause queue email")
    await ask.get_by_label("Reason").fill("the bank moves")
    await press(ask, "Pause")
    await expect(told(page, "is paused")).to_be_visible()

    await page.get_by_role("link", name="Audit").click()

    rows = page.get_by_role("table", name="Audit log").get_by_role("row")
    paused = rows.filter(has_text="ann").filter(has_text="pause").first
    await expect(paused).to_contain_text("email")
    await expect(paused).to_contain_text("done")
    await expect(rows.filter(has_text="login")).to_have_count(1)


async def test_what_was_refused_is_in_the_audit_log(
    page: Page, site: str, q: Kue, watch: Watch
) -> None:
    await page.goto(f"{site}/login")
    async with page.expect_response("**/login"):
        await log_in(page, "ann", "wrong")
    await expect(page.get_by_role("button", name="Log in")).to_be_enabled()

    await log_in(page, "ann")
    await page.get_by_role("link", name="Audit").click()

    refused = page.get_by_role("row").filter(has_text="rejected")
    await expect(refused).to_contain_text("login")


async def test_older_acts_are_paged_to(page: Page, site: str, q: Kue) -> None:
    for _ in range(110):
        await q.store.note(AuditEntry(who="ann", what="resume", status=200))
    await enter(page, f"{site}/audit")
    rows = page.get_by_role("table", name="Audit log").locator("tbody tr")
    await expect(rows).to_have_count(100)

    await press(page, "Older")

    await expect(rows).to_have_count(111)
    await expect(page.get_by_role("button", name="Older")).to_be_hidden()
