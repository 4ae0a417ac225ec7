"""What jobs failed of, by error, and a way to retry all of one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.async_api import Locator, Page, expect

from kue import Kue, State
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from kue.model.job import Error, Failed, with_progress
from kue.store.values import Outcome
from kue.worker.failure_reporter import report
from tests.browser.making import failed, furnish
from tests.browser.watching import Watch, barriers, shoot
from tests.support.jobs import MINUTE, add_one, claim_one, count_of, end


def groups(page: Page) -> Locator:
    return page.locator(".error-groups").get_by_role("listitem")


async def choose(group: Locator, label: str) -> None:
    """Choose what to do to all jobs of *group*."""
    await group.get_by_role("button", name="More actions").click()
    await group.get_by_role("button", name=label).click()


async def test_failed_jobs_are_grouped_by_what_went_wrong(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, "no user 17", "no user 4", "no user 8", kind="KeyError")
    await failed(q, "refused", type="report")
    await page.goto(f"{address}/errors")

    await expect(groups(page)).to_have_count(2)
    await expect(page.get_by_text("2 errors in 4 failed jobs")).to_be_visible()
    first = groups(page).first
    await expect(first.get_by_role("heading")).to_contain_text("KeyError: no user")
    await expect(first.locator(".error-count")).to_have_text("3")
    await expect(first).to_contain_text("email")
    await expect(first).to_contain_text("new this hour")


async def test_an_error_of_another_process_appears_and_counts_without_a_reload(
    page: Page, address: str, q: Kue
) -> None:
    await page.goto(f"{address}/errors")
    await expect(page.get_by_role("heading", name="No errors")).to_be_visible()

    await failed(q, "refused")
    await expect(groups(page)).to_have_count(1)
    await failed(q, "refused")

    await expect(groups(page).locator(".error-count")).to_have_text("2")


async def test_a_group_shows_the_stack_of_its_newest_job(
    page: Page, address: str, q: Kue
) -> None:
    *_, newest = await failed(q, "refused", "refused")
    await page.goto(f"{address}/errors")

    await groups(page).get_by_text("Stack trace").click()

    await expect(groups(page)).to_contain_text("connection = smtp.connect(host)")
    await groups(page).get_by_role("link", name=str(newest), exact=True).click()
    await expect(page).to_have_url(f"{address}/jobs/{newest}")


async def test_all_of_one_error_are_retried_and_no_others(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, *[f"timeout after {n} s" for n in range(700)])
    await failed(q, "refused", "refused")
    await page.goto(f"{address}/errors")
    await expect(groups(page)).to_have_count(2)
    meant = groups(page).filter(has_text="timeout")
    await expect(meant.locator(".error-count")).to_have_text("700")

    await choose(meant, "Retry 700 jobs")

    message = page.get_by_role("status").filter(has_text="Retr")
    await expect(message).to_contain_text("Retried 700 jobs")
    await expect(groups(page)).to_have_count(1)
    await expect(groups(page)).to_contain_text("refused")
    assert await count_of(q.store) == {State.WAITING: 700, State.FAILED: 2}


async def test_designer_9_a_group_has_quiet_actions_and_a_trend(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    for minute in (3, 5, 9):
        job_id = await add_one(q.store, now=now - minute * MINUTE)
        job = await claim_one(q.store, now=now - minute * MINUTE)
        assert job.id == job_id
        wrong = Failed(Error("ValueError", "oops"))
        await end(q.store, job, wrong, now=now - minute * MINUTE)
    await page.goto(f"{address}/errors")

    trend = groups(page).get_by_role("img", name="Failed jobs of email per minute")
    await expect(trend).to_have_accessible_name(re.compile("last hour: .* max 1"))
    await expect(page.locator("main button.primary")).to_have_count(0)


async def test_designer_9_all_jobs_of_a_group_are_removed_and_no_others(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, "timeout after 5 s", "timeout after 7 s", "refused")
    await page.goto(f"{address}/errors")

    await choose(groups(page).filter(has_text="timeout"), "Remove 2 jobs…")
    await page.get_by_role("dialog").get_by_role("textbox").fill("remove")
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()

    await expect(groups(page)).to_have_count(1)
    await expect(groups(page)).to_contain_text("refused")
    assert await count_of(q.store) == {State.FAILED: 1}


async def test_designer_9_what_can_still_be_undone_is_done_when_the_page_is_left(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, "refused", "refused")
    await page.goto(f"{address}/errors")
    await choose(groups(page), "Remove 2 jobs…")
    await page.get_by_role("dialog").get_by_role("textbox").fill("remove")
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    assert await count_of(q.store) == {State.FAILED: 2}

    await page.reload()

    await expect(page.get_by_role("heading", name="No errors")).to_be_visible()
    assert await count_of(q.store) == {}


async def test_the_jobs_of_a_group_are_one_link_away(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, "timeout after 5 s", "timeout after 7 s", "refused")
    await page.goto(f"{address}/errors")

    group = groups(page).filter(has_text="timeout")
    await group.get_by_role("link", name="Show jobs").click()

    await expect(page).to_have_url(re.compile("state=failed&type=email&fingerprint="))
    await expect(page.locator("tbody").get_by_role("row")).to_have_count(2)


async def test_errors_are_those_of_one_queue_and_the_address_says_so(
    page: Page, address: str, q: Kue
) -> None:
    await failed(q, "refused")
    await failed(q, "no paper", type="print")
    await page.goto(f"{address}/errors")
    await expect(groups(page)).to_have_count(2)

    await page.get_by_role("combobox", name="Queue").select_option("print")
    await expect(groups(page)).to_have_count(1)
    await expect(page).to_have_url(f"{address}/errors?type=print")
    await page.reload()

    await expect(groups(page)).to_have_count(1)
    await expect(groups(page)).to_contain_text("no paper")
    await expect(page.get_by_role("combobox", name="Queue")).to_have_value("print")


@pytest.mark.parametrize(
    "options", [{"guard": Anyone(Role.VIEWER)}, {"read_only": True}]
)
async def test_who_may_only_look_is_not_offered_to_retry(
    page: Page, serve: Callable[..., str], q: Kue, options: dict[str, object]
) -> None:
    await failed(q, "refused")
    await page.goto(f"{serve(**options)}/errors")

    await expect(page.get_by_role("link", name="Show jobs")).to_be_visible()
    await expect(page.get_by_role("button", name="More actions")).to_have_count(0)


async def test_the_errors_look_well_and_keep_nobody_out(
    page: Page, address: str, q: Kue
) -> None:
    await furnish(q)
    await page.goto(f"{address}/errors")
    await groups(page).first.get_by_text("Stack trace").click()
    await expect(groups(page).first).to_contain_text("smtp.connect")

    assert await barriers(page) == []
    await shoot(page, "errors")


async def dead_letter(q: Kue) -> int:
    """Have a job of type email fail at 40 % and forwarded; return its id."""
    await q.set_dead_letter("email", "dead")
    await add_one(q.store, now=None)
    job = await claim_one(q.store, now=None)
    ending = with_progress(Failed(Error("OSError", "disk full")), 40, {"page": 4})
    await q.store.settle([Outcome(job, ending)])
    await report(q.store)
    return job.id


async def test_dead_letters_are_counted_and_put_back(
    page: Page, address: str, q: Kue
) -> None:
    job_id = await dead_letter(q)
    await page.goto(f"{address}/errors")

    after = page.get_by_role("region", name="After a failure")
    await expect(after).to_contain_text("Failed jobs of email are forwarded to dead.")
    await expect(after).to_contain_text("1 dead letter in dead")
    await shoot(page, "errors-dead-letters")
    await after.get_by_role("button", name="Replay all").click()
    await page.get_by_role("dialog").get_by_role("button", name="Replay").click()

    await expect(page.get_by_text("1 dead letter replayed")).to_be_visible()
    assert await count_of(q.store, "dead") == {}
    assert await count_of(q.store, "email") == {State.WAITING: 1}
    assert job_id


async def test_a_rule_about_failures_is_set(page: Page, address: str, q: Kue) -> None:
    await page.goto(f"{address}/errors")
    after = page.get_by_role("region", name="After a failure")
    await expect(after).to_contain_text("nothing else is done about them")
    await after.get_by_role("button", name="Set a rule").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Dead letter queue").fill("morgue")
    await dialog.get_by_role("button", name="Set").click()

    await expect(after).to_contain_text(
        "Failed jobs of any type are forwarded to morgue"
    )
    assert (await q.failure_rules())[None].dead_letter == "morgue"


async def test_a_dead_letter_leads_to_the_job_that_failed_and_back(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    job_id = await dead_letter(q)
    [letter] = (await q.find(type="dead")).jobs
    await page.goto(f"{address}/jobs/{letter.id}")

    note = page.locator(".job-note")
    await expect(note).to_contain_text(f"Dead letter of job {job_id} (email)")
    await expect(note).to_contain_text("OSError: disk full")
    await shoot(page, "job-dead-letter")
    await note.get_by_role("link", name=f"job {job_id}").click()
    await expect(page.get_by_role("progressbar")).to_have_attribute(
        "aria-valuenow", "40"
    )
    await expect(page.locator(".job-progress")).to_contain_text('{"page":4}')
    await shoot(page, "job-failed-progress")
    await page.locator(".job-note").get_by_role("link", name="dead").click()
    await expect(page).to_have_url(re.compile(r"type=dead&data\.job_id=\d+"))
    await page.goto(f"{address}/jobs/{letter.id}")
    # An event of the letter may reach the page after its removal.
    watch.allow(f"console: .* 404 .*/jobs/{letter.id}")
    await note.get_by_role("button", name="Replay").click()

    await expect(page.get_by_text("1 dead letter replayed")).to_be_visible()
    assert await count_of(q.store, "email") == {State.WAITING: 1}
