"""
A dashboard made for Automattic's Kue, from the npm registry, in front of ``/kue``.

It is served as its authors do: its files, and its configuration with our address in it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kue import Kue, State
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.model.job import Completed, Ending, Failed
from tests.support.jobs import OOPS, claim_one, end
from tests.support.patience import PATIENCE_SECONDS

DIST = Path(__file__).parents[2] / ".venv/npm/node_modules/kue-ui-client/dist"
#: Fonts from elsewhere, which the page does without.
ELSEWHERE = re.compile(r"<link[^>]*https://[^>]*>")
ICON = '<link rel="icon" href="data:,">'


def dashboard(q: Kue) -> Starlette:
    """Return the old dashboard and the API it talks to, on one origin."""
    html = ELSEWHERE.sub("", (DIST / "index.html").read_text())
    html = html.replace("/kue-api", "/kue").replace("<title>", f"{ICON}<title>")

    async def show(request: Request) -> Response:
        return HTMLResponse(html)

    return Starlette(
        routes=[
            Route("/", show),
            Route("/jobs{page:path}", show),
            Mount("/assets", StaticFiles(directory=DIST / "assets")),
            Mount("/fonts", StaticFiles(directory=DIST / "fonts")),
            Mount("/", create_app(q, guard=Anyone())),
        ]
    )


@pytest.fixture
def old(serve: Callable[..., str]) -> str:
    """Where the old dashboard is."""
    return serve(dashboard)


async def ended(q: Kue, ending: Ending) -> int:
    """Add a job and end it."""
    await q.enqueue("email", {"to": "ann"})
    job = await claim_one(q.store, now=await q.now())
    await end(q.store, job, ending, now=await q.now())
    return job.id


async def is_in(q: Kue, state: State, job_id: int) -> bool:
    handle = await q.get(job_id)
    return handle.job is not None and handle.job.state is state


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Ask the store until it says so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_so():  # noqa: ASYNC110 - the store has no event for it
            await asyncio.sleep(0.02)


def row(page: Page, job_id: int) -> Locator:
    return page.locator("tr.job", has=page.get_by_text(str(job_id), exact=True))


async def act_on_all(page: Page, address: str, what: str) -> None:
    """Do something to all jobs that the page at *address* lists."""
    await page.goto(address)
    await page.locator("thead md-checkbox").click()
    # It reads the list anew then, and would log an error if that were cut off.
    async with page.expect_response(re.compile(r"/kue/jobs/\w+/0\.\.20/")) as listed:
        await page.get_by_text(what).click()
    await listed.value


async def test_jobs_are_counted_by_state_and_type(page: Page, old: str, q: Kue) -> None:
    await ended(q, Completed())
    await ended(q, Failed(OOPS))
    await q.enqueue("email")
    await q.enqueue("report", delay="1h")

    await page.goto(old)

    for line in ("Complete: 1", "Failed: 1", "Inactive: 1", "Delayed: 1", "Active: 0"):
        await expect(page.get_by_text(line, exact=True)).to_be_visible()
    for line in ("email > complete: 1", "email > failed: 1", "report > delayed: 1"):
        await expect(page.get_by_text(line)).to_be_visible()


async def test_jobs_are_listed_by_state_and_by_type(
    page: Page, old: str, q: Kue
) -> None:
    email, report = await q.enqueue("email"), await q.enqueue("report")
    later = await q.enqueue("report", delay="1h")

    await page.goto(f"{old}/jobs/state/inactive")
    await expect(page.locator("tr.job")).to_have_count(2)
    await expect(row(page, email.id)).to_contain_text("email")
    await expect(row(page, report.id)).to_contain_text("inactive")

    await page.locator("a", has_text="report").first.click()
    await page.locator("a.sub-item", has_text="delayed").locator("visible=true").click()
    await expect(page.locator("tr.job")).to_have_count(1)
    await expect(row(page, later.id)).to_contain_text("delayed")


async def test_a_full_page_of_jobs_is_shown(page: Page, old: str, q: Kue) -> None:
    jobs = await q.enqueue_many("email", [None] * 250)

    await page.goto(f"{old}/jobs/state/inactive?size=200")

    await expect(row(page, jobs[0].id)).to_be_visible()


async def test_a_job_is_found_by_its_id_with_its_log_and_error(
    page: Page, old: str, q: Kue
) -> None:
    failed = await ended(q, Failed(OOPS))
    await (await q.get(failed)).log("a line of its log")

    await page.goto(old)
    await page.get_by_placeholder("Find Job By Id").fill(str(failed))
    await page.keyboard.press("Enter")

    await expect(page.get_by_text(f"Job #{failed}")).to_be_visible()
    await expect(page.get_by_text("a line of its log")).to_be_visible()
    await expect(page.locator(".error-output")).to_have_text("ValueError: oops")
    await expect(page.locator(".jsonview")).to_contain_text(f'"id": "{failed}"')


async def test_a_job_is_restarted_by_its_state(page: Page, old: str, q: Kue) -> None:
    failed = await ended(q, Failed(OOPS))

    await page.goto(f"{old}/jobs/{failed}")
    await page.locator(".job-detail select").select_option("inactive")

    await until(lambda: is_in(q, State.WAITING, failed))


async def test_jobs_are_cancelled_and_restarted_together(
    page: Page, old: str, q: Kue
) -> None:
    jobs = [(await q.enqueue("email")).id for _ in range(2)]

    await act_on_all(page, f"{old}/jobs/state/inactive", "Cancel Selected Jobs")
    for job_id in jobs:
        await until(partial(is_in, q, State.CANCELLED, job_id))

    await act_on_all(page, f"{old}/jobs/state/failed", "Restart Selected Jobs")
    for job_id in jobs:
        await until(partial(is_in, q, State.WAITING, job_id))


async def test_a_job_is_removed(page: Page, old: str, q: Kue) -> None:
    job, other = await q.enqueue("email"), await q.enqueue("email")

    await page.goto(f"{old}/jobs/state/inactive")
    await row(page, job.id).locator("td").nth(1).click()
    await page.get_by_role("button", name="Delete").click()

    await expect(row(page, job.id)).to_have_count(0)
    await expect(row(page, other.id)).to_be_visible()
    assert not await q.exists(job.id)


async def test_a_job_is_added(page: Page, old: str, q: Kue) -> None:
    await page.goto(old)
    await page.get_by_role("button", name="add").click()
    await page.locator("md-dialog textarea").fill(
        '{"type": "email", "data": {"to": "ann"}, "options": {"priority": "high"}}'
    )
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_text("Job Created Successfully")).to_be_visible()

    [job] = await q.range(0, -1)
    assert (job.type, job.data, job.priority) == ("email", {"to": "ann"}, -10)
