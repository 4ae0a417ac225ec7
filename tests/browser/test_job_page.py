"""One job: how it stands, what it did, and what can be done about it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import textwrap
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import BrowserContext, Locator, Page, Route, expect

from kue import Kue, State
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from kue.model.job import Completed, Error, Job, Released, Retried
from kue.model.job_json import job_detail
from kue.model.stream import SentChunks
from kue.store.codec import chunk_of
from kue.store.values import LogLine, Outcome, Progress
from tests.browser.finding import is_live, opened
from tests.browser.making import (
    STACK,
    WEBHOOK,
    complete,
    failed,
    failure_of,
    furnish,
    running,
)
from tests.browser.watching import Watch, barriers, shoot
from tests.support.jobs import HOUR, SECOND, add_one, claim_one, get_one, state_of

#: Twice a second, until it takes too long.
SCROLLS = 90


def panel(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def badge(page: Page) -> Locator:
    return page.locator(".job-title .state")


def log(page: Page) -> Locator:
    return page.get_by_role("log", name="Log")


def told(page: Page, text: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("status").filter(has_text=text)


async def choose(page: Page, label: str) -> None:
    """Choose from the menu of what else can be done."""
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("button", name=label, exact=True).click()


# -- live ----------------------------------------------------------------------


async def test_a_run_is_seen_as_it_goes(
    page: Page,
    address: str,
    q: Kue,
    worker: Callable[[], AbstractAsyncContextManager[None]],
) -> None:
    """A worker process runs the job; the page is never reloaded."""
    job = await q.enqueue("steps", {"count": 15})
    await page.goto(f"{address}/jobs/{job.id}")
    await expect(badge(page)).to_have_text("waiting")
    await expect(page.get_by_text("No log lines yet.")).to_be_visible()

    async with worker():
        await expect(badge(page)).to_have_text("active")
        bar = page.get_by_role("progressbar")
        await expect(bar).to_have_attribute("aria-valuenow", re.compile("[1-9]"))
        before = int(await bar.get_attribute("aria-valuenow") or 0)
        await expect(bar).not_to_have_attribute("aria-valuenow", str(before))
        await expect(log(page)).to_contain_text("step 2 of 15")
        await expect(badge(page)).to_have_text("complete")

    await expect(log(page)).to_contain_text("step 15 of 15")
    await expect(bar).to_be_hidden()
    await expect(panel(page, "Result")).to_contain_text("15")
    await expect(panel(page, "Attempts")).to_contain_text("Attempt 1")
    await expect(
        page.get_by_role("img", name=re.compile("waited.*ran"))
    ).to_be_visible()


async def reveal(page: Page, text: str) -> None:
    """Scroll to the log until a line is in sight: what is above it may still grow."""
    line = page.get_by_text(text, exact=True)
    for _ in range(SCROLLS):
        await log(page).scroll_into_view_if_needed()
        with contextlib.suppress(AssertionError):
            await expect(line).to_be_in_viewport(timeout=500)
            return
    await expect(line).to_be_in_viewport()


async def test_the_log_follows_until_the_reader_scrolls_up(
    page: Page, address: str, q: Kue
) -> None:
    job = await running(q)
    await q.store.log(job.id, lines_of(1, 80))
    await page.goto(f"{address}/jobs/{job.id}")
    following = page.get_by_role("checkbox", name="Follow")
    await reveal(page, "line 80")
    await expect(following).to_be_checked()

    await q.store.log(job.id, lines_of(81, 120))
    await expect(page.get_by_text("line 120", exact=True)).to_be_in_viewport()
    await log(page).hover()
    await page.mouse.wheel(0, -400)
    await expect(following).not_to_be_checked()
    top = await log(page).evaluate("node => node.scrollTop")
    await q.store.log(job.id, lines_of(121, 160))
    await expect(page.get_by_text("line 160", exact=True)).to_be_attached()

    assert await log(page).evaluate("node => node.scrollTop") <= top
    await expect(page.get_by_text("line 160", exact=True)).not_to_be_in_viewport()
    await following.check()
    await expect(page.get_by_text("line 160", exact=True)).to_be_in_viewport()


async def test_a_log_that_is_there_before_its_job_is_shown_from_its_end(
    page: Page, address: str, q: Kue
) -> None:
    job = await running(q)
    await q.store.log(job.id, lines_of(1, 80))
    is_read = asyncio.Event()

    async def hold(route: Route) -> None:
        await is_read.wait()
        await route.continue_()

    await page.route(f"**/api/v1/jobs/{job.id}", hold)
    async with page.expect_response("**/logs?*") as coming:
        await page.goto(f"{address}/jobs/{job.id}")
    await (await coming.value).finished()
    # The page has drawn what it read by its next frame.
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
    is_read.set()

    await reveal(page, "line 80")


async def test_the_log_is_searched_and_shown_by_level(
    page: Page, address: str, q: Kue
) -> None:
    job = await running(q)
    lines = [("reading", "debug"), ("paper is low", "warning"), ("no ink", "error")]
    await q.store.log(job.id, [LogLine(text, level, 1) for text, level in lines])
    await page.goto(f"{address}/jobs/{job.id}")
    await expect(log(page).locator(".log-line")).to_have_count(3)

    await page.get_by_role("combobox", name="Level").select_option("warning and above")
    await expect(log(page).locator(".log-line")).to_have_count(2)
    await page.keyboard.press("Escape")
    await page.get_by_role("searchbox", name="Search the log").fill("INK")

    await expect(log(page).locator(".log-line")).to_have_count(1)
    await expect(page.get_by_text("1 of 3 lines")).to_be_visible()


async def test_progress_moves_without_a_reload(
    page: Page, address: str, q: Kue
) -> None:
    job = await running(q)
    await page.goto(f"{address}/jobs/{job.id}")
    await expect(badge(page)).to_have_text("active")

    await q.store.progress([Progress(job.id, 40, {"page": 4})])
    bar = page.get_by_role("progressbar", name="Progress")
    await expect(bar).to_have_attribute("aria-valuenow", "40")
    await expect(page.locator(".job-progress")).to_contain_text('{"page":4}')
    await q.store.progress([Progress(job.id, 70)])

    await expect(bar).to_have_attribute("aria-valuenow", "70")


def lines_of(first: int, last: int) -> list[LogLine]:
    return [LogLine(f"line {number}", "info", 1) for number in range(first, last + 1)]


# -- what is known -------------------------------------------------------------


async def test_every_attempt_is_told_with_its_stack(
    page: Page, address: str, q: Kue
) -> None:
    job = await running(q, attempts=2)
    refused = Error("ConnectionError", "mail.example.com refused", STACK)
    await q.store.settle([Outcome(job, Retried(refused))])
    again = await claim_one(q.store, worker="w2", now=await q.now())
    await q.store.settle([Outcome(again, Completed())])
    await page.goto(f"{address}/jobs/{job.id}")
    attempts = panel(page, "Attempts")
    await expect(attempts.locator(".ending")).to_have_count(2)
    await expect(attempts.locator(".ending").first).to_contain_text("Attempt 2")

    first = attempts.locator("details.ending").filter(has_text="Attempt 1")
    await expect(first).to_contain_text("ConnectionError: mail.example.com refused")
    await first.locator("summary").first.click()

    await expect(first.get_by_text("connection = smtp.connect(host)")).to_be_visible()
    await expect(first.get_by_role("link", name="w1")).to_be_visible()
    library = first.get_by_text("return await handler(job)")
    await expect(library).to_be_hidden()
    await first.get_by_text("1 library frame").click()
    await expect(library).to_be_visible()


async def test_releases_are_told_apart_from_failures_with_their_number(
    page: Page, address: str, q: Kue
) -> None:
    job = await running(q, attempts="unlimited", max_exceptions=3, retry_until="2h")
    await q.store.settle([Outcome(job, Released(reason="ProviderDown: 503"))])
    again = await claim_one(q.store, now=await q.now())
    await q.store.settle([Outcome(again, Retried(Error("OSError", "no route")))])
    await page.goto(f"{address}/jobs/{job.id}")

    endings = panel(page, "Attempts").locator(".ending")
    await expect(endings.first).to_contain_text("failed, will retry")
    await expect(endings.last).to_contain_text("released, not counted")
    await expect(endings.last).to_contain_text("ProviderDown: 503")
    facts = panel(page, "Details")
    for words in ("1, unlimited", "1, not counted as attempts", "3 errors"):
        await expect(facts).to_contain_text(words)
    await expect(facts).to_contain_text("Retried until")


async def test_a_failed_job_tells_why_and_leads_to_others_like_it(
    page: Page, address: str, q: Kue
) -> None:
    ids = await failed(q, "timeout after 5 s", "timeout after 7 s", "refused")
    await page.goto(f"{address}/jobs/{ids[0]}")
    await expect(page.get_by_role("note")).to_contain_text("timeout after 5 s")
    await expect(page.get_by_text("smtp.connect(host)")).to_be_visible()

    await page.get_by_role("link", name="Similar failures").click()

    await expect(page.locator("tbody").get_by_role("row")).to_have_count(2)


async def test_the_data_is_a_tree_that_folds_and_hides_secrets(
    page: Page, address: str, q: Kue, context: BrowserContext
) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    job = await q.enqueue("webhook", WEBHOOK)
    await page.goto(f"{address}/jobs/{job.id}")
    data = panel(page, "Data")
    await expect(data).to_contain_text('"https://hooks.example.com/orders"')
    line = data.locator(".tree-leaf").filter(has_text="api_key:")
    await expect(line).to_contain_text("redacted")
    await expect(page.locator("body")).not_to_contain_text("very secret")

    for name in ["lines:", "0:"]:
        await data.locator("summary").filter(has_text=name).click()
    sku = data.locator(".tree-leaf").filter(has_text="sku:")
    await sku.hover()
    await sku.get_by_role("button", name="path").click()
    assert await clipboard(page) == "event.lines[0].sku"
    await sku.get_by_role("button", name="value").click()
    await expect(told(page, "Value copied")).to_be_visible()
    assert await clipboard(page) == "a1"
    event = data.locator("summary").filter(has_text="event:")
    await event.click()
    await expect(sku).to_be_hidden()
    await data.get_by_role("button", name="Copy the data").click()
    await expect(told(page, re.compile("^Copied$"))).to_be_visible()
    assert '"order.paid"' in await clipboard(page)


async def clipboard(page: Page) -> str:
    return str(await page.evaluate("navigator.clipboard.readText()"))


async def test_jobs_that_a_job_waits_for_are_told_with_their_states(
    page: Page, address: str, q: Kue
) -> None:
    parent = await q.enqueue("report")
    job = await q.enqueue("archive", after=[parent.id])
    await page.goto(f"{address}/jobs/{job.id}")
    needs = panel(page, "Dependencies")
    await expect(needs).to_contain_text("waiting")

    await needs.get_by_role("link", name=str(parent.id)).click()

    await expect(page.get_by_role("heading", name=f"Job {parent.id}")).to_be_visible()


async def test_a_job_in_a_queue_of_another_name_is_shown_with_both(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("send_receipt", {"order": 17}, queue="mail")
    await q.enqueue("send_welcome", {"to": "ann"})
    await page.goto(f"{address}/jobs")
    both = page.get_by_role("cell", name="send_receipt (mail)", exact=True)
    await expect(both).to_be_visible()
    await shoot(page, "jobs-named-queue")

    await page.goto(f"{address}/jobs/{job.id}")

    title = page.get_by_role("link", name="send_receipt (mail)", exact=True)
    await expect(title).to_be_visible()
    await expect(page.get_by_text('queue="mail"')).to_be_attached()
    await shoot(page, "job-named-queue")
    await page.get_by_role("link", name="mail", exact=True).click()
    await expect(page).to_have_url(f"{address}/queues/mail")


async def lived(q: Kue, *, waits: int, runs: int, backs_off: int) -> int:
    """Let a job wait, fail, back off and complete, each for so many seconds."""
    total = waits + runs + backs_off + runs
    at = await q.now() - total * SECOND
    job_id = await add_one(q.store, attempts=3, now=at)
    at += waits * SECOND
    job = await claim_one(q.store, lease=HOUR, now=at)
    at += runs * SECOND
    again = Retried(Error("ValueError", "oops"), delay=backs_off * SECOND)
    await q.store.settle([Outcome(job, again)], now=at)
    at += backs_off * SECOND
    await q.store.tend(now=at)
    job = await claim_one(q.store, lease=HOUR, now=at)
    done = Outcome(job, Completed(None))
    await q.store.settle([done], now=at + runs * SECOND)
    return job_id


async def parts_of(page: Page) -> list[float]:
    """Return how wide the parts of the timeline are."""
    await page.wait_for_selector("main[data-ready]")
    # Found and measured at once: the parts are drawn again while the page gets news.
    widths: list[float] = await page.evaluate(
        "[...document.querySelectorAll('.timeline-part')]"
        ".map((node) => node.getBoundingClientRect().width)"
    )
    return widths


async def test_designer_2_the_timeline_is_to_scale(
    page: Page, address: str, q: Kue
) -> None:
    job_id = await lived(q, waits=10, runs=20, backs_off=40)
    await page.goto(f"{address}/jobs/{job_id}")

    wait, run, back, last = await parts_of(page)
    assert run / wait == pytest.approx(2, rel=0.05)
    assert back / run == pytest.approx(2, rel=0.05)
    assert last / run == pytest.approx(1, rel=0.05)
    labels = page.locator(".timeline-length")
    await expect(labels).to_have_text(["10 s", "20 s", "40 s", "20 s"])
    await expect(page.locator(".timeline-part.is-cut")).to_have_count(0)


async def test_designer_2_a_very_long_gap_is_shortened_and_marked(
    page: Page, address: str, q: Kue
) -> None:
    job_id = await lived(q, waits=2, runs=1, backs_off=2 * 86_400)
    await page.goto(f"{address}/jobs/{job_id}")

    _, run, back, _ = await parts_of(page)
    # Six times all runs together.
    assert back / run == pytest.approx(12, rel=0.05)
    await expect(page.locator(".timeline-part.is-cut")).to_have_text("2 d")
    await expect(page.get_by_text("are shortened")).to_be_visible()


async def test_designer_8_a_job_blocked_by_a_failed_one_says_so_and_offers_its_retry(
    page: Page, address: str, q: Kue
) -> None:
    parent = await running(q, "fetch")
    child = await q.enqueue("report", after=[parent.id])
    await page.goto(f"{address}/jobs/{child.id}")
    await expect(badge(page)).to_have_text("blocked")
    notice = page.get_by_role("note").filter(has_text="Blocked")
    await expect(notice).to_have_count(0)

    await q.store.settle([failure_of(parent, "no route to the bank")])
    await expect(notice).to_contain_text(
        f"Job {parent.id} of type fetch failed (TimeoutError: no route to the bank)"
    )
    await expect(notice.get_by_role("link", name=str(parent.id))).to_be_visible()
    first = page.locator("button.primary:visible")
    await expect(first).to_have_text([f"Retry {parent.id}"])
    await first.click()

    await expect(notice).to_have_count(0)
    assert await state_of(q.store, parent.id) is State.WAITING


async def test_a_failed_job_is_named_among_many_that_a_job_waits_for(
    page: Page, address: str, q: Kue
) -> None:
    parent = await running(q, "fetch")
    others = [(await q.enqueue("other")).id for _ in range(30)]
    child = await q.enqueue("report", after=[*others, parent.id])
    await q.store.settle([failure_of(parent, "no route to the bank")])

    await page.goto(f"{address}/jobs/{child.id}")

    notice = page.get_by_role("note").filter(has_text="Blocked")
    await expect(notice).to_contain_text(f"Job {parent.id} of type fetch failed")
    await expect(page.get_by_text("and 11 more")).to_be_visible()


async def test_designer_8_a_blocked_job_can_be_run_without_waiting_from_the_menu(
    page: Page, address: str, q: Kue
) -> None:
    parent = await q.enqueue("fetch")
    child = await q.enqueue("report", after=[parent.id])
    await page.goto(f"{address}/jobs/{child.id}")

    await choose(page, "Run without waiting")

    await expect(badge(page)).to_have_text("waiting")


async def test_a_delayed_job_tells_when_it_runs(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("email", delay="2h", group="ann", unique="k", tags=["vip"])
    await page.goto(f"{address}/jobs/{job.id}")

    await expect(page.locator(".job-note")).to_contain_text(
        re.compile("Due in (2|1) h")
    )
    facts = panel(page, "Details")
    for fact in ["Group", "ann", "Unique key", "vip", "normal (0)", "0 of 1, 1 left"]:
        await expect(facts).to_contain_text(fact)


async def test_a_stream_is_shown_as_it_comes_and_starts_over_with_the_job(
    page: Page, address: str, q: Kue
) -> None:
    job_id = await add_one(q.store, "talk", now=None, attempts=2)
    await opened(page, f"{address}/jobs/{job_id}")
    stream = panel(page, "Stream")
    await expect(badge(page)).to_have_text("waiting")
    await expect(stream).to_be_hidden()

    job = await claim_one(q.store, "talk", now=None)
    await send(q, job, 0, "Once ", "upon ")
    shown = stream.locator("pre")
    await expect(shown).to_have_text("Once upon ")
    await send(q, job, 2, "a time", {"page": 1}, "The end.\n")
    await expect(shown).to_have_text('Once upon a time\n{"page":1}\nThe end.\n')
    await shoot(page, "job-stream")
    assert await barriers(page) == []

    await q.store.settle([Outcome(job, Retried(Error("OSError", "gone")))])
    again = await claim_one(q.store, "talk", now=None)
    await send(q, again, 0, "Once more")
    await expect(shown).to_have_text("Once more")
    await expect(stream).to_contain_text("The job was started again.")
    await q.store.settle([Outcome(again, Completed())])
    await expect(badge(page)).to_have_text("complete")

    await page.reload()
    await expect(shown).to_have_text("Once more")


async def send(q: Kue, job: Job, start: int, *values: object) -> None:
    chunks = [chunk_of(value) for value in values]
    await q.store.append_chunks([SentChunks(job, start, chunks)])


# -- acting --------------------------------------------------------------------


async def test_steps_are_shown_and_a_signal_is_sent(
    page: Page, address: str, q: Kue
) -> None:
    job_id = await waiting_for_signal(q)
    await opened(page, f"{address}/jobs/{job_id}")
    steps = panel(page, "Steps")
    notes = page.locator(".job-notes").first
    await expect(notes).to_contain_text(
        "Waits for signal approved, and times out in 1 d"
    )
    for text in ("charge", "Sleep", "Wait", "until ", "early"):
        await expect(steps).to_contain_text(text)
    await steps.get_by_text("charge", exact=True).click()
    await expect(steps).to_contain_text("receipt")
    await shoot(page, "job-steps")
    assert await barriers(page) == []

    await choose(page, "Send signal…")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Name")).to_have_value("approved")
    await dialog.get_by_label("Data").fill('{"by": "ann"}')
    await shoot(page, "job-signal")
    await dialog.get_by_role("button", name="Send", exact=True).click()

    await expect(told(page, f"Signal approved is sent to job {job_id}")).to_be_visible()
    await expect(badge(page)).to_have_text("waiting")
    await expect(notes).not_to_contain_text("Waits for signal")
    sent = (await q.steps(job_id)).signals[-1]
    assert (sent.name, sent.data) == ("approved", {"by": "ann"})


async def waiting_for_signal(q: Kue) -> int:
    """Bring about a job that did a step, slept, and waits for a signal."""
    now = await q.now()
    job_id = await add_one(q.store, "order", now=now - 2 * HOUR)
    job = await claim_one(q.store, "order", now=now - 2 * HOUR)
    result = msgspec.Raw(b'{"receipt": "r-7"}')
    await q.store.record_step(
        job, "charge", result, duration=340, now=now - 2 * HOUR + SECOND
    )
    for field, delay, at in (
        ("sleep:1", HOUR, now - 2 * HOUR + SECOND),
        ("wait:1:approved", 48 * HOUR, now - HOUR + 2 * SECOND),
    ):
        ending = Released(delay, reason="sleeps", suspended=field)
        await q.store.settle([Outcome(job, ending)], now=at)
        if field == "sleep:1":
            job = await claim_one(q.store, "order", now=at + delay)
    await q.signal(job_id, "early", {"from": "a webhook"})
    return job_id


async def test_a_failed_job_is_retried_and_runs(
    page: Page,
    address: str,
    q: Kue,
    worker: Callable[[], AbstractAsyncContextManager[None]],
) -> None:
    [job_id] = await failed(q, "refused")
    await (await q.get(job_id)).update(data={"to": "ann"})
    await page.goto(f"{address}/jobs/{job_id}")

    await page.get_by_role("button", name="Retry", exact=True).click()
    await expect(told(page, f"Job {job_id} is requeued")).to_be_visible()
    await expect(badge(page)).to_have_text("waiting")

    async with worker():
        await expect(badge(page)).to_have_text("complete")
        await expect(panel(page, "Result")).to_contain_text("sent to ann")


async def test_a_running_job_is_cancelled(
    page: Page,
    address: str,
    q: Kue,
    worker: Callable[[], AbstractAsyncContextManager[None]],
) -> None:
    job = await q.enqueue("steps", {"count": 1_000})
    async with worker():
        await page.goto(f"{address}/jobs/{job.id}")
        await expect(badge(page)).to_have_text("active")

        await page.get_by_role("button", name="Cancel", exact=True).click()
        dialog = page.get_by_role("dialog", name=f"Cancel job {job.id}?")
        await dialog.get_by_role("button", name="Cancel the job").click()

        await expect(told(page, f"Job {job.id} is being cancelled")).to_be_visible()
        await expect(badge(page)).to_have_text("cancelled")
        await expect(
            page.get_by_role("button", name="Retry", exact=True)
        ).to_be_visible()


async def test_keys_act_on_the_job(page: Page, address: str, q: Kue) -> None:
    job = await q.enqueue("email", delay="1h")
    await page.goto(f"{address}/jobs/{job.id}")
    await expect(badge(page)).to_have_text("delayed")

    await page.keyboard.press("n")
    await expect(badge(page)).to_have_text("waiting")
    await page.keyboard.press("c")
    await expect(badge(page)).to_have_text("cancelled")
    await page.keyboard.press("r")
    await expect(badge(page)).to_have_text("waiting")
    await page.keyboard.press("e")
    await expect(
        page.get_by_role("dialog", name=f"Data of job {job.id}")
    ).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("l")
    await expect(page.get_by_role("searchbox", name="Search the log")).to_be_focused()


async def test_a_key_right_after_a_dialog_was_closed_counts(
    page: Page, address: str, q: Kue
) -> None:
    """A field of the dialog has the focus until the page is drawn again."""
    job = await q.enqueue("email", delay="1h")
    await page.goto(f"{address}/jobs/{job.id}")
    await expect(badge(page)).to_have_text("delayed")
    await page.keyboard.press("e")
    await expect(page.get_by_role("dialog").get_by_role("textbox")).to_be_focused()

    await page.evaluate(
        """() => {
          document.querySelector("dialog").close();
          const key = new KeyboardEvent("keydown", { key: "l", bubbles: true });
          document.activeElement.dispatchEvent(key);
        }"""
    )

    await expect(page.get_by_role("searchbox", name="Search the log")).to_be_focused()


async def test_a_delayed_job_runs_now(page: Page, address: str, q: Kue) -> None:
    job = await q.enqueue("email", delay="1h")
    await page.goto(f"{address}/jobs/{job.id}")

    await page.get_by_role("button", name="Run now").click()

    await expect(told(page, f"Job {job.id} is promoted")).to_be_visible()
    await expect(badge(page)).to_have_text("waiting")


async def test_data_is_edited_and_what_is_hidden_stays(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("login", {"name": "ann", "password": "secret"})
    await page.goto(f"{address}/jobs/{job.id}")

    await choose(page, "Edit data…")
    dialog = page.get_by_role("dialog", name=f"Data of job {job.id}")
    field = dialog.get_by_role("textbox", name="Data")
    text = await field.input_value()
    assert "secret" not in text
    await field.fill(text.replace("ann", "bob"))
    await dialog.get_by_role("button", name="Save").click()

    await expect(dialog).to_be_hidden()
    await expect(panel(page, "Data")).to_contain_text('"bob"')
    kept = await get_one(q.store, job.id)
    assert kept.data == {"name": "bob", "password": "secret"}


async def test_data_that_is_no_json_is_told_at_its_field(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("email", {"to": "ann"})
    await page.goto(f"{address}/jobs/{job.id}")
    await choose(page, "Edit data…")
    field = page.get_by_role("textbox", name="Data")

    await field.fill('{"to": ')
    await page.get_by_role("button", name="Save").click()

    await expect(field).to_have_accessible_description(re.compile("invalid JSON"))
    assert (await get_one(q.store, job.id)).data == {"to": "ann"}


async def test_a_job_is_retried_with_other_data(
    page: Page, address: str, q: Kue
) -> None:
    [job_id] = await failed(q, "refused")
    await page.goto(f"{address}/jobs/{job_id}")

    await choose(page, "Retry with different data…")
    await page.get_by_role("textbox", name="Data").fill('{"to": "bob"}')
    await page.get_by_role("dialog").get_by_role("button", name="Retry").click()

    await expect(badge(page)).to_have_text("waiting")
    await expect(panel(page, "Data")).to_contain_text('"bob"')
    assert (await get_one(q.store, job_id)).data == {"to": "bob"}


async def test_a_copy_is_run_and_shown(page: Page, address: str, q: Kue) -> None:
    job_id = await complete(q, "email", {"to": "ann"}, tags=["vip"])
    await page.goto(f"{address}/jobs/{job_id}")

    await choose(page, "Run a copy")
    message = told(page, f"is a copy of {job_id}")
    await message.get_by_role("button", name="Open").click()

    await expect(badge(page)).to_have_text("waiting")
    copied = await get_one(q.store, int(page.url.rpartition("/")[2]))
    assert copied.id != job_id
    assert (copied.data, copied.tags) == ({"to": "ann"}, ("vip",))


async def test_a_copy_has_other_data(page: Page, address: str, q: Kue) -> None:
    job = await q.enqueue("email", {"to": "ann"})
    await page.goto(f"{address}/jobs/{job.id}")

    await choose(page, "Run a copy with different data…")
    await page.get_by_role("textbox", name="Data").fill('{"to": "bob"}')
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Run a copy").click()
    message = told(page, f"is a copy of {job.id}")
    await message.get_by_role("button", name="Open").click()

    await expect(panel(page, "Data")).to_contain_text('"bob"')


async def test_the_priority_is_changed(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("console: .* 400 .*/priority")
    job = await q.enqueue("email")
    await page.goto(f"{address}/jobs/{job.id}")
    await choose(page, "Change priority…")
    field = page.get_by_role("textbox", name="Priority")

    await field.fill("very")
    await page.get_by_role("button", name="Change", exact=True).click()
    await expect(field).to_have_attribute("aria-invalid", "true")
    await field.fill("-7")
    await page.get_by_role("button", name="Change", exact=True).click()

    await expect(panel(page, "Details")).to_contain_text("Priority-7")
    assert (await get_one(q.store, job.id)).priority == -7


async def test_a_job_is_rescheduled_after_a_delay_or_to_a_moment(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("email")
    await page.goto(f"{address}/jobs/{job.id}")

    await choose(page, "Reschedule…")
    await page.get_by_role("textbox", name="Delay").fill("3h")
    await page.get_by_role("button", name="Reschedule", exact=True).click()
    await expect(badge(page)).to_have_text("delayed")
    await expect(page.locator(".job-note")).to_contain_text(
        re.compile("Due in (3|2) h")
    )
    await choose(page, "Reschedule…")
    await page.get_by_label("Start time").fill("2030-01-02T03:04")
    await page.get_by_role("button", name="Reschedule", exact=True).click()

    await expect(page.locator(".job-note")).to_contain_text("Due in 1")
    due = await page.evaluate("new Date('2030-01-02T03:04').getTime()")
    assert (await get_one(q.store, job.id)).promote_at == due


async def test_a_job_is_removed_once_it_is_typed(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    job = await q.enqueue("email")
    # The page may read the job once more before it is left.
    watch.allow(f"console: .* 404 .*/jobs/{job.id}")
    await page.goto(f"{address}/jobs/{job.id}")

    await choose(page, "Remove…")
    dialog = page.get_by_role("dialog", name=f"Remove job {job.id}?")
    button = dialog.get_by_role("button", name="Remove")
    await expect(button).to_be_disabled()
    await dialog.get_by_role("textbox").fill("remov")
    await expect(button).to_be_disabled()
    await dialog.get_by_role("textbox").fill("remove")
    await button.click()

    await expect(told(page, f"Job {job.id} is removed")).to_be_visible()
    await expect(page).to_have_url(f"{address}/jobs")
    assert await state_of(q.store, job.id) is None


async def test_an_act_that_comes_too_late_is_refused_and_told(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("console: .* 409 .*/promote")
    job = await q.enqueue("email", delay="1h")
    await page.goto(f"{address}/jobs/{job.id}")
    await expect(badge(page)).to_have_text("delayed")
    # So that the page has not heard of it yet.
    await paused(page)
    await job.cancel()

    await page.get_by_role("button", name="Run now").click()

    await expect(page.get_by_role("alert")).to_contain_text("cancelled")


class Held:
    """Holds back the answers to what a page asks."""

    def __init__(self) -> None:
        self.asked: list[Route] = []
        self.is_asked = asyncio.Event()
        self._may_pass = asyncio.Event()

    async def __call__(self, route: Route) -> None:
        self.asked.append(route)
        self.is_asked.set()
        await self._may_pass.wait()
        await route.continue_()

    async def release(self) -> None:
        """Let them pass, and wait until they came, or were given up."""
        self._may_pass.set()
        for route in self.asked:
            response = await route.request.response()
            if response is not None:
                await response.finished()


async def paused(page: Page) -> None:
    await page.keyboard.press("p")
    await expect(page.get_by_role("button", name="Paused:")).to_be_visible()


@pytest.mark.usefixtures("context")
async def test_an_answer_under_way_does_not_change_a_paused_page(
    page: Page, address: str, q: Kue
) -> None:
    job = await running(q)
    await q.store.log(job.id, lines_of(1, 3))
    await page.clock.install()
    await opened(page, f"{address}/jobs/{job.id}")
    await is_live(page)
    held = Held()
    await page.route(re.compile(rf"/api/v1/jobs/{job.id}(/logs.*)?$"), held)
    await q.store.progress([Progress(job.id, 10, {}, token=job.token)])
    await held.is_asked.wait()

    await paused(page)
    await q.store.log(job.id, lines_of(4, 5))
    await q.store.settle([Outcome(job, Completed(None))])
    await held.release()
    # All that the page meant to do later, it does now.
    await page.clock.fast_forward(5_000)

    await expect(badge(page)).to_have_text("active")
    await expect(log(page).locator(".log-line")).to_have_count(3)
    await page.keyboard.press("p")
    await expect(badge(page)).to_have_text("complete")
    await expect(log(page).locator(".log-line")).to_have_count(5)


@pytest.mark.usefixtures("context")
async def test_a_paused_page_shows_what_it_first_asked_for_and_asks_no_more(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("email", delay="1h")
    await page.clock.install()
    held = Held()
    await page.route(f"**/api/v1/jobs/{job.id}", held)
    await page.goto(f"{address}/jobs/{job.id}")
    await held.is_asked.wait()
    # By then it wants to ask again: something may have happened in between.
    await is_live(page)

    await paused(page)
    await held.release()
    await expect(badge(page)).to_have_text("delayed")
    await job.cancel()
    await page.clock.fast_forward(5_000)

    await expect(badge(page)).to_have_text("delayed")
    assert len(held.asked) == 1
    await page.keyboard.press("p")
    await expect(badge(page)).to_have_text("cancelled")


# -- gone ----------------------------------------------------------------------


@pytest.mark.parametrize("which", ["4711", "0", "nothing", "99999999999999999999"])
async def test_a_job_that_never_was_is_told_so(
    page: Page, address: str, watch: Watch, which: str
) -> None:
    watch.allow(r"console: .* 404 .*/jobs/4711")
    await page.goto(f"{address}/jobs/{which}")

    await expect(page.get_by_role("heading", name="Job not found")).to_be_visible()
    await page.get_by_role("link", name="All jobs").click()
    await expect(page).to_have_url(f"{address}/jobs")


async def test_a_job_that_is_removed_meanwhile_is_told_so(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow(r"console: .* 404 .*/jobs/\d+")
    job = await q.enqueue("email", {"to": "ann"})
    await page.goto(f"{address}/jobs/{job.id}")
    await expect(badge(page)).to_have_text("waiting")

    await q.remove_many([job.id])

    await expect(told(page, "This job was removed.")).to_be_visible()
    await expect(panel(page, "Data")).to_contain_text('"ann"')
    await expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)


# -- as code -------------------------------------------------------------------

#: What makes quoting hard.
DATA = {
    "to": 'o\'neil "the" $HOME `id` \\ \n é 🎉',
    "lines": [1, -2.5, True, False, None],
    "$(id)": {"nested": []},
}


async def run_python(text: str, url: str) -> None:
    program = "\n".join(
        [
            "import asyncio, sys",
            "from kue import Kue",
            "async def main():",
            "    async with Kue(sys.argv[1]) as q:",
            textwrap.indent(text, " " * 8),
            "asyncio.run(main())",
        ]
    )
    await run_process(sys.executable, "-c", program, url)


async def run_shell(text: str, url: str) -> None:
    await run_process("sh", "-c", text, KUE_URL=url)


async def run_process(*words: str, **environment: str) -> None:
    bin = Path(sys.executable).parent
    path = f"{bin}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *words,
        env={**os.environ, "PATH": path, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, f"{out.decode()} {err.decode()}"


@pytest.mark.parametrize(
    ("language", "run"),
    [("Python", run_python), ("Command line", run_shell), ("cURL", run_shell)],
)
@pytest.mark.parametrize(
    ("data", "options"),
    [
        (
            DATA,
            {
                "priority": -10,
                "delay": "90s",
                "attempts": "unlimited",
                "max_exceptions": 3,
                "retry_until": "2h",
                "backoff": {"type": "exponential", "delay": 2_000, "max": 60_000},
                "timeout": "5m",
                "unique": "it's one",
                "group": "a b",
                "tags": ["vip", "$x"],
                "on_parent_failure": "only",
            },
        ),
        (-5, {"backoff": "30s"}),
        (None, {}),
    ],
    ids=["everything", "number", "nothing"],
)
async def test_what_a_job_is_as_code_adds_another_like_it(
    page: Page,
    address: str,
    q: Kue,
    url: str,
    context: BrowserContext,
    language: str,
    run: Callable[[str, str], Any],
    data: Any,
    options: dict[str, Any],
) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    parents = [await q.enqueue("parent") for _ in range(2)]
    if "on_parent_failure" in options:
        options = {**options, "after": parents}
    job = await q.enqueue("e-mail $1", data, **options)
    # So that its unique key is free.
    await job.cancel()
    await page.goto(f"{address}/jobs/{job.id}")
    code = panel(page, "Run a similar job")
    await code.get_by_role("button", name=language).click()
    await code.get_by_role("button", name="Copy").click()
    await expect(told(page, "Copied")).to_be_visible()

    await run(await clipboard(page), url)

    first = await get_one(q.store, job.id)
    jobs = (await q.page(type="e-mail $1")).jobs
    [other] = [one for one in jobs if one.id != job.id]
    assert like(other) == like(first)


#: What a job has been told to be; the rest is what became of it.
TOLD = (
    *("type", "data", "priority", "max_attempts", "delay"),
    *("max_exceptions", "backoff", "timeout", "unique", "group", "tags"),
    *("after", "on_parent_failure"),
)


def like(job: Job) -> dict[str, Any]:
    whole = job_detail(job)
    retried_for = whole.retry_until and whole.retry_until - whole.created_at
    shown = {name: getattr(whole, name) for name in TOLD}
    return {**shown, "retried for": retried_for}


# -- who may -------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"guard": Anyone(Role.VIEWER)}, {"read_only": True}]
)
async def test_who_may_only_look_is_offered_nothing_else(
    page: Page, serve: Callable[..., str], q: Kue, options: dict[str, object]
) -> None:
    [job_id] = await failed(q, "a")
    await page.goto(f"{serve(**options)}/jobs/{job_id}")

    await expect(badge(page)).to_have_text("failed")
    await expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    await expect(page.get_by_role("button", name="More actions")).to_have_count(0)
    for key in ["r", "c", "e"]:
        await page.keyboard.press(key)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert await state_of(q.store, job_id) is State.FAILED


async def test_an_operator_is_not_offered_to_remove(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    [job_id] = await failed(q, "a")
    await page.goto(f"{serve(guard=Anyone(Role.OPERATOR))}/jobs/{job_id}")

    await page.get_by_role("button", name="More actions").click()
    await expect(page.get_by_role("button", name="Edit data…")).to_be_visible()
    await expect(page.get_by_role("button", name="Remove…")).to_have_count(0)


# -- looks ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["complete", "failed", "delayed", "active", "blocked"])
async def test_a_job_looks_well_and_keeps_nobody_out(
    page: Page, address: str, q: Kue, kind: str
) -> None:
    jobs = await furnish(q)
    await page.goto(f"{address}/jobs/{jobs[kind]}")
    await expect(badge(page)).to_have_text(kind)

    assert await barriers(page) == []
    await shoot(page, f"job-{kind}")
