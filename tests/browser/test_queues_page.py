"""All queues and one queue: how they stand, and everything that is done to them."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace
from playwright.async_api import Page, expect

from kue import Kue
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from kue.model.draft import draft
from kue.model.job import State
from kue.store.values import Limits, RenewRequest, WhenFull
from tests.browser.finding import dialog, is_live, opened, press, row, tile, told
from tests.browser.watching import Watch
from tests.support.jobs import HOUR, MINUTE, add_many, add_one, job_in

# -- the list ------------------------------------------------------------------


async def test_without_queues_the_page_says_what_one_is(
    page: Page, address: str, q: Kue
) -> None:
    await opened(page, f"{address}/queues")
    await expect(page.get_by_role("heading", name="No queues yet")).to_be_visible()
    await is_live(page)

    await q.enqueue("email")

    await expect(row(page, "email")).to_be_visible()
    await expect(page.get_by_role("heading", name="No queues yet")).to_be_hidden()


async def test_a_row_tells_the_numbers_and_they_move(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await add_many(q.store, 3, now=now)
    await job_in(q.store, State.FAILED, "report", now=now - MINUTE)
    await opened(page, f"{address}/queues")
    await is_live(page)
    waiting = row(page, "email").get_by_role("cell").nth(1)
    await expect(waiting).to_have_text("3")
    await expect(row(page, "report").get_by_role("cell").nth(4)).to_have_text("1")

    await add_many(q.store, 2, now=now)

    await expect(waiting).to_have_text("5")
    await expect(page.get_by_text("2 queues")).to_be_visible()


async def test_each_row_has_the_line_of_its_last_hour(
    page: Page, address: str, q: Kue
) -> None:
    await add_many(q.store, 30, now=await q.now() - 5 * MINUTE)
    await opened(page, f"{address}/queues")

    line = row(page, "email").get_by_role("img", name="Last hour of email")
    await expect(line).to_have_accessible_name(
        re.compile("in latest 0/min, max 30/min")
    )


async def test_queues_are_found_by_name_and_the_address_says_so(
    page: Page, address: str, q: Kue
) -> None:
    for type in ("email", "report", "report-monthly"):
        await q.enqueue(type)
    await opened(page, f"{address}/queues")

    await page.keyboard.press("/")
    await page.keyboard.type("REPORT")
    await expect(row(page, "email")).to_have_count(0)
    await expect(page.get_by_text("2 queues")).to_be_visible()
    await expect(page).to_have_url(f"{address}/queues?text=REPORT")
    await page.reload()

    await expect(page.get_by_label("Find a queue")).to_have_value("REPORT")
    await expect(row(page, "report")).to_be_visible()
    await expect(row(page, "email")).to_have_count(0)


async def test_queues_are_put_in_another_order(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await add_many(q.store, 1, "a", now=now)
    await add_many(q.store, 3, "b", now=now)
    await opened(page, f"{address}/queues")
    names = page.locator("tbody tr td:first-child")
    await expect(names).to_have_text([re.compile("^a"), re.compile("^b")])

    await page.get_by_label("Sort by").select_option("most waiting")

    await expect(names).to_have_text([re.compile("^b"), re.compile("^a")])
    await expect(page).to_have_url(f"{address}/queues?sort=waiting")


async def test_a_click_on_a_row_opens_the_queue(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("a/b?c")
    await opened(page, f"{address}/queues")

    await row(page, "a/b?c").get_by_role("cell").nth(3).click()

    await expect(page).to_have_url(f"{address}/queues/a%2Fb%3Fc")
    await expect(page.get_by_role("heading", level=1)).to_have_text("a/b?c")
    await expect(tile(page, "Waiting")).to_contain_text("1")


# -- pauses --------------------------------------------------------------------


async def test_a_pause_has_a_reason_and_an_end(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues")

    await press(page, "Pause email")
    ask = dialog(page, "Pause queue email")
    await ask.get_by_label("Reason").fill("the bank moves")
    await ask.get_by_label("Duration").fill("2h")
    await press(ask, "Pause")

    await expect(told(page, "Queue email is paused")).to_be_visible()
    mark = row(page, "email").get_by_text("paused", exact=True)
    title = re.compile("Paused by local just now, until .*: the bank moves")
    await expect(mark).to_have_attribute("title", title)
    [pause] = await q.paused()
    assert (pause.type, pause.reason, pause.by) == ("email", "the bank moves", "local")
    assert pause.until is not None
    assert abs(pause.until - pause.at - 2 * HOUR) < MINUTE


async def test_a_length_that_is_none_is_told_at_its_field(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("422|400")
    await q.enqueue("email")
    await opened(page, f"{address}/queues")

    await press(page, "Pause email")
    length = dialog(page, "Pause queue email").get_by_label("Duration")
    await length.fill("a while")
    await page.keyboard.press("Enter")

    await expect(length).to_have_attribute("aria-invalid", "true")
    await expect(length).to_be_focused()
    await expect(length).to_have_accessible_description(re.compile("a while"))
    assert await q.paused() == []


async def test_a_pause_is_dismissed_by_escape_and_by_a_click_beside_it(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues")

    await press(page, "Pause email")
    await page.keyboard.press("Escape")
    await expect(dialog(page, "Pause queue email")).to_have_count(0)
    await expect(page.get_by_role("button", name="Pause email")).to_be_focused()
    await press(page, "Pause email")
    await page.mouse.click(5, 5)

    await expect(dialog(page, "Pause queue email")).to_have_count(0)
    assert await q.paused() == []


async def test_a_paused_queue_is_resumed(page: Page, address: str, q: Kue) -> None:
    await q.enqueue("email")
    await q.pause("email", by="mara")
    await opened(page, f"{address}/queues")

    await press(page, "Resume email")

    await expect(page.get_by_role("button", name="Pause email")).to_be_visible()
    await expect(row(page, "email").get_by_text("paused")).to_have_count(0)
    assert await q.paused() == []


async def test_everything_is_paused_and_resumed(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues")

    await press(page, "Pause everything")
    await press(dialog(page, "Pause everything"), "Pause")
    await expect(row(page, "email").get_by_text("all paused")).to_be_visible()
    assert [pause.type for pause in await q.paused()] == [None]
    await press(page, "Resume everything")

    await expect(page.get_by_role("button", name="Pause everything")).to_be_visible()
    assert await q.paused() == []


async def test_a_queue_is_paused_by_a_key(page: Page, address: str, q: Kue) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues")

    await page.keyboard.press("j")
    await page.keyboard.press("Shift+P")

    await expect(dialog(page, "Pause queue email")).to_be_visible()


async def test_a_pause_by_someone_else_is_shown_on_the_page_of_its_queue(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")
    await is_live(page)

    await q.pause("email", by="mara", reason="the bank moves")
    await q.enqueue("email")

    notice = page.locator(".notice").filter(has_text="Paused by mara")
    await expect(notice).to_contain_text("the bank moves")
    await press(page, "Resume")
    await expect(notice).to_have_count(0)


# -- limits --------------------------------------------------------------------


async def test_limits_are_put_in_force_and_lifted(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")

    await press(page, "Limits")
    ask = dialog(page, "Limits of email")
    await ask.get_by_label("Concurrency", exact=True).fill("8")
    await ask.get_by_label("Rate").fill("50")
    await ask.get_by_label("Period").fill("1m")
    await press(ask, "Save")
    await expect(told(page, "Limits of email are set")).to_be_visible()
    await expect(page.locator(".marks")).to_have_text(re.compile("8 at once, 50/"))
    assert await q.limits() == {"email": Limits(concurrency=8, rate=50, per=MINUTE)}

    await press(page, "Limits")
    await expect(ask.get_by_label("Period")).to_have_value("1m")
    await ask.get_by_label("Concurrency", exact=True).fill("")
    await ask.get_by_label("Rate").fill("")
    await press(ask, "Save")

    await expect(told(page, "Limits of email are removed")).to_be_visible()
    assert await q.limits() == {}


async def test_a_limit_that_is_none_is_told_at_its_field(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("422|400")
    await q.enqueue("email")
    await opened(page, f"{address}/queues")

    await press(page, "Limits of email")
    at_once = dialog(page, "Limits of email").get_by_label("Concurrency", exact=True)
    await at_once.fill("-3")
    await page.keyboard.press("Enter")

    await expect(at_once).to_have_attribute("aria-invalid", "true")


async def test_a_cap_is_set_and_what_happens_at_it(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")

    await press(page, "Limits")
    ask = dialog(page, "Limits of email")
    policy = ask.get_by_label("When that many wait")
    timeout = ask.get_by_label("Longest wait for room")
    await expect(policy).to_be_hidden()
    await ask.get_by_label("Waiting jobs").fill("10000")
    await expect(timeout).to_be_hidden()
    await policy.select_option("wait")
    await timeout.fill("10s")
    await press(ask, "Save")

    await expect(told(page, "Limits of email are set")).to_be_visible()
    marks = page.locator(".marks")
    await expect(marks).to_contain_text("at most 10,000 waiting, then wait")
    await expect(tile(page, "Waiting")).to_contain_text("at most 10,000")
    assert await q.limits() == {
        "email": Limits(
            max_waiting=10_000, when_full=WhenFull.WAIT, full_timeout=10_000
        )
    }


async def test_an_order_takes_the_place_of_another(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await q.limit("email", concurrency=3, fair=True, weights={"vip": 3, "a=b": 2})
    await opened(page, f"{address}/queues/email")
    marks = page.locator(".marks")
    await expect(marks.get_by_text("fair")).to_have_attribute(
        "title", "Groups take turns; turns: vip 3, a=b 2"
    )

    await press(page, "Limits")
    ask = dialog(page, "Limits of email")
    weights = ask.get_by_label("Weights")
    await expect(weights).to_have_value("vip=3\na=b=2")
    await weights.fill("vip = 5\n\na=b=60")
    await press(ask, "Save")
    await expect(marks.get_by_text("fair")).to_have_attribute("title", re.compile("60"))
    assert (await q.limits())["email"].weights == {"vip": 5, "a=b": 60}

    await press(page, "Limits")
    await ask.get_by_label("Jobs start").select_option("ageing")
    await expect(weights).to_be_hidden()
    await ask.get_by_label("One step of priority").fill("5m")
    await press(ask, "Save")

    await expect(marks).to_contain_text("ages 5 min a step")
    assert await q.limits() == {"email": Limits(concurrency=3, ageing=5 * MINUTE)}


async def test_an_order_alone_is_removed_with_the_limits(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await q.limit("email", ageing="10m")
    await opened(page, f"{address}/queues/email")

    await press(page, "Limits")
    ask = dialog(page, "Limits of email")
    await ask.get_by_label("Jobs start").select_option("priority")
    await press(ask, "Save")

    await expect(told(page, "Limits of email are removed")).to_be_visible()
    assert await q.limits() == {}


async def test_a_weight_that_is_none_is_told_at_its_field(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("400")
    await q.enqueue("email")
    await q.limit("email", fair=True)
    await opened(page, f"{address}/queues/email")
    await press(page, "Limits")
    ask = dialog(page, "Limits of email")
    weights = ask.get_by_label("Weights")

    await weights.fill("vip")
    await press(ask, "Save")
    await expect(ask).to_contain_text("“vip” has no weight; write vip=3")
    await weights.fill("vip=61")
    await press(ask, "Save")

    await expect(ask).to_contain_text("<= 60")
    await expect(weights).to_have_attribute("aria-invalid", "true")


async def test_a_queue_whose_cap_is_reached_says_so(
    page: Page, address: str, q: Kue
) -> None:
    await q.limit("email", max_waiting=3)
    await add_many(q.store, 2, now=await q.now())
    await opened(page, f"{address}/queues/email")
    await is_live(page)
    notice = page.get_by_text("The cap of 3 waiting jobs is reached: new jobs are refu")
    await expect(notice).to_be_hidden()

    await q.enqueue("email")

    await expect(notice).to_be_visible()
    await expect(page.locator(".marks").get_by_text("full")).to_be_visible()
    await opened(page, f"{address}/queues")
    await expect(row(page, "email")).to_contain_text("full")
    await opened(page, address)
    warning = page.locator(".warning[data-code=full]")
    await expect(warning).to_contain_text("queue 'email' is full: 3 jobs wait")


# -- clearing ------------------------------------------------------------------


async def test_a_queue_is_cleared_by_state_once_its_name_is_typed(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    await job_in(q.store, State.FAILED, now=now)
    await job_in(q.store, State.COMPLETE, now=now)
    await add_many(q.store, 4, now=now)
    await opened(page, f"{address}/queues")

    await press(page, "Clear email")
    ask = dialog(page, "Clear email")
    await ask.get_by_label("waiting (4)").check()
    await press(ask, "Clear")
    word = ask.get_by_label("Type email to continue")
    await expect(word).to_have_attribute("aria-invalid", "true")
    assert (await q.counts("email"))[State.WAITING] == 4
    await word.fill("email")
    await press(ask, "Clear")

    await expect(told(page, "Removed 4 jobs of email")).to_be_visible()
    counts = await q.counts("email")
    assert (counts[State.WAITING], counts[State.FAILED]) == (0, 1)
    await expect(row(page, "email").get_by_role("cell").nth(1)).to_have_text("0")


async def test_clearing_takes_a_state_at_least(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")

    await press(page, "Clear")
    ask = dialog(page, "Clear email")
    await ask.get_by_label("Type email to continue").fill("email")
    await press(ask, "Clear")

    await expect(ask.get_by_role("alert")).to_contain_text("choose at least one state")
    assert (await q.counts("email"))[State.WAITING] == 1


# -- one queue -----------------------------------------------------------------


async def test_a_job_is_added_from_its_queue(page: Page, address: str, q: Kue) -> None:
    await q.enqueue("email")
    await opened(page, f"{address}/queues/email")

    await press(page, "Add job")
    ask = dialog(page, "Add a job")
    await expect(ask.get_by_label("Type")).to_have_value("email")
    await ask.get_by_label("Data").fill('{"to": "ann"}')
    await ask.get_by_label("Priority").select_option("high")
    await press(ask, "Add job")

    await expect(told(page, "is added")).to_be_visible()
    await expect(tile(page, "Waiting")).to_contain_text("2")
    [job] = [job for job in await q.range(0, 9) if job.data is not None]
    assert (job.type, job.data, job.priority) == ("email", {"to": "ann"}, -10)


async def test_a_queue_shows_its_line_errors_and_workers(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    failed = await job_in(q.store, State.FAILED, now=now)
    low = await add_one(q.store, now=now, priority="low")
    high = await add_one(q.store, now=now, priority="high")
    await q.store.renew(RenewRequest("w1", lease=HOUR, info={"slots": {"email": 4}}))
    await opened(page, f"{address}/queues/email")

    line = page.locator(".card").filter(has=page.get_by_text("Next to run"))
    await expect(line.locator(".lines li")).to_have_text(
        [re.compile(f"#{high}high"), re.compile(f"#{low}low")]
    )
    await expect(line.locator(".histogram-row")).to_have_count(2)
    workers = page.locator(".card").filter(has=page.get_by_text("Workers", exact=True))
    await expect(workers).to_contain_text("0 of 4 running")
    await page.get_by_role("link", name="ValueError").click()

    await expect(page).to_have_url(f"{address}/jobs/{failed}")


async def test_failed_jobs_of_a_queue_are_retried_together(
    page: Page, address: str, q: Kue
) -> None:
    now = await q.now()
    for _ in range(3):
        await job_in(q.store, State.FAILED, now=now)
    await opened(page, f"{address}/queues/email")

    await press(page, "Retry failed")

    await expect(told(page, "Retried 3 jobs")).to_be_visible()
    await expect(page.get_by_role("button", name="Retry failed")).to_have_count(0)
    assert (await q.counts("email"))[State.WAITING] == 3


async def test_delayed_jobs_of_a_queue_are_promoted_together(
    page: Page, address: str, q: Kue
) -> None:
    await add_many(q.store, 3, now=await q.now(), delay="1h")
    await opened(page, f"{address}/queues/email")

    await press(page, "Run delayed now")

    await expect(told(page, "Promoted 3 jobs")).to_be_visible()
    await expect(tile(page, "Waiting")).to_contain_text("3")


async def test_charts_of_a_queue_reach_as_far_back_as_is_chosen(
    page: Page, address: str, q: Kue
) -> None:
    await add_many(q.store, 5, now=await q.now() - 3 * HOUR)
    await opened(page, f"{address}/queues/email")
    figure = page.get_by_role("figure", name="Throughput")
    await expect(figure).to_contain_text("No data in this period")

    await press(page, "24 hours")

    await expect(figure).not_to_contain_text("No data in this period")
    await expect(page).to_have_url(f"{address}/queues/email?range=24h")


async def test_a_queue_that_never_was_says_so_and_can_be_begun(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    watch.allow("404")
    await opened(page, f"{address}/queues/nothing")
    await expect(page.get_by_role("heading", name="Queue not found")).to_be_visible()

    await press(page, "Add a job")
    await press(dialog(page, "Add a job"), "Add job")

    await expect(tile(page, "Waiting")).to_contain_text("1")
    await expect(page.get_by_role("heading", name="Queue not found")).to_be_hidden()


# -- who may -------------------------------------------------------------------


async def test_a_viewer_sees_queues_and_no_buttons(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await job_in(q.store, State.FAILED, now=await q.now())
    address = serve(guard=Anyone(Role.VIEWER))

    await opened(page, f"{address}/queues")
    await expect(row(page, "email")).to_be_visible()
    await expect(page.locator("main").get_by_role("button")).to_have_count(0)
    await opened(page, f"{address}/queues/email")

    await expect(page.locator(".page-head").get_by_role("button")).to_have_count(0)


async def test_an_operator_pauses_and_does_not_clear(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await q.enqueue("email")
    address = serve(guard=Anyone(Role.OPERATOR))

    await opened(page, f"{address}/queues/email")

    await expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    await expect(page.get_by_role("button", name="Clear")).to_have_count(0)


async def test_s_3_pausing_a_type_named_like_a_folder_pauses_no_other(
    page: Page, address: str, q: Kue, watch: Watch
) -> None:
    """Stores of older versions may have such types; browsers resolve them in paths."""
    watch.allow("404")
    await q.enqueue("email")
    await q.store.add([replace(draft("email"), type="..")], producer="p", seq=1)
    await opened(page, f"{address}/queues")

    await press(page, "Pause ..")
    async with page.expect_response("**/pause") as asked:
        await press(dialog(page, "Pause queue .."), "Pause")

    assert (await asked.value).status == 404
    assert await q.paused() == []
