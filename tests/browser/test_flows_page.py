"""The graph of a flow, and the list of batches."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, expect

import kue
from kue import Kue, State
from kue.model.job import Completed, Failed
from tests.browser.finding import dialog, opened, press, row, told
from tests.browser.test_screenshots import WIDE
from tests.browser.watching import NARROW, SIZE
from tests.support.jobs import OOPS, claim_one, end


def tasks(q: Kue) -> Any:
    @q.task(attempts=1)
    async def fetch(url: str) -> str:
        return url

    @q.task(attempts=1)
    async def count(page: str) -> int:
        return len(page)

    return fetch, count


async def test_a_flow_is_shown_live_and_retried_from_a_failed_job_on(
    page: Page, address: str, q: Kue
) -> None:
    fetch, count = tasks(q)
    flow = await (fetch.s("a") | count.s() | count.si("b")).enqueue()
    await opened(page, f"{address}/flows/{flow.id}")
    nodes = page.locator(".flow-node")
    await expect(nodes).to_have_count(3)
    await expect(nodes.nth(0)).to_contain_text("waiting")
    await expect(page.locator(".flow-edges path")).to_have_count(2)

    job = await claim_one(q.store, "fetch", now=await q.now())
    await end(q.store, job, Failed(OOPS), now=await q.now())
    await expect(nodes.nth(0)).to_contain_text("failed")

    await nodes.nth(0).get_by_role("button", name="Actions").click()
    await press(page, "Retry from here")

    await expect(told(page, "1 job requeued")).to_be_visible()
    await expect(nodes.nth(0)).to_contain_text("waiting")


#: The job that a line of the graph is drawn through, besides those at its ends.
_CROSSED = """(lines) => lines.flatMap((line) => {
  const boxes = [...document.querySelectorAll(".flow-node")].map((node) => ({
    text: node.textContent, x: node.offsetLeft, y: node.offsetTop,
    width: node.offsetWidth, height: node.offsetHeight,
  }));
  const length = line.getTotalLength();
  const points = Array.from({length: 200}, (_, i) => (
    line.getPointAtLength(length * i / 199)
  ));
  return boxes.filter(({x, y, width, height}) => points.some((at) => (
    at.x > x + 4 && at.x < x + width - 4 && at.y > y && at.y < y + height
  ))).map(({text}) => text);
})"""


async def test_no_job_covers_an_edge_of_others(
    page: Page, address: str, q: Kue
) -> None:
    fetch, count = tasks(q)
    branches = kue.group(
        fetch.si("short"),
        *(fetch.si(str(n)) | count.s() | count.si("b") for n in range(2)),
    )
    flow = await (fetch.s("a") | branches | count.si("c")).enqueue()

    await opened(page, f"{address}/flows/{flow.id}")

    edges = page.locator(".flow-edges path")
    await expect(edges).to_have_count(10)
    assert await edges.evaluate_all(_CROSSED) == []


async def test_a_job_and_everything_after_it_is_cancelled(
    page: Page, address: str, q: Kue
) -> None:
    fetch, count = tasks(q)
    flow = await (fetch.s("a") | count.s() | count.si("b")).enqueue()
    await opened(page, f"{address}/jobs/{flow.id}")
    await page.get_by_role("link", name="Graph of the flow").click()
    second = page.locator(".flow-node").nth(1)

    await second.get_by_role("button", name="Actions").click()
    await press(page, "Cancel from here")
    asked = f"Cancel job {flow.jobs[1].id} and everything after it?"
    await press(dialog(page, asked), "Cancel the jobs")

    await expect(told(page, "2 jobs cancelled")).to_be_visible()
    states = [(await job.refresh()).state for job in flow.jobs]
    assert states == [State.WAITING, State.CANCELLED, State.CANCELLED]


async def test_batches_are_listed_and_their_failed_jobs_retried(
    page: Page, address: str, q: Kue
) -> None:
    fetch, _ = tasks(q)
    batch = kue.batch("import", allow_failures=True)
    handle = await batch.enqueue(fetch.s(str(number)) for number in range(2))
    for ending in (Failed(OOPS), Completed()):
        job = await claim_one(q.store, "fetch", now=await q.now())
        await end(q.store, job, ending, now=await q.now())
    await opened(page, f"{address}/batches")
    await expect(row(page, "import")).to_contain_text("100%")

    await press(row(page, "import"), "Retry failed: import")

    await expect(told(page, f"1 job of batch {handle.id} requeued")).to_be_visible()
    await expect(row(page, "import")).to_contain_text("50%")
    await row(page, "import").get_by_role("link", name="import").click()
    title = f"Batch {handle.id}: import"
    await expect(page.get_by_role("heading", name=title)).to_be_visible()


async def test_a_long_name_of_a_batch_fits_on_a_phone(
    page: Page, address: str, q: Kue
) -> None:
    fetch, _ = tasks(q)
    handle = await kue.batch("x" * 80).enqueue([fetch.s("a")])
    await page.set_viewport_size(NARROW)
    try:
        await opened(page, f"{address}/flows/{handle.id}")
        await expect(page.get_by_role("heading", name="x" * 80)).to_be_visible()
        assert await page.evaluate(WIDE) <= 0
    finally:
        await page.set_viewport_size(SIZE)
