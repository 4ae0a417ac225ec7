"""The list of jobs: found, filtered, chosen and acted on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable

import pytest
from playwright.async_api import Locator, Page, Route, expect

from kue import Kue, State
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from tests.browser.finding import hold
from tests.browser.making import failed, failure_of, furnish, running
from tests.browser.watching import Watch, barriers, shoot
from tests.support.jobs import add_many, count_of, get_one, state_of

LOOKS = {
    "jobs": "",
    "jobs-waiting": "state=waiting",
    "jobs-active": "state=active",
    "jobs-failed": "state=failed&type=invoice&since=1h",
    "jobs-delayed": "state=delayed",
}


def rows(page: Page) -> Locator:
    return page.locator("tbody").get_by_role("row")


def row_of(page: Page, job_id: int) -> Locator:
    return rows(page).filter(has=page.get_by_role("link", name=str(job_id), exact=True))


def tab(page: Page, state: str) -> Locator:
    tabs = page.get_by_role("navigation", name="States")
    return tabs.get_by_role("link", name=re.compile(f"^{state}"))


def chips(page: Page) -> Locator:
    return page.get_by_role("list", name="Filters").get_by_role("listitem")


def selection(page: Page) -> Locator:
    return page.get_by_role("region", name="Selection")


def toast(page: Page, text: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("status").filter(has_text=text)


async def filter_by(page: Page, typed: str) -> None:
    line = page.get_by_role("combobox", name="Add a filter")
    await line.fill(typed)
    await line.press("Enter")


async def select_all(page: Page) -> None:
    await expect(rows(page).first).to_be_visible()
    await page.get_by_role("checkbox", name="Select all rows").check()


async def typed(page: Page, word: str) -> None:
    """Type what a destructive act wants typed."""
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("textbox").fill(word)
    await dialog.get_by_role("button", name="Remove").click()


async def ids_shown(page: Page) -> list[int]:
    links = rows(page).locator("td a").filter(has_text=re.compile(r"^\d+$"))
    return [int(text) for text in await links.all_text_contents()]


# -- the list ------------------------------------------------------------------


async def test_a_job_of_another_process_appears_without_a_reload(
    page: Page, address: str, q: Kue
) -> None:
    await page.goto(f"{address}/jobs")
    await expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()

    job = await q.enqueue("email", {"to": "ann"})

    await expect(row_of(page, job.id)).to_contain_text('{"to":"ann"}')
    await expect(page.get_by_role("heading", name="No jobs yet")).to_be_hidden()
    await expect(tab(page, "waiting")).to_contain_text("1")


async def test_a_row_follows_its_job(page: Page, address: str, q: Kue) -> None:
    handle = await q.enqueue("email")
    await page.goto(f"{address}/jobs")
    await expect(row_of(page, handle.id)).to_contain_text("waiting")

    await handle.cancel()

    await expect(row_of(page, handle.id)).to_contain_text("cancelled")


async def test_each_state_has_a_tab_with_its_count(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await q.enqueue("email", delay="1h")
    wrong = await failed(q, "refused", "refused", type="report")
    await page.goto(f"{address}/jobs")
    await expect(tab(page, "all")).to_contain_text("4")

    await tab(page, "failed").click()

    await expect(page).to_have_url(re.compile(r"\?state=failed$"))
    await expect(rows(page)).to_have_count(2)
    await expect(tab(page, "failed")).to_have_attribute("aria-current", "true")
    await expect(tab(page, "failed")).to_contain_text("2")
    await expect(row_of(page, wrong[0])).to_contain_text("ConnectionError: refused")
    await tab(page, "blocked").click()
    await expect(page.get_by_text("There are no blocked jobs.")).to_be_visible()
    await page.go_back()
    await expect(rows(page)).to_have_count(2)


async def test_the_waiting_are_in_line_and_the_line_can_be_turned_round(
    page: Page, address: str, q: Kue
) -> None:
    late = await q.enqueue("email", priority="low")
    soon = await q.enqueue("email", priority="high")
    await page.goto(f"{address}/jobs?state=waiting")
    await expect(rows(page)).to_have_count(2)
    assert await ids_shown(page) == [soon.id, late.id]

    order = page.get_by_role("combobox", name="Order")
    await order.select_option("Last to run first")

    await expect(page).to_have_url(re.compile("order=desc"))
    await expect(rows(page).first).to_contain_text(str(late.id))


async def test_a_row_opens_its_job(page: Page, address: str, q: Kue) -> None:
    job = await q.enqueue("email", {"to": "ann"})
    await page.goto(f"{address}/jobs")

    await row_of(page, job.id).get_by_text('{"to":"ann"}').click()

    await expect(page).to_have_url(f"{address}/jobs/{job.id}")
    await expect(page.get_by_role("heading", name=f"Job {job.id}")).to_be_visible()


async def test_pages_follow_each_other_and_lead_back(
    page: Page, address: str, q: Kue
) -> None:
    ids = await add_many(q.store, 120, now=await q.now())
    await page.goto(f"{address}/jobs")
    await expect(page.get_by_text("50 of 120 jobs")).to_be_visible()
    pager = page.get_by_role("navigation", name="Pages")

    await pager.get_by_role("button", name="Next").click()
    await expect(row_of(page, ids[69])).to_be_visible()
    await page.locator("body").press("o")
    await expect(row_of(page, ids[0])).to_be_visible()
    await expect(rows(page)).to_have_count(20)
    await expect(pager.get_by_role("button", name="Next")).to_be_hidden()

    await page.reload()
    await expect(rows(page)).to_have_count(20)
    await pager.get_by_role("button", name="First page").click()
    await expect(row_of(page, ids[119])).to_be_visible()


async def test_previous_is_the_page_before(page: Page, address: str, q: Kue) -> None:
    ids = await add_many(q.store, 120, now=await q.now())
    await page.goto(f"{address}/jobs")
    pager = page.get_by_role("navigation", name="Pages")
    await pager.get_by_role("button", name="Next").click()
    await expect(row_of(page, ids[69])).to_be_visible()
    await pager.get_by_role("button", name="Next").click()
    await expect(row_of(page, ids[0])).to_be_visible()

    await pager.get_by_role("button", name="Previous").click()
    await expect(row_of(page, ids[69])).to_be_visible()
    await pager.get_by_role("button", name="First page").click()

    await expect(row_of(page, ids[119])).to_be_visible()
    await expect(page).to_have_url(f"{address}/jobs")


# -- filters -------------------------------------------------------------------


async def test_filters_are_chips_and_stand_in_the_address(
    page: Page, address: str, q: Kue
) -> None:
    meant = await q.enqueue("email", {"user": {"id": 42}}, tags=["vip"])
    await q.enqueue("email", {"user": {"id": 43}}, tags=["vip"])
    await q.enqueue("email", {"user": {"id": 42}})
    await q.enqueue("report", {"user": {"id": 42}}, tags=["vip"])
    await page.goto(f"{address}/jobs")
    await expect(rows(page)).to_have_count(4)

    await filter_by(page, "type:email")
    await expect(rows(page)).to_have_count(3)
    await filter_by(page, "tag:vip")
    await expect(rows(page)).to_have_count(2)
    await filter_by(page, "data.user.id=42")
    await expect(rows(page)).to_have_count(1)

    words = ["type: email", "tag: vip", "data.user.id = 42"]
    await expect(chips(page)).to_have_text([re.compile(re.escape(w)) for w in words])
    shared = page.url
    await page.goto("about:blank")
    await page.goto(shared)
    await expect(chips(page)).to_have_count(3)
    await expect(row_of(page, meant.id)).to_be_visible()
    await expect(rows(page)).to_have_count(1)


async def test_a_chip_is_taken_away_by_its_button_and_by_backspace(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email", group="ann", priority="high")
    await q.enqueue("email", group="bob", priority="high")
    await q.enqueue("report")
    await page.goto(f"{address}/jobs?type=email&priority=high&group=ann")
    await expect(rows(page)).to_have_count(1)

    await page.get_by_role("button", name="Remove the filter group: ann").click()
    await expect(rows(page)).to_have_count(2)
    line = page.get_by_role("combobox", name="Add a filter")
    await line.press("Backspace")
    await expect(chips(page)).to_have_count(1)
    await line.press("Backspace")

    await expect(chips(page)).to_have_count(0)
    await expect(rows(page)).to_have_count(3)


async def suggested(page: Page, typed: str, *offered: str) -> Locator:
    """Type; return the suggestions once they are those for the last letter."""
    line = page.get_by_role("combobox", name="Add a filter")
    await line.press_sequentially(typed)
    options = page.get_by_role("listbox").get_by_role("option")
    await expect(options).to_have_text(list(offered))
    return options


async def test_filters_are_suggested_and_chosen_by_keys(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await q.enqueue("report")
    await page.goto(f"{address}/jobs")
    await expect(rows(page)).to_have_count(2)

    await page.locator("body").press("/")
    line = page.get_by_role("combobox", name="Add a filter")
    await expect(line).to_be_focused()
    offered = await suggested(page, "type:re", "type: report")
    await line.press("ArrowDown")
    await expect(offered).to_have_attribute("aria-selected", "true")
    await line.press("Enter")

    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("report")


async def test_a_late_answer_leaves_the_chosen_suggestion_chosen(
    page: Page, address: str, q: Kue
) -> None:
    """Somebody who types quickly has chosen before the last letter is answered."""
    await q.enqueue("email")
    await q.enqueue("report")
    await page.goto(f"{address}/jobs")
    line = page.get_by_role("combobox", name="Add a filter")
    offered = await suggested(page, "type:r", "type: report")
    release = await hold(page, "**/api/v1/queues")
    async with page.expect_response("**/api/v1/queues") as response:
        await line.press("e")
        await line.press("ArrowDown")
        await expect(offered).to_have_attribute("aria-selected", "true")
        release.set()
    await (await response.value).finished()
    # By then the page has seen it.
    await page.evaluate("() => new Promise((done) => setTimeout(done))")
    await line.press("Enter")

    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("report")


async def test_names_in_the_data_are_suggested_if_a_filter_can_say_them(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email", {"to": "ann", "a=b": 1, "with space": 2})
    await q.enqueue("note", "only text")
    await page.goto(f"{address}/jobs")
    await expect(rows(page)).to_have_count(2)

    await page.get_by_role("combobox", name="Add a filter").fill("data.")

    await expect(page.get_by_role("listbox").get_by_role("option")).to_have_text(
        ["data.to="]
    )


async def test_designer_6_suggestions_do_not_cover_what_a_filter_found(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email", tags=["vip"])
    await q.enqueue("report")
    await page.goto(f"{address}/jobs")
    line = page.get_by_role("combobox", name="Add a filter")
    offered = page.get_by_role("listbox", name="Suggestions")
    await line.click()
    await expect(offered).to_be_visible()

    await filter_by(page, "tag:vip")
    await expect(rows(page)).to_have_count(1)
    await expect(line).to_be_focused()
    await expect(offered).to_be_hidden()
    await page.get_by_role("button", name="Remove the filter tag: vip").click()
    await expect(rows(page)).to_have_count(2)
    await expect(offered).to_be_hidden()

    await line.press("ArrowDown")
    await expect(offered).to_be_visible()


async def test_designer_6_tabs_keep_the_totals_while_filters_are_not_counted(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email", tags=["vip"])
    await q.enqueue("email")
    await q.enqueue("report", delay="1h")
    await page.goto(f"{address}/jobs")
    await expect(tab(page, "all")).to_have_text("all3")

    await filter_by(page, "tag:vip")
    await expect(rows(page)).to_have_count(1)
    await expect(tab(page, "all")).to_have_text("allof 3")
    await expect(tab(page, "waiting")).to_have_text("waitingof 2")
    hint = tab(page, "waiting").get_by_title("2 without the filters")
    await expect(hint).to_be_visible()

    await page.get_by_role("button", name="Remove the filter tag: vip").click()
    await filter_by(page, "type:email")
    await expect(tab(page, "all")).to_have_text("all2")


@pytest.mark.parametrize(
    ("typed", "finds"),
    [
        ("bananas", ["fruit"]),
        ("error:timeout", ["slow"]),
        ("worker:w9", ["slow"]),
        ("priority:high", ["fruit"]),
        ("priority:-10", ["fruit"]),
        ("since:1h", ["slow", "fruit", "lines"]),
        ("until:1h", []),
        ("data.lines[1].sku=b7", ["lines"]),
        ("data.kind=bananas", ["fruit"]),
    ],
)
async def test_jobs_are_found_by(
    page: Page, address: str, q: Kue, typed: str, finds: list[str]
) -> None:
    await q.enqueue("lines", {"lines": [{"sku": "a1"}, {"sku": "b7"}]})
    await q.enqueue("fruit", {"kind": "bananas"}, priority="high")
    job = await running(q, "slow", worker="w9")
    await q.store.settle([failure_of(job, "timeout after 5 s")])
    await page.goto(f"{address}/jobs")
    await expect(rows(page)).to_have_count(3)

    await filter_by(page, typed)

    await expect(chips(page)).to_have_count(1)
    await expect(rows(page)).to_have_count(len(finds))
    for type in finds:
        await expect(rows(page).filter(has_text=type)).to_have_count(1)


async def test_what_is_no_time_is_told(page: Page, address: str, q: Kue) -> None:
    await q.enqueue("email")
    await page.goto(f"{address}/jobs?since=yesterday")

    told = page.get_by_role("alert").filter(has_text="yesterday is not a time")
    await expect(told).to_be_visible()
    await expect(rows(page)).to_have_count(0)
    await page.get_by_role("button", name="Remove the filter").click()
    await expect(rows(page)).to_have_count(1)


async def test_designer_3_a_long_search_goes_on_by_itself(
    page: Page, address: str, q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kue.http.v1.jobs.MAX_SCAN", 500)
    meant = await q.enqueue("email", {"to": "needle"})
    await add_many(q.store, 2_000, now=await q.now())
    await page.goto(f"{address}/jobs?text=needle")

    await expect(row_of(page, meant.id)).to_be_visible()
    await expect(page.get_by_text("1 job", exact=True)).to_be_visible()
    await expect(page.get_by_text("Searching…")).to_be_hidden()
    await expect(page.get_by_role("button", name="Keep searching")).to_have_count(0)


async def test_designer_3_a_search_shows_that_it_goes_on_and_can_be_stopped(
    page: Page, address: str, q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kue.http.v1.jobs.MAX_SCAN", 500)
    old = await q.enqueue("email", {"to": "needle"})
    await add_many(q.store, 1_998, now=await q.now())
    new = await q.enqueue("email", {"to": "needle"})
    requests = 0
    may_go = asyncio.Event()

    async def later(route: Route) -> None:
        nonlocal requests
        requests += 1
        # The first answer takes long enough to be shown; others wait for the test.
        if requests == 1:
            await asyncio.sleep(0.4)
        else:
            await may_go.wait()
        await route.continue_()

    await page.route("**/api/v1/jobs?*", later)
    await page.goto(f"{address}/jobs?text=needle")

    await expect(row_of(page, new.id)).to_be_visible()
    await expect(page.get_by_text("Searching… 1 found")).to_be_visible()
    bar = page.get_by_role("progressbar", name="Searching")
    await expect(bar).to_have_attribute("aria-valuenow", "25")
    await expect(page.get_by_text("looked at 500 of 2,000 jobs")).to_be_visible()
    await page.get_by_role("button", name="Stop").click()
    may_go.set()
    await expect(page.get_by_text("Searching…")).to_be_hidden()
    await expect(row_of(page, new.id)).to_be_visible()
    # The answer that was under way counts, and is the last.
    await expect(page.get_by_text("looked at 1,000 of 2,000 jobs")).to_be_visible()
    assert requests == 2

    await page.get_by_role("button", name="Keep searching").click()
    await expect(row_of(page, old.id)).to_be_visible()


# -- columns, views, files -----------------------------------------------------


async def test_columns_are_chosen_and_remembered(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email", tags=["vip"], group="ann")
    await page.goto(f"{address}/jobs")
    await expect(page.get_by_role("columnheader", name="Group")).to_be_hidden()

    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("checkbox", name="Group").check()
    await page.get_by_role("checkbox", name="Data").uncheck()
    await page.keyboard.press("Escape")

    await expect(page.get_by_role("columnheader", name="Group")).to_be_visible()
    await expect(rows(page)).to_contain_text("ann")
    await page.reload()
    await expect(page.get_by_role("columnheader", name="Group")).to_be_visible()
    await expect(page.get_by_role("columnheader", name="Data")).to_be_hidden()
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("button", name="Reset to defaults").click()
    await expect(page.get_by_role("columnheader", name="Data")).to_be_visible()
    await expect(page.get_by_role("columnheader", name="Group")).to_be_hidden()


async def test_a_view_is_saved_opened_and_forgotten(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email", tags=["vip"])
    await q.enqueue("email")
    await page.goto(f"{address}/jobs?state=waiting&tag=vip")
    await expect(rows(page)).to_have_count(1)
    views = page.get_by_role("button", name="Views")

    await views.click()
    await page.get_by_role("button", name="Save this view…").click()
    await page.get_by_role("textbox", name="Name").fill("Important people")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await page.goto(f"{address}/jobs")
    await expect(rows(page)).to_have_count(2)
    await views.click()
    await page.get_by_role("button", name="Important people", exact=True).click()

    await expect(page).to_have_url(f"{address}/jobs?state=waiting&tag=vip")
    await expect(rows(page)).to_have_count(1)
    await views.click()
    await page.get_by_role("button", name="Delete Important people").click()
    await views.click()
    own = page.get_by_role("button", name="Important people", exact=True)
    await expect(page.get_by_role("button", name="Running now")).to_be_visible()
    await expect(own).to_be_hidden()


async def test_jobs_are_taken_away_as_json(page: Page, address: str, q: Kue) -> None:
    one = await q.enqueue("email", {"to": "ann", "password": "x"})
    two = await q.enqueue("email")
    await page.goto(f"{address}/jobs")
    await expect(rows(page)).to_have_count(2)

    await page.get_by_role("button", name="Export").click()
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="As JSON").click()

    download = await coming.value
    jobs = json.loads((await download.path()).read_text())
    assert download.suggested_filename == "jobs.json"
    assert [job["id"] for job in jobs] == [two.id, one.id]
    assert jobs[1]["data"] == {"to": "ann", "password": "•••"}


async def test_what_is_selected_is_taken_away_as_csv_that_no_program_runs(
    page: Page, address: str, q: Kue
) -> None:
    one = await q.enqueue("=1+1", {"to": "ann"})
    await q.enqueue("email")
    await page.goto(f"{address}/jobs?state=waiting")
    await page.get_by_role("checkbox", name=f"Select {one.id}").check()

    await page.get_by_role("button", name="Export").click()
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="As CSV").click()

    text = (await (await coming.value).path()).read_text()
    head, row = text.splitlines()
    assert head.startswith("id,type,state,data,")
    assert row.startswith(f"""{one.id},'=1+1,waiting,"{{""to"":""ann""}}",""")


