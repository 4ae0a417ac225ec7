"""The first page: is it healthy, told in five seconds."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.async_api import Locator, Page, expect

from kue import Kue
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from kue.model.histogram import Timing, bucket
from kue.model.job import Completed, Error, Failed, State
from kue.store.values import RenewRequest
from tests.browser.finding import is_live, opened, press, row, tile, told
from tests.support.jobs import (
    HOUR,
    MINUTE,
    SECOND,
    add_many,
    add_one,
    claim,
    claim_one,
    end,
    job_in,
)


def verdict(page: Page) -> Locator:
    return page.locator(".verdict")


def warning(page: Page, code: str) -> Locator:
    return page.locator(f".warning[data-code={code}]")


def counted(page: Page, state: str) -> Locator:
    """Return the link with the number of jobs in *state*."""
    return page.locator(".states-list").get_by_role("link", name=state)


async def serve_jobs(q: Kue, *types: str) -> None:
    """Have a worker for *types*, as far as the store knows."""
    info = {"slots": dict.fromkeys(types, 1)}
    await q.store.renew(RenewRequest("w1", lease=HOUR, info=info))


async def test_a_store_without_jobs_says_how_to_begin(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, address)
    begin = page.get_by_role("heading", name="No jobs yet")
    await expect(begin).to_be_visible()
    await is_live(page)

    await q.enqueue("email")

    await expect(begin).to_be_hidden()
    await expect(counted(page, "waiting")).to_contain_text("1")


async def test_all_is_well_when_nothing_keeps_jobs_from_running(
    page: Page, address: str, q: Kue
) -> None:
    await serve_jobs(q, "email")
    await job_in(q.store, State.COMPLETE, now=await q.now())
    await opened(page, address)

    await expect(verdict(page)).to_have_text("Healthy")
    await expect(page.locator(".warning")).to_have_count(0)


async def test_numbers_move_without_a_reload(page: Page, address: str, q: Kue) -> None:
    await serve_jobs(q, "email")
    await opened(page, address)
    await is_live(page)

    job_id = await add_one(q.store, now=await q.now())
    await expect(counted(page, "waiting")).to_contain_text("1")
    await expect(tile(page, "Oldest waiting")).to_contain_text("1 waiting")
    job = await claim_one(q.store, now=await q.now())
    await expect(counted(page, "active")).to_contain_text("1")
    await expect(tile(page, "Workers")).to_contain_text("1 busy, 0 lost")
    await end(q.store, job, Failed(Error("ValueError", "oops")), now=await q.now())

    await expect(counted(page, "failed")).to_contain_text("1")
    failed = page.locator(".failure").filter(has_text="ValueError oops")
    await failed.get_by_role("link", name=f"#{job_id}").click()
    await expect(page).to_have_url(f"{address}/jobs/{job_id}")


async def test_jobs_a_second_are_counted_as_they_come(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, address)
    await is_live(page)
    await expect(tile(page, "In")).to_contain_text("over 5 min")
    await expect(tile(page, "In")).to_contain_text("0/min")

    await q.enqueue_many("email", [{}] * 40)

    await expect(tile(page, "In").locator(".tile-number")).not_to_have_text("0")


async def test_tiles_tell_waits_runs_workers_and_the_store(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await serve_jobs(q, "email")
    await add_one(q.store, now=now - 2 * HOUR)
    timing = Timing("email", waits={bucket(60): 10}, runs={bucket(500): 10})
    await q.store.measure([timing], now=now - MINUTE)
    await opened(page, address)

    await expect(tile(page, "Oldest waiting")).to_contain_text("2 h")
    await expect(tile(page, "Wait p95").locator(".tile-value")).to_have_text("≤ 60 ms")
    await expect(tile(page, "Wait p95")).to_contain_text(re.compile(r"p50 ≤ \d+ ms"))
    await expect(tile(page, "Wait p95")).to_contain_text("run p95 ≤ 564 ms")
    await expect(tile(page, "Workers")).to_contain_text("1 alive")
    await expect(tile(page, "Store")).to_contain_text("round trip, sqlite 3.")


async def test_designer_7_every_number_of_a_length_is_large(
    page: Page, address: str, q: Kue
) -> None:
    await serve_jobs(q, "email")
    await add_one(q.store, now=await q.now() - 2 * HOUR - 5 * MINUTE)
    await opened(page, address)

    value = tile(page, "Oldest waiting").locator(".tile-value")
    await expect(value).to_have_text("2 h 5 min")
    await expect(value.locator(".tile-number")).to_have_text(["2", "5"])


async def test_designer_7_rates_have_one_unit_in_tiles_and_lists(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    for minute in range(1, 6):
        await add_many(q.store, 90, now=now - minute * MINUTE)
    await opened(page, address)
    rate = re.compile(r"[\d.]+/min")
    await expect(tile(page, "In").locator(".tile-value")).to_have_text(rate)
    await expect(row(page, "email")).to_contain_text(rate)
    await opened(page, f"{address}/queues")
    await expect(row(page, "email")).to_contain_text(rate)
    await opened(page, f"{address}/queues/email")

    await expect(tile(page, "In").locator(".tile-value")).to_have_text(rate)


async def test_a_queue_with_jobs_and_no_worker_is_a_warning(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, address)

    one = warning(page, "no-worker")
    await expect(one).to_contain_text("1 job of type 'email' waits")
    await expect(verdict(page)).to_have_text("1 warning")
    await expect(page).to_have_title("Overview · Kue")
    await one.get_by_role("link", name="Show queue").click()

    await expect(page).to_have_url(f"{address}/queues/email")


async def test_a_warning_goes_when_its_cause_does(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, address)
    await expect(warning(page, "no-worker")).to_be_visible()
    await is_live(page)

    await q.store.clear("email", [State.WAITING])
    await serve_jobs(q, "email")
    await q.enqueue("email")

    await expect(verdict(page)).to_have_text("Healthy")


async def test_a_pause_says_by_whom_and_why_and_can_be_ended(
    page: Page, address: str, q: Kue
) -> None:
    await serve_jobs(q, "email")
    await q.enqueue("email")
    await q.pause("email", by="mara", reason="the bank moves")
    await opened(page, address)
    text = "queue 'email' is paused by mara: the bank moves"
    await expect(warning(page, "paused")).to_contain_text(text)

    await press(warning(page, "paused"), "Resume")

    await expect(told(page, "Queue email is resumed")).to_be_visible()
    await expect(verdict(page)).to_have_text("Healthy")
    assert await q.paused() == []


async def test_who_only_looks_is_told_of_a_pause_and_cannot_end_it(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await q.pause(reason="the bank moves")
    await opened(page, serve(guard=Anyone(Role.VIEWER)))

    await expect(warning(page, "paused")).to_contain_text("everything is paused")
    await expect(warning(page, "paused").get_by_role("button")).to_have_count(0)


async def test_a_lost_worker_is_a_warning_and_comes_first(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await add_many(q.store, 2, now=now - HOUR)
    await claim(q.store, worker="press-1", lease=SECOND, now=now - HOUR)
    await q.enqueue("email")
    await q.pause("email")
    await opened(page, address)

    codes = [
        await one.get_attribute("data-code")
        for one in await page.locator(".warning").all()
    ]
    assert codes == ["lost-worker", "no-worker", "paused"]
    text = "worker 'press-1' is lost while running 2 jobs"
    await expect(warning(page, "lost-worker")).to_contain_text(text)
    await expect(tile(page, "Workers")).to_contain_text("1 lost")


async def test_a_backlog_that_grows_is_a_warning_with_the_time_it_takes(
    page: Page, address: str, q: Kue
) -> None:
    ago = await q.now() - 2 * MINUTE
    # The queue is not new: rates are those of five minutes.
    await job_in(q.store, State.COMPLETE, now=ago - 8 * MINUTE)
    await add_many(q.store, 60, now=ago)
    for job in await claim(q.store, now=ago):
        await end(q.store, job, Completed(None), now=ago)
    await serve_jobs(q, "email")
    await opened(page, address)

    one = warning(page, "backlog")
    await expect(one).to_contain_text("60 jobs added and 10 ended")
    await expect(one).to_contain_text("the 50 waiting take 25 min at this rate")


async def test_designer_4_queues_without_a_worker_are_one_warning(
    page: Page, address: str, q: Kue
) -> None:
    for number in range(10):
        await q.enqueue(f"type-{number}")
    await opened(page, address)

    one = warning(page, "no-worker")
    await expect(one).to_have_count(1)
    await expect(one).to_contain_text("no worker is running, and jobs wait in 10")
    await expect(one).to_contain_text("and 2 more")
    await expect(verdict(page)).to_have_text("1 warning")
    await serve_jobs(q, *[f"type-{number}" for number in range(7)])
    await page.reload()

    await expect(one).to_contain_text(
        "jobs wait in 3 queues that no live worker handles"
    )
    await one.get_by_role("link", name="type-8").click()
    await expect(page).to_have_url(f"{address}/queues/type-8")


async def test_more_warnings_than_fit_are_counted(
    page: Page, address: str, q: Kue
) -> None:
    for number in range(9):
        await q.pause(f"type-{number}")
    await opened(page, address)

    await expect(page.locator(".warning")).to_have_count(5)
    await expect(page.get_by_text("and 4 more")).to_be_visible()
    await expect(verdict(page)).to_have_text("9 warnings")


async def test_the_busiest_queues_are_shown_with_their_marks(
    page: Page, address: str, q: Kue
) -> None:
    for number in range(10):
        await add_many(q.store, number + 1, f"type-{number}", now=await q.now())
    await q.pause("type-9", by="mara")
    await opened(page, address)

    await expect(row(page, "type-9")).to_contain_text("paused")
    await expect(row(page, "type-0")).to_have_count(0)
    await expect(page.get_by_text("The busiest of 10 queues")).to_be_visible()
    await row(page, "type-9").get_by_role("link").click()

    await expect(page).to_have_url(f"{address}/queues/type-9")


async def test_the_chart_is_read_by_keys_and_as_a_table(
    page: Page, address: str, q: Kue
) -> None:
    await add_many(q.store, 7, now=await q.now() - 3 * MINUTE)
    await opened(page, address)
    surface = page.get_by_role("slider", name="Jobs per minute, last hour")

    await surface.focus()
    for _ in range(4):
        await page.keyboard.press("ArrowLeft")
    await expect(surface).to_have_attribute("aria-valuetext", re.compile("added 7"))
    await expect(page.locator(".chart-tip")).to_contain_text("added7")
    await page.get_by_text("As a table").click()

    table = page.get_by_role("table", name="Jobs per minute, last hour")
    await expect(table.get_by_role("row").nth(4)).to_contain_text("7")
    await press(page, "added")
    await expect(surface).not_to_have_attribute("aria-valuetext", re.compile("added"))
