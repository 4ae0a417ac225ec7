"""What a page must not do behind the back of a test, and pictures of what it shows."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import ConsoleMessage, Error, Page, Request, ViewportSize

#: A window, and how wide it is when it is a telephone's.
SIZE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 390, "height": 844}
#: How a page may look: the name of a picture, the scheme, the window.
LOOKS: tuple[tuple[str, Literal["light", "dark"], ViewportSize], ...] = (
    ("light", "light", SIZE),
    ("dark", "dark", SIZE),
    ("narrow", "light", NARROW),
)

AXE = Path(__file__).parents[2] / ".venv/npm/node_modules/axe-core/axe.min.js"
#: What keeps someone from using a page; the rest are hints.
SERIOUS = {"serious", "critical"}

#: Told to us by every document, before any script of its own runs.
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  window.tellViolation(
    `${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile ?? ""}`
  );
});
"""
#: Fulfilled once the page was drawn as it is now.
_DRAWN = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
#: What passed is not needed, and much.
_VIOLATIONS = """async (options) => {
  const found = await axe.run({...options, resultTypes: ["violations"]});
  return found.violations.map(({id, help, impact, nodes}) => (
    {id, help, impact, targets: nodes.map(({target}) => target)}
  ));
}"""


class Watch:
    """Notes whatever goes wrong in the pages that it is attached to."""

    def __init__(self) -> None:
        self._wrong: list[str] = []
        self._allowed: list[re.Pattern[str]] = []

    def begin(self) -> None:
        """Forget what was noted and allowed."""
        self._wrong.clear()
        self._allowed.clear()

    def allow(self, pattern: str) -> None:
        """Take what matches for meant: ``console: .* 409`` after a refused click."""
        self._allowed.append(re.compile(pattern))

    @property
    def wrong(self) -> list[str]:
        """What went wrong and was not allowed."""
        return [
            one
            for one in self._wrong
            if not any(pattern.search(one) for pattern in self._allowed)
        ]

    async def attach(self, page: Page) -> None:
        """Begin to look."""

        def on_console(message: ConsoleMessage) -> None:
            if message.type == "error":
                place = message.location.get("url", "")
                self._wrong.append(f"console: {message.text} {place}")

        def on_error(error: Error) -> None:
            self._wrong.append(f"page: {error.stack or error.message}")

        def on_failure(request: Request) -> None:
            # A page that is left or closed gives up what it still waits for, a stream
            # of events above all.
            if request.failure != "net::ERR_ABORTED":
                self._wrong.append(f"request: {request.url} {request.failure}")

        def on_violation(source: dict[str, Any], text: str) -> None:
            self._wrong.append(f"policy: {text}")

        page.on("console", on_console)
        page.on("pageerror", on_error)
        page.on("requestfailed", on_failure)
        await page.expose_binding("tellViolation", on_violation)
        await page.add_init_script(_TELL_VIOLATIONS)


async def shoot(page: Page, name: str) -> list[Path]:
    """
    Show *page* in every look: light, dark and narrow.

    Pictures are taken if there is $KUE_SCREENSHOTS, the folder to put them in: those
    that nobody asked for would take much of the time of these tests.
    """
    folder = os.environ.get("KUE_SCREENSHOTS")
    before = page.viewport_size
    taken: list[Path] = []
    for look, scheme, size in LOOKS:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size(size)
        await page.evaluate(_DRAWN)
        if folder:
            path = Path(folder) / f"{name}-{look}.png"
            await page.screenshot(path=path, full_page=True, animations="disabled")
            taken.append(path)
    await page.emulate_media(color_scheme="null")
    if before is not None:
        await page.set_viewport_size(before)
    return taken


async def barriers(page: Page, *rules: str) -> list[str]:
    """
    Return what axe-core finds that keeps someone from using *page*.

    It looks by all rules there are, or by those that are named.
    """
    # Evaluated by the browser itself, which the page's policy does not forbid.
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text())
    options = {"runOnly": rules} if rules else {}
    found: list[dict[str, Any]] = await page.evaluate(_VIOLATIONS, options)
    return [
        f"{one['id']}: {one['help']} {one['targets']}"
        for one in found
        if one["impact"] in SERIOUS
    ]