# -- many at once --------------------------------------------------------------


async def test_a_selection_is_retried(page: Page, address: str, q: Kue) -> None:
    ids = await failed(q, "a", "b", "c")
    await page.goto(f"{address}/jobs?state=failed")
    await page.get_by_role("checkbox", name=f"Select {ids[0]}").check()
    await page.get_by_role("checkbox", name=f"Select {ids[1]}").check()
    await expect(selection(page)).to_contain_text("2 jobs selected")

    await selection(page).get_by_role("button", name="Retry").click()

    await expect(toast(page, "Retried 2 jobs")).to_be_visible()
    await expect(selection(page)).to_be_hidden()
    await expect(rows(page)).to_have_count(1)
    assert await count_of(q.store) == {State.WAITING: 2, State.FAILED: 1}


@pytest.mark.usefixtures("context")
async def test_a_thousand_failed_jobs_are_retried_with_progress(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, *["refused"] * 1_000)
    await page.goto(f"{address}/jobs?state=failed")
    await expect(page.get_by_text("50 of 1,000 jobs")).to_be_visible()
    seen: list[str] = []
    await page.expose_function("saw", lambda value: seen.append(value))
    await page.evaluate(
        """() => new MutationObserver(() => {
          const bar = document.querySelector(".toast [role=progressbar]");
          if (bar) window.saw(bar.getAttribute("aria-valuenow") ?? "busy");
        }).observe(document.body, {childList: true, subtree: true})"""
    )

    await select_all(page)
    await selection(page).get_by_role("button", name="Select all 1,000 jobs").click()
    await expect(selection(page)).to_contain_text("All 1,000 jobs selected")
    await selection(page).get_by_role("button", name="Retry").click()

    await expect(toast(page, "Retried 1,000 jobs")).to_be_visible()
    await expect(page.get_by_text("There are no failed jobs.")).to_be_visible()
    await expect(tab(page, "waiting")).to_contain_text("1,000")
    assert seen
    assert await count_of(q.store) == {State.WAITING: 1_000}


