"""Workers: who is there, what they run, and what they are told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from kue import Kue
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from kue.store.values import Progress, RenewRequest
from tests.browser.finding import dialog, is_live, opened, press, tile, told
from tests.browser.watching import Watch
from tests.support.jobs import HOUR, SECOND, add_many, claim
from tests.support.patience import PATIENCE_SECONDS

INFO: dict[str, Any] = {
    "host": "shop-1",
    "pid": 4100,
    "version": "1.0",
    "slots": {"email": 4, "report": 1},
    "done": 1840,
    "memory": 61_000_000,
    "lag_ms": 250.0,
    "blocked": 2,
    "blocked_at": "shop/pictures.py:88",
}


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True)


async def greet(q: Kue, name: str = "w1", **info: Any) -> None:
    """Have a worker beat for the first time."""
    await q.store.renew(RenewRequest(name, lease=HOUR, info=INFO | info))


async def test_without_workers_the_page_says_how_to_start_one(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, f"{address}/workers")

    await expect(page.get_by_role("heading", name="No workers")).to_be_visible()
    await expect(page.get_by_text("kue worker app:q")).to_be_visible()
    await expect(tile(page, "Alive")).to_contain_text("0")


async def test_a_worker_tells_how_it_is(page: Page, address: str, q: Kue) -> None:
    await greet(q)
    await q.enqueue("report", delay="1h")
    await opened(page, f"{address}/workers")

    one = card(page, "w1")
    for text in ("alive", "shop-1, pid 4100", "1,840", "61 MB", "250 ms", "0 of 4"):
        await expect(one).to_contain_text(text)
    await expect(one).to_contain_text("2 ×, last at shop/pictures.py:88")
    await expect(one).to_contain_text("Idle.")
    await expect(tile(page, "Slots used")).to_contain_text("0 of 5")
    await one.get_by_role("link", name="report").click()

    await expect(page).to_have_url(f"{address}/queues/report")


async def test_what_a_worker_runs_is_shown_as_it_goes(
    page: Page, address: str, q: Kue
) -> None:
    await greet(q)
    await opened(page, f"{address}/workers")
    await is_live(page)

    now = await q.now()
    await add_many(q.store, 2, now=now)
    jobs = await claim(q.store, worker="w1", lease=HOUR, now=now - 50 * SECOND)
    run = card(page, "w1").get_by_role("listitem").filter(has_text=f"#{jobs[0].id}")
    await expect(run.locator("time")).to_have_text(re.compile(r"^\d+ (s|min)"))
    await expect(tile(page, "Slots used")).to_contain_text("2 of 5")
    await q.store.progress([Progress(jobs[0].id, 40, token=jobs[0].token)])

    bar = page.get_by_role("progressbar", name=f"Progress of job {jobs[0].id}")
    await expect(bar).to_have_attribute("aria-valuenow", "40")
    used = page.get_by_role("progressbar", name="Slots used for email")
    await expect(used).to_have_attribute("aria-valuenow", "50")


async def test_a_lost_worker_comes_first_and_has_no_buttons(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await greet(q, "a")
    await add_many(q.store, 1, now=now - HOUR)
    await claim(q.store, worker="z", lease=SECOND, now=now - HOUR)
    await opened(page, f"{address}/workers")

    await expect(page.get_by_role("article").first).to_have_accessible_name("z")
    await expect(card(page, "z")).to_contain_text("lost")
    await expect(card(page, "z")).to_contain_text("Lease expired")
    await expect(card(page, "z").get_by_role("button")).to_have_count(0)
    await expect(tile(page, "Lost")).to_contain_text("1")


async def test_workers_of_different_versions_are_noticed(
    page: Page, address: str, q: Kue
) -> None:
    await greet(q, "a")
    await greet(q, "b", version="2.0")
    await opened(page, f"{address}/workers")

    text = "Workers run different versions: 1.0 (1), 2.0 (1)"
    await expect(page.get_by_text(text)).to_be_visible()


async def test_one_of_many_workers_is_found_by_name_host_or_queue(
    page: Page, address: str, q: Kue
) -> None:
    for number in range(7):
        await greet(q, f"w{number}", host=f"shop-{number}")
    await opened(page, f"{address}/workers")
    await expect(page.get_by_role("article")).to_have_count(7)

    await page.get_by_label("Find a worker").fill("SHOP-3")

    await expect(page.get_by_role("article")).to_have_count(1)
    await expect(page).to_have_url(f"{address}/workers?text=SHOP-3")


async def test_a_viewer_sees_workers_and_no_buttons(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await greet(q)
    await opened(page, f"{serve(guard=Anyone(Role.VIEWER))}/workers")

    await expect(card(page, "w1")).to_be_visible()
    await expect(page.locator("main").get_by_role("button")).to_have_count(0)


async def test_a_worker_process_is_kept_quiet_and_goes_on(
    page: Page,
    address: str,
    q: Kue,
    worker: Callable[[], AbstractAsyncContextManager[None]],
) -> None:
    async with worker():
        [known] = await q.workers()
        await opened(page, f"{address}/workers")

        await press(page, f"Quiet {known.name}")
        ask = dialog(page, f"Pause worker {known.name}")
        await ask.get_by_label("Reason").fill("it is too hot")
        await press(ask, "Pause")
        one = card(page, known.name)
        await expect(one).to_contain_text("it is too hot")
        await expect(one).to_contain_text("quiet")
        await expect(tile(page, "Alive")).to_contain_text("1 quiet")
        await press(page, f"Resume {known.name}")

        await expect(one).to_contain_text("alive")
        assert await q.paused() == []
        job = await q.enqueue("email", {"to": "ann"})
        assert await job.result(timeout=PATIENCE_SECONDS) == "sent to ann"


@pytest.mark.long
async def test_a_worker_process_shows_its_stacks_and_stops(
    page: Page,
    address: str,
    q: Kue,
    worker: Callable[[], AbstractAsyncContextManager[None]],
    watch: Watch,
) -> None:
    # There are none yet when the page first looks.
    watch.allow("404.*/stacks")
    async with worker():
        [known] = await q.workers()
        job = await q.enqueue("steps", {"count": 100})
        await opened(page, f"{address}/workers")
        running = card(page, known.name).get_by_role("link", name=f"#{job.id}")
        await expect(running).to_be_visible()

        await press(page, f"Stacks {known.name}")
        stacks = dialog(page, f"Stacks of {known.name}")
        await expect(stacks.locator("pre")).to_contain_text("in steps")
        await page.keyboard.press("Escape")
        await job.cancel()
        await expect(running).to_have_count(0)
        await press(page, f"Stop {known.name}")
        await press(dialog(page, f"Stop worker {known.name}?"), "Stop")

        await expect(told(page, "was asked to stop")).to_be_visible()
        gone = card(page, known.name).get_by_text("gone", exact=True)
        await expect(gone).to_be_visible()
        # A heartbeat of the supervisor may be on its way while its child deregisters;
        # it deregisters the child once more when the process is gone.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while any(one.alive for one in await q.workers()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
