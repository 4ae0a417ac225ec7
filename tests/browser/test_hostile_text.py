"""
Text that would like to be more than text, wherever a stranger can put some.

Whoever can add a job chooses its type, data, tags and keys, and what it logs and fails
of; all of it is shown to people who may do more than that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from kue import Kue, concurrency
from kue.http import AccountGuard, create_app
from kue.http.auth import Role
from kue.http.auth.access import User
from kue.model.job import Completed, Error, Failed
from kue.model.payload import JSON
from kue.store.values import LogLine, Outcome, Progress
from tests.browser.making import running
from tests.browser.watching import NARROW, Watch
from tests.http.accounts import CHEAP, PASSWORD

IMAGE = "<img src=x onerror=window.__xss=1>"
SCRIPT = "<script>window.__xss=1</script>"
QUOTES = "\"'`><svg onload=window.__xss=1>"
LINK = "javascript:window.__xss=1"
#: Marks that would turn round what follows them.
TURNED = "\u202egnp.exe\u200f\u2066 a\u202c"
ENTITY = "&lt;b&gt; ${window.__xss=1} {{1+1}} %3Cb%3E ../../x?y#z"
LONG = "w" * 190
EVIL = [IMAGE, SCRIPT, QUOTES, LINK, TURNED, ENTITY, LONG]
NAMES = ["image", "script", "quotes", "link", "turned", "entity", "long"]


@pytest.fixture
def address(serve: Callable[..., str]) -> str:
    """Whoever looks has such a name too, and the environment such a badge."""
    return serve(guard=lambda request: User(IMAGE, Role.ADMIN), badge=IMAGE)


async def furnish(q: Kue, evil: str) -> dict[str, int]:
    """Have *evil* wherever text can be."""
    data: JSON = {
        evil: evil,
        "null": "a\0b",
        "deep": {evil: [evil, {evil: evil}]},
        "url": f"javascript:{evil}",
    }
    options: dict[str, Any] = {"tags": [evil], "group": evil, "unique": evil}
    found = {}
    job = await running(q, evil, data, worker=evil, **options)
    lines = [LogLine(evil, evil, 1), LogLine("a\0b" + evil, "info", 1)]
    await q.store.log(job.id, lines)
    stack = f'Traceback:\n  File "{evil}", line 7, in {evil}\n    {evil}\n{evil}\n'
    await q.store.settle([Outcome(job, Failed(Error(evil, evil, stack)))])
    found["failed"] = job.id
    job = await running(q, evil, data, worker=evil, meta={"traceparent": evil})
    await q.store.settle([Outcome(job, Completed({evil: evil}))])
    found["complete"] = job.id
    job = await running(q, evil, data, worker=evil, limited_by={evil: evil})
    await q.store.log(job.id, lines)
    await q.store.progress([Progress(job.id, 50, {evil: evil})])
    found["active"] = job.id
    other = await q.enqueue(evil, evil)
    await other.cancel(evil)
    found["cancelled"] = other.id
    await q.enqueue(evil, data, **options)
    await q.pause(evil, reason=evil, by=evil)
    await q.pause(worker=evil, reason=evil, by=evil)
    job_of_schedule = q.draft(evil, data, tags=[evil], group=evil, unique=evil)
    await q.schedule(evil, job_of_schedule, cron="0 9 * * *")
    await q.set_limit(evil, concurrency(1))
    return found


async def is_only_text(page: Page) -> None:
    """Nothing of it became an element or ran, and nothing is pushed out of sight."""
    assert await page.evaluate("window.__xss") is None
    made = (
        "img, main script, main iframe, [onerror], [onload], a[href^='javascript:' i]"
    )
    await expect(page.locator(made)).to_have_count(0)
    width = await page.evaluate("document.documentElement.clientWidth")
    await expect(page.locator("html")).to_have_js_property("scrollWidth", width)


def seen(text: str) -> re.Pattern[str]:
    """Match *text* as a page shows it: lines are broken anywhere."""
    return re.compile(r"\s*".join(map(re.escape, text.split())), re.IGNORECASE)


@pytest.mark.parametrize("kind", ["failed", "complete", "active", "cancelled"])
@pytest.mark.parametrize("evil", EVIL, ids=NAMES)
async def test_text_of_a_job_stays_text(
    page: Page, address: str, q: Kue, evil: str, kind: str
) -> None:
    jobs = await furnish(q, evil)
    await page.goto(f"{address}/jobs/{jobs[kind]}")
    await expect(page.locator(".job-title")).to_contain_text(kind)
    await expect(page.locator(".job-title")).to_contain_text(evil)
    await expect(page.get_by_role("region", name="Data")).to_contain_text(
        seen(evil.replace('"', '\\"'))
    )
    if kind in {"failed", "active"}:
        await expect(page.get_by_role("log")).to_contain_text(evil)
    for details in await page.locator("details:not([open]) > summary").all():
        if await details.is_visible():
            await details.click()
    await is_only_text(page)
    for language in ["Command line", "cURL"]:
        await page.get_by_role("button", name=language).click()

    await page.set_viewport_size(NARROW)
    await is_only_text(page)


#: The pages that list things of every queue, and what in them must show it.
LISTS = {
    "overview": ("/", "main"),
    "queues": ("/queues", "main"),
    "jobs": ("/jobs", "tbody"),
    "failed": ("/jobs?state=failed", "tbody"),
    "errors": ("/errors", "main"),
    "schedules": ("/schedules", "tbody"),
    "limits": ("/limits", "main"),
    "workers": ("/workers", "main"),
}


@pytest.mark.parametrize("where", LISTS)
async def test_text_in_a_list_stays_text(
    page: Page, address: str, q: Kue, where: str
) -> None:
    for evil in EVIL:
        await furnish(q, evil)
    path, place = LISTS[where]
    await page.goto(f"{address}{path}")

    for evil in EVIL:
        await expect(page.locator(place)).to_contain_text(evil)
    await is_only_text(page)
    await page.set_viewport_size(NARROW)
    await is_only_text(page)


@pytest.mark.parametrize("evil", EVIL, ids=NAMES)
async def test_a_name_in_an_address_stays_text(
    page: Page, address: str, q: Kue, evil: str
) -> None:
    await furnish(q, evil)
    name = quote(evil, safe="")
    await page.goto(f"{address}/queues/{name}")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(evil)
    await expect(page.locator("main")).to_contain_text(evil)
    await is_only_text(page)

    await page.goto(f"{address}/schedules/{name}")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(evil)
    await page.get_by_role("button", name="Edit").click()
    await expect(page.get_by_role("dialog")).to_contain_text(f"Schedule {evil}")
    await is_only_text(page)

    await page.goto(f"{address}/limits/{name}")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(evil)
    await expect(page.get_by_role("region", name="Keys").first).to_contain_text(evil)
    await page.get_by_role("button", name="Edit").click()
    await expect(page.get_by_role("dialog")).to_contain_text(f"Limit {evil}")
    await is_only_text(page)

    await page.goto(f"{address}/metrics?type={name}")
    await expect(page.get_by_role("list", name="Queues shown")).to_contain_text(evil)
    await is_only_text(page)

    await page.goto(f"{address}/jobs?type={name}&tag={name}&group={name}&worker={name}")
    chips = page.get_by_role("list", name="Filters")
    await expect(chips).to_contain_text(f"tag: {evil}")
    await expect(page.locator("tbody").get_by_role("row")).to_have_count(1)
    await is_only_text(page)
    await page.set_viewport_size(NARROW)
    await is_only_text(page)


async def test_what_is_offered_and_told_stays_text(
    page: Page, address: str, q: Kue
) -> None:
    """Suggestions, the palette, columns, questions and short messages."""
    await furnish(q, IMAGE)
    await page.goto(f"{address}/jobs")
    await expect(page.locator("tbody")).to_contain_text(IMAGE)
    await page.get_by_role("button", name="Columns").click()
    for name in ["Tags", "Group", "Worker", "Error"]:
        await page.get_by_role("checkbox", name=name).check()
    await page.keyboard.press("Escape")
    line = page.get_by_role("combobox", name="Add a filter")
    for typed in ["type:", "tag:", "group:", "worker:", "error:", IMAGE]:
        await line.fill(typed)
        await expect(page.get_by_role("option").first).to_contain_text("<img")
        await is_only_text(page)
    await line.fill("")
    await line.blur()
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog")).to_contain_text(IMAGE)
    await is_only_text(page)
    await page.keyboard.press("Escape")

    await page.get_by_role("button", name="Views").click()
    await page.get_by_role("button", name="Save this view…").click()
    await page.get_by_role("textbox", name="Name").fill(IMAGE)
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("button", name="Views").click()
    await expect(page.get_by_role("button", name=IMAGE, exact=True)).to_be_visible()
    await is_only_text(page)


async def test_who_did_what_to_which_stays_text(
    page: Page, address: str, q: Kue
) -> None:
    """The audit log has the user, the name of the queue and the reason."""
    await q.enqueue(IMAGE)
    await page.goto(f"{address}/queues/{quote(IMAGE, safe='')}")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(IMAGE)
    # The badge, and the name of whoever looks.
    await expect(page.get_by_text(IMAGE)).not_to_have_count(1)
    status = await page.evaluate(
        """async (name) => (await fetch(
          `/api/v1/queues/${encodeURIComponent(name)}/pause`,
          {method: "POST", headers: {"Content-Type": "application/json"},
           body: JSON.stringify({reason: name})})).status""",
        IMAGE,
    )
    assert status in {200, 204}

    await page.goto(f"{address}/audit")
    await expect(page.locator("tbody").get_by_role("row")).to_have_count(1)
    await expect(page.locator("tbody")).to_contain_text(IMAGE)
    await is_only_text(page)


@pytest.mark.parametrize("path", ["/settings", "/api", f"/{quote(IMAGE, safe='')}"])
async def test_name_and_badge_stay_text(
    page: Page, address: str, path: str, watch: Watch
) -> None:
    watch.allow("console: .* 404 .*/%3Cimg")
    await page.goto(f"{address}{path}")

    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page.get_by_text(IMAGE).first).to_be_visible()
    await is_only_text(page)


@pytest.mark.parametrize(
    "following",
    [
        "//example.com/",
        LINK,
        "https://example.com/",
        "/\t/example.com",
        "/\\example.com",
    ],
)
async def test_a_login_leads_nowhere_else(
    page: Page, serve: Callable[..., str], q: Kue, following: str
) -> None:
    """What the address says comes next is a page of ours, whatever it says."""
    await AccountGuard(q, hasher=CHEAP).users.add("ann", PASSWORD, Role.ADMIN)
    address = serve(lambda q: create_app(q, guard=AccountGuard(q, hasher=CHEAP)))
    await page.goto(f"{address}/login?next={quote(following, safe='')}")
    await page.get_by_role("textbox", name="Name").fill("ann")
    await page.get_by_role("textbox", name="Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()

    await expect(page).to_have_url(f"{address}/")
    await is_only_text(page)