@pytest.mark.usefixtures("context")
async def test_all_that_match_a_filter_are_cancelled_and_no_others(
    page: Page, address: str, q: Kue
) -> None:
    await add_many(q.store, 60, now=await q.now(), tags=["old"])
    kept = await q.enqueue("email")
    await page.clock.install()
    await page.goto(f"{address}/jobs?state=waiting&tag=old")
    await expect(rows(page)).to_have_count(50)

    await select_all(page)
    await selection(page).get_by_role("button", name="Select all matching jobs").click()
    await selection(page).get_by_role("button", name="Cancel").click()
    waiting = toast(page, "Cancelling all matching jobs in a few seconds")
    await expect(waiting).to_be_visible()
    await page.clock.fast_forward(5_000)

    await expect(toast(page, "Cancelled 60 jobs")).to_be_visible()
    assert await count_of(q.store) == {State.CANCELLED: 60, State.WAITING: 1}
    assert await state_of(q.store, kept.id) is State.WAITING


@pytest.mark.usefixtures("context")
async def test_what_was_undone_is_not_done(page: Page, address: str, q: Kue) -> None:
    ids = await failed(q, "a", "b")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.clock.install()
    await page.goto(f"{address}/jobs?state=failed")
    await select_all(page)

    await selection(page).get_by_role("button", name="Remove").click()
    await typed(page, "remove")
    await expect(toast(page, "Removing 2 jobs in a few seconds")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await page.clock.fast_forward(10_000)

    await expect(toast(page, "Removing")).to_be_hidden()
    assert not any(url.endswith("/jobs/bulk") for url in asked)
    assert [await state_of(q.store, id) for id in ids] == [State.FAILED] * 2


@pytest.mark.usefixtures("context")
async def test_jobs_are_removed_once_it_is_typed(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, "a", "b", "c")
    await page.clock.install()
    await page.goto(f"{address}/jobs?state=failed")
    await select_all(page)

    await selection(page).get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog", name="Remove jobs?")
    await expect(dialog.get_by_role("button", name="Remove")).to_be_disabled()
    await typed(page, "remove")
    await expect(toast(page, "Removing 3 jobs in a few seconds")).to_be_visible()
    await page.clock.fast_forward(5_000)

    await expect(toast(page, "Removed 3 jobs")).to_be_visible()
    await expect(page.get_by_text("There are no failed jobs.")).to_be_visible()
    assert await count_of(q.store) == {}


async def test_an_act_goes_on_when_its_page_is_left(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, "a", "b")
    asked: list[str] = []
    await page.goto(f"{address}/jobs?state=failed")
    await select_all(page)
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/api/v1/jobs/bulk", hold)
    await selection(page).get_by_role("button", name="Retry").click()
    await page.get_by_role("link", name="Errors").click()
    await expect(page.get_by_role("heading", name="Errors")).to_be_visible()
    page.on("request", lambda request: asked.append(request.url))
    held.set()

    await expect(toast(page, "Retried 2 jobs")).to_be_visible()
    await expect(page.get_by_role("heading", name="No errors")).to_be_visible()
    # The list is not read any more by anyone.
    assert not any("/jobs?" in url for url in asked)


async def test_rows_stand_still_while_some_are_selected(
    page: Page, address: str, q: Kue
) -> None:
    one = await q.enqueue("email")
    await page.goto(f"{address}/jobs")
    await page.get_by_role("checkbox", name=f"Select {one.id}").check()

    two = await q.enqueue("email")

    hint = page.get_by_text("The list does not update while jobs are selected.")
    await expect(hint).to_be_visible()
    await expect(rows(page)).to_have_count(1)
    await page.get_by_role("button", name="Clear selection").click()
    await expect(row_of(page, two.id)).to_be_visible()
    await expect(hint).to_be_hidden()


# -- keys ----------------------------------------------------------------------


async def test_rows_are_walked_chosen_and_retried_by_keys(
    page: Page, address: str, q: Kue
) -> None:
    first, second, third = await failed(q, "a", "b", "c")
    await page.goto(f"{address}/jobs?state=failed&order=asc")
    await expect(rows(page)).to_have_count(3)

    await page.keyboard.press("j")
    await expect(row_of(page, first)).to_be_focused()
    await page.keyboard.press("x")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await expect(row_of(page, third)).to_be_focused()
    await page.keyboard.press("k")
    await expect(row_of(page, second)).to_be_focused()
    await page.keyboard.press("x")
    await expect(selection(page)).to_contain_text("2 jobs selected")
    await page.keyboard.press("r")

    await expect(toast(page, "Retried 2 jobs")).to_be_visible()
    await expect(rows(page)).to_have_count(1)
    assert await count_of(q.store) == {State.WAITING: 2, State.FAILED: 1}


async def test_enter_opens_the_row_and_r_retries_it(
    page: Page, address: str, q: Kue
) -> None:
    [job_id] = await failed(q, "a")
    await page.goto(f"{address}/jobs")
    await expect(rows(page)).to_have_count(1)

    await page.keyboard.press("j")
    await page.keyboard.press("r")
    await expect(toast(page, f"Job {job_id} is requeued")).to_be_visible()
    await expect(row_of(page, job_id)).to_contain_text("waiting")
    await page.keyboard.press("Enter")

    await expect(page).to_have_url(f"{address}/jobs/{job_id}")


async def test_escape_selects_nothing_and_x_with_shift_selects_up_to_here(
    page: Page, address: str, q: Kue
) -> None:
    await add_many(q.store, 5, now=await q.now())
    await page.goto(f"{address}/jobs")
    await expect(rows(page)).to_have_count(5)

    for key in ["j", "x", "j", "j", "X"]:
        await page.keyboard.press(key)
    await expect(selection(page)).to_contain_text("3 jobs selected")
    await page.keyboard.press("Escape")

    await expect(selection(page)).to_be_hidden()
    await expect(page.get_by_role("checkbox", checked=True)).to_have_count(0)


# -- adding --------------------------------------------------------------------


async def test_a_job_is_added_by_hand(page: Page, address: str, q: Kue) -> None:
    await page.goto(f"{address}/jobs")
    await page.get_by_role("button", name="Add job").click()
    dialog = page.get_by_role("dialog", name="Add a job")
    await dialog.get_by_role("combobox", name="Type").fill("email")
    await dialog.get_by_role("textbox", name="Data").fill('{"to": "ann"}')
    await dialog.get_by_role("combobox", name="Priority").select_option("high")
    await dialog.get_by_role("textbox", name="Delay").fill("10m")
    await dialog.get_by_role("spinbutton", name="Attempts").fill("3")
    await dialog.get_by_role("textbox", name="Backoff").fill("30s")
    await dialog.get_by_role("textbox", name="Unique key").fill("ann-1")
    await dialog.get_by_role("textbox", name="Group").fill("ann")
    await dialog.get_by_role("textbox", name="Tags").fill("vip, import")
    await dialog.get_by_role("button", name="Add job").click()

    await expect(dialog).to_be_hidden()
    told = page.get_by_role("status").filter(has_text="is added")
    await told.get_by_role("button", name="Open").click()
    await expect(page).to_have_url(re.compile(r"/jobs/\d+$"))
    job = await get_one(q.store, int(page.url.rpartition("/")[2]))
    assert (job.type, job.data) == ("email", {"to": "ann"})
    assert (job.state, job.priority, job.max_attempts) == (State.DELAYED, -10, 3)
    assert (job.unique, job.group, job.tags) == ("ann-1", "ann", ("vip", "import"))


@pytest.mark.parametrize(
    ("field", "typed", "told"),
    [
        ("Type", "", "Type is required"),
        ("Data", '{"to": ', "invalid JSON"),
        ("Delay", "soon", "soon"),
        ("Attempts", "-1", "attempts"),
        ("Timeout", "x", "x"),
        ("Tags", "a" * 201, "length <= 200"),
    ],
)
async def test_what_does_not_fit_is_told_at_its_field(
    page: Page, address: str, q: Kue, watch: Watch, field: str, typed: str, told: str
) -> None:
    watch.allow("console: .* 400 .*/api/v1/jobs")
    await page.goto(f"{address}/jobs")
    await expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    await page.keyboard.press("a")
    dialog = page.get_by_role("dialog", name="Add a job")
    await dialog.get_by_label("Type").fill("email")
    control = dialog.get_by_label(field)
    await control.fill(typed)
    await dialog.get_by_role("button", name="Add job").click()

    await expect(control).to_have_attribute("aria-invalid", "true")
    await expect(control).to_be_focused()
    await expect(control).to_have_accessible_description(re.compile(re.escape(told)))
    assert await count_of(q.store) == {}


# -- who may -------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"guard": Anyone(Role.VIEWER)}, {"read_only": True}]
)
async def test_who_may_only_look_is_offered_nothing_else(
    page: Page, serve: Callable[..., str], q: Kue, options: dict[str, object]
) -> None:
    [job_id] = await failed(q, "a")
    await page.goto(f"{serve(**options)}/jobs")

    await expect(row_of(page, job_id)).to_be_visible()
    await expect(page.get_by_role("checkbox")).to_have_count(0)
    await expect(page.get_by_role("button", name="Add job")).to_have_count(0)
    for key in ["j", "x", "r", "a"]:
        await page.keyboard.press(key)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(selection(page)).to_be_hidden()
    assert await state_of(q.store, job_id) is State.FAILED


