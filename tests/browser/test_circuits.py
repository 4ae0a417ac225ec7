"""Circuits on the dashboard: shown while they are not closed, opened and closed."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace
from playwright.async_api import Locator, Page, expect

from kue import Circuit, Kue
from kue.client.circuit_records import CircuitRecords
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from kue.model.circuit import CircuitPolicy, CircuitRecord, CircuitRun, after_failure
from tests.browser.busy import keep_busy
from tests.browser.finding import dialog, opened, press, told
from tests.browser.watching import NARROW, SIZE, barriers, shoot
from tests.support.jobs import HOUR

POLICY = CircuitPolicy.of(failures=5, within="1m", open_for="5m", max_open_for=None)
#: What a page may be wider than its window by.
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def fail(q: Kue, name: str = "stripe", error: str = "ProviderDown: 503") -> None:
    """Let enough runs fail for a circuit to open."""
    now = await q.now()

    def failed(record: CircuitRecord) -> CircuitRecord:
        for _ in range(POLICY.failures):
            record = after_failure(record, POLICY, error, CircuitRun(7, 7), now)
        return record

    await CircuitRecords(q.store).change(name, failed, now)


async def half_open(q: Kue, name: str, probe: int) -> None:
    """Have a circuit that a job tests."""
    await fail(q, name)

    def change(record: CircuitRecord) -> CircuitRecord:
        at = (record.opened_at or 0) - HOUR
        return replace(record, opened_at=at, until=at + 1, probe=CircuitRun(probe, 1))

    await CircuitRecords(q.store).change(name, change, await q.now())


async def state_of(q: Kue, name: str) -> Circuit:
    [circuit] = [one for one in await q.circuits() if one.name == name]
    return circuit


def section(page: Page) -> Locator:
    return page.locator("section").get_by_role("region", name="Circuits")


async def test_circuits_are_shown_only_while_one_is_not_closed(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("pay")
    await q.open_circuit("paypal")
    await q.close_circuit("paypal")
    await opened(page, f"{address}/queues")
    await expect(page.get_by_role("heading", name="Circuits")).to_be_hidden()

    await fail(q)
    await page.reload()

    line = section(page).get_by_role("row").filter(has_text="stripe")
    await expect(line).to_contain_text("5 failures in 1 minute")
    await expect(line).to_contain_text("ProviderDown: 503")
    await expect(line.get_by_text("open", exact=True)).to_be_visible()
    await expect(line).to_contain_text(re.compile(r"\(in \d+ (min|s)\)"))
    await expect(section(page).get_by_text("paypal")).to_have_count(0)


async def test_a_circuit_that_opens_appears_by_itself_and_closes(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("pay")
    await opened(page, f"{address}/queues")
    await fail(q)
    # An event of a job makes the page look.
    await q.enqueue("pay")

    await press(section(page), "Close circuit stripe")

    await expect(told(page, "Circuit stripe is closed")).to_be_visible()
    await expect(page.get_by_role("heading", name="Circuits")).to_be_hidden()
    circuit = await state_of(q, "stripe")
    assert (circuit.state, circuit.by) == ("closed", "local")


async def test_a_half_open_circuit_links_to_its_probe_and_is_opened_again(
    page: Page, address: str, q: Kue
) -> None:
    job = await q.enqueue("pay")
    await half_open(q, "stripe", job.id)
    await opened(page, f"{address}/queues")

    line = section(page).get_by_role("row").filter(has_text="stripe")
    await expect(line.get_by_text("half-open")).to_be_visible()
    link = line.get_by_role("link", name=f"job {job.id}")
    await expect(link).to_have_attribute("href", re.compile(rf"/jobs/{job.id}$"))

    await press(line, "Reopen circuit stripe")
    ask = dialog(page, "Reopen circuit stripe")
    await ask.get_by_label("Duration").fill("2h")
    await ask.get_by_label("Reason").fill("they move")
    await press(ask, "Reopen")

    await expect(told(page, "Circuit stripe is open")).to_be_visible()
    await expect(line).to_contain_text("opened by local: they move")
    circuit = await state_of(q, "stripe")
    assert circuit.until is not None
    assert circuit.opened_at is not None
    assert circuit.until - circuit.opened_at == 2 * HOUR


async def test_any_circuit_is_opened_from_the_command_palette(
    page: Page, address: str, q: Kue
) -> None:
    await q.enqueue("pay")
    await opened(page, f"{address}/queues")

    await page.keyboard.press("Control+k")
    await page.keyboard.type("Open a circuit")
    await page.keyboard.press("Enter")
    ask = dialog(page, "Open a circuit")
    await ask.get_by_label("Circuit").fill("stripe")
    await press(ask, "Open")

    await expect(told(page, "Circuit stripe is open")).to_be_visible()
    assert (await state_of(q, "stripe")).cause == "opened by local"


async def test_the_overview_warns_of_a_circuit_and_closes_it(
    page: Page, address: str, q: Kue
) -> None:
    await fail(q)
    await opened(page, address)

    warning = page.get_by_role("listitem").filter(has_text="Circuit breaker")
    await expect(warning).to_contain_text("circuit 'stripe' is open until 20")
    await expect(warning).to_contain_text("last ProviderDown: 503")
    link = warning.get_by_role("link", name="Show circuits")
    await expect(link).to_have_attribute("href", re.compile("/queues$"))
    await press(warning, "Close")

    await expect(told(page, "Circuit stripe is closed")).to_be_visible()
    await expect(warning).to_have_count(0)


async def test_a_viewer_sees_circuits_and_changes_none(
    page: Page, serve: Callable[..., str], q: Kue
) -> None:
    await fail(q)
    address = serve(guard=Anyone(Role.VIEWER))

    await opened(page, f"{address}/queues")
    await expect(section(page)).to_contain_text("stripe")
    await expect(section(page).get_by_role("button")).to_have_count(0)
    await opened(page, address)
    warning = page.get_by_role("listitem").filter(has_text="Circuit breaker")
    await expect(warning.get_by_role("button")).to_have_count(0)


async def test_circuits_have_their_picture_and_no_barriers(
    page: Page, address: str, q: Kue
) -> None:
    made = await keep_busy(q)
    long = "ProviderDown: https://api.stripe.com/v1/charges answered 503 to POST " * 3
    await fail(q, "stripe", long)
    await fail(q, "a-provider-with-quite-a-long-name-and-no-spaces-in-it-at-all")
    await half_open(q, "mail <b>", made.running)
    for name, path in (("circuits", "/queues"), ("circuits-overview", "/")):
        await opened(page, address + path)
        await expect(page.get_by_text("stripe").first).to_be_visible()
        await shoot(page, name)
        assert await barriers(page) == []
        await page.set_viewport_size(NARROW)
        assert await page.evaluate(WIDE) <= 0, f"{path} scrolls sideways"
        await page.set_viewport_size(SIZE)
