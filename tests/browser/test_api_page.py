"""The page that the REST API is read on."""

from __future__ import annotations

from playwright.async_api import Page, expect

from kue import Kue
from tests.browser.finding import opened, press


async def test_every_operation_of_the_document_is_there(
    page: Page, address: str
) -> None:
    document = await (await page.request.get(f"{address}/api/v1/openapi.json")).json()
    wanted = [
        one["operationId"]
        for path in document["paths"].values()
        for one in path.values()
    ]
    await opened(page, f"{address}/api")

    found = await page.locator("details[id]:not([id^=schema-])").evaluate_all(
        "(nodes) => nodes.map((node) => node.id)"
    )

    assert sorted(found) == sorted(wanted)


async def test_an_operation_tells_what_it_takes_and_answers(
    page: Page, address: str
) -> None:
    await opened(page, f"{address}/api")
    one = page.locator("details#jobs_find")

    await one.locator("summary").click()

    parameters = one.get_by_role("region", name="Parameters")
    await expect(parameters).to_contain_text("state")
    await expect(one).to_contain_text("200")
    await expect(one).to_contain_text("Or an error:")


async def test_an_operation_is_tried_from_the_page(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("email", {"to": "ann"})
    await opened(page, f"{address}/api")
    one = page.locator("details#jobs_show")

    await one.locator("summary").click()
    await one.get_by_label("job_id").fill(str(job.id))
    await press(one, "Send")

    await expect(one).to_contain_text("Response in")
    await expect(one).to_contain_text("email")


async def test_operations_are_found_by_word(page: Page, address: str) -> None:
    await opened(page, f"{address}/api")

    await page.keyboard.press("/")
    await page.keyboard.type("pause queue")

    await expect(page.locator("details#queues_pause_queue")).to_be_visible()
    await expect(page.locator("details#jobs_find")).to_be_hidden()


async def test_a_schema_is_led_to_and_opened(page: Page, address: str) -> None:
    await opened(page, f"{address}/api")
    one = page.locator("details#stats_overview")
    await one.locator("summary").click()

    await one.get_by_role("link", name="WorkerCounts").first.click()

    schema = page.locator("details#schema-WorkerCounts")
    await expect(schema).to_have_attribute("open", "")
    await expect(schema).to_contain_text("lost")
    await expect(page).to_have_url(f"{address}/api#schema-WorkerCounts")


async def test_the_document_itself_is_to_be_had(page: Page, address: str) -> None:
    await opened(page, f"{address}/api")

    link = page.get_by_role("link", name="openapi.json")

    await expect(link).to_have_attribute("href", "/api/v1/openapi.json")