async def test_an_operator_retries_but_does_not_remove(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await failed(q, "a")
    await page.goto(f"{serve(guard=Anyone(Role.OPERATOR))}/jobs")
    await select_all(page)

    acts = selection(page).get_by_role("button")
    await expect(acts.filter(has_text="Retry")).to_be_visible()
    await expect(acts.filter(has_text="Remove")).to_have_count(0)


# -- looks ---------------------------------------------------------------------


@pytest.mark.parametrize("name", LOOKS)
async def test_the_list_looks_well_and_keeps_nobody_out(
    page: Page, address: str, q: Kue, name: str
) -> None:
    await furnish(q)
    await page.goto(f"{address}/jobs?{LOOKS[name]}")
    await expect(rows(page).first).to_be_visible()

    assert await barriers(page) == []
    await shoot(page, name)


async def test_an_empty_list_and_a_selection_look_well(
    page: Page, address: str, q: Kue
) -> None:
    await page.goto(f"{address}/jobs")
    await expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    assert await barriers(page) == []
    await shoot(page, "jobs-empty")

    await failed(q, *["mail.example.com refused the connection"] * 60)
    await page.goto(f"{address}/jobs?state=failed&type=email")
    await select_all(page)
    await expect(selection(page)).to_be_visible()
    assert await barriers(page) == []
    await shoot(page, "jobs-selected")
    await page.get_by_role("button", name="Add job").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    assert await barriers(page) == []
    await shoot(page, "jobs-add")
