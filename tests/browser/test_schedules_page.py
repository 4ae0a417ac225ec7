"""All schedules and one schedule: when they run, how they ran, and what is done."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Locator, Page, expect

from kue import Kue
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from kue.model.job import Completed
from kue.model.schedule import Schedule, Tick
from kue.store.values import Outcome
from tests.browser.finding import dialog, is_live, opened, press, row, told
from tests.browser.making import failure_of
from tests.browser.watching import Watch
from tests.support.jobs import HOUR, MINUTE, SECOND, claim_one
from tests.support.schedules import every, moment

#: How a tick may have ended, and how its mark begins.
STATUSES = {
    "complete": "Complete",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "removed": "Job removed",
    "missed": "Missed",
    "overlap": "Skipped: an earlier job was unfinished",
    "": "Unfinished",
}


async def declare(q: Kue, name: str = "sweep", **changes: Any) -> Schedule:
    """Have a schedule that a module declares, with *changes* to what is stored."""
    given = every(
        name,
        "10m",
        q.draft("cleanup", {"bucket": 7}),
        first_at=await q.now() + HOUR,
        declared_by="shop.jobs",
    )
    schedule = replace(given, **changes)
    assert await q.store.schedule(schedule)
    return schedule


async def nightly(q: Kue, **options: Any) -> Schedule:
    draft = q.draft("report", {"region": "eu"})
    timing = {"cron": "0 9 * * mon-fri", "tz": "Europe/Berlin"}
    return await q.schedule("nightly", draft, **(options or timing))


def field(ask: Locator, name: str) -> Locator:
    return ask.get_by_label(name, exact=True)


# -- the list ------------------------------------------------------------------


async def test_without_schedules_the_page_says_how_to_have_one(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, f"{address}/schedules")
    heading = page.get_by_role("heading", name="No schedules yet")
    await expect(heading).to_be_visible()
    await expect(page.locator(".sample")).to_contain_text('@q.every("10m")')
    await expect(page.locator(".sample")).to_contain_text("kue schedule add")
    await is_live(page)

    await nightly(q)
    await q.run_schedule("nightly")

    await expect(row(page, "nightly")).to_be_visible()
    await expect(heading).to_be_hidden()


async def test_a_row_says_when_in_words_and_when_next(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await q.enqueue("report")
    await nightly(q)
    await q.schedule(
        "ping", q.draft("ping"), every="10m", start=moment(now + HOUR + 30 * SECOND)
    )
    await opened(page, f"{address}/schedules")

    when = row(page, "nightly").get_by_role("cell").nth(1)
    await expect(when).to_contain_text("every weekday at 9:00, Berlin")
    await expect(when).to_contain_text("0 9 * * mon-fri")
    await expect(when.locator(".when")).to_have_attribute(
        "title", "0 9 * * mon-fri, Europe/Berlin"
    )
    await expect(row(page, "ping")).to_contain_text("every 10 minutes")
    following = row(page, "ping").get_by_role("cell").nth(3)
    await expect(following).to_contain_text("in 1 h")
    await expect(following).to_contain_text(re.compile(r"\d\d:\d\d:\d\d"))
    await expect(page.get_by_text("2 schedules")).to_be_visible()
    await row(page, "nightly").get_by_role("link", name="report").click()
    await expect(page).to_have_url(f"{address}/queues/report")


async def test_the_last_runs_are_told_by_shape_and_name_and_lead_to_their_jobs(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    ticks = [
        Tick(now - HOUR, now - HOUR, outcome=outcome, duration=1200, job=number)
        for number, outcome in enumerate(STATUSES, 1)
    ]
    await declare(q, ticks=tuple(ticks))
    await nightly(q)
    # The job of a tick that is unfinished is looked up.
    job = await q.run_schedule("nightly")
    await opened(page, f"{address}/schedules")

    marks = row(page, "sweep").locator(".tick")
    await expect(marks).to_have_count(len(STATUSES))
    for number, word in enumerate(list(STATUSES.values())[:-1]):
        await expect(marks.nth(number)).to_have_accessible_name(
            re.compile(f"^{word}, ")
        )
    await expect(marks.first).to_have_attribute(
        "title", re.compile("took 1.2 s, job 1")
    )
    shapes = {await one.locator("path").get_attribute("d") for one in await marks.all()}
    assert len(shapes) >= len(STATUSES) - 1
    mark = row(page, "nightly").locator(".tick")
    await expect(mark).to_have_accessible_name(re.compile("^Unfinished, run by hand"))
    await mark.click()
    await expect(page).to_have_url(f"{address}/jobs/{job.id}")


async def test_a_tick_without_a_job_is_no_link(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await declare(q, ticks=(Tick(now, now, outcome="missed"), Tick(now, now)))
    await opened(page, f"{address}/schedules")

    marks = row(page, "sweep").get_by_role("img")
    await expect(marks.first).to_have_accessible_name(re.compile("^Missed"))
    name = re.compile("^Skipped: the unique key was taken")
    await expect(marks.last).to_have_accessible_name(name)


async def test_the_outcome_of_a_run_appears_when_it_ends(
    page: Page, address: str, q: Kue
) -> None:
    await nightly(q, every="1h")
    await q.run_schedule("nightly")
    await opened(page, f"{address}/schedules")
    await is_live(page)
    mark = row(page, "nightly").locator(".tick")
    await expect(mark).to_have_attribute("data-state", "active")

    job = await claim_one(q.store, "report", now=await q.now())
    await q.store.settle([failure_of(job, "no data")])

    await expect(mark).to_have_attribute("data-state", "failed")


async def test_schedules_are_marked_when_they_do_not_run_as_they_should(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await declare(q, due_at=now - MINUTE)
    await nightly(q, every="1h", end=datetime(2020, 1, 1, tzinfo=UTC))
    await q.schedule("ping", q.draft("ping"), every="1h")
    await q.pause_schedule("ping")
    await opened(page, f"{address}/schedules")

    marks = {
        name: row(page, name).locator(".mark") for name in ("sweep", "nightly", "ping")
    }
    await expect(marks["sweep"]).to_have_text(["late", "in code"])
    await expect(marks["sweep"].last).to_have_attribute(
        "title", re.compile("shop.jobs")
    )
    await expect(marks["nightly"]).to_have_text(["ended"])
    await expect(marks["ping"]).to_have_text(["paused"])


async def test_schedules_are_found_and_sorted_and_the_address_says_so(
    page: Page, address: str, q: Kue
) -> None:
    for name, interval in (("a", "3h"), ("b", "1h"), ("c", "2h")):
        await q.schedule(name, q.draft(f"type-{name}"), every=interval)
    await opened(page, f"{address}/schedules")
    names = page.locator("tbody tr td:first-child a")
    await expect(names).to_have_text(["a", "b", "c"])

    await page.get_by_label("Sort by").select_option("next run")
    await expect(names).to_have_text(["b", "c", "a"])
    await page.keyboard.press("/")
    await page.keyboard.type("TYPE-C")
    await expect(names).to_have_text(["c"])
    await expect(page).to_have_url(f"{address}/schedules?text=TYPE-C&sort=next")
    await page.reload()

    await expect(names).to_have_text(["c"])


# -- actions -------------------------------------------------------------------


async def test_a_schedule_is_run_now_and_the_message_leads_to_its_job(
    page: Page, address: str, q: Kue
) -> None:
    await nightly(q)
    await opened(page, f"{address}/schedules")

    await press(page, "Run now: nightly")

    message = told(page, "of schedule nightly is added")
    await expect(message).to_be_visible()
    await expect(row(page, "nightly").locator(".tick")).to_have_count(1)
    [job] = (await q.find(tag="schedule:nightly")).jobs
    await press(message, "Open")
    await expect(page).to_have_url(f"{address}/jobs/{job.id}")


async def test_a_schedule_is_paused_and_resumed(
    page: Page, address: str, q: Kue
) -> None:
    await nightly(q)
    await opened(page, f"{address}/schedules")

    await press(page, "Pause: nightly")
    await expect(row(page, "nightly").get_by_text("paused", exact=True)).to_be_visible()
    assert (await q.get_schedule("nightly")).paused
    await press(page, "Resume: nightly")

    await expect(told(page, "Schedule nightly is resumed")).to_be_visible()
    await expect(row(page, "nightly").locator(".mark")).to_have_count(0)
    assert not (await q.get_schedule("nightly")).paused


async def test_a_schedule_is_removed_after_a_question(
    page: Page, address: str, q: Kue
) -> None:
    await nightly(q)
    await declare(q)
    await opened(page, f"{address}/schedules")

    await press(page, "Remove: sweep")
    ask = dialog(page, "Remove schedule sweep?")
    await expect(ask).to_contain_text("declared in code, by shop.jobs")
    await press(ask, "Cancel")
    await press(page, "Remove: nightly")
    await press(dialog(page, "Remove schedule nightly?"), "Remove")

    await expect(row(page, "nightly")).to_have_count(0)
    assert [one.name for one in await q.schedules()] == ["sweep"]


async def test_keys_act_on_the_current_row(page: Page, address: str, q: Kue) -> None:
    await nightly(q)
    await opened(page, address)

    await page.keyboard.press("g")
    await page.keyboard.press("c")
    await expect(row(page, "nightly")).to_be_visible()
    await page.keyboard.press("j")
    await page.keyboard.press("P")
    await expect(told(page, "Schedule nightly is paused")).to_be_visible()
    await page.keyboard.press("r")
    await expect(told(page, "of schedule nightly is added")).to_be_visible()
    await page.keyboard.press("n")

    await expect(dialog(page, "New schedule")).to_be_visible()


async def test_who_may_only_look_has_no_buttons(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await nightly(q)
    address = serve(guard=Anyone(Role.VIEWER))
    await opened(page, f"{address}/schedules")
    await expect(row(page, "nightly")).to_be_visible()
    await expect(page.locator("main").get_by_role("button")).to_have_count(0)

    await opened(page, f"{address}/schedules/nightly")

    await expect(page.get_by_role("heading", level=1)).to_have_text("nightly")
    await expect(page.locator(".actions").get_by_role("button")).to_have_count(0)


# -- the form ------------------------------------------------------------------


async def test_a_schedule_is_added_with_a_preview(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("report")
    await opened(page, f"{address}/schedules")
    await page.get_by_role("button", name="New schedule").first.click()
    ask = dialog(page, "New schedule")

    await ask.get_by_label("Name").fill("report eu")
    await ask.get_by_label("Type").fill("report")
    await ask.get_by_label("Data").fill('{"region": "eu"}')
    await field(ask, "Runs").select_option("by a cron expression")
    await expect(field(ask, "Interval")).to_be_hidden()
    await field(ask, "Cron expression").fill("0 9 * * mon-fri")
    await field(ask, "Time zone").fill("Europe/Berlin")
    shown = ask.get_by_role("status")
    await expect(shown).to_contain_text("every weekday at 9:00, Berlin")
    await expect(shown.get_by_role("listitem")).to_have_count(5)
    await field(ask, "While a job is unfinished").select_option("add no job")
    await field(ask, "Jitter").fill("30s")
    await press(ask, "Add schedule")

    await expect(told(page, "Schedule report eu is added")).to_be_visible()
    await expect(row(page, "report eu")).to_be_visible()
    known = await q.get_schedule("report eu")
    assert (known.cron, known.tz) == ("0 9 * * mon-fri", "Europe/Berlin")
    assert (known.overlap, known.missed, known.jitter) == ("skip", "once", 30_000)
    assert (known.draft.type, known.draft.spec.data) == ("report", {"region": "eu"})


async def test_types_and_time_zones_are_suggested(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("report")
    await opened(page, f"{address}/schedules")
    await page.get_by_role("button", name="New schedule").first.click()
    ask = dialog(page, "New schedule")

    await expect(ask.locator("datalist option[value='report']")).to_have_count(1)
    await expect(ask.locator("datalist option[value='Europe/Berlin']")).to_have_count(1)
    await expect(ask.locator("datalist option[value='UTC']")).to_have_count(1)


async def test_what_makes_no_sense_is_told_at_its_field_while_it_is_typed(
    page: Page, address: str
) -> None:
    await opened(page, f"{address}/schedules")
    await page.get_by_role("button", name="New schedule").first.click()
    ask = dialog(page, "New schedule")
    interval = field(ask, "Interval")

    await interval.fill("often")
    await expect(interval).to_have_attribute("aria-invalid", "true")
    await expect(interval).to_have_accessible_description(
        re.compile("every 'often' cannot be read")
    )
    await interval.fill("90m")
    await expect(ask.get_by_role("status")).to_contain_text("every 90 minutes")
    await expect(interval).not_to_have_attribute("aria-invalid", "true")
    await field(ask, "Jitter").fill("2h")

    await expect(field(ask, "Jitter")).to_have_accessible_description(
        re.compile("jitter must be shorter than the interval")
    )


async def test_a_form_that_lacks_something_says_what(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("400")
    before = await nightly(q)
    await opened(page, f"{address}/schedules")
    await press(page, "New schedule")
    ask = dialog(page, "New schedule")

    name = ask.get_by_label("Name")
    await press(ask, "Add schedule")
    await expect(name).to_have_accessible_description(re.compile("Name is required"))
    await name.fill("nightly")
    await ask.get_by_label("Type").fill("report")
    await press(ask, "Add schedule")
    await expect(name).to_have_accessible_description(re.compile("already exists"))
    await name.fill("weekly")
    await press(ask, "Add schedule")

    await expect(ask.get_by_role("alert")).to_contain_text("one of every, cron and at")
    assert await q.schedules() == [before]


async def test_a_schedule_for_one_time_is_in_the_zone_of_the_browser(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, f"{address}/schedules")
    await page.get_by_role("button", name="New schedule").first.click()
    ask = dialog(page, "New schedule")

    await ask.get_by_label("Name").fill("launch")
    await ask.get_by_label("Type").fill("announce")
    await field(ask, "Runs").select_option("once")
    await field(ask, "Time").fill("2090-01-01T09:00")
    await expect(ask.get_by_role("status")).to_contain_text("once, on ")
    await press(ask, "Add schedule")

    await expect(row(page, "launch")).to_be_visible()
    at = await page.evaluate("new Date('2090-01-01T09:00').getTime()")
    assert (await q.get_schedule("launch")).due_at == at


async def test_an_edited_schedule_keeps_what_the_form_does_not_show(
    page: Page, address: str, q: Kue
) -> None:
    end = (await q.now() // SECOND + 100_000) * SECOND + 123
    draft = q.draft(
        "report",
        {"region": "eu", "api_key": "canary"},
        attempts="unlimited",
        max_exceptions=3,
        retry_until="2h",
        backoff="5s",
        timeout="1500ms",
        tags=["vip"],
        meta={"team": "shop"},
    )
    before = await q.schedule("nightly", draft, every="90m", end=moment(end))
    await opened(page, f"{address}/schedules")

    await press(page, "Edit: nightly")
    ask = dialog(page, "Schedule nightly")
    await expect(ask.get_by_label("Name")).to_be_disabled()
    await expect(field(ask, "Interval")).to_have_value("90m")
    await expect(field(ask, "Start")).to_have_value("")
    data = ask.get_by_label("Data")
    await expect(data).to_have_value(re.compile("•••"))
    await data.fill((await data.input_value()).replace("eu", "us"))
    await press(ask, "Save")

    await expect(told(page, "Schedule nightly is changed")).to_be_visible()
    known = await q.get_schedule("nightly")
    spec = replace(before.draft.spec, data={"region": "us", "api_key": "canary"})
    assert known == replace(before, draft=replace(before.draft, spec=spec))


@pytest.mark.parametrize("kind", ["by a cron expression", "once"])
async def test_an_edited_schedule_can_be_of_another_kind(
    page: Page, address: str, q: Kue, kind: str
) -> None:
    await nightly(q, every="1h", overlap="skip")
    await opened(page, f"{address}/schedules")

    await press(page, "Edit: nightly")
    ask = dialog(page, "Schedule nightly")
    await field(ask, "Runs").select_option(kind)
    if kind == "once":
        await field(ask, "Time").fill("2090-01-01T09:00")
    else:
        await field(ask, "Cron expression").fill("@daily")
    await press(ask, "Save")

    await expect(told(page, "Schedule nightly is changed")).to_be_visible()
    known = await q.get_schedule("nightly")
    assert (known.every, known.is_one_off) == (0, kind == "once")


async def test_a_schedule_that_is_declared_in_code_is_shown_and_not_changed(
    page: Page, address: str, q: Kue
) -> None:
    await declare(q)
    await opened(page, f"{address}/schedules")

    await press(page, "Edit: sweep")

    ask = dialog(page, "Schedule sweep")
    await expect(ask).to_contain_text("declared in code, by shop.jobs: change it there")
    await expect(field(ask, "Interval")).to_have_value("10m")
    for one in await ask.locator("input, select, textarea").all():
        await expect(one).to_be_disabled()
    await expect(ask.get_by_role("button", name="Save")).to_be_hidden()


# -- one schedule --------------------------------------------------------------


async def test_a_click_on_a_row_opens_the_schedule(
    page: Page, address: str, q: Kue
) -> None:
    await q.schedule("a/b?c", q.draft("report"), every="1h")
    await opened(page, f"{address}/schedules")

    await row(page, "a/b?c").get_by_role("cell").nth(1).click()

    await expect(page).to_have_url(f"{address}/schedules/a%2Fb%3Fc")
    await expect(page.get_by_role("heading", level=1)).to_have_text("a/b?c")
    nav = page.get_by_role("navigation", name="Dashboard")
    await expect(nav.locator("[aria-current]")).to_have_text("Schedules")


async def test_one_schedule_has_its_next_and_last_runs_and_its_policies(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    ticks = (
        Tick(now - 2 * HOUR, now - 2 * HOUR + 3_000, outcome="missed"),
        Tick(now - HOUR, now - HOUR + 700, outcome="failed", duration=1200, job=7),
    )
    await declare(q, ticks=ticks, missed="all", overlap="queue-one", jitter=30_000)
    await opened(page, f"{address}/schedules/sweep")

    await expect(page.get_by_text("every 10 minutes")).to_be_visible()
    coming = page.get_by_role("region", name="Next runs")
    await expect(coming.get_by_role("listitem")).to_have_count(5)
    await expect(coming).to_contain_text("in 1 h")
    rows = page.get_by_role("table", name="Last runs").locator("tbody tr")
    await expect(rows.first).to_contain_text("failed")
    await expect(rows.first).to_contain_text("700 ms")
    await expect(rows.first).to_contain_text("1.2 s")
    await expect(rows.first.get_by_role("link")).to_have_attribute("href", "/jobs/7")
    await expect(rows.last).to_contain_text("missed")
    details = page.get_by_role("region", name="Details")
    for text in (
        "one job for each missed time",
        "add one job, if none is waiting",
        "up to 30 s later",
        "shop.jobs",
    ):
        await expect(details).to_contain_text(text)
    await expect(page.get_by_role("region", name="Data")).to_contain_text("bucket")
    await expect(page.locator(".notice")).to_contain_text("Declared in code")


async def test_one_schedule_leads_to_all_its_jobs_and_they_lead_back(
    page: Page, address: str, q: Kue
) -> None:
    await nightly(q, every="1h")
    job = await q.run_schedule("nightly")
    await q.enqueue("report")
    await opened(page, f"{address}/schedules/nightly")

    await page.get_by_role("link", name="All its jobs").click()
    await expect(page).to_have_url(f"{address}/jobs?tag=schedule%3Anightly")
    rows = page.locator("tbody").get_by_role("row")
    await expect(rows).to_have_count(1)
    await rows.get_by_role("link").first.click()
    await expect(page).to_have_url(f"{address}/jobs/{job.id}")
    note = page.get_by_text(re.compile(r"Added by schedule nightly, for .*\d\d:\d\d"))
    await note.get_by_role("link", name="nightly").click()

    await expect(page).to_have_url(f"{address}/schedules/nightly")


async def test_one_schedule_is_run_paused_changed_and_removed(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("404")
    await nightly(q, every="1h")
    await opened(page, f"{address}/schedules/nightly")
    await is_live(page)

    await press(page, "Run now")
    badge = page.get_by_role("table", name="Last runs").locator(".state")
    await expect(badge).to_have_text("unfinished")
    job = await claim_one(q.store, "report", now=await q.now())
    await q.store.settle([Outcome(job, Completed())])
    await expect(badge).to_have_text("complete")
    await press(page, "Pause")
    await expect(page.get_by_text("When resumed, it runs at:")).to_be_visible()
    await page.keyboard.press("e")
    ask = dialog(page, "Schedule nightly")
    await field(ask, "Interval").fill("2h")
    await press(ask, "Save")
    await expect(page.get_by_text("every 2 hours")).to_be_visible()
    await press(page, "Remove")
    await press(dialog(page, "Remove schedule nightly?"), "Remove")

    await expect(page).to_have_url(f"{address}/schedules")
    assert await q.schedules() == []


async def test_a_schedule_that_there_is_not_is_told_so(
    page: Page, address: str, watch: Watch
) -> None:
    watch.allow("404")
    await opened(page, f"{address}/schedules/gone")

    await expect(page.get_by_role("heading", name="Schedule not found")).to_be_visible()
    await page.get_by_role("link", name="All schedules").click()
    await expect(page).to_have_url(f"{address}/schedules")


async def test_a_schedule_that_no_worker_fires_is_called_late(
    page: Page, address: str, q: Kue
) -> None:
    await declare(q, due_at=await q.now() - MINUTE)
    await opened(page, f"{address}/schedules/sweep")

    await expect(page.locator(".marks")).to_contain_text("late")
    await expect(page.get_by_text("no worker has fired it. Is one")).to_be_visible()
